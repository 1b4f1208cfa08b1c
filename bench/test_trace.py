#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests bench/trace: test_trace.py BUILD

The events of a program whose requests are known are in its trace, threads and sizes included;
replaying it asks for the same, and a broken trace is refused.
"""

import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests")]

# pylint: disable=wrong-import-position
import memory_runs  # noqa: E402
from message import Message  # noqa: E402

TRACE = Path(__file__).resolve().parent / "trace"
THREAD, MALLOC, CALLOC, ALIGNED, REALLOC, FREE = range(6)
# These operations have a second number.
TWO = (ALIGNED, REALLOC)


def decode(data):
    """[(thread, event, first number, second)]; written after trace_format.h alone."""
    assert data[:8] == b"ukmtrc01"
    trace, thread, found = Message(data, 8), None, []
    while trace:
        head = trace.byte()
        event, first = head & 7, head >> 3
        if first == 31:
            first = trace.number()
        if event == THREAD:
            thread = first
        else:
            found.append((thread, event, first, trace.number() if event in TWO else None))
    return found


def replay(build, path):
    return subprocess.run([build / "bench/trace_replay", path, "2"], capture_output=True,
                          text=True, check=False)


def record(build, *words, **options):
    """Runs bench/trace record on another command than the test's program."""
    return subprocess.run([TRACE, "record", "--build", build, *words], capture_output=True,
                          text=True, check=False, **options)


def python(*statements):
    """A program with many requests before these statements; it prints when it begins them."""
    return [sys.executable, "-c", "; ".join([
        "import os, signal, time", "signal.signal(signal.SIGINT, signal.SIG_DFL)",
        "kept = [bytes(2000) for _ in range(5000)]", "print(os.getpid(), flush=True)",
        *statements])]


def check_python(build, packed):
    """The requests of python() are in the trace, which can be replayed."""
    plain = packed.with_suffix(".plain")
    plain.write_bytes(lzma.open(packed).read())
    told = replay(build, plain)
    assert told.returncode == 0, told
    told = json.loads(told.stdout)
    assert told["events"] > 5000 and told["payload_end_kib"] > 9000, told


def test_ends(build, folder):
    """A recording is kept however its program ends, and the exit status is the program's."""
    for name, statement, code in (("exit", "os._exit(3)", 3),
                                  ("kill", "os.kill(os.getpid(), signal.SIGKILL)", 137),
                                  ("exec", "os.execv('/bin/true', ['true'])", 0)):
        packed = folder / f"{name}.xz"
        told = record(build, packed, *python(statement))
        assert told.returncode == code, told
        check_python(build, packed)

    packed = folder / "interrupted.xz"
    with subprocess.Popen([TRACE, "record", "--build", build, packed, *python("time.sleep(100)")],
                          stdout=subprocess.PIPE, start_new_session=True) as child:
        assert int(child.stdout.readline()) > 0
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(timeout=100) == 130
    check_python(build, packed)


def test_cut(build, folder):
    """Events up to the one that is cut are replayed, the zeros behind it are not."""
    plain, padding = folder / "cut", bytes(1000)
    whole = b"ukmtrc01" + bytes([THREAD, MALLOC | 7 << 3])
    number = bytes([MALLOC | 31 << 3, 0x85, 0x85])
    realloc = bytes([REALLOC | 31 << 3, 0x85, 0x05, 0])
    for data, events in ((whole + padding, 1), (whole + number[:1] + padding, 1),
                         (whole + number + padding, 1), (whole + realloc[:3] + padding, 1),
                         (whole + realloc, 2), (whole + realloc + whole[8:] + padding, 3)):
        plain.write_bytes(data)
        told = replay(build, plain)
        assert told.returncode == 0 and json.loads(told.stdout)["events"] == events, (data, told)
    for data in whole[:8], whole[:9], whole[:8] + padding:
        plain.write_bytes(data)
        told = replay(build, plain)
        assert told.returncode == 1 and "has no events" in told.stderr, told


def test_lost(build, folder):
    """A program that closes all files, and opens its own, is recorded, and its files are left alone; what is not recorded
    is told.
    """
    many = "kept = [bytes(2000 + i % 7) for _ in range(3) for i in range(80000)][:9]"
    theirs, packed, plain = folder / "theirs", folder / "lost.xz", folder / "lost"
    for name, statements, whole in (
            ("closed", ("os.closerange(3, 1000)",), True),
            ("taken", ("os.closerange(3, 1000)", f"os.dup2(os.open({str(theirs)!r}, os.O_RDWR | os.O_CREAT), 500)"), True),
            ("full", ("import resource", "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))"), False)):
        told = record(build, packed, *python(*statements, many))
        assert told.returncode == 0 and ("NOTE: the recording ends before" in told.stderr) == (not whole), (name, told)
        plain.write_bytes(lzma.open(packed).read())
        assert (plain.stat().st_size > 1 << 20) == whole, (name, plain.stat())
        assert plain.read_bytes().endswith(bytes(8 * [6])) == (not whole), name
        told = replay(build, plain)
        assert told.returncode == 0 and json.loads(told.stdout)["events"] > 1e5, (name, told)
    assert theirs.read_bytes() == b""


def test_refused(build, folder):
    """What cannot be recorded is told in a line, before the command runs where that is known."""
    mark, packed = folder / "mark", folder / "refused.xz"
    for path, why in ((folder / "absent/t.xz", "is no folder"), (folder, "is a folder")):
        told = record(build, path, "touch", mark)
        assert told.returncode == 1 and why in told.stderr and not mark.exists(), told
    for words, code, why in (([packed, folder / "absent"], 1, "does not start: No such file"),
                             ([packed, folder], 1, "does not start: Permission denied"),
                             ([packed, "env", "-u", "LD_PRELOAD", "true"], 0, ""),
                             ([], 2, "bench/trace record"), ([packed], 2, "bench/trace record"),
                             (["-x", "true"], 2, "bench/trace record")):
        told = record(build, *words)
        assert told.returncode == code and why in told.stderr, told
        assert len(told.stderr.splitlines()) <= 1 or code == 2, told
    told = subprocess.run([TRACE, "record", "--build"], capture_output=True, check=False)
    assert told.returncode == 2, told
    # A recorder that records nothing.
    (folder / "bench").mkdir()
    shutil.copy(build / "bench/libbroken_malloc.so", folder / "bench/libtrace_record.so")
    for command in ("true", "touch $UKMEM_TRACE_FILE", "printf ukmtrc01 > $UKMEM_TRACE_FILE"):
        told = record(folder, packed, "sh", "-c", f"{command}; exit 4")
        assert told.returncode == 1, told
        assert told.stderr == "nothing was recorded: exit status 4\n", told


def test_names():
    """Traces of one file name are told apart by their paths."""
    first, second, other = Path("d1/run.xz"), Path("d2/run.xz"), Path("d1/other.xz")
    assert memory_runs.trace_names([first, other, second]) == \
        {"d1/run.xz": first, "other": other, "d2/run.xz": second}


def test_recorded(build, folder):
    """The requests of traced.c, and what the replay tells of them."""
    packed, plain = folder / "t.xz", folder / "t"
    subprocess.run([TRACE, "record", "--build", build, packed, build / "bench/traced"], check=True)
    plain.write_bytes(lzma.open(packed).read())
    events = decode(plain.read_bytes())
    counts = Counter((event, first) for _, event, first, _ in events if event != FREE)
    assert counts[MALLOC, 1024] == 1000, counts
    assert counts[CALLOC, 3000] == 1 and counts[ALIGNED, 100000] == 1, counts
    assert [counts[REALLOC, size] for size in range(4000, 9000, 1000)] == [1] * 5, counts
    assert counts[REALLOC, 5000] == 1, "the child was recorded"
    assert {second for _, event, _, second in events if event == ALIGNED} == {12}
    # The objects are freed by the second thread, in order: each has the same distance but
    # for what that thread allocated before.
    frees = [first for thread, event, first, _ in events if event == FREE and thread == 1]
    assert len(frees) >= 1000
    last = frees[-1000:]
    assert last == list(range(last[0], last[0] - 1000, -1)), last[:5]

    told = json.loads(replay(build, plain).stdout)
    assert told["events"] == len(events) and told["threads"] == 2, told
    assert told["payload_peak_kib"] >= 1000, told
    assert 105 <= told["payload_end_kib"] <= 200, told
    assert told["resident_peak_kib"] >= 0.9 * 1000, told

    plain.write_bytes(plain.read_bytes()[:8] + bytes([FREE | 5 << 3]))
    broken = replay(build, plain)
    assert broken.returncode == 1 and "did not allocate" in broken.stderr, broken
    plain.write_bytes(b"nothing")
    assert replay(build, plain).returncode == 1


def test_hostile(build, folder):
    """A trace that nobody can have recorded is refused: it makes no replay wait for ever, and is not taken for a cut one."""
    plain, head = folder / "hostile", b"ukmtrc01" + bytes([THREAD, MALLOC | 7 << 3])
    long = bytes([MALLOC | 31 << 3] + 9 * [0xff])
    for data, why in ((bytes([FREE, FREE]), "frees an object twice"),
                      (bytes([REALLOC | 1 << 3, 0, FREE | 1 << 3]), "frees an object twice"),
                      (bytes([ALIGNED | 7 << 3, 64]), "alignment"), (long + bytes([1]), "a size"),
                      (long + bytes([0xff, 1, MALLOC | 7 << 3]), "too long"),
                      (bytes([THREAD | 2 << 3]), "leaves out a thread"), (bytes([7]), "unknown event")):
        plain.write_bytes(head + data)
        told = subprocess.run([build / "bench/trace_replay", plain], capture_output=True, text=True,
                              timeout=20, check=False)
        assert told.returncode == 1 and why in told.stderr, (data, told)
    packed = folder / "packed.xz"
    whole = lzma.compress(head + bytes(range(1, 255)) * 50)
    for data in whole[:-20], b"no xz", whole[:40] + bytes(20) + whole[60:], b"":
        packed.write_bytes(data)
        told = subprocess.run([TRACE, "replay", packed, "--build", build, "--quick", "--only", "glibc"],
                              capture_output=True, text=True, check=False)
        assert told.returncode == 1 and f"{packed} cannot be unpacked" in told.stderr, told
        assert "Traceback" not in told.stderr, told


def main():
    build = Path(sys.argv[1])
    test_names()
    with tempfile.TemporaryDirectory(prefix="trace.") as folder:
        for test in test_recorded, test_ends, test_cut, test_lost, test_refused, test_hostile:
            test(build, Path(folder))
    print("as recorded")


if __name__ == "__main__":
    main()
