#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What another user, or a process that is looked at, does to the tool.

usage: hostile_test.py TOOL VICTIM LIBRARY|- SECONDS TEST
"""

import os
import signal
import socket
import subprocess
import tempfile
import time

from live_test import expect, run
from socket_test import names, served, wait_for

SKIPPED = 77
# A socket whose queue is full: connects wait for an accept that never comes.
SQUAT = ("import socket,sys,time\n"
         "s=socket.socket(socket.AF_UNIX); s.bind('\\0'+sys.argv[1]); s.listen(0)\n"
         "c=[]\n"
         "for _ in range(3):\n"
         "    c.append(socket.socket(socket.AF_UNIX)); c[-1].setblocking(False)\n"
         "    try: c[-1].connect('\\0'+sys.argv[1])\n"
         "    except BlockingIOError: break\n"
         "print('ready',flush=True); time.sleep(1000)\n")


def need_root():
    if os.geteuid():
        print("SKIP: not as root, so no link can be another user's")
        raise SystemExit(SKIPPED)


def timed(test, *arguments):
    """Exit code, stderr, and seconds of a command."""
    start = time.monotonic()
    code, _, err = test.look(*arguments)
    return code, err, time.monotonic() - start


def check_squatters(test):
    """Sockets that nobody accepts at keep no command waiting; the process's own one is asked."""
    process = served(test, "quiet")
    # Sorted in front of the process's own name or behind it: both are tried.
    squatters = [subprocess.Popen(["/usr/bin/python3", "-c", SQUAT, f"ukmem/{process.pid}/{16 * c}"],
                                  stdout=subprocess.PIPE, text=True) for c in "0f"]
    for squatter in squatters:
        expect(squatter.stdout.readline() == "ready\n", "no squatter")
    code, err, seconds = timed(test, "trim", process.pid)
    expect(code == 0 and seconds < 20, f"{code}, {seconds}: {err}")
    process.communicate("\n")
    idle = test.started("quiet")
    blocker = subprocess.Popen(["/usr/bin/python3", "-c", SQUAT, f"ukmem/{idle.pid}/{16 * '0'}"],
                               stdout=subprocess.PIPE, text=True)
    expect(blocker.stdout.readline() == "ready\n", "no squatter")
    code, err, seconds = timed(test, "trim", idle.pid)
    expect(code == 1 and "other requests wait already" in err and seconds < 20, f"{code}, {seconds}: {err}")
    idle.communicate("\n")
    for squatter in [*squatters, blocker]:
        squatter.kill()
        squatter.wait()


def serve(replies, pid):
    """A child that answers at a socket of its own as the library would, but with @replies."""
    own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    own.bind(f"\0ukmem/{pid}/{16 * '0'}")
    own.listen(8)
    for reply in replies:
        client, _ = own.accept()
        client.recv(1000)
        try:
            client.sendall(reply)
        except (BrokenPipeError, ConnectionResetError):
            pass
        client.close()


def check_replies(test):
    """A reply that has no end is none, and one with control characters moves no cursor."""
    pid = os.fork()
    if not pid:
        serve([b"ukmem 1 ok\n" + 8000000 * b"\n", b"ukmem 1 ok\n\x1b[2Jx\n"], os.getpid())
        os._exit(0)
    wait_for(lambda: names(pid), "the child's socket")
    code, err, seconds = timed(test, "slabinfo", "-v", pid)
    expect(code == 1 and "has no end" in err and seconds < 20, f"{code}, {seconds}: {err}")
    code, out, _ = test.look("slabinfo", "-v", pid)
    expect(code == 1 and out == "?[2Jx\n", f"a finding is no success, and moves no cursor: {code}: {out!r}")
    os.waitpid(pid, 0)
    # A socket that another process has made with this one's number is not asked.
    pid = os.fork()
    if not pid:
        serve([b"ukmem 1 ok\n1\n"], os.getppid())
        os._exit(0)
    wait_for(lambda: names(os.getpid()), "the impostor's socket")
    code, out, err = test.look("trim", os.getpid())
    expect(code == 1 and not out and "its socket is in another network namespace" in err, f"{code}: {out}{err}")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def check_links(test):
    """What another user's link in a folder for all leads to is not written; the user's own is."""
    need_root()
    process = test.started("quiet")
    with tempfile.TemporaryDirectory() as folder:
        for_all, target = os.path.join(folder, "all"), os.path.join(folder, "target")
        os.mkdir(for_all)
        os.chmod(for_all, 0o1777)
        link, chain = os.path.join(for_all, "map.html"), os.path.join(folder, "chain.html")
        os.symlink(link, chain)
        for owner, path, written in ((65534, link, False), (65534, chain, False), (0, link, True)):
            with open(target, "w", encoding="ascii") as file:
                file.write("kept")
            if os.path.islink(link):
                os.unlink(link)
            os.symlink(target, link)
            os.lchown(link, owner, owner)
            code, _, err = test.look("map", "-o", path, process.pid)
            with open(target, encoding="utf-8") as file:
                kept = file.read() == "kept"
            expect((code == 0, not kept) == (written, written), f"{owner}, {path}: {code}: {err}")
            expect(written or "is another user's, in a folder for all" in err, err)
            expect(os.path.islink(link), "the link is gone")
    code, out, err = test.look("map", "-o", "/dev/stdout", process.pid)
    expect(code == 0 and out.rstrip().endswith("</html>"), f"{code}: {err}")
    process.communicate("\n")


def check_no_stdout(test):
    """Without stdout or stderr, nothing but the page gets into the page."""
    process = test.started("quiet")
    with tempfile.TemporaryDirectory() as folder:
        page = os.path.join(folder, "heap.html")
        for closed in "1>&-", "2>&-", "0<&- 1>&- 2>&-":
            subprocess.run(["sh", "-c", f'exec {closed}; "$1" map --json -o "$2" "$3"', "sh", test.tool,
                            page, str(process.pid)], check=False, stdout=subprocess.DEVNULL)
            with open(page, encoding="utf-8") as file:
                expect(file.read().rstrip().endswith("</html>"), closed)
    process.communicate("\n")


def check_executing(test):
    """A process that executes programs all the time is not said not to run on the library: a look
    may come in between each time, of which there are twenty."""
    process = test.start("exec", "100000")
    time.sleep(0.3)  # until the first one has begun
    said = [test.look("gauges", process.pid) for _ in range(40)]
    process.kill()
    process.wait()
    wrong = [err for code, _, err in said if code and "does not run on ukmem" in err]
    expect(len(wrong) <= 4, f"{len(wrong)} of {len(said)}: {wrong[:1]}")


if __name__ == "__main__":
    run({"squatters": check_squatters, "replies": check_replies, "links": check_links,
         "no_stdout": check_no_stdout, "executing": check_executing})
