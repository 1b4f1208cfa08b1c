#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Looks at processes that run with `ukmem slabinfo PID` and the like.

usage: live_test.py TOOL VICTIM LIBRARY|- SECONDS TEST

VICTIM (victim.c) runs on LIBRARY, preloaded; "-": it is linked with the library. SECONDS is the
length of a search.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

VIEWS = {
    "slabinfo": ["slabinfo"],
    "zoneinfo": ["zoneinfo"],
    "buddyinfo": ["buddyinfo"],
    "vmstat": ["vmstat"],
    "pools": ["vmstat", "-m"],
    "layers": ["vmstat", "-C"],
    "slab": ["slab"],
    "stats": ["gauges"],
}
def expect(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


class Test:
    def __init__(self, tool, victim, library, seconds):
        self.tool, self.victim, self.seconds = tool, victim, float(seconds)
        self.preload = None if library == "-" else library

    def environment(self, conf=""):
        env = {n: v for n, v in os.environ.items() if n not in ("UKMEM_CONF", "LD_PRELOAD")}
        if self.preload:
            env["LD_PRELOAD"] = self.preload
        if conf:
            env["UKMEM_CONF"] = conf
        return env

    def start(self, *arguments, conf=""):
        return subprocess.Popen([self.victim, *arguments], env=self.environment(conf),
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def started(self, *arguments, conf=""):
        process = self.start(*arguments, conf=conf)
        expect(process.stdout.readline() == "ready\n", f"{arguments}: {process.poll()}")
        return process

    def for_others(self, folder):
        """The same with copies in @folder, since other users may not get to the build directory."""
        os.chmod(folder, 0o755)
        copy = Test(*(shutil.copy(path, folder) for path in (self.tool, self.victim)), "-", self.seconds)
        copy.preload = self.preload and shutil.copy(self.preload, folder)
        return copy

    def wait_for_library(self, pid):
        """Until a program that was just started can be looked at."""
        end = time.monotonic() + 30
        while self.look("gauges", pid)[0]:
            expect(time.monotonic() < end, f"{self.look('gauges', pid)}")
            time.sleep(0.02)

    def look(self, *arguments, prefix=()):
        """Exit code, stdout and stderr of the command. It never crashes."""
        done = subprocess.run([*prefix, self.tool, *map(str, arguments)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        expect(0 <= done.returncode <= 2, f"{arguments}: {done.returncode}: {done.stderr}")
        return done.returncode, done.stdout, done.stderr

    def shown(self, *arguments):
        code, out, err = self.look(*arguments)
        expect(code == 0 and not err, f"{arguments}: {code}: {err}")
        return out

    def json(self, *arguments):
        return json.loads(self.shown(*arguments, "--json"))


def same(view, found, own):
    """Whether a text from outside is the library's own."""
    if view == "slab":  # a constructor's name is known to the program alone
        found, own = (re.sub(r"/ctor: .*", "/ctor:", text) for text in (found, own))
    if view == "stats":
        found, own = (dict(re.findall(r"^  (\w+) +(\d+)$", re.search(r"gauges:\n(( .*\n)+)", text)[1], re.M))
                      for text in (found, own))
        for name in ("allocated", "active", "retained", "mapped"):
            expect(found[name] == own[name], f"{name}: {found[name]}, not {own[name]}")
        # The library counts pages that were only read, too; much of its metadata is.
        for name, least in (("resident", 0.8), ("metadata", 0.3)):
            expect(least * int(own[name]) <= int(found[name]) <= 1.1 * int(own[name]),
                   f"{name}: {found[name]}, not about {own[name]}")
        return
    for one, other in zip(found.splitlines(), own.splitlines()):
        expect(one == other, f"{view}: {one!r}, not {other!r}")
    expect(len(found) == len(own), f"{view}: {found!r}, not {own!r}")


def check_same(test, conf=(), mode="quiet"):
    """A quiet process's numbers are those that it prints itself, at once or at exit."""
    for view, command in VIEWS.items():
        show = [f"show:{view}"] if test.preload else []
        process = test.started(mode, conf=",".join([*conf, *show]))
        found = test.shown(*command, process.pid)
        again = test.shown(*command, process.pid)
        expect(view == "stats" or found == again, f"{view}: two looks differ")
        _, own = process.communicate(f"{view}\n")
        expect(process.returncode == 0 and own, f"{view}: the process printed {own!r}")
        same(view, found, own)


def check_same_nodes(test):
    check_same(test, ["numa_fake:3"])


def check_same_debugged(test):
    check_same(test, ["slab_debug:FZPU"])


def check_same_fallback(test):
    check_same(test, ["percpu:fallback"])


GUARDED = "kfence_sample_interval:1,kfence_num_objects:20"


def check_same_guarded(test):
    check_same(test, [GUARDED], "guarded")


def check_guarded(test):
    """With objects in KFENCE's pool, which lie in no slab and on no node, all sums are right."""
    process = test.started("guarded", conf=GUARDED + ",numa_fake:2")
    caches = {c["name"]: c for c in test.json("slabinfo", process.pid)["caches"]}
    guarded = {name: c["guarded"] for name, c in caches.items()}
    expect(0 < sum(guarded.values()) <= 20, f"{guarded}")
    lines = test.shown("slab", process.pid).splitlines()
    for name, attributes in test.json("slab", process.pid)["caches"].items():
        for attribute, amount in (("objects", "inuse"), ("total_objects", "objects")):
            value = attributes[attribute]
            expect(value["total"] == sum(value["nodes"].values()) + value["guarded"] ==
                   caches[name][amount] and value["guarded"] == guarded[name], f"{name}: {value}")
            (line,) = (line for line in lines if line.startswith(f"{name}/{attribute}: "))
            numbers = [int(n) for n in re.findall(r"(?<=[=: ])\d+", line)]
            expect(numbers[0] == sum(numbers[1:]) and ("guarded=" in line) == (guarded[name] > 0),
                   line)
    pools = test.json("vmstat", "-m", process.pid)
    in_slabs = {p["name"]: (p["inuse"] - guarded[p["name"]]) * p["size"] for p in pools["pools"]}
    expect(pools["pool_total"]["inuse_bytes"] == sum(in_slabs.values()), f"{pools['pool_total']}")
    top = test.json("top", process.pid, "-od", "0.05")
    for key in ("inuse", "objects", "slabs", "memory"):
        expect(top["totals"][key] == sum(c[key] for c in top["caches"]) ==
               sum(n[key] for n in top["nodes"]), f"{key}: {top['totals']}, {top['nodes']}")
    (row,) = (n for n in top["nodes"] if n["node"] == "guarded")
    expect(row["inuse"] == row["objects"] == sum(guarded.values()) > 0, f"{row}")
    page = os.sysconf("SC_PAGESIZE")
    block = -(-100001 // page)
    # On a slow machine the gate opens to other blocks of the program, too.
    expect(row["used"] >= (row["inuse"] + block) * page and not row["used"] % page, f"{row}")
    for c in top["caches"]:
        expect(c["memory"] - c["waste"] == in_slabs[c["name"]], f"{c}")
    metrics = test.shown("metrics", process.pid)
    found = dict(re.findall(r'^ukmem_cache_guarded_objects{cache="(.*)"} (\d+)$', metrics, re.M))
    expect({name: int(n) for name, n in found.items()} == guarded, f"{found}")
    pages = dict(re.findall(r'^ukmem_guarded_bytes{state="(.*)"} (\d+)$', metrics, re.M))
    expect(int(pages["used"]) == row["used"] and int(pages["free"]) == row["free"], f"{pages}")
    zones = sum(map(int, re.findall(r"^ukmem_zone_used_bytes{.*} (\d+)$", metrics, re.M)))
    kept = sum(map(int, re.findall(r"^ukmem_zone_pageset_bytes{.*} (\d+)$", metrics, re.M)))
    active = int(re.search(r"^ukmem_active_bytes (\d+)$", metrics, re.M)[1])
    expect(active == zones - kept + int(pages["used"]), f"{active}: {zones} - {kept} + {pages}")
    process.communicate("\n")


def check_json(test):
    process = test.started("quiet")
    for view, command in VIEWS.items():
        found = test.json(*command, process.pid)
        expect(found["ukmem"]["pid"] == process.pid, f"{view}: {found['ukmem']}")
        expect(found["ukmem"]["program"] == os.path.basename(test.victim)[:15], found["ukmem"])
    caches = {c["name"]: c for c in test.json("slabinfo", process.pid)["caches"]}
    rows = [line.split() for line in test.shown("slabinfo", process.pid).splitlines()[2:]]
    expect([r[0] for r in rows] == list(caches), "caches in another order")
    for row in rows:
        c = caches[row[0]]
        expect([int(n) for n in row[1:4]] == [c["inuse"], c["objects"], c["size"]], f"{c}")
    pools = test.json("vmstat", "-m", process.pid)
    expect({p["name"]: p["inuse"] for p in pools["pools"]} ==
           {name: c["inuse"] for name, c in caches.items()}, "pools differ from slabinfo")
    counters = dict(line.split() for line in test.shown("vmstat", process.pid).splitlines())
    expect({n: str(v) for n, v in test.json("vmstat", process.pid)["vmstat"].items()} == counters,
           "vmstat's JSON differs")
    slabs = test.json("slab", process.pid)["caches"]
    expect(list(slabs) == list(caches), "slab's caches differ")
    one = test.json("attr", process.pid, "kmalloc-64")["caches"]
    expect(one == {"kmalloc-64": slabs["kmalloc-64"]}, f"attr: {one}")
    # All begin with the same head.
    commands = [["attr", process.pid, "kmalloc-64"], ["metrics", process.pid], ["top", "-od0.05", process.pid]]
    if test.preload:  # a search goes through the shadow memory of AddressSanitizer, which takes minutes
        commands.append(["leaks", "--stop", process.pid])
    version = test.shown("--version").split()[1]
    for command in [*([*c, process.pid] for c in VIEWS.values()), *commands]:
        found = test.json(*command)
        expect(list(found)[0] == "ukmem" and list(found["ukmem"].items()) ==
               [("version", version), ("program", os.path.basename(test.victim)[:15]), ("pid", process.pid)],
               f"{command}: {found['ukmem']}")
    process.communicate("\n")


def check_commands(test):
    """Command lines, and what is wrong with them."""
    process = test.started("quiet")
    pid = str(process.pid)
    expect(test.shown("attr", pid, "kmalloc-64", "object_size") == "64\n", "object_size")
    lines = test.shown("attr", pid, "kmalloc-64").splitlines()
    expect("kmalloc-64/object_size: 64" in lines, lines)
    expect(test.shown("slab", pid, "-c", "kmalloc-64").splitlines() == lines, "slab -c")
    expect(test.shown("slab", "--cache=kmalloc-64", pid).splitlines() == lines, "slab --cache")
    for arguments, message in [
            (["attr", pid], "CACHE"),
            (["attr", pid, "kmalloc-64", "cpu_partial=1", "--interval", "1"], "NAME=VALUE"),
            (["attr", pid, "kmalloc-64", "cpu_partial=1", "--count", "2"], "NAME=VALUE"),
            (["gauges"], "PID"),
            (["gauges", "0"], "PID: '0' is not the number of a process"),
            (["gauges", "x"], "PID: 'x' is not the number of a process"),
            (["gauges", f"0{pid}"], f"PID: '0{pid}' is not the number of a process"),
            (["slabinfo", pid, "--interval", "0"], "--interval"),
            (["slabinfo", pid, "--count", "-1"], "--count"),
            *(([*command, pid, f"{option}={wrong}"], option)
              for command, option in ((["slabinfo"], "--interval"), (["watch", "--limit=1T"], "--interval"), (["top"], "--interval"),
                                      (["map", "-o", "/dev/null"], "--interval"), (["leaks"], "--min-age"))
              for wrong in ("nan", "-nan", "inf", "x")),
            (["top", pid, "--by", "cpus", "-s", "i"], "the table of cpus has no column with the key 'i'"),
            *((words, "PID: --conf and --set are for programs to be run") for words in (
                ["slabinfo", pid, "--conf", "verbose:1"], ["slabinfo", "--conf", "verbose:1", pid],
                ["vmstat", "--conf=verbose:1", pid], ["slab", pid, "--set", "kmalloc-64/cpu_partial=1"],
                ["slab", "--set", "kmalloc-64/cpu_partial=1", "-c", "kmalloc-64", pid])),
            (["slabinfo", "--json", "/bin/ls"], "--json"),
            (["vmstat", "--interval", "1", "/bin/ls"], "--interval"),
            (["slabinfo"], "PROGRAM or PID")]:
        code, out, err = test.look(*arguments)
        expect(code == 2 and not out and err.startswith("ukmem: ") and message in err,
               f"{arguments}: {code}: {out} {err}")
    for arguments, message in [
            (["attr", pid, "nosuch"], "it has no cache 'nosuch'"),
            (["attr", pid, "kmalloc-64", "nosuch"], "caches have no attribute 'nosuch'"),
            (["slab", pid, "-c", "nosuch"], "it has no cache 'nosuch'")]:
        code, out, err = test.look(*arguments)
        expect(code == 1 and not out and message in err, f"{arguments}: {code}: {out} {err}")
    # Again and again.
    once = test.shown("slabinfo", pid)
    expect(test.shown("slabinfo", pid, "--interval", "0.05", "--count", "3") ==
           "\n".join([once] * 3), "three looks")
    rates = test.shown("vmstat", pid, "--interval", "0.05", "--count", "2").splitlines()
    expect(len(rates) == 3 and rates[0].split()[:4] == ["present", "free", "dirty", "alloc/s"] and
           rates[1].split()[3:] == ["0"] * 7, f"rates: {rates}")
    rates = test.shown("vmstat", pid, "--count", "2").splitlines()
    expect(len(rates) == 3 and rates[0].split()[3] == "alloc/s", f"rates, each second: {rates}")
    two = test.shown("vmstat", pid, "--json", "--interval", "0.05", "--count", "2").splitlines()
    expect("per_second" not in json.loads(two[0]) and
           set(json.loads(two[1])["per_second"].values()) == {0.0}, f"rates: {two}")
    # A name of digits is a program if it has a slash.
    with tempfile.TemporaryDirectory() as folder:
        os.symlink("/bin/true", f"{folder}/1234")
        if test.preload:
            env = {**test.environment(), "UKMEM_MALLOC_LIB": test.preload}
            del env["LD_PRELOAD"]
            done = subprocess.run([test.tool, "slabinfo", "./1234"], cwd=folder, env=env,
                                  stderr=subprocess.PIPE, text=True, check=False)
            expect(done.returncode == 0 and "kmalloc-64" in done.stderr, done.stderr)
    # A watched process that ends is no failure.
    watch = subprocess.Popen([test.tool, "gauges", pid, "--interval", "0.05"], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    watch.stdout.readline()
    process.communicate("\n")
    out, err = watch.communicate(timeout=20)
    expect(watch.returncode == 0 and not err, f"{watch.returncode}: {err}")
    code, _, err = test.look("gauges", pid)
    expect(code == 1 and "there is no such process" in err, f"{code}: {err}")


def check_ps(test):
    process = test.started("quiet")
    found = test.json("ps")
    one = [p for p in found["processes"] if p["pid"] == process.pid]
    expect(len(one) == 1, f"ps does not have {process.pid}: {found}")
    gauges = test.json("gauges", process.pid)["gauges"]
    for name in ("allocated", "resident", "retained"):
        expect(one[0][name] == gauges[name], f"{name}: {one[0][name]}, {gauges[name]}")
    expect(one[0]["mode"] in ("rseq", "fallback") and one[0]["reason"], f"{one}")
    expect(os.path.basename(one[0]["library"]) ==
           os.path.basename(test.preload or test.linked()), f"{one}")
    expect(os.getpid() not in [p["pid"] for p in found["processes"]], "ps has this script")
    other = subprocess.Popen([test.tool, "metrics", str(process.pid), "--listen", "127.0.0.1:0"],
                             stdout=subprocess.PIPE, text=True)
    other.stdout.readline()
    pids = [p["pid"] for p in test.json("ps")["processes"]]
    expect(process.pid in pids and other.pid not in pids, f"ps has another command of ukmem: {pids}")
    lines = [l.split() for l in test.shown("ps").splitlines()]
    expect(lines[0][:3] == ["PID", "PROGRAM", "VERSION"], lines[0])
    expect(str(process.pid) in [l[0] for l in lines], "ps as text does not have it")
    process.communicate("\n")
    other.communicate()
    # Fallback mode, and why.
    os.environ["GLIBC_TUNABLES"] = "glibc.pthread.rseq=0"
    process = test.started("quiet", conf="percpu:fallback")
    del os.environ["GLIBC_TUNABLES"]
    one = [p for p in test.json("ps")["processes"] if p["pid"] == process.pid]
    expect(one and one[0]["mode"] == "fallback", f"{one}")
    process.communicate("\n")


def check_names(test):
    """A program's name may have any bytes, and be cut off in the middle of a character."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder.encode(), b"\x1b[7m" + "\u00e4".encode() * 8)
        shutil.copy(test.victim, path)
        process = Test(test.tool, path, test.preload or "-", 0).started("quiet")
        name = "?[7m" + "\u00e4" * 5 + "?"  # the 15 bytes that the system keeps
        heading, *lines = test.shown("ps").splitlines()
        # Another test may run a program of the same name.
        line = [l for l in lines if l.split()[0] == str(process.pid) and name in l]
        expect(len(line) == 1, f"{heading}\n{line}")
        mode = re.search(r" (rseq|fallback) ", line[0])
        expect(mode and mode.start(1) == heading.index("MODE"), f"{heading}\n{line}")
        expect([p["program"] for p in test.json("ps")["processes"] if p["pid"] == process.pid] == [name],
               "its name in JSON")
        expect(f'program="{name}"' in test.shown("metrics", process.pid), "its name in metrics")
        _, _, err = test.look("attr", process.pid, "nosuch")
        expect(f"process {process.pid} ({name}): " in err, f"{err!r}")
        process.communicate("\n")


def check_named(test):
    """Caches may have any names, and several the same one."""
    process = test.started("named")
    pid = process.pid
    caches = test.json("slabinfo", pid)["caches"]
    names = [c["name"] for c in caches]
    expect({"", "?[7m"} <= set(names) and names.count("same") == 2, f"{names}")
    expect(sorted(c["name"] for c in test.json("top", pid, "-od0.05")["caches"]) == sorted(names), "top")
    expect(" objects in use" in test.shown("leaks", pid), "leaks")
    # The object by name loses none of them.
    slabs = test.json("slab", pid)["caches"]
    expect(len(slabs) == len(names), f"{list(slabs)}")
    expect((slabs["same"]["object_size"], slabs["same (2)"]["object_size"]) == (900, 1000), f"{list(slabs)}")
    expect(test.json("attr", pid, "same")["caches"].keys() == {"same", "same (2)"}, "attr")
    # In metrics they are one.
    lines = [l for l in test.shown("metrics", pid).splitlines() if not l.startswith("#")]
    series = dict(line.rsplit(" ", 1) for line in lines)
    expect(len(series) == len(lines), "a series is there twice")
    used = sum(c["inuse"] for c in caches if c["name"] == "same")
    expect(int(series['ukmem_cache_objects{cache="same",state="used"}']) == used >= 8000, f"{series}")
    expect(series['ukmem_cache_object_size_bytes{cache="same"}'] ==
           str(max(c["size"] for c in caches if c["name"] == "same")), f"{series}")
    # The empty name does not stand for all.
    for arguments in (["attr", pid, ""], ["attr", pid, "", "align"], ["slab", pid, "-c", ""]):
        code, out, err = test.look(*arguments)
        expect(code == 2 and not out and "'' is no name of a cache" in err, f"{arguments}: {code}: {err}")
    for prefix in ("a name of more than thirty-one bytes", "a name of more"):
        found = test.json("top", pid, "-od0.05", "--prefix", prefix)["caches"]
        expect([c["name"] for c in found] == ["a name of more than thirty-one "], f"{found}")
    process.communicate("\n")


def check_zeros(test):
    """What was only read takes no memory."""
    if tuple(int(n) for n in os.uname().release.split(".")[:2]) < (6, 16):
        print("SKIP: the system does not tell of its pages of zeros")
        sys.exit(77)
    process = test.started("zeros")
    gauges = test.json("gauges", process.pid)["gauges"]
    expect(gauges["allocated"] >= 64 << 20 and gauges["resident"] < 32 << 20, f"{gauges}")
    process.communicate("\n")


def check_replaced(test):
    """The library's or program's file was deleted, and another one is in its place."""
    with tempfile.TemporaryDirectory() as folder:
        victim = shutil.copy(test.victim, f"{folder}/victim")
        copy = Test(test.tool, victim, "-", 0)
        if test.preload:
            copy.preload = shutil.copy(test.preload, f"{folder}/libukmem-malloc.so")
        process = copy.started("quiet")
        before = copy.shown("slabinfo", process.pid)
        for path in filter(None, (victim, copy.preload)):
            os.unlink(path)
            shutil.copy("/bin/true", path)
        expect(copy.shown("slabinfo", process.pid) == before, "after the file was replaced")
        process.communicate("\n")


def run(checks):
    """Runs the one of @checks that the command line names; see above."""
    tool, victim, library, seconds, kind = sys.argv[1:]
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    test = Test(tool, victim, library, seconds)
    test.linked = lambda: victim if "static" in os.path.basename(victim) else f"libukmem.so.{version}"
    checks[kind.partition(".")[0]](test)


if __name__ == "__main__":
    run({"same": check_same, "same_nodes": check_same_nodes, "same_debugged": check_same_debugged,
         "same_fallback": check_same_fallback, "same_guarded": check_same_guarded, "guarded": check_guarded,
         "json": check_json, "commands": check_commands, "ps": check_ps, "names": check_names,
         "named": check_named, "zeros": check_zeros,
         "replaced": check_replaced})
