#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Looks at real programs from outside while they work, and when they rest.

usage: programs_test.py TOOL LIBRARY SECONDS redis|postgres|cpython|arenas|sqlite|market [VICTIM]

Each program runs on LIBRARY, preloaded. For SECONDS, all that the tool shows is looked at, up to ten
looks a second: each number is possible. Of the program's objects next to none is reported as leaked.
VICTIM (market.cpp) is the program of market. Exit code 77: a program is not installed.
"""

import contextlib
import fcntl
import glob
import json
import math
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import types

import leaks_test
import profile_test
from live_test import Test, expect
from map_test import data_of, sums_of
from storm_test import check_possible

HERE = os.path.dirname(os.path.abspath(__file__))
WAIT = 60  # seconds for what must come
# Of objects in use, the part that may be reported as leaked though something leads to them; of heaps
# with fewer than 5000 objects, five.
MOST_WRONG, FEW_WRONG = 1 / 1000, 5
FAST = {
    "slabinfo": ["slabinfo", "--json"],
    "pools": ["vmstat", "-m", "--json"],
    "zoneinfo": ["zoneinfo", "--json"],
    "top": ["top", "--once", "--interval", "0.05", "--json"],
    "map": ["map"],
    "metrics": ["metrics"],
    "stats": ["gauges", "--json"],
}
SEARCHES = {"leaks": [], "leaks --stop": ["--stop"]}


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(77)


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            skip(f"{program} is not installed")


def wait_for(condition, what):
    end = time.monotonic() + WAIT
    while not condition():
        expect(time.monotonic() < end, f"{what}: not after {WAIT} s")
        time.sleep(0.05)


def check_top(found):
    """The table of a process that works."""
    for c in found["caches"]:
        expect(c["inuse"] + c["cached"] <= c["objects"], f"more than there are: {c}")
        expect(0 <= c["waste"] <= c["memory"], f"waste: {c}")
    for part in (*found["caches"], *found["cpus"], *found["nodes"], found["totals"]):
        for name, value in part.items():
            if isinstance(value, (int, float)):
                expect(value >= 0 and math.isfinite(value), f"{name}: {part}")
            if isinstance(value, (int, float)) and (name.startswith("hit") or name == "use"):
                expect(value <= 100, f"{name}: {part}")
    for name in ("inuse", "objects", "slabs", "memory"):
        of_caches = sum(c[name] for c in found["caches"])
        expect(found["totals"][name] == of_caches, f"{name}: {found['totals']}, {of_caches} of caches")


def check_metrics(text, last):
    """No sample is impossible; what counts does not fall."""
    samples = re.findall(r"^([a-z_]+(?:\{.*\})?) (\S+)$", text, re.M)
    expect(len(samples) > 100, f"{len(samples)} samples")
    for name, word in samples:
        value = float(word)
        expect(0 <= value < 1 << 60, f"{name}: {word}")
        if re.match(r"[a-z_]+_total\b", name):
            expect(value >= last.get(name, 0), f"{name}: {value} after {last.get(name)}")
            last[name] = value


class Watch:
    """Looks at the processes of a program. A look may find nothing where all moves: these are counted."""

    def __init__(self, test, name):
        self.test, self.name = test, name
        self.good, self.refused, self.last, self.figures = {}, {}, {}, {}
        self.folder = tempfile.TemporaryDirectory()

    def look(self, name, command, pid):
        """The text of a command; None: it found nothing."""
        code, out, err = self.test.look(*command, pid)
        if code:
            expect("it changes too fast" in err, f"{name}: {code}: {err}")
            self.refused[name] = self.refused.get(name, 0) + 1
            return None
        expect(not err, f"{name}: {err}")
        self.good[name] = self.good.get(name, 0) + 1
        return out

    def fast(self, pid):
        """A look of each kind, a tenth of a second apart."""
        for view, command in FAST.items():
            begin = time.monotonic()
            page = os.path.join(self.folder.name, "heap.html")
            text = self.look(view, [*command, "-o", page] if view == "map" else command, pid)
            last = self.last.setdefault((view, pid), {})
            if text is not None and view == "map":
                with open(page, encoding="utf-8") as file:
                    (snapshot,) = data_of(file.read())["snapshots"]
                sums, _ = sums_of(snapshot)
                check_possible("stats", snapshot, {})
                expect(all(n >= 0 for n in sums.values()), f"the map's sums: {sums}")
            elif text is not None and view == "metrics":
                check_metrics(text, last)
            elif text is not None and view == "top":
                check_top(json.loads(text))
            elif text is not None:
                check_possible(view, json.loads(text), last)
            time.sleep(max(0, 0.1 - (time.monotonic() - begin)))

    def search(self, pid, when):
        """Searches for leaks, of which there are none."""
        for name, options in SEARCHES.items():
            text = self.look(name, ["leaks", "--json", "--limit", "1000000", *options], pid)
            if text is None:
                continue
            found = json.loads(text)
            leaks_test.Test.check(found)
            wrong = found["direct"] + found["indirect"]
            groups = [(g["cache"], g["direct"], g["indirect"]) for g in found["groups"]]
            expect(wrong <= max(FEW_WRONG, found["objects"] * MOST_WRONG),
                   f"{when}, {name}: {wrong} of {found['objects']} objects: {groups}")
            worst = self.figures.setdefault((when, name), [0, 0, 0])
            self.figures[when, name] = [worst[0] + 1, max(worst[1], wrong), max(worst[2], found["objects"])]

    def enough(self):
        """The greater part of the looks of each kind found what there is."""
        for name in (*FAST, *SEARCHES):
            good, refused = self.good.get(name, 0), self.refused.get(name, 0)
            expect(good >= max(1, refused), f"{name}: {refused} of {good + refused} looks found nothing")
        print(f"{self.name}: {sum(self.good.values())} looks, {sum(self.refused.values())} found nothing")
        for (when, name), (searches, wrong, objects) in self.figures.items():
            print(f"{self.name}, {when}, {name}: {searches} searches, {wrong} wrong of {objects} objects")


def watch(test, name, load):
    """@load has the processes that work, as a function, and a function that makes them rest."""
    seen = Watch(test, name)
    with load as (processes, rest):
        end, rounds = time.monotonic() + test.seconds, 0
        while time.monotonic() < end or rounds < 1:
            for pid in processes():
                seen.fast(pid)
                seen.search(pid, "under load")
            rounds += 1
        rest()
        for pid in processes():
            seen.fast(pid)
            seen.search(pid, "at rest")
    seen.enough()


@contextlib.contextmanager
def own_program(test, command, conf="", **variables):
    """A program of this folder, which says when it is ready and when it rests."""
    process = subprocess.Popen(command, env={**test.environment(conf), **variables}, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    expect(process.stdout.readline() == "ready\n", f"{command}: {process.poll()}")

    def rest():
        process.stdin.write("\n")
        process.stdin.flush()
        expect(process.stdout.readline() == "rests\n", f"{command}: {process.poll()}")

    try:
        yield lambda: [process.pid], rest
        process.communicate()
        expect(process.returncode == 0, f"{command}: exit {process.returncode}")
    finally:
        process.kill()


def check_cpython(test):
    """Each object of Python is one of the library's."""
    watch(test, "cpython", own_program(test, [sys.executable, f"{HERE}/busy.py"], PYTHONMALLOC="malloc"))


def check_arenas(test):
    """Small objects lie in Python's own arenas, which lead to the others."""
    watch(test, "arenas", own_program(test, [sys.executable, f"{HERE}/busy.py"]))


STATEMENTS = """
UPDATE item SET name = name || n WHERE n = {a};
DELETE FROM item WHERE n BETWEEN {a} AND {b};
INSERT INTO item SELECT value, hex(randomblob(value % 90)) FROM generate_series({a}, {b});
SELECT count(*) FROM (SELECT a.name FROM item a JOIN item b ON a.n = b.n + 7 WHERE a.n BETWEEN {a} AND {b}) WHERE name = '';
WITH t AS MATERIALIZED (SELECT n, group_concat(name) AS names FROM item WHERE n BETWEEN {a} AND {b} GROUP BY n % 10)
	SELECT count(*) FROM t WHERE names = '';
"""


@contextlib.contextmanager
def sqlite(test):
    """sqlite3's shell, with a database in memory, whose pages are objects."""
    process = subprocess.Popen(["sqlite3", "-batch", "-bail", ":memory:"], env=test.environment(), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    stop = threading.Event()

    def say(text):
        process.stdin.write(text)
        process.stdin.flush()

    def feed():
        number = 0
        while not stop.is_set():
            a = number * 7919 % 29000
            say(STATEMENTS.format(a=a, b=a + 200))
            number += 1

    def shown(word):
        line = process.stdout.readline()
        while line and line != word + "\n":
            line = process.stdout.readline()
        expect(line, f"sqlite3 ended with {process.poll()}")

    def rest():
        reader = threading.Thread(target=shown, args=("rests",))
        reader.start()
        stop.set()
        feeder.join()
        say("SELECT 'rests';\n")
        reader.join()

    feeder = threading.Thread(target=feed)
    fcntl.fcntl(process.stdin, fcntl.F_SETPIPE_SZ, 4096)  # rest() waits for what is in it
    try:
        say("PRAGMA page_size=512;\nCREATE TABLE item(n INTEGER, name TEXT);\n"
            "INSERT INTO item SELECT value, hex(randomblob(value % 90)) FROM generate_series(1, 30000);\n"
            "CREATE INDEX item_n ON item(n);\nSELECT 'ready';\n")
        shown("ready")
        feeder.start()
        yield lambda: [process.pid], rest
        process.communicate()
        expect(process.returncode == 0, f"sqlite3: exit {process.returncode}")
    finally:
        stop.set()
        process.kill()


def check_sqlite(test):
    need("sqlite3")
    watch(test, "sqlite", sqlite(test))


@contextlib.contextmanager
def redis(test):
    need("redis-server", "redis-cli", "redis-benchmark")
    started = []
    with tempfile.TemporaryDirectory(prefix="ukmem-") as folder:
        socket = f"{folder}/socket"

        def start(*command, env=None):
            started.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL))
            return started[-1]

        def bench(*options):
            return ["redis-benchmark", "-s", socket, "-q", "-P", "8", "-r", "20000", "-d", "200", *options]

        def answers():
            return subprocess.run(["redis-cli", "-s", socket, "ping"], capture_output=True,
                                  check=False).stdout == b"PONG\n"

        server = start("redis-server", "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "",
                       env=test.environment())
        wait_for(answers, "redis-server")
        subprocess.run(bench("-c", "20", "-n", "40000", "-t", "set,hset,zadd"), check=True,
                       stdout=subprocess.DEVNULL)
        loads = [start(*bench("-c", "10", "-n", "100000000", "-t", "set")),
                 start(*bench("-c", "10", "-n", "2000", "-l", "-t", "lpush,lpop,sadd,spop,hset,zadd,zpopmin"))]

        def rest():
            for load in loads:
                expect(load.poll() is None, "redis-benchmark ended")
                load.kill()
                load.wait()
            subprocess.run(["redis-cli", "-s", socket, "bgsave"], check=True, stdout=subprocess.DEVNULL)

        try:
            yield lambda: [server.pid], rest
            expect(server.poll() is None, "redis-server ended")
        finally:
            for process in started:
                process.kill()
                process.wait()


def check_redis(test):
    watch(test, "redis", redis(test))


@contextlib.contextmanager
def postgres(test):
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda p: float(p.split("/")[4]))
    os.environ["PATH"] = ":".join([*folders[-1:], os.environ["PATH"]])
    need("initdb", "postgres", "pgbench", "psql")
    user = None
    if os.geteuid() == 0:  # as whom the server refuses to run
        try:
            user = pwd.getpwnam("postgres").pw_name
        except KeyError:
            skip("there is no user postgres to run the server as")
        readable = ["sh", "-c", 'test -r "$1"', "sh", test.preload]
        if subprocess.run(readable, user=user, group=user, extra_groups=[], check=False).returncode:
            skip(f"the user postgres may not read {test.preload}")
    with tempfile.TemporaryDirectory(prefix="ukmem-") as folder:
        if user:
            shutil.chown(folder, user)
        own = {"env": {**test.environment(), "PGHOST": folder, "PGUSER": "postgres", "PGDATABASE": "postgres",
                       "LC_ALL": "C"},
               "user": user, "group": user, "extra_groups": [] if user else None, "cwd": folder,
               "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        bare = {**own, "env": {n: v for n, v in own["env"].items() if n != "LD_PRELOAD"}}

        def sessions():
            """The server's children that serve clients, by their titles."""
            found = []
            for path in glob.glob(f"/proc/[0-9]*/task/{server.pid}/children") or ():
                with open(path, encoding="ascii") as file:
                    found += file.read().split()
            titles = {}
            for pid in found:
                with contextlib.suppress(OSError):
                    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                        titles[int(pid)] = file.read()
            return [pid for pid, title in titles.items() if "[local]" in title]

        subprocess.run(["initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8",
                        "--no-locale", "--no-sync"], check=True, **bare)
        server = subprocess.Popen(["postgres", "-D", f"{folder}/data", "-k", folder, "-h", "", "-c", "fsync=off",
                                   "-c", "shared_buffers=32MB"], **own)
        session = load = None
        try:
            wait_for(lambda: subprocess.run(["pg_isready", "-q"], check=False, **bare).returncode == 0, "postgres")
            subprocess.run(["pgbench", "-i", "-q", "-s", "2"], check=True, **bare)
            # A session that has worked, and waits. Those of the programs before end after their clients.
            session = subprocess.Popen(["psql", "-X", "-q"], stdin=subprocess.PIPE, text=True,
                                       **{**bare, "stdout": subprocess.PIPE})
            session.stdin.write("SELECT a.aid, b.abalance FROM pgbench_accounts a JOIN pgbench_accounts b USING (aid)"
                                " ORDER BY a.filler, b.aid LIMIT 9;\nSELECT count(*) FROM pg_class JOIN pg_attribute"
                                " ON attrelid = pg_class.oid;\n\\echo worked\n")
            session.stdin.flush()
            expect("worked\n" in session.stdout, "psql ended")
            wait_for(lambda: len(sessions()) == 1, "one session")
            waits = sessions()
            load = subprocess.Popen(["pgbench", "-n", "-c", "4", "-j", "2", "-T", "100000"], **bare)
            wait_for(lambda: len(sessions()) == 5, "pgbench's sessions")
            chosen = [next(pid for pid in sessions() if pid not in waits)]

            def rest():
                expect(load.poll() is None, "pgbench ended")
                load.terminate()
                load.wait()
                wait_for(lambda: sessions() == waits, "the end of pgbench's sessions")
                chosen[:] = waits

            yield lambda: [server.pid, *chosen], rest
            expect(server.poll() is None, "postgres ended")
        finally:
            for process in (load, session):
                if process:
                    process.kill()
                    process.wait()
            server.send_signal(3)  # at once
            server.wait()


def check_postgres(test):
    watch(test, "postgres", postgres(test))


PLANTED = "market::book<unsigned long, market::order>::planted(unsigned long)"
PLANTED_OBJECTS, LOST = 60000, 400


def check_names(tool, program, folder):
    text = profile_test.dump(tool, "--format", "folded", program.pid)
    live = profile_test.folded(text)
    expect(max(live, key=live.get) == PLANTED, f"the largest: {live}")
    profile_test.near(live[PLANTED], PLANTED_OBJECTS * profile_test.OBJECT, "planted")
    text = text.decode()
    expect(re.search(rf"^(\S.*;)?main;(.*;)?{re.escape(PLANTED)} \d+$", text, re.M), f"stacks: {text}")
    expect(not re.search(r"\b_Z\w", text), f"mangled names: {text}")
    _, data = profile_test.flame(tool, program, folder)
    own = profile_test.own_of(data, 0)
    expect(max(own, key=own.get) == PLANTED, f"the largest frame: {own}")
    lines = [lines for names, _, lines in profile_test.frames_of(data, data["tree"])
             if names and names[-1] == PLANTED]
    expect(lines and lines[0][0][0].startswith("market.cpp:"), f"{lines}")


def check_lost(test):
    """A leak is found while the program works."""
    with own_program(test, [test.victim, "leak"]) as (processes, _):
        for options in SEARCHES.values():
            found = json.loads(test.shown("leaks", "--json", *options, *processes()))
            lost = [(g["direct"], g["indirect"]) for g in found["groups"] if g["size"] in range(700, 800)]
            # An address may be left on a stack.
            expect(len(lost) == 1 and LOST - 5 <= lost[0][0] <= LOST and not lost[0][1],
                   f"{options}: {lost} of {found['objects']}")


def check_market(test):
    """In folded stacks and in the flame graph, names of C++ are those of the source."""
    watch(test, "market", own_program(test, [test.victim]))
    check_lost(test)
    with tempfile.TemporaryDirectory() as folder:
        conf = f"profile:1,profile_interval:16k,profile_cpu:0,profile_file:{folder}/%p.heap"
        with own_program(test, [test.victim], conf) as (processes, rest):
            program = types.SimpleNamespace(pid=str(processes()[0]))
            check_names(test.tool, program, folder)
            rest()
            check_names(test.tool, program, folder)


def main():
    tool, library, seconds, name, *victim = sys.argv[1:]
    globals()["check_" + name](Test(tool, victim[0] if victim else "", library, seconds))


if __name__ == "__main__":
    main()
