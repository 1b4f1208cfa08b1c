#!/usr/bin/env bash
# Programs that start others while their threads allocate: CPython, whose subprocess uses
# vfork, and its posix_spawn, system and popen; Java, whose children of vfork allocate (they
# list their descriptors). Without and with the library.
#	subprocess.sh LIBRARY WITNESS
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
python=/usr/bin/python3
[[ -x $python ]] || skip "$python is not installed"
export PYTHONMALLOC=malloc PYTHONHASHSEED=0

cat >"$work/start.py" <<'PY'
import os
import subprocess
import threading

CHILDREN, stop = 40, threading.Event()


def churn(seed):
    kept = {}
    while not stop.is_set():
        for i in range(200):
            kept[(i * seed) % 97] = bytes((i * seed * 131) % 70_000)


def start(number, out):
    for i in range(CHILDREN):
        word = f"{number}.{i}"
        match i % 4:
            case 0:
                done = subprocess.run(["echo", word], close_fds=True, cwd="/", text=True,
                                      stdout=subprocess.PIPE, check=True)
                out.append(done.stdout.strip())
            case 1:
                pipe, end = os.pipe()
                pid = os.posix_spawnp("echo", ["echo", word], os.environ, file_actions=[
                    (os.POSIX_SPAWN_DUP2, end, 1), (os.POSIX_SPAWN_CLOSE, pipe)])
                os.close(end)
                with os.fdopen(pipe) as text:
                    out.append(text.read().strip())
                assert os.waitpid(pid, 0)[1] == 0
            case 2:
                assert os.system("exit 3") == 3 << 8
            case 3:
                try:
                    subprocess.run(["/nonexistent"], check=True)
                except FileNotFoundError as error:
                    out.append(error.strerror)


outputs = [[], []]
churners = [threading.Thread(target=churn, args=(seed,)) for seed in (7, 11, 13)]
starters = [threading.Thread(target=start, args=(n, out)) for n, out in enumerate(outputs)]
for thread in churners + starters:
    thread.start()
for thread in starters:
    thread.join()
stop.set()
print(outputs)
PY

cat >"$work/Start.java" <<'JAVA'
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.Deflater;

public class Start {
	static volatile boolean stop;

	static void churn(int seed) {
		byte[] out = new byte[1000];
		for (int i = 0; !stop; i++) {
			ByteBuffer.allocateDirect((i * seed) % 30000 + 1);
			Deflater deflater = new Deflater(1 + i % 9);
			deflater.setInput(out.clone());
			deflater.finish();
			deflater.deflate(out);
			deflater.end();
		}
	}

	static String start(int number) throws Exception {
		StringBuilder all = new StringBuilder();
		for (int i = 0; i < 30; i++) {
			Process echo = new ProcessBuilder("echo", number + "." + i).start();
			all.append(new String(echo.getInputStream().readAllBytes()).trim()).append(' ');
			if (echo.waitFor() != 0)
				throw new Exception("exit status");
		}
		return all.toString();
	}

	public static void main(String[] args) throws Exception {
		ExecutorService pool = Executors.newFixedThreadPool(5);
		List<Future<String>> results = new ArrayList<>();
		for (int seed : new int[] {11, 13, 17})
			pool.submit(() -> churn(seed));
		for (int number = 0; number < 2; number++) {
			int n = number;
			results.add(pool.submit(() -> start(n)));
		}
		for (Future<String> result : results)
			System.out.println(result.get());
		stop = true;
		pool.shutdown();
	}
}
JAVA

python_starts() {
	"$python" "$work/start.py" >"$work/$1.txt"
}

java_starts() {
	java -Xmx64m -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK \
		-cp "$work" Start >"$work/$1.txt"
}

(python_starts python.without)
with_library python_starts python.with || fail "exit status $? with the library"
expect_same "$work/python.without.txt" "$work/python.with.txt"
programs=("$python" echo)

# Later versions of Java may have done away with that mechanism.
if command -v javac >/dev/null && javac -d "$work" "$work/Start.java" &&
	(java_starts java.without) 2>"$work/java.err"; then
	with_library java_starts java.with || fail "exit status $? with the library"
	expect_same "$work/java.without.txt" "$work/java.with.txt"
	programs+=(java)
fi
expect_used "${programs[@]}"
