#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks `ukmem trim PID`, `attr PID CACHE NAME=VALUE`, `slabinfo -v PID`, and the socket behind.

usage: socket_test.py TOOL VICTIM LIBRARY|- SECONDS TEST
"""

import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from live_test import Test, expect

LIVE = "live:1"
NO_SOCKET = "it has no socket; start it with 'ukmem run --conf live:1'"


def names(pid):
    """The names of the sockets of a process, by what it calls itself."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        found = re.findall(rf"@(ukmem/{pid}/[0-9a-f]{{16}})$", file.read(), re.M)
    return list(dict.fromkeys(found))


def wait_for(condition, what, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, f"waited for {what}")
        time.sleep(0.02)


def served(test, *arguments, conf=LIVE):
    process = test.started(*arguments, conf=conf)
    wait_for(lambda: names(process.pid), "a socket")
    return process


def connect(pid):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(30)
    client.connect("\0" + names(pid)[0])
    return client


def exchange(pid, request):
    """What comes back to bytes."""
    with connect(pid) as client:
        try:
            client.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has replied already
        reply = b""
        while True:
            try:
                part = client.recv(4096)
            except ConnectionResetError:
                part = b""
            if not part:
                return reply.decode()
            reply += part


def check_trim(test):
    process = served(test, "quiet")
    before = test.json("gauges", process.pid)["gauges"]
    trimmed = int(test.shown("trim", process.pid))
    after = test.json("gauges", process.pid)["gauges"]
    expect(trimmed > 100000, f"trimmed {trimmed}")
    expect(before["allocated"] == after["allocated"], f"{before}, {after}")
    # Of the pages only: to give them back writes to their descriptors.
    pages = [g["resident"] - g["metadata"] for g in (before, after)]
    expect(pages[1] < pages[0] and after["retained"] < before["retained"], f"{before}, {after}")
    again = test.json("trim", process.pid)
    expect(again["trimmed"] < trimmed and again["ukmem"]["pid"] == process.pid and
           again["ukmem"]["version"] == test.shown("--version").split()[1], f"{again}")
    # The number of a thread stands for its process.
    for thread in os.listdir(f"/proc/{process.pid}/task"):
        found = test.json("trim", int(thread))["ukmem"]["pid"]
        expect(found == process.pid, f"thread {thread} of {process.pid}: {found}")
    _, err = process.communicate("\n")
    expect(process.returncode == 0 and not err, f"{process.returncode}: {err}")


def check_attr(test):
    process = served(test, "quiet")
    pid = process.pid
    expect(test.shown("attr", pid, "kmalloc-64", "cpu_partial") != "17\n", "the default")
    expect(test.shown("attr", pid, "kmalloc-64", "cpu_partial=17") == "", "quiet")
    expect(test.shown("attr", pid, "kmalloc-64", "cpu_partial") == "17\n", "what was set")
    found = test.json("attr", pid, "kmalloc-64", "min_partial=3")
    expect(found["set"] == {"cache": "kmalloc-64", "name": "min_partial", "value": "3"}, found)
    for setting, cache, code, message in [
            ("nosuch=1", "kmalloc-64", 1, "caches have no attribute 'nosuch'"),
            ("object_size=1", "kmalloc-64", 1, "the attribute 'object_size' cannot be set"),
            ("cpu_partial=x", "kmalloc-64", 1, "'x' is no value for 'cpu_partial'"),
            ("cpu_partial=1", "no such", 1, "it has no cache 'no such'"),
            ("cpu_partial=", "kmalloc-64", 2, "is not NAME=VALUE"),
            ("=1", "kmalloc-64", 2, "is not NAME=VALUE"),
            ("cpu_partial=1 2", "kmalloc-64", 2, "is not NAME=VALUE")]:
        found, out, err = test.look("attr", pid, cache, setting)
        expect(found == code and not out and message in err, f"{setting}: {found}: {out}{err}")
    expect(test.shown("attr", pid, "kmalloc-64", "cpu_partial") == "17\n", "after the wrong ones")
    process.communicate("\n")


def check_verify(test):
    process = served(test, "quiet")
    expect(test.shown("slabinfo", "-v", process.pid) == "sound: nothing found\n", "sound")
    expect(test.json("slabinfo", "--validate", process.pid)["findings"] == [], "sound")
    for arguments in (["-v", process.pid, "--count=2"], ["-v", "/bin/true"]):
        code, _, err = test.look("slabinfo", *arguments)
        expect(code == 2 and "--validate" in err, f"{arguments}: {code}: {err}")
    process.communicate("\n")


def check_none(test):
    """Without the tunable there is neither a socket nor a thread, and the message helps."""
    process = test.started("quiet")
    pid = process.pid
    for command in (["trim", pid], ["attr", pid, "kmalloc-64", "cpu_partial=1"],
                    ["slabinfo", "-v", pid]):
        code, out, err = test.look(*command)
        expect(code == 1 and not out and NO_SOCKET in err, f"{command}: {code}: {out}{err}")
    expect(not names(pid), "a socket")
    code, out, err = test.look("trim", os.getpid())
    expect(code == 1 and "it does not run on ukmem" in err, f"{code}: {out}{err}")
    process.communicate("\n")
    code, _, err = test.look("trim", pid)
    expect(code == 1 and "there is no such process" in err, f"{code}: {err}")
    for conf, threads in (("", "1\n"), ("live:threads", "1\n"), (LIVE, "2\n")):
        process = test.start("threads", conf=conf)
        out, err = process.communicate()
        expect(process.returncode == 0 and out == threads and not err, f"{conf!r}: {out}{err}")
    process = served(test, "storm", conf="live:threads")
    expect(int(test.shown("trim", process.pid)) >= 0, "trim")
    process.communicate()


def check_run(test):
    """ukmem run gives programs with threads a socket; what the user says counts."""
    for arguments, conf, has in (([], "", True), (["--conf", "live:0"], "", False),
                                 ([], "live:0", False)):
        env = {**test.environment(conf), "UKMEM_MALLOC_LIB": test.preload}
        del env["LD_PRELOAD"]
        process = subprocess.Popen([test.tool, "run", *arguments, test.victim, "storm"], env=env,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        expect(process.stdout.readline() == "ready\n", "not ready")
        if has:
            wait_for(lambda: names(process.pid), "a socket")
            test.shown("trim", process.pid)
        else:
            time.sleep(0.5)
            expect(not names(process.pid), f"{arguments}, {conf!r}: a socket")
        process.communicate()


ASK_TO_TRIM = ("import socket,sys\n"
               "s=socket.socket(socket.AF_UNIX); s.connect('\\0'+sys.argv[1])\n"
               "try: s.sendall(b'ukmem 1 trim\\n')\n"
               "except OSError: pass\n"
               "print(s.recv(1000).decode(),end='')\n")


def check_strangers(test):
    """Other users are refused, by the process itself; a socket of another process is not asked."""
    process = served(test, "quiet")
    pid = process.pid
    impostor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    impostor.bind(f"\0ukmem/{pid}/0000000000000000")
    impostor.listen(8)
    expect(int(test.shown("trim", pid)) >= 0, "beside an impostor")
    impostor.close()
    if os.geteuid() or not shutil.which("setpriv"):
        process.communicate("\n")
        print("not as root, so no other user was tried")
        return
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    before = test.shown("gauges", pid)
    done = subprocess.run([*other, "/usr/bin/python3", "-c", ASK_TO_TRIM, names(pid)[0]], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    expect(done.stdout.startswith("ukmem 1 error only its user and root may ask it"), f"{done}")
    expect(test.shown("gauges", pid) == before, "another user changed something")
    process.communicate("\n")
    # A process of that user: itself and root may ask.
    victim = subprocess.Popen([*other, test.victim, "quiet"], env=test.environment(LIVE),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if victim.stdout.readline() != "ready\n":  # it cannot read the build directory
        victim.communicate()
        print("another user cannot run the program")
        return
    wait_for(lambda: names(victim.pid), "a socket")
    test.shown("trim", victim.pid)
    code, out, err = test.look("trim", victim.pid, prefix=other)
    expect(code == 0 and int(out) >= 0, f"{code}: {err}")
    victim.communicate("\n")
    # Root alone may ask a process that can become root again, is root still, or has made itself unreadable.
    unreadable = "it has made itself unreadable (PR_SET_DUMPABLE, a setuid program, capabilities): root alone may ask it"
    for prefix, how in ([], "saved"), ([], "effective"), (other, "hide"):
        victim = subprocess.Popen([*prefix, test.victim, how], env=test.environment(LIVE),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        expect(victim.stdout.readline() == "ready\n", "the program did not start")
        wait_for(lambda pid=victim.pid: names(pid), "a socket")
        done = subprocess.run([*other, "/usr/bin/python3", "-c", ASK_TO_TRIM, names(victim.pid)[0]], text=True,
                              capture_output=True, check=False)
        expect(done.stdout.startswith(f"ukmem 1 error {unreadable}"), f"{how}: {done}")
        expect(int(test.shown("trim", victim.pid)) >= 0, how)
        victim.communicate("\n")


def check_rootless(test):
    """In a user namespace without root of this one, as in a rootless container: root is told what to do."""
    inside = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "unshare", "--user"]
    if os.geteuid() or not shutil.which("setpriv") or not shutil.which("nsenter") or \
            subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        print("no such namespace can be made here")
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = test.for_others(folder)

        def started(*prefix):
            # A thread of the library's would keep unshare from doing its work.
            env = [f"{n}={v}" for n, v in copy.environment(LIVE).items() if n in ("LD_PRELOAD", "UKMEM_CONF")]
            process = subprocess.Popen([*prefix, "env", *env, copy.victim, "quiet"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
            expect(process.stdout.readline() == "ready\n", "the program did not start")
            wait_for(lambda: names(process.pid), "a socket")
            return process

        process = started(*inside, "--map-root-user")
        code, out, err = copy.look("trim", process.pid)
        expect(code == 1 and not out and "nsenter --user --net --target" in err, f"{code}: {out}{err}")
        code, out, err = copy.look("trim", process.pid,
                                   prefix=["nsenter", "--user", "--net", "--target", str(process.pid)])
        expect(code == 0 and out.strip().isdigit(), f"{code}: {out}{err}")
        process.communicate("\n")
        # Without a map all users are one in there, which must not count as the process's own.
        process = started(*inside)
        other = ["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups"]
        done = subprocess.run([*other, "/usr/bin/python3", "-c", ASK_TO_TRIM, names(process.pid)[0]], text=True,
                              capture_output=True, check=False)
        expect(done.stdout.startswith("ukmem 1 error only its user and root may ask it"), f"{done}")
        process.communicate("\n")


def check_garbage(test):
    process = served(test, "quiet")
    pid = process.pid
    wrong = "ukmem 1 error "
    for request, reply in [
            (b"\n", "this is no request"), (b"GET / HTTP/1.0\r\n\r\n", "this is no request"),
            (b"ukmem\n", "knows only protocol 1"), (b"ukmem 2 trim\n", "knows only protocol 1"),
            (b"ukmem 11 trim\n", "knows only protocol 1"), (b"ukmem 1\n", "knows no request ''"),
            (b"ukmem 1 nosuch\n", "knows no request 'nosuch'"),
            (b"ukmem 1 trimmed\n", "knows no request 'trimmed'"),
            (b"ukmem 1 trim now\n", "trim has no arguments"),
            (b"ukmem 1 attr\n", "attr needs CACHE NAME VALUE"),
            (b"ukmem 1 attr kmalloc-64 cpu_partial\n", "attr needs CACHE NAME VALUE"),
            (b"ukmem 1 attr  a b\n", "attr needs CACHE NAME VALUE"),
            (b"ukmem 1 attr %s%n%s %n 1\n", "it has no cache '%s%n%s'"),
            (b"ukmem 1 trim\0\n", "this is no request"),
            (b"x" * 511 + b"\n", "this is no request"), (b"x" * 512, "this is no request"),
            (b"x" * 1000000, "this is no request"),
            (b"ukmem 1 attr " + b"c" * 400 + b" n 1\n", "it has no cache 'ccc"),
            (os.urandom(300).replace(b"\n", b"x") + b"\n", "this is no request")]:
        found = exchange(pid, request)
        # A reply may be lost when the process closes before all was sent.
        lost = len(request) >= 512 and not found
        expect(lost or found.startswith(wrong) and reply in found and found.endswith("\n") and
               len(found) < 500, f"{request[:60]}: {found!r}")
    expect(re.fullmatch(r"ukmem 1 ok\n\d+\n", exchange(pid, b"ukmem 1 trim\n")), "a good one")
    with connect(pid) as client:  # in pieces
        for piece in (b"ukm", b"em 1 tr", b"im", b"\nrest"):
            client.sendall(piece)
            time.sleep(0.05)
        expect(client.recv(1000).startswith(b"ukmem 1 ok\n"), "in pieces")
    _, err = process.communicate("\n")
    expect(process.returncode == 0 and not err, f"{process.returncode}: {err}")


def check_silent(test):
    """Clients that say nothing, half a request, or read nothing keep others waiting for seconds."""
    process = served(test, "quiet")
    silent, half = connect(process.pid), connect(process.pid)
    half.sendall(b"ukmem 1 tr")
    gone = connect(process.pid)
    gone.sendall(b"ukmem 1 verify\n")
    gone.close()
    begin = time.monotonic()
    test.shown("trim", process.pid)
    took = time.monotonic() - begin
    expect(1 < took < 15, f"after {took} s")
    for client in (silent, half):
        expect(client.recv(1000) == b"ukmem 1 error this is no request\n", "told why")
    # One that has said all that it will say does not have to be waited for.
    with connect(process.pid) as short:
        short.sendall(b"ukmem 1 tr")
        short.shutdown(socket.SHUT_WR)
        begin = time.monotonic()
        expect(short.recv(1000) == b"ukmem 1 error this is no request\n", "half a request, and its end")
        expect(time.monotonic() - begin < 1.5, f"after {time.monotonic() - begin} s")
    many = [subprocess.Popen([test.tool, "trim", str(process.pid)], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True) for _ in range(20)]
    for client in many:
        out, err = client.communicate(timeout=60)
        expect(client.returncode == 0 and out.strip().isdigit(), f"{client.returncode}: {out}{err}")
    process.communicate("\n")


def check_fork(test):
    """A child has a server of its own, though it has as many files as it may; the parent's goes on."""
    process = test.start("child", conf=LIVE)
    child = int(process.stdout.readline())
    for pid in (process.pid, child):
        wait_for(lambda p=pid: names(p), f"a socket of {pid}")
        test.shown("trim", pid)
        expect(len(names(pid)) == 1, f"{names(pid)}")
    process.communicate()
    expect(process.returncode == 0, f"{process.returncode}")
    expect(not names(process.pid) and not names(child), "a socket that outlived its process")


def check_exec(test):
    """exec ends the server; what runs then has its own, or none."""
    process = test.start("exec", "200", conf=LIVE)
    while process.poll() is None:
        code, _, err = test.look("trim", process.pid)
        expect(code == 0 or re.search("no such process|has ended|no socket|closed its socket|"
                                      "does not reply|another network|does not run on ukmem", err), err)
    _, err = process.communicate()
    expect(process.returncode == 0 and not err, f"{process.returncode}: {err}")
    expect(not names(process.pid), "a socket is left")


def check_closed(test):
    """A program that closes all its files and opens others does not notice the socket."""
    process = served(test, "closed")
    test.shown("trim", process.pid)
    folder = f"/proc/{process.pid}/fd"
    links = [os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)]
    expect(not any("socket" in link for link in links) and len(links) == 302, f"{links}")
    # A daemon tells by such a pipe that it has started.
    expect(select.select([process.stderr], [], [], 10)[0] and process.stderr.read() == "",
           "the library keeps a pipe open that the program has closed")
    process.communicate()
    expect(process.returncode == 0, f"{process.returncode}")


def processor_time(pid):
    """Seconds of CPU time that all threads of a process have had."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def check_no_files(test):
    """Where a program lets itself have no more files, the server waits, and takes no CPU time for that."""
    process = served(test, "quiet")
    limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (0, limits[1]))
    with connect(process.pid) as client:  # which ends the call that waits since before
        client.sendall(b"ukmem 1 trim\n")
        time.sleep(0.5)
        before = processor_time(process.pid)
        time.sleep(2)
        took = processor_time(process.pid) - before
        expect(took < 0.2, f"{took} s of CPU time in 2 s")
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)
        expect(client.recv(1000).startswith(b"ukmem 1 ok\n"), "the client who has waited")
    test.shown("trim", process.pid)
    _, err = process.communicate("\n")
    expect(process.returncode == 0 and not err, f"{process.returncode}: {err}")


def check_destroy(test):
    """A cache is not destroyed while one of its attributes is being set."""
    process = served(test, "caches")
    end, replies = time.monotonic() + test.seconds, {}
    while time.monotonic() < end or replies.get("ok", 0) < 20:
        for setting in ("stock 3", "cpu_partial 20", "shrink 1"):
            reply = exchange(process.pid, f"ukmem 1 attr brief {setting}\n".encode())
            word = reply.split()[2]
            expect(word == "ok" or "it has no cache" in reply, f"{setting}: {reply!r}")
            replies[word] = replies.get(word, 0) + 1
    _, err = process.communicate()
    expect(process.returncode == 0 and not err, f"{process.returncode}: {err}")
    print(replies)


def check_leave(test):
    """A process whose main() has ended ends with its last own thread, and is looked at until then."""
    process = served(test, "leave")
    end = time.monotonic() + 10
    while "\nState:\tZ" not in open(f"/proc/{process.pid}/status", encoding="utf-8").read():
        expect(time.monotonic() < end, "main() does not end")
        time.sleep(0.01)
    expect(json.loads(test.shown("gauges", "--json", process.pid))["gauges"]["allocated"] > 0, "gauges")
    for command in (["slabinfo"], ["metrics"], ["top", "-od", "0.05"], ["leaks"], ["leaks", "--stop"]):
        expect(test.shown(*command, process.pid), f"{command}")
    expect(any(p["pid"] == process.pid for p in test.json("ps")["processes"]), "ps")
    test.shown("trim", process.pid)
    process.stdin.close()
    expect(process.wait(timeout=40) == 0, f"{process.returncode}")


def check_storm(test):
    """Requests while threads allocate and free. A process that is stopped cannot reply."""
    process = served(test, "storm")
    end, done = time.monotonic() + test.seconds, 0
    while time.monotonic() < end or done < 3:
        expect(int(test.shown("trim", process.pid)) >= 0, "trim")
        test.shown("attr", process.pid, "kmalloc-128", f"cpu_partial={done % 50}")
        test.shown("attr", process.pid, "kmalloc-64", "shrink=1")
        expect(test.shown("slabinfo", "-v", process.pid) == "sound: nothing found\n", "verify")
        test.shown("slabinfo", process.pid)
        done += 1
    process.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    for command in (["trim", process.pid], ["slabinfo", "-v", process.pid], ["profile", "start", process.pid],
                    ["attr", process.pid, "kmalloc-64", "shrink=1"]):
        code, out, err = test.look(*command)
        expect(code == 1 and not out and "it is stopped, by a signal" in err, f"{command}: {code}: {out}{err}")
    expect(time.monotonic() - begin < 30, "it waits for a process that is stopped")
    process.send_signal(signal.SIGCONT)
    expect(int(test.shown("trim", process.pid)) >= 0, "it goes on")
    process.communicate()
    expect(process.returncode == 0, f"{process.returncode}")
    print(f"{done} rounds")


def main():
    tool, victim, library, seconds, kind = sys.argv[1:]
    {"trim": check_trim, "attr": check_attr, "verify": check_verify, "none": check_none,
     "run": check_run, "foreign": check_strangers, "rootless": check_rootless, "garbage": check_garbage, "silent": check_silent,
     "fork": check_fork, "exec": check_exec, "closed": check_closed, "no_files": check_no_files, "leave": check_leave,
     "destroy": check_destroy, "storm": check_storm}[kind.removeprefix("socket_")](Test(tool, victim, library, seconds))


if __name__ == "__main__":
    main()
