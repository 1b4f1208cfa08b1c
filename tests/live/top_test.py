#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Drives `ukmem top PID` in a terminal, and without one.

usage: top_test.py TOOL VICTIM LIBRARY|- terminal|terminals|nodes|plain

The terminal is tmux's: keys are sent to it, and what it shows is captured.
"""

import contextlib
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from live_test import Test, expect

WAIT = 20  # seconds for what must come
HEADINGS = {80: "INUSE OBJECTS  USE%  SIZE  SLABS MEMORY  WASTE ALLOCS/S  HIT% CACHE"}


class Torn(Exception):
    """A screen that is not as it shall be: perhaps it is being drawn."""


def whole(condition, message):
    if not condition:
        raise Torn(message)


class Terminal:
    """A command in a terminal of tmux."""

    def __init__(self, command, columns, lines, locale="C.UTF-8"):
        self.folder = tempfile.TemporaryDirectory()
        self.tmux = ["tmux", "-u", "-f", "/dev/null", "-S", f"{self.folder.name}/tmux"]
        env = {n: v for n, v in os.environ.items() if n not in ("TMUX", "LC_ALL")}
        # The shell stays, so that the end can be seen.
        script = f"trap : INT; LC_ALL={locale} {shlex.join(map(str, command))}; echo code=$?; sleep 1000"
        subprocess.run([*self.tmux, "new-session", "-d", "-x", str(columns), "-y", str(lines),
                        "sh", "-c", script], env={**env, "LC_ALL": "C.UTF-8"}, check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([*self.tmux, "kill-server"], check=False)
        self.folder.cleanup()

    def do(self, *arguments):
        return subprocess.run([*self.tmux, *arguments], check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def press(self, *keys):
        self.do("send-keys", *keys)

    def shown(self):
        return self.do("capture-pane", "-p").removesuffix("\n").split("\n")

    def wait(self, condition, what):
        """The lines of the first screen for which @condition is true."""
        end = time.monotonic() + WAIT
        while True:
            lines, torn = self.shown(), ""
            try:
                if condition(lines):
                    return lines
            except (Torn, LookupError) as e:  # also a row or a column that is not drawn yet
                torn = str(e)
            expect(time.monotonic() < end, f"{what}: {torn}\n" + "\n".join(lines))
            time.sleep(0.05)

    def check(self, condition, what, columns, count):
        """The same, and it is a good screen."""
        return self.wait(lambda s: condition(s) and check_screen(s, columns, count), what)

    def wait_for(self, text):
        return self.wait(lambda lines: any(text in l for l in lines), f"{text!r} does not come")


def number(word):
    units = {"B": 1, "K": 1 << 10, "k": 1000, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    whole(re.fullmatch(r"\d+(\.\d+)?[BKkMGT]?", word), f"not a number: {word}")
    return float(word[:-1]) * units[word[-1]] if word[-1] in units else float(word)


def table(lines):
    """The rows under the heading, by its titles."""
    heads = [i for i, l in enumerate(lines) if re.search(r" (CACHE|CPU|NODE)\b", l)]
    whole(heads, "no heading:\n" + "\n".join(lines))
    titles = lines[heads[0]].replace("OF MEMORY", "").split()
    rows = []
    for line in lines[heads[0] + 1:-1]:
        words = line.split()[:len(titles)]
        if words:
            whole(len(words) == len(titles), f"{titles}: {line!r}")
            rows.append(dict(zip(titles, words)))
    return rows


def check_screen(lines, columns, count):
    """What is shown fits, and is possible."""
    screen = "\n".join(lines)
    whole(len(lines) == count and all(len(l) <= columns for l in lines),
           f"not of {columns}x{count}:\n{screen}")
    whole(lines[-1].startswith("h help  q quit"), f"no keys in the last line:\n{screen}")
    for row in table(lines):
        for title, word in row.items():
            if title in ("CACHE", "CPU", "NODE"):
                continue
            whole(re.fullmatch(r"\d+(\.\d)?[BKkMGT]?|-", word), f"{title}: {word}:\n{screen}")
            if title.endswith("%") and word != "-":
                whole(0 <= number(word) <= 100, f"{title}: {word}:\n{screen}")
        if "USE%" in row:
            whole(number(row["INUSE"]) <= number(row["OBJECTS"]), f"{row}")
    return True


def sorted_by(title):
    def check(lines):
        numbers = [number(r[title]) for r in table(lines) if r[title] != "-"]
        return len(numbers) > 1 and numbers == sorted(numbers, reverse=True)
    return check


def check_keys(test, storm, columns, lines):
    """All keys, in a terminal of one size and then of others."""
    with Terminal([test.tool, "top", storm.pid, "-d", "0.2"], columns, lines) as t:
        first = t.check(table, "no table", columns, lines)
        expect(f"ukmem top {storm.pid} " in first[0] and "every 0.2 s" in first[0], first[0])
        t.wait(lambda s: any("█" in l and l.startswith("Allocated") for l in s), "no sparkline")
        t.wait(lambda s: re.search(r"Allocs/s +[1-9]", "\n".join(s)), "nothing is allocated")
        for key, title in (("o", "OBJECTS"), ("s", "SIZE"), ("r", "ALLOCS/S"), ("c", "MEMORY"),
                           ("a", "INUSE"), ("u", "USE%"), ("l", "SLABS"), ("w", "WASTE"),
                           ("t", "HIT%")):
            t.press(key)
            t.check(sorted_by(title), f"not sorted by {title}", columns, lines)
        t.press("n")
        t.wait(lambda s: [r["CACHE"] for r in table(s)] == sorted(r["CACHE"] for r in table(s)),
               "not sorted by name")
        for key, title in (("1", "CPU"), ("2", "NODE"), ("2", "CACHE")):
            t.press(key)
            t.check(lambda s, title=title: re.search(rf" {title}\b", "\n".join(s)),
                    f"no {title}", columns, lines)
        t.press("f")
        t.wait_for("Caches that begin with: _")
        t.press("kmalloc-2", "Enter")
        # While the prefix is typed the table shows what it chooses so far.
        t.wait(lambda s: s[-1].startswith("kmalloc-2*") and len(table(s)) >= 3 and
               all(r["CACHE"].startswith("kmalloc-2") for r in table(s)), "other caches, too")
        t.press("Escape")
        t.wait(lambda s: len(table(s)) > 10, "caches do not come again")
        t.press("h")
        t.wait_for("this help")
        t.press("h")
        t.press("+")
        t.wait_for("every 0.5 s")
        t.press("-", "-")
        t.wait_for("every 0.1 s")
        t.press("c", "space")
        t.wait_for("paused")
        still = t.wait(lambda s: table(s) and time.sleep(0.5) is None and t.shown() == s,
                       "it goes on while it is paused")
        if len(table(still)) > 2 and lines < 40:
            t.press("Down")
            t.wait(lambda s: table(s)[0] == table(still)[1], "it does not scroll")
            t.press("End")
            t.wait(lambda s: table(s)[0] != table(still)[1], "it does not scroll to the end")
            t.press("Home")
            t.wait(lambda s: table(s)[0] == table(still)[0], "it does not scroll back")
        t.press("space")
        t.wait_for("every 0.1 s")
        for width, height in ((200, 50), (80, 24), (100, 30)):
            t.do("resize-window", "-x", str(width), "-y", str(height))
            t.check(lambda s, w=width, h=height: len(s) == h and w - 2 <= len(s[0]) <= w,
                    f"not of {width}x{height}", width, height)
        for width, height in ((20, 5), (7, 2), (3, 1)):
            t.do("resize-window", "-x", str(width), "-y", str(height))
            time.sleep(0.3)
            expect(all(len(l) <= width for l in t.shown()), f"{t.shown()}")
        t.do("resize-window", "-x", "80", "-y", "24")
        t.wait_for(HEADINGS[80])
        t.press("q")
        t.wait_for("code=0")


def in_pty(test, pid, term):
    """`ukmem top` as a child that ignores SIGHUP, and the other side of its terminal."""
    child, other = pty.fork()
    if not child:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.environ["TERM"] = term
        os.execv(test.tool, [test.tool, "top", "-d", "0.2", str(pid)])
    return child, other


def check_terminals(test):
    """A terminal that goes while SIGHUP is ignored, and one that cannot move its cursor."""
    process = test.started("quiet")
    child, other = in_pty(test, process.pid, "xterm")
    expect(os.read(other, 1 << 16), "nothing is drawn")
    os.close(other)
    end = time.monotonic() + WAIT
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.05)
    expect(os.waitstatus_to_exitcode(ended[1]) == 1, f"without a terminal: {ended[1]:#x}")
    child, other = in_pty(test, process.pid, "dumb")
    text = b""
    with contextlib.suppress(OSError):  # its end
        while text.count(b"CACHE\r\n") < 2:
            text += os.read(other, 1 << 16)
    os.kill(child, signal.SIGKILL)
    os.close(other)
    os.waitpid(child, 0)
    expect(text.count(b" kmalloc-64\r\n") >= 1, f"{text}")
    process.communicate("\n")


def check_terminal(test):
    if not shutil.which("tmux"):
        print("SKIP: tmux is not installed")
        sys.exit(0)
    storm = test.started("storm")
    check_keys(test, storm, 80, 24)
    check_keys(test, storm, 200, 50)
    with Terminal([test.tool, "top", storm.pid, "-d", "0.1"], 80, 24, locale="C") as t:
        t.wait(lambda s: any(re.match("Allocated.*#", l) for l in s), "no sparkline in ASCII")
        expect("\n".join(t.shown()).isascii(), "not ASCII")
        t.press("C-c")
        t.wait_for("code=130")
    with Terminal([test.tool, "top", storm.pid, "-d", "0.1", "--count", "3"], 80, 24) as t:
        t.wait_for("code=0")
    # The process's end is told, and the last numbers stay.
    with Terminal([test.tool, "top", storm.pid, "-d", "0.1"], 80, 24) as t:
        t.wait_for("kmalloc-")
        storm.communicate()
        t.wait_for("The process has ended")
        t.wait(lambda s: len(table(s)) > 10 and s[0].endswith("ended"), "its last numbers are gone")
        t.press("n")
        t.wait(lambda s: [r["CACHE"] for r in table(s)] == sorted(r["CACHE"] for r in table(s)),
               "not sorted by name")
        t.press("q")
        lines = t.wait_for("code=0")
        expect(any(f"process {storm.pid} (" in l and "has ended" in l for l in lines), lines)
    # Another program in the same process.
    with tempfile.TemporaryDirectory() as folder:
        script = f"{shlex.quote(test.victim)} quiet"
        process = subprocess.Popen(["sh", "-c", f"read x; exec {script}"], cwd=folder,
                                   env=test.environment(), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        if test.preload:
            with Terminal([test.tool, "top", process.pid, "-d", "0.1"], 80, 24) as t:
                t.wait_for("kmalloc-")
                process.stdin.write("\n")
                process.stdin.flush()
                expect(process.stdout.readline() == "ready\n", "not executed")
                t.wait_for(f"ukmem top {process.pid} {os.path.basename(test.victim)[:15]}")
                t.press("q")
                t.wait_for("code=0")
        process.communicate("\n\n")


def check_nodes(test):
    """The table of nodes, where there are several; what they have adds up to the caches'."""
    if not shutil.which("tmux"):
        print("SKIP: tmux is not installed")
        sys.exit(0)
    process = test.started("quiet", conf="numa_fake:3")
    found = test.json("top", process.pid, "-od", "0.05")

    def three(lines):  # and perhaps a row for KFENCE's pool
        return {r.get("NODE") for r in table(lines)} - {"guarded"} == {"0", "1", "2"}

    for columns, lines in ((80, 24), (200, 50)):
        with Terminal([test.tool, "top", process.pid, "-d", "0.2", "--by", "nodes"], columns, lines) as t:
            shown = t.check(three, "not three nodes", columns, lines)
            rows = {r["NODE"]: r for r in table(shown)}
            for n in found["nodes"]:
                expect(int(number(rows[n["node"]]["SLABS"])) == n["slabs"], f"{n}: {rows}")
            t.press("1", "2")  # by CPUs, and back
            t.check(three, "not back", columns, lines)
            t.press("q")
            t.wait_for("code=0")
    process.communicate("\n")


def check_plain(test):
    """Without a terminal: a table whose numbers are those of the other commands."""
    process = test.started("quiet")
    pid = process.pid
    caches = {c["name"]: c for c in test.json("slabinfo", pid)["caches"]}
    gauges = test.json("gauges", pid)["gauges"]
    text = test.shown("top", pid, "-od", "0.05")
    rows = table(text.split("\n"))
    expect({r["CACHE"] for r in rows} == set(caches), f"other caches: {text}")
    for r in rows:
        c = caches[r["CACHE"]]
        expect([int(r[t]) for t in ("INUSE", "OBJECTS", "SIZE", "SLABS", "CACHED")] ==
               [c[n] for n in ("inuse", "objects", "size", "slabs", "cached")], f"{r}, {c}")
        expect(r["ALLOCS/S"] == "0" and r["HIT%"] == "-", f"{r}")
    found = test.json("top", pid, "--once", "--interval=0.05", "-s", "n")
    expect(found["gauges"] == gauges, f"{found['gauges']}, {gauges}")
    expect([c["name"] for c in found["caches"]] == sorted(caches), "not sorted by name")
    for c in found["caches"]:
        expect(c["memory"] - c["waste"] == c["inuse"] * c["size"] and c["allocs_per_second"] == 0,
               f"{c}")
    for key in ("inuse", "objects", "slabs", "memory", "waste"):
        total = sum(c[key] for c in found["caches"])
        expect(found["totals"][key] == total, f"{key}: {found['totals']}")
        expect(key == "waste" or sum(n[key] for n in found["nodes"]) == total, f"{found['nodes']}")
    large = {key: found["totals"]["large_" + key] for key in ("blocks", "bytes", "allocs_per_second")}
    expect(large["blocks"] > 0 and large["bytes"] >= 65536 * large["blocks"] and
           large["allocs_per_second"] == 0, f"{large}")
    expect(f"\n{large['blocks']} large blocks, " in text, text)
    samples = dict(line.split() for line in test.shown("metrics", pid).splitlines()
                   if line.startswith("ukmem_large_"))
    expect([int(samples[f"ukmem_large_{key}"]) for key in ("blocks", "block_bytes")] ==
           [large["blocks"], large["bytes"]], f"{samples}, {large}")
    chosen = table(test.shown("top", pid, "-od", "0.05", "--prefix=kmalloc-1").split("\n"))
    expect({r["CACHE"] for r in chosen} == {n for n in caches if n.startswith("kmalloc-1")},
           f"{chosen}")
    expect("spill" in test.shown("top", pid, "--by", "cpus", "-od", "0.05"), "cpus")
    three = test.shown("top", pid, "-d", "0.05", "--count", "3", "--json").splitlines()
    expect(len(three) == 3, f"{len(three)} objects")
    for wrong in (["-s", "z"], ["-d", "0"], ["--count", "0"], ["--by", "x"], []):
        code, out, err = test.look("top", *([pid] if wrong else []), *wrong)
        expect(code == 2 and not out and err.startswith("ukmem: "), f"{wrong}: {code}: {err}")
    watch = subprocess.Popen([test.tool, "top", str(pid), "-d", "0.05"], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    watch.stdout.readline()
    process.communicate("\n")
    _, err = watch.communicate(timeout=WAIT)
    expect(watch.returncode == 0 and not err, f"{watch.returncode}: {err}")
    process = test.started("quiet")
    with subprocess.Popen([test.tool, "top", str(process.pid), "-d", "0.05", "--count", "1000000", "--json"],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watch:
        watch.stdout.readline()
        process.communicate("\n")
        _, err = watch.communicate(timeout=WAIT)
    expect(watch.returncode == 1 and "the process has ended" in err, f"{watch.returncode}: {err}")
    code, _, err = test.look("top", pid)
    expect(code == 1 and "there is no such process" in err, f"{code}: {err}")
    # A storm: nothing impossible.
    storm = test.started("storm")
    lines = test.shown("top", storm.pid, "-d", "0.05", "--count", "60", "--json").splitlines()
    fast = 0
    for line in map(json.loads, lines):
        for name in ("caches", "cpus", "nodes"):
            for row in line[name]:
                expect(all(v is None or v >= 0 for v in row.values() if not isinstance(v, str)),
                       f"{row}")
                expect(all(row.get(k) is None or row[k] <= 100 for k in ("use", "hit", "full")),
                       f"{row}")
        expect(line["totals"]["inuse"] <= line["totals"]["objects"] and
               line["totals"]["waste"] <= line["totals"]["memory"] and
               line["totals"]["allocs_per_second"] < 1e10, f"{line['totals']}")
        fast += line["totals"]["allocs_per_second"] > 0
    expect(len(lines) == 60 and fast > 30, f"{len(lines)} looks, {fast} with allocations")
    storm.communicate()


def main():
    tool, victim, library, kind = sys.argv[1:]
    checks = {"terminal": check_terminal, "terminals": check_terminals, "nodes": check_nodes, "plain": check_plain}
    checks[kind](Test(tool, victim, library, 0))


if __name__ == "__main__":
    main()
