#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks `ukmem profile dump PID`: planted sites are found, with their sizes.

usage: profile_test.py TOOL|- PROGRAM LIBRARY|- sites|formats|control|refusals|growth|files|pprof|flame|browser|file

PROGRAM (sampled.c) runs on LIBRARY, preloaded; "-": it is linked with the library.
"""

import functools
import gzip
import html.parser
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# pylint: disable=wrong-import-position
from message import Message  # noqa: E402

OBJECT = 224  # the class of 200 bytes
MANY, FEW = 200000, 50000
INTERVAL = 16384
TOLERANCE = 0.2  # five standard deviations of the rarest site, of which 683 objects are samples


def expect(ok, what):
    if not ok:
        sys.exit(f"FAILED: {what}")


class Program:
    def __init__(self, program, library, conf):
        env = {k: v for k, v in os.environ.items() if k not in ("UKMEM_CONF", "LD_PRELOAD")}
        # The interval is short, for many samples, which may cost what they do.
        env["UKMEM_CONF"] = f"{conf},profile_cpu:0"
        self.path = program
        if library != "-":
            env["LD_PRELOAD"] = library
        command = program if isinstance(program, list) else [program]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.pid = str(self.process.pid)
        self.wait()

    def wait(self):
        expect(self.process.stdout.readline() == b"ready\n", "the program ended early")

    def go_on(self):
        self.process.stdin.write(b"x")
        self.process.stdin.flush()

    def end(self):
        self.go_on()
        self.process.communicate()
        expect(self.process.returncode == 0, f"exit {self.process.returncode}")


def dump(tool, *args, code=0):
    done = subprocess.run([tool, "profile", "dump", *args], capture_output=True, check=False)
    expect(done.returncode == code, f"{args}: exit {done.returncode}: {done.stderr}")
    return done.stdout if code == 0 else done.stderr.decode()


def folded(text):
    """Bytes by innermost function."""
    sums = {}
    for line in text.decode().splitlines():
        stack, count = line.rsplit(" ", 1)
        leaf = stack.split(";")[-1]
        sums[leaf] = sums.get(leaf, 0) + int(count)
    return sums


def near(found, exact, what):
    expect(abs(found - exact) < TOLERANCE * exact, f"{what}: {found}, exactly {exact}")


def check_sites(tool, program):
    heap = os.path.join(tempfile.mkdtemp(), "before.heap")
    dump(tool, "--format", "heap", "-o", heap, program.pid)
    text = dump(tool, "--format", "folded", program.pid)
    live = folded(text)
    libc = [int(n) for n in os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")]
    expect(b"main;planted_hot " in text or libc < [2, 35], f"short stacks: {text}")
    expect(max(live, key=live.get) == "planted_hot", f"the largest: {live}")
    near(live["planted_hot"], MANY * OBJECT, "hot")
    near(live["planted_cold"], FEW * OBJECT, "cold")
    expect("planted_passing" not in live, f"{live}")
    text = dump(tool, "--format", "folded", "--allocated", program.pid)
    expect(b"main;w;planted_passing " in text or libc < [2, 35], f"stacks: {text}")
    allocated = folded(text)
    expect(max(allocated, key=allocated.get) == "planted_passing", f"{allocated}")
    near(allocated["planted_passing"], 8 * MANY * OBJECT, "passing")
    program.go_on()
    program.wait()
    more = folded(dump(tool, "--format", "folded", "--growth", heap, program.pid))
    near(more["planted_hot"], MANY * OBJECT, "growth")
    expect("planted_cold" not in more, f"growth: {more}")
    program.end()


def check_wrong_growth(tool, program, folder, sites, maps, grown):
    """Files that are no earlier profile of this process are refused."""
    path = os.path.join(folder, "wrong.heap")

    def refused(text, message):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        for form in ("heap", "folded", "flame", "pprof"):
            err = dump(tool, "--format", form, "--growth", path, program.pid, code=1)
            expect(path in err and message in err, f"{form}: {err}")

    refused(grown, "itself the growth")
    refused(re.sub("-(?=[0-9]+[:\\]])", "", grown), "itself the growth")  # by its mark
    refused(grown.replace("# growth since an earlier profile\n", ""), "itself the growth")  # by its signs
    # Another run, whose program and libraries are elsewhere.
    moved = (lambda m: f"{int(m[0], 16) + (1 << 45):x}")
    stacks = re.sub("(?<=0x)[0-9a-f]+", moved, sites)
    elsewhere = re.sub("^[0-9a-f]+|(?<=-)[0-9a-f]+(?= )", moved, maps, flags=re.M)
    refused(stacks + "MAPPED_LIBRARIES:" + elsewhere, "of another process")
    # Not the whole file.
    refused(sites, "its end is missing")
    refused(sites + "MAPPED_LIBRARIES:" + maps.rstrip()[:-3], "its end is missing")
    refused(sites.rstrip()[:-1].rpartition("]")[0], "is no sample")
    # At the same addresses lies another program.
    name = os.path.basename(program.path if isinstance(program.path, str) else program.path[0])
    refused(sites + "MAPPED_LIBRARIES:" + maps.replace(name, "other"), "of another process")


def check_mixed_growth(tool, program, folder, sites, maps):
    """Where one stack grew and another shrank, a flame graph of the growth has the first alone."""
    row = re.compile(r"^(\d+): (\d+) \[", re.M)
    largest = max(int(m[1]) for m in row.finditer(sites))
    before = os.path.join(folder, "mixed.heap")
    with open(before, "w", encoding="utf-8") as file:
        file.write(row.sub(lambda m: f"{3 * int(m[1])}: {3 * int(m[2])} [" if int(m[1]) == largest
                           else "0: 0 [", sites) + "MAPPED_LIBRARIES:" + maps)
    _, data = flame(tool, program, folder, "--growth", before)
    live = own_of(data, 0)
    near(live["planted_cold"], FEW * OBJECT, "what grew")
    expect(live.get("planted_hot", 0) == 0, f"what shrank: {live}")
    lines = folded(dump(tool, "--format", "folded", "--growth", before, program.pid))
    expect(abs(sum(lines.values()) - data["tree"][1][0]) <= len(lines) + 1,
           f"{sum(lines.values())} folded, {data['tree'][1]} in the graph")


def check_growth(tool, program):
    """What shrank since an earlier dump is below zero in the text, and nowhere a huge number."""
    number = r"-?\d+"
    row = re.compile(rf"({number}): ({number}) \[({number}): ({number})\] @(.*)")
    text = dump(tool, "--format", "heap", program.pid).decode()
    sites, maps = text.split("MAPPED_LIBRARIES:")
    with tempfile.TemporaryDirectory() as folder:
        # As if three times as much had been in use.
        before = os.path.join(folder, "before.heap")
        with open(before, "w", encoding="utf-8") as file:
            file.write(row.sub(lambda m: f"{3 * int(m[1])}: {3 * int(m[2])} [{m[3]}: {m[4]}] @{m[5]}",
                               sites) + "MAPPED_LIBRARIES:" + maps)
        grown = dump(tool, "--format", "heap", "--growth", before, program.pid).decode()
        expect(dump(tool, "--format", "folded", "--growth", before, program.pid) == b"", "it shrank")
        check_mixed_growth(tool, program, folder, sites, maps)
        check_wrong_growth(tool, program, folder, sites, maps, grown)
    now = [[int(n) for n in m.groups()[:4]] for m in row.finditer(sites)]
    rows = [[int(n) for n in m.groups()[:4]] for m in row.finditer(grown)]
    # The first row has the sums.
    for found, exact in zip(rows[0], (-2 * now[0][0], -2 * now[0][1])):
        expect(abs(found - exact) <= len(rows) + 0.01 * abs(exact), f"{rows[0]}, not {exact}")
    expect(len(rows) > 2 and all(r[0] <= 0 and r[1] <= 0 and r[2] == r[3] == 0 for r in rows), grown)
    program.go_on()
    program.wait()
    program.end()


def with_tables(path, copy):
    """A copy of a program with 60000 tables of symbols, none of whose names has an end."""
    sections, symbols, names = 60000, 40000, 4 << 20
    shutil.copy(path, copy)
    with open(copy, "r+b") as file:
        begin = file.seek(0, os.SEEK_END)
        section = struct.Struct("<IIQQQQIIQQ")
        file.write(symbols * struct.pack("<IBBHQQ", 0, 2, 0, 1, 1, 1))
        file.write(names * b"x")
        table = file.tell()
        file.write(section.pack(0, 3, 0, 0, begin + 24 * symbols, names, 0, 0, 1, 0))
        file.write(sections * section.pack(0, 2, 0, 0, begin, 24 * symbols, 0, 0, 8, 24))
        file.seek(40)  # e_shoff
        file.write(struct.pack("<Q", table))
        file.seek(58)  # e_shentsize, e_shnum, e_shstrndx
        file.write(struct.pack("<HHH", section.size, sections, 0))
    return copy


def check_hostile_file(tool, path, library, conf, folder):
    """Names of a file that has endlessly many are not looked for for ever."""
    program = Program([with_tables(path, os.path.join(folder, "tables"))], library, conf)
    begin = time.monotonic()
    names = folded(dump(tool, "--format", "folded", program.pid))
    expect(time.monotonic() - begin < 60, f"{time.monotonic() - begin} seconds")
    expect(any(name.startswith("tables+0x") for name in names), f"{names}")
    program.process.kill()
    program.process.wait()


def check_files(tool, path, library):
    """Names come from the files that the process sees, not from others of the same paths."""
    with tempfile.TemporaryDirectory() as folder:
        conf = f"profile:1,profile_interval:{INTERVAL},profile_file:{folder}/%p.heap"
        check_hostile_file(tool, path, library, conf, folder)
        # Its names move no cursor of the terminal.
        copy = shutil.copy(path, os.path.join(folder, "escaped"))
        with open(copy, "r+b") as file:
            text = file.read().replace(b"planted_hot", b"\x1b[2Jted_hot")
            file.seek(0)
            file.write(text)
        program = Program([copy], library, conf)
        names = folded(dump(tool, "--format", "folded", program.pid))
        expect("?[2Jted_hot" in names, f"{names}")
        program.process.kill()
        program.process.wait()
        # Deleted, and another one in its place: root alone gets to what is mapped.
        copy = shutil.copy(path, os.path.join(folder, "replaced"))
        program = Program([copy], library, conf)
        os.unlink(copy)
        shutil.copy("/bin/true", copy)
        names = folded(dump(tool, "--format", "folded", program.pid))
        expect("planted_hot" in names or os.geteuid(), f"{names}")
        expect("main" not in names, f"of another file: {names}")
        # A pipe that has the name which the system shows for it: nobody would end it.
        os.mkfifo(copy + " (deleted)")
        os.unlink(copy)
        expect("main" not in folded(dump(tool, "--format", "folded", program.pid)), "of a pipe")
        program.process.kill()
        program.process.wait()
        # In a container, here a mount namespace.
        seen = os.path.join(folder, "seen")
        os.mkdir(seen)
        shutil.copy("/bin/true", os.path.join(seen, "program"))
        os.mkdir(os.path.join(folder, "own"))
        shutil.copy(path, os.path.join(folder, "own", "program"))
        alone = ["unshare", "--map-root-user", "--mount"]
        if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
            print("SKIP: no mount namespace can be made here")
            return
        program = Program([*alone, "sh", "-c", f"mount --bind {folder}/own {seen} && exec {seen}/program"],
                          library, conf)
        live = folded(dump(tool, "--format", "folded", program.pid))
        near(live["planted_hot"], MANY * OBJECT, "in a container")
        program.process.kill()
        program.process.wait()


def fields(data):
    """The fields of a protobuf message: number and value."""
    message = Message(data)
    while message:
        key = message.number()
        if key & 7 == 0:
            yield key >> 3, message.number()
        else:
            expect(key & 7 == 2, f"wire type {key & 7}")
            yield key >> 3, message.take(message.number())


def check_formats(tool, program):
    message = list(fields(gzip.decompress(dump(tool, program.pid))))
    strings = [v.decode() for n, v in message if n == 6]
    expect(strings[0] == "" and "planted_hot" in strings, f"{strings}")
    types = [strings[dict(fields(v))[1]] for n, v in message if n == 1]
    expect(types == ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"], f"{types}")
    functions = {f[1]: strings[f[2]] for f in (dict(fields(v)) for n, v in message if n == 5)}
    expect("planted_cold" in functions.values(), f"{functions}")
    program.go_on()
    program.wait()
    program.end()


def pprof_of(folder):
    """Go's pprof as arguments, and its environment; None: there is none."""
    # It leaves files of its own in these folders.
    env = dict(os.environ, PPROF_TMPDIR=folder, XDG_CONFIG_HOME=folder)
    root = Path(__file__).resolve().parents[2]
    own = os.path.join(os.environ.get("GOPATH") or os.path.expanduser("~/go"), "bin")
    installed = shutil.which("pprof", path=f"{root}/build/pprof/bin:{os.environ['PATH']}:{own}")
    for command in ([installed], ["go", "tool", "pprof"]):
        try:
            done = subprocess.run([*command, "-h"], env=env, timeout=60, capture_output=True,
                                  text=True, check=False)
        except (OSError, TypeError, subprocess.TimeoutExpired):
            continue
        if "-sample_index" in done.stdout + done.stderr:  # not that of gperftools
            return command, env
    return None


def check_pprof(tool, program):
    """Go's pprof reads both formats, with names, lines and values."""
    with tempfile.TemporaryDirectory() as folder:
        found = pprof_of(folder)
        if not found:
            print("SKIP: Go's pprof is not installed (scripts/install-deps check-all)")
        command, env = found or (["true"], None)

        def rows(*args):
            done = subprocess.run([*command, *args], env=env, timeout=60, capture_output=True,
                                  text=True, check=False)
            expect(done.returncode == 0, f"{args}: {done.returncode}: {done.stderr}")
            return done.stdout

        def top(kind, *args):
            """Values by function, the largest first."""
            unit = ["-unit=bytes"] if "space" in kind else []
            table = [r.split() for r in rows("-top", f"-sample_index={kind}", *unit,
                                             *args).splitlines()]
            return {r[5]: int(re.match("[0-9]+", r[0])[0]) for r in table
                    if len(r) > 5 and r[5].startswith("planted_")}

        exact = {"inuse": ("planted_hot", MANY), "alloc": ("planted_passing", 8 * MANY)}
        file = os.path.join(folder, "heap.pb.gz")
        dump(tool, "-o", file, program.pid)
        for kind, (name, count) in exact.items() if found else ():
            values = top(f"{kind}_space", file)
            expect(next(iter(values)) == name, f"{values}")
            near(values[name], count * OBJECT, f"{kind}_space")
            near(top(f"{kind}_objects", file)[name], count, f"{kind}_objects")
        if found:
            lines = rows("-top", "-lines", file)
            expect(re.search(r"planted_hot \S*sampled\.c:[0-9]+", lines), lines)
            expect(re.search(r"\bmain\b.*\n", rows("-peek", "planted_hot", file)), "no callers")
        text = os.path.join(folder, "heap.txt")
        dump(tool, "--format", "heap", "-o", text, program.pid)
        # It finds the names itself, and scales the samples. That of go knows Go's symbols alone.
        if found and len(command) == 1:
            values = top("inuse_space", program.path, text)
            expect(next(iter(values)) == "planted_hot", f"{values}")
            near(values["planted_hot"], MANY * OBJECT, "from text")
    program.go_on()
    program.wait()
    program.end()


def flame(tool, program, folder, *options):
    """The path of a flame graph, and its data."""
    path = os.path.join(folder, "flame.html")
    expect(dump(tool, "--format", "flame", "-o", path, *options, program.pid) == b"", "output")
    with open(path, encoding="utf-8") as file:
        page = file.read()
    data = re.search(r'id="data">(.*?)</script>', page, re.S)[1]
    expect("http" not in page.replace(data, "").replace("http://www.w3.org/2000/svg", ""),
           "the page refers to another one")
    return path, json.loads(data)


def frames_of(data, frame, callers=()):
    """All frames below one: names, values, lines. None has less than those that it calls."""
    number, values, lines, callees = frame
    names = (*callers, data["functions"][number][0]) if frame is not data["tree"] else ()
    for k, value in enumerate(values):
        below = sum(c[1][k] for c in callees)
        # Each number is rounded.
        expect(value + len(callees) >= below, f"{names}: {value}, and {below} below it")
    yield names, values, lines
    for callee in callees:
        yield from frames_of(data, callee, names)


def own_of(data, which):
    """Values by innermost function."""
    sums = {}
    for names, values, _ in frames_of(data, data["tree"]):
        if names:
            sums[names[-1]] = sums.get(names[-1], 0) + values[which]
        if len(names) > 1:
            sums[names[-2]] = sums.get(names[-2], 0) - values[which]
    return sums


def check_flame(tool, program):
    """The largest frame that allocates itself is the planted one, and has its lines."""
    with tempfile.TemporaryDirectory() as folder:
        _, data = flame(tool, program, folder)
    expect(data["ukmem"]["pid"] == int(program.pid), f"{data['ukmem']}")
    live, allocated = own_of(data, 0), own_of(data, 2)
    expect(max(live, key=live.get) == "planted_hot", f"{live}")
    near(live["planted_hot"], MANY * OBJECT, "hot")
    near(live["planted_cold"], FEW * OBJECT, "cold")
    near(own_of(data, 1)["planted_hot"], MANY, "hot objects")
    expect(max(allocated, key=allocated.get) == "planted_passing", f"{allocated}")
    near(allocated["planted_passing"], 8 * MANY * OBJECT, "passing")
    hot = [lines for names, _, lines in frames_of(data, data["tree"])
           if names and names[-1] == "planted_hot"]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "sampled.c"),
              encoding="utf-8") as file:
        first = 1 + next(i for i, line in enumerate(file, 1) if "planted_hot(void)" in line)
    expect(len(hot) == 1 and len(hot[0]) == 1, f"{hot}")
    expect(hot[0][0][0] in [f"sampled.c:{first + i}" for i in range(4)], f"{hot}")
    program.go_on()
    program.wait()
    program.end()


class Rectangles(html.parser.HTMLParser):
    """The frames that a browser has drawn: name and width."""

    def __init__(self):
        super().__init__()
        self.name, self.frames = "", []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "g":
            self.name = attrs["data-name"]
        elif tag == "rect":
            self.frames.append((self.name, float(attrs["width"])))


def check_browser(tool, program):
    """A browser draws the frames as wide as their part is."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        print("SKIP: chromium is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path, data = flame(tool, program, folder)
        for which, largest in ((0, "planted_hot"), (2, "planted_passing")) if browser else ():
            done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu",
                                   f"--user-data-dir={folder}/profile", "--dump-dom",
                                   f"file://{path}#{which}"], text=True, timeout=100,
                                  capture_output=True, check=False)
            expect(done.returncode == 0, f"{done.returncode}: {done.stderr}")
            drawn = Rectangles()
            drawn.feed(done.stdout)
            whole = dict(drawn.frames)["all"]
            planted = [f for f in drawn.frames if f[0].startswith("planted_")]
            widest = max(planted, key=lambda f: f[1])
            expect(widest[0] == largest, f"{drawn.frames}")
            part = own_of(data, which)[largest] / data["tree"][1][which]
            expect(abs(widest[1] / whole - part) < 0.01, f"{widest} of {whole}, not {part}")
            expect(">Functions that allocate most themselves<" in done.stdout, "no table")
    program.go_on()
    program.wait()
    program.end()


def ask(tool, *args, code=0):
    done = subprocess.run([tool, "profile", *args], capture_output=True, text=True, check=False)
    expect(done.returncode == code, f"{args}: exit {done.returncode}: {done.stderr}")
    return done.stderr


def check_full(tool, program):
    """Where a dump has no room, the file stays as it was."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "heap")
        dump(tool, "--format", "heap", "-o", path, program.pid)
        with open(path, "rb") as file:
            before = file.read()
        done = subprocess.run(["sh", "-c", 'ulimit -f 1; trap "" XFSZ; exec "$0" profile dump --format heap -o "$1" "$2"',
                               tool, path, program.pid], capture_output=True, text=True, check=False)
        expect(done.returncode == 1 and f"{path}: File too large" in done.stderr, f"{done.returncode}: {done.stderr}")
        with open(path, "rb") as file:
            expect(file.read() == before and os.listdir(folder) == ["heap"], f"{os.listdir(folder)}")
        err = dump(tool, "--format", "heap", "-o", "/dev/full", program.pid, code=1)
        expect("/dev/full: No space left on device" in err, err)


def check_control(tool, path, library):
    """Starts and stops by the socket: only what was allocated between is in the profile."""
    program = Program(path, library, "live:1")
    expect("never profiled" in dump(tool, program.pid, code=1), "before the start")
    for wrong in ("1023", "2G", "64Q", "x", "-1"):
        expect("--interval" in ask(tool, "start", f"--interval={wrong}", program.pid, code=2), wrong)
    ask(tool, "start", "--interval", "64k", program.pid)
    expect("started before keeps its interval" in ask(tool, "start", "--interval", "32768", program.pid, code=1),
           "another interval")
    program.go_on()
    program.wait()
    live = folded(dump(tool, "--format", "folded", program.pid))
    near(live["planted_hot"], MANY * OBJECT, "hot, since the start")
    check_full(tool, program)
    expect("planted_cold" not in live, f"from before the start: {live}")
    ask(tool, "stop", program.pid)
    for command, on in ((["stop"], {"on": False}), (["start", "--interval=64K"], {"on": True, "interval": 65536})):
        done = subprocess.run([tool, "profile", *command, "--json", program.pid], capture_output=True,
                              text=True, check=True)
        told = json.loads(done.stdout)
        expect(told["ukmem"]["pid"] == int(program.pid) and "version" in told["ukmem"] and
               told["profile"] == on, f"{told}")
    program.go_on()
    program.process.communicate()
    program = Program(path, library, "")
    expect("socket" in ask(tool, "start", program.pid, code=1), "a process without a socket")
    program.process.kill()
    program.process.wait()


def check_refusals(tool, path, library):
    program = Program(path, library, "")
    expect("never profiled" in dump(tool, program.pid, code=1), "an unprofiled process")
    program.process.kill()
    program.process.wait()
    program = Program(path, library, "hardened:1,live:1")
    expect("hardened" in ask(tool, "start", program.pid, code=1), "a hardened process")
    expect("never profiled" in dump(tool, program.pid, code=1), "a hardened process")
    program.process.kill()
    program.process.wait()


@functools.lru_cache
def functions_of(path):
    """The planted functions: name, first address, size."""
    done = subprocess.run(["nm", "-S", path], capture_output=True, text=True, check=True)
    rows = [row.split() for row in done.stdout.splitlines() if " planted_" in row]
    return [(row[3], int(row[0], 16), int(row[1], 16)) for row in rows]


def check_file(path, library):
    """The file at exit has the planted sites; no tool is needed."""
    folder = tempfile.mkdtemp()
    heap = os.path.join(folder, "%p.heap-%p")
    program = Program(path, library, f"profile:1,profile_interval:{INTERVAL},profile_file:{heap}")
    program.go_on()
    program.wait()
    program.end()
    with open(heap.replace("%p", program.pid), encoding="utf-8") as file:
        sites, maps = file.read().split("MAPPED_LIBRARIES:")
    row = next(r.split() for r in maps.splitlines() if r.endswith(os.path.realpath(path)))
    base = int(row[0].split("-")[0], 16) - int(row[2], 16)
    live, allocated = {}, {}
    for line in sites.splitlines()[1:]:
        numbers, _, stack = line.partition("] @ ")
        if not stack:
            continue
        caller = int(stack.split()[0], 16) - 1 - base
        name = next((n for n, at, size in functions_of(path) if at <= caller < at + size), "")
        counts = [int(n) for n in numbers.replace("[", "").replace(":", "").split()]
        weight = 1 / (1 - math.exp(-OBJECT / INTERVAL))
        live[name] = live.get(name, 0) + counts[1] * weight
        allocated[name] = allocated.get(name, 0) + counts[3] * weight
    near(live["planted_hot"], 2 * MANY * OBJECT, "hot")
    near(live["planted_cold"], FEW * OBJECT, "cold")
    near(allocated["planted_passing"], 8 * MANY * OBJECT, "passing")
    expect(live["planted_passing"] < FEW * OBJECT / 10, f"{live}")
    # The process ends, and writes nothing, where another user has made something of the library's own name.
    kept = os.path.join(folder, "kept")
    with open(kept, "w", encoding="ascii") as file:
        file.write("kept")
    for other in ("pipe", "link", "file", "name"):
        program = Program(["sh", "-c", f"cd {folder} && exec {path}"], library, "profile:1")
        name, target = os.path.join(folder, f"ukmem.{program.pid}.heap"), os.path.join(folder, "target")
        if other == "pipe":
            os.mkfifo(name)
        elif other == "link":
            os.symlink(target, name)
        elif other == "name":
            os.link(kept, name)
        else:
            with open(name, "w", encoding="ascii"):
                pass
            if not os.geteuid():
                os.chown(name, 65534, 65534)
        program.go_on()
        program.wait()
        program.end()
        empty = os.geteuid() or other != "file" or not os.path.getsize(name)
        expect(empty and not os.path.exists(target), f"written to another's {other}")
        expect(os.path.getsize(kept) == len("kept"), f"written to another file's {other}")
    # Nor does a pipe that the user has named, if nobody reads it.
    os.mkfifo(os.path.join(folder, "read by nobody"))
    program = Program(path, library, f"profile:1,profile_file:{folder}/read by nobody")
    program.go_on()
    program.wait()
    program.end()
    check_folder_for_all(path, library, os.path.join(folder, "for all"))


def check_folder_for_all(path, library, folder):
    """In a folder like /tmp, what another user has put in the place of the user's own name is left alone."""
    other = 65534
    if os.geteuid():
        return
    os.mkdir(folder)
    os.chmod(folder, 0o1777)
    for made, owner, written in (("link", other, False), ("link", 0, True), ("file", other, False),
                                 ("file", 0, True), ("pipe", other, False), ("name", 0, False),
                                 ("nothing", 0, True)):
        program = Program(path, library, f"profile:1,profile_file:{folder}/%p.heap")
        name, target = os.path.join(folder, f"{program.pid}.heap"), os.path.join(folder, "target")
        with open(target, "w", encoding="ascii") as file:
            file.write("kept")
        if made == "link":
            os.symlink(target, name)
        elif made == "name":
            os.link(target, name)
        elif made == "pipe":
            os.mkfifo(name)
        elif made == "file":
            with open(name, "w", encoding="ascii") as file:
                file.write("kept")
        reader = os.open(name, os.O_RDONLY | os.O_NONBLOCK) if made == "pipe" else None
        if made != "nothing":
            os.chown(name, owner, owner, follow_symlinks=False)
        program.go_on()
        program.wait()
        program.end()
        if reader is not None:
            expect(not os.read(reader, 1), "written to another's pipe")
            os.close(reader)
            continue
        with open(name, encoding="utf-8") as file:
            text = file.read()
        expect(text.startswith("heap profile: ") if written else text == "kept",
               f"a {made} of user {owner}: {text[:40]!r}")


def main():
    tool, path, library, test = sys.argv[1:]
    if test == "file":
        return check_file(path, library)
    if test == "refusals":
        return check_refusals(tool, path, library)
    if test == "files":
        return check_files(tool, path, library)
    if test == "control":
        return check_control(tool, path, library)
    heap = os.path.join(tempfile.mkdtemp(), "%p.heap")
    program = Program(path, library, f"profile:1,profile_interval:{INTERVAL},profile_file:{heap}")
    {"sites": check_sites, "formats": check_formats, "pprof": check_pprof, "growth": check_growth,
     "flame": check_flame, "browser": check_browser}[test](tool, program)
    with open(heap.replace("%p", program.pid), encoding="utf-8") as file:
        text = file.read()
    expect(text.startswith("heap profile: ") and f"heap_v2/{INTERVAL}" in text and
           os.path.basename(path) in text.split("MAPPED_LIBRARIES:")[1], "the file at exit")
    return None


if __name__ == "__main__":
    main()
