#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Looks at processes that allocate without rest, are stopped, end, execute themselves anew or have children.

usage: storm_test.py TOOL VICTIM LIBRARY|- SECONDS storm|restless|executed
"""

import json
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

from live_test import VIEWS, expect, run

# A look at a process that comes and goes may say these in place of a table.
EXCUSES = [
    "there is no such process",
    "the process has ended",
    "it runs another program now",
    "it does not run on ukmem",
    "its library is not initialised",
    "its library is not loaded completely yet",
    "it changes too fast",
]


def numbers_in(tree):
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        return [n for part in tree for n in numbers_in(part)]
    return [tree] if isinstance(tree, (int, float)) else []


def check_possible(view, found, last):
    """No number of a JSON text is impossible; counters do not fall."""
    expect(all(n >= 0 for n in numbers_in(found)), f"{view}: negative: {found}")
    if view == "slabinfo":
        for c in found["caches"]:
            before = last.get(c["name"], c)
            expect(c["inuse"] + c["cached"] <= c["objects"], f"more than there are: {c}")
            expect(c["allocs_fast"] <= c["allocs"] and c["frees"] <= c["allocs"], f"{c}")
            expect(c["allocs"] >= before["allocs"], f"allocations fell: {c}, {before}")
            expect(c["allocs"] < 1 << 48 and c["objects"] < 1 << 32, f"too many: {c}")
            last[c["name"]] = c
    if view == "pools":
        # pagesz is of the usual slabs; some may be smaller or larger.
        for p in found["pools"]:
            expect(p["util"] <= 100 and (p["npage"] or not p["inuse"] + p["avail"]), f"{p}")
    if view == "layers":
        expect(all(p["cache_hit"] <= 100 and p["cpu_hit"] <= 100 for p in found["layers"]),
               f"hits: {found}")
    if view == "stats":
        g = found["gauges"]
        expect(g["allocated"] <= g["active"] <= g["mapped"] and g["retained"] <= g["mapped"],
               f"gauges: {g}")
    if view == "zoneinfo":
        for z in found["zones"]:
            expect(z["used"] + z["nr_free_pages"] <= z["present"] <= z["spanned"], f"{z}")
            expect(z["nr_free_dirty"] <= z["nr_free_pages"], f"{z}")
    if view == "buddyinfo":
        for z in found["zones"]:
            pages = sum(n << order for order, n in enumerate(z["blocks"]))
            expect(pages < 1 << 40, f"{z}")


def watcher(test, pid, command, interval):
    """A command that looks again and again, and the file that it writes to."""
    out = tempfile.TemporaryFile("w+")
    return subprocess.Popen([test.tool, *command, str(pid), "--json", "--interval", f"{interval:.2f}"],
                            stdout=out, stderr=subprocess.PIPE, text=True), out


def pace(test, pid):
    """How often commands look so that they leave the process some time: ten times a second, but with
    AddressSanitizer in the command."""
    begin = time.monotonic()
    test.look("gauges", pid, "--json")
    return max(0.1, 5 * (time.monotonic() - begin))


class Toggler(threading.Thread):
    """Stops a process and lets it go on, again and again: in the middle of whatever it does."""

    def __init__(self, process):
        super().__init__()
        self.process, self.over, self.times = process, threading.Event(), 0

    def run(self):
        while not self.over.wait(0.15):
            self.process.send_signal(signal.SIGSTOP)
            self.over.wait(0.05)
            self.process.send_signal(signal.SIGCONT)
            self.times += 1

    def end(self):
        self.over.set()
        self.join()
        expect(self.times, "it was never stopped")


def check_others(test, process):
    """Commands that are no views, in a storm."""
    code, out, err = test.look("metrics", process.pid, "--json")
    if code == 0:
        expect(all(n >= 0 for n in numbers_in(json.loads(out))), f"metrics: negative: {out}")
    expect(code == 0 or "it changes too fast" in err, f"metrics: {code}: {err}")
    lines = [p for p in test.json("ps")["processes"] if p["pid"] == process.pid]
    expect(len(lines) == 1 and all(n >= 0 for n in numbers_in(lines)) and
           ("allocated" in lines[0] or "it changes too fast" in lines[0]["problem"]), f"ps: {lines}")
    code, out, err = test.look("profile", "dump", "--format", "folded", process.pid)
    expect(code == 0 and all(int(line.split()[-1]) > 0 for line in out.splitlines()) or
           "never profiled" in err and not test.preload, f"profile: {code}: {err}{out}")
    code, out, err = test.look("allocinfo", process.pid)
    expect(code == 1 and "UKMEM_ALLOC_TAGS" in err, f"allocinfo: {code}: {err}")


def check_storm(test):
    """Looks at a process whose threads allocate and free: new ones, and several a second of each kind."""
    process = test.started("storm", conf="profile:1")
    interval = pace(test, process.pid)
    toggler = Toggler(process)
    toggler.start()
    end, looks, refused, last = time.monotonic() + test.seconds, 0, 0, {}
    watchers = {view: watcher(test, process.pid, command, interval) for view, command in VIEWS.items()}
    while time.monotonic() < end or looks < 2 * len(VIEWS):
        begin = time.monotonic()
        view, command = list(VIEWS.items())[looks % len(VIEWS)]
        code, out, err = test.look(*command, process.pid, "--json")
        looks += 1
        if code:
            expect("it changes too fast" in err, f"{view}: {code}: {err}")
            refused += 1
        else:
            check_possible(view, json.loads(out), last)
        code, out, err = test.look(*command, process.pid)
        expect(code == 0 or "it changes too fast" in err, f"{view}: {code}: {err}")
        expect(not re.search(r"(?<![\w.-])-\d", out), f"{view}: negative: {out}")
        if looks % len(VIEWS) == 0:
            check_others(test, process)
        time.sleep(max(0, 0.1 - (time.monotonic() - begin)))
    for view, (watch, out) in watchers.items():
        watch.terminate()
        _, err = watch.communicate()
        expect(watch.returncode == -signal.SIGTERM, f"{view}: {watch.returncode}: {err}")
        expect(all("it changes too fast" in line for line in err.splitlines()), f"{view}: {err}")
        out.seek(0)
        lines, watched = out.read().split("\n")[:-1], {}
        for line in lines:
            check_possible(view, json.loads(line), watched)
        expect(lines and len(err.splitlines()) <= 1 + len(lines) / 20, f"{view}: {len(lines)}, {err}")
        looks += len(lines)
    toggler.end()
    # A stopped process can be read, too.
    process.send_signal(signal.SIGSTOP)
    for view, command in VIEWS.items():
        check_possible(view, test.json(*command, process.pid), {})
    process.send_signal(signal.SIGCONT)
    process.communicate()
    expect(process.returncode == 0, f"the process ended with {process.returncode}")
    expect(refused <= looks / 20, f"{refused} of {looks} looks found nothing")
    print(f"{looks} looks, {refused} found nothing")


def look_while_it_lives(test, process, pid_of):
    """Looks at a process that ends, executes itself anew, or has children, until it has ended."""
    looks = good = 0
    while process.poll() is None:
        view, command = list(VIEWS.items())[looks % len(VIEWS)]
        code, out, err = test.look(*command, pid_of(), "--json")
        looks += 1
        if code == 0:
            check_possible(view, json.loads(out), {})
            good += 1
        else:
            expect(any(excuse in err for excuse in EXCUSES), f"{view}: {code}: {err}")
    expect(process.returncode == 0, f"it ended with {process.returncode}")
    return looks, good


def child_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = file.read().split()
    except OSError:
        return pid
    return int(children[0]) if children else pid


def check_restless(test):
    end, looks, good = time.monotonic() + test.seconds, 0, 0
    # A busy machine may take a second for each look.
    while time.monotonic() < end or good < 3 and time.monotonic() < end + 60:
        for arguments, of_child in ((["exec", "30"], False), (["exec", "0"], False),
                                    (["fork", "60"], True)):
            process = test.start(*arguments)
            pid_of = (lambda p=process: child_of(p.pid)) if of_child else (lambda p=process: p.pid)
            one = look_while_it_lives(test, process, pid_of)
            process.communicate()
            looks, good = looks + one[0], good + one[1]
    expect(looks > 10 and good >= 3, f"{good} of {looks} looks found tables")
    print(f"{looks} looks, {good} found tables")


def check_executed(test):
    """A command that looks again and again says that another program runs now, and ends."""
    for command in (["slabinfo"], ["gauges", "--count", "100000"], ["watch", "--limit", "1T"],
                    ["metrics", "--listen", "127.0.0.1:0"]):
        process = subprocess.Popen(["sh", "-c", f"read x; exec {shlex.quote(test.victim)} quiet"],
                                   env=test.environment(), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        test.wait_for_library(process.pid)
        served = command[0] == "metrics"
        tool = subprocess.Popen([test.tool, *command, *([] if served else ["--interval", "0.05"]),
                                 str(process.pid)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if command[0] == "watch":  # which says nothing
            time.sleep(1)
        else:
            line = tool.stdout.readline()
        process.stdin.write("\n")
        process.stdin.flush()
        expect(process.stdout.readline() == "ready\n", "not executed")
        if served:
            code = None
            try:
                with urllib.request.urlopen(re.search(r"http:\S+", line)[0], timeout=20) as answer:
                    code = answer.status
            except urllib.error.HTTPError as e:
                code = e.code
            expect(code == 503, f"{code} of another program")
        _, err = tool.communicate(timeout=30)
        expect(tool.returncode == 1 and "it runs another program now" in err, f"{command}: {tool.returncode}: {err}")
        process.communicate("\n")


if __name__ == "__main__":
    run({"storm": check_storm, "restless": check_restless, "executed": check_executed})
