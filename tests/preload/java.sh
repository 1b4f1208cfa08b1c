#!/usr/bin/env bash
# Java: compiles a program and runs it with a small heap, so that it collects garbage all
# the time: threads that come and go, buffers outside of the heap, compression; without
# and with the library.
#	java.sh LIBRARY WITNESS
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need java javac

cat >"$work/Work.java" <<'JAVA'
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public class Work {
	static long direct(int seed) {
		CRC32 crc = new CRC32();
		for (int i = 0; i < 100; i++) {
			ByteBuffer buffer = ByteBuffer.allocateDirect((i * seed) % 30000 + 1);
			while (buffer.hasRemaining())
				buffer.put((byte) (buffer.position() * seed));
			buffer.flip();
			crc.update(buffer);
		}
		return crc.getValue();
	}

	static int packed(int seed) throws Exception {
		byte[] data = new byte[60000], out = new byte[data.length * 2], back = new byte[data.length];
		for (int i = 0; i < data.length; i++)
			data[i] = (byte) (i * seed >> 7);
		int size = 0;
		for (int level = 1; level <= 9; level++) {
			Deflater deflater = new Deflater(level);
			deflater.setInput(data);
			deflater.finish();
			int length = deflater.deflate(out);
			deflater.end();
			Inflater inflater = new Inflater();
			inflater.setInput(out, 0, length);
			if (inflater.inflate(back) != data.length || !java.util.Arrays.equals(data, back))
				throw new Exception("inflated differently");
			inflater.end();
			size += length;
		}
		return size;
	}

	static String churn(int seed) throws Exception {
		TreeMap<String, List<Integer>> map = new TreeMap<>();
		for (int i = 0; i < 20000; i++)
			map.computeIfAbsent("key " + (long) i * seed % 2003, key -> new ArrayList<>()).add(i);
		return map.hashCode() + " " + direct(seed) + " " + packed(seed);
	}

	public static void main(String[] args) throws Exception {
		for (int round = 0; round < 2; round++) {
			ExecutorService pool = Executors.newFixedThreadPool(8);
			List<Future<String>> results = new ArrayList<>();
			for (int seed : new int[] {11, 13, 17, 19, 23})
				results.add(pool.submit(() -> churn(seed)));
			for (Future<String> result : results)
				System.out.println(result.get());
			pool.shutdown();
			System.gc();
		}
	}
}
JAVA

# scenario NAME - compiled into NAME, its output in NAME.txt
scenario() {
	javac -d "$work/$1" "$work/Work.java"
	java -Xmx64m -cp "$work/$1" Work >"$work/$1.txt"
}

scenario without
with_library scenario with
expect_same "$work/without/Work.class" "$work/with/Work.class"
expect_same "$work/without.txt" "$work/with.txt"
[[ $(wc -l <"$work/with.txt") == 10 ]] || fail "the program did not run to its end"
expect_used java javac
