#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The static probes: what the libraries' notes say, and what tools see.

    probes_test.py notes LIBRARY...            readelf lists all probes; their arguments have places
    probes_test.py gdb LIBRARY PROGRAM         gdb stops at each and reads its arguments
    probes_test.py bpftrace LIBRARY PROGRAM    counts by bpftrace are those of the library
    probes_test.py documents LIBRARY FILE      bpftrace takes the commands that a document shows

Exit code 77: a tool is not installed, or may not do it here.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

# The arguments of each.
PROBES = {"refill": 3, "flush": 3, "slab_new": 4, "slab_free": 4, "purge": 4, "reclaim": 2,
          "alloc_fail": 3}
# Of x86-64 and of AArch64: a register, a place behind one, a constant.
PLACE = re.compile(r"8@(%r\w+|-?\d*\(%r\w+\)|\$-?\d+|x\d+)")
SETTING = "limit:64m,dirty_max:0,dirty_decay_ms:0,config_files:0"


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(77)


def expect(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def need(tool):
    if not shutil.which(tool):
        skip(f"{tool} is not installed")


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def check_notes(*libraries):
    need("readelf")
    for library in libraries:
        text = output("readelf", "-nW", library)
        notes = re.findall(r"Provider: ukmem\s+Name: (\w+)\s+Location: (\S+), Base: (\S+), "
                           r"Semaphore: (\S+)\s+Arguments: (.*)", text)
        names = {note[0] for note in notes}
        expect(names == set(PROBES), f"{library}: {sorted(names)}")
        code = [(int(start, 16), int(start, 16) + int(size, 16)) for start, size in
                re.findall(r" \.text(?:\.start|\.run)? +PROGBITS +(\w+) \w+ (\w+)", output("readelf", "-SW", library))]
        expect(code, f"{library} has no code")
        for name, location, base, semaphore, arguments in notes:
            expect(any(start <= int(location, 16) < end for start, end in code),
                   f"{name}: at {location}")
            expect(int(base, 16) and not int(semaphore, 16), f"{name}: {base} {semaphore}")
            places = arguments.split()
            expect(len(places) == PROBES[name], f"{name}: {arguments}")
            for place in places:
                expect(PLACE.fullmatch(place), f"{name}: no tool understands {place}")
        print(f"{library}: {len(notes)} places of {len(names)} probes")


def gdb_commands():
    """Stops at each probe; goes on, and says what the arguments are."""
    text = {"refill": "s", "flush": "s", "slab_new": "s", "slab_free": "s", "alloc_fail": "s"}
    lines = ["set pagination off", "set confirm off", "set breakpoint pending on",
             "set width 0", "break main", "run"]
    for name, number in PROBES.items():
        form = " ".join(["%s" if name in text else "%lu"] + ["%lu"] * (number - 1))
        values = ", ".join((f"(char *)$_probe_arg{i}" if name in text and not i else
                            f"(unsigned long)$_probe_arg{i}") for i in range(number))
        lines += [f"break -probe-stap ukmem:{name}", "commands", "silent",
                  f'printf "PROBE {name} {form}\\n", {values}', "continue", "end"]
    return lines + ["continue"]


def check_gdb(library, program):
    need("gdb")
    with tempfile.NamedTemporaryFile("w", suffix=".gdb", encoding="utf-8") as script:
        print("set auto-load no", f"set environment LD_PRELOAD {library}",
              f"set environment UKMEM_CONF {SETTING}", "set startup-with-shell off",
              *gdb_commands(), sep="\n", file=script, flush=True)
        run = subprocess.run(["gdb", "-batch", "-nx", "-x", script.name, program],
                             capture_output=True, text=True, timeout=100, check=False)
    if "ptrace" in run.stderr and "not permitted" in run.stderr:
        skip("gdb may not trace here")
    hits = {}
    for line in run.stdout.splitlines():
        if line.startswith("PROBE "):
            _, name, *values = line.split()
            hits.setdefault(name, []).append(values)
    expect(set(hits) == set(PROBES), f"{sorted(hits)}\n{run.stdout[-2000:]}\n{run.stderr[-2000:]}")
    for name in ("refill", "flush"):
        for cache, node, objects in hits[name]:
            expect(re.fullmatch(r"[a-z_]+(-\d+)?", cache), f"{name}: no name of a cache: {cache}")
            expect(node == "0" and 0 < int(objects) < 10000, f"{name}: {node} {objects}")
    made = {}  # pages by cache; the first slabs come before main
    for name in ("slab_new", "slab_free"):
        for cache, address, pages, node in hits[name]:
            expect(int(address) % 4096 == 0 and node == "0", f"{name}: {address} {node}")
            made.setdefault(name, {}).setdefault(cache, []).append(int(pages))
    for cache in ("kmalloc-64", "kmalloc-192", "kmalloc-288"):
        most, freed = sum(made["slab_new"][cache]), sum(made["slab_free"][cache])
        expect(100 < freed <= most + 16, f"{cache}: {most} pages made, {freed} freed")
    (what, size, flags), *others = [[" ".join(v[:-2]), *v[-2:]] for v in hits["alloc_fail"]]
    expect(not others and (what, size) == ("a block", "1000000"), f"{what} {size}: {others}")
    expect(int(flags) & 0x400, f"flags {flags}: it may wait")
    expect(all(error == "0" and int(pages) for _, pages, _, error in hits["purge"]), "purge")
    expect(any(int(asked) == 245 for asked, _ in hits["reclaim"]), f"reclaim: {hits['reclaim']}")
    print({name: len(values) for name, values in hits.items()})


def start_bpftrace(script):
    """A bpftrace that has attached to its probes."""
    tracer = subprocess.Popen(["bpftrace", "-e", script], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    line = tracer.stdout.readline()
    if "Attaching" in line:
        line = tracer.stdout.readline()
    if "ready" not in line:
        tracer.kill()
        skip(f"bpftrace cannot attach here: {line} {tracer.communicate()[1][:500]}")
    return tracer


def check_bpftrace(library, program):
    need("bpftrace")
    count = " ".join(f"usdt:{library}:ukmem:{name} /comm == \"{os.path.basename(program)}\"/ "
                     f"{{ @[\"{name}\"] = count(); }}" for name in PROBES)
    # BEGIN runs before the other probes are attached, the first interval after.
    tracer = start_bpftrace(f"interval:ms:100 {{ printf(\"ready\\n\"); }} {count}")
    time.sleep(0.2)
    environment = dict(os.environ, LD_PRELOAD=library, UKMEM_CONF=SETTING + ",show:slab")
    run = subprocess.run([program], env=environment, capture_output=True, text=True, check=True)
    time.sleep(0.2)
    tracer.send_signal(2)
    text, errors = tracer.communicate(timeout=60)
    seen = {name: int(n) for name, n in re.findall(r"@\[(\w+)\]: (\d+)", text)}
    expect(set(seen) == set(PROBES), f"{seen} {errors}")

    def attribute(name):
        return sum(int(n) for n in re.findall(rf"/{name}: (\d+)", run.stderr))

    for probe, name in (("slab_new", "alloc_slab"), ("slab_free", "free_slab"),
                        ("refill", "alloc_refill"), ("flush", "free_flush")):
        expect(seen[probe] == attribute(name), f"{probe}: {seen[probe]}, {attribute(name)}")
    expect(seen["alloc_fail"] == 1, f"{seen}")
    print(seen)


def check_documents(library, document):
    need("bpftrace")
    with open(document, encoding="utf-8") as file:
        scripts = re.findall(r"^bpftrace -e '(.*?)'", file.read(), re.M | re.S)
    expect(scripts, "there are none")
    seen = set()
    for script in scripts:
        seen |= set(re.findall(r"ukmem:(\w+)", script))
        run = subprocess.run(["bpftrace", "-d", "-e", script.replace("LIB", library)],
                             capture_output=True, text=True, check=False)
        expect(run.returncode == 0 and "syntax error" not in run.stderr, f"{script}: {run.stderr}")
    expect(seen <= set(PROBES) or seen == {"*"} | set(PROBES), f"no probes: {seen - set(PROBES)}")
    print(f"{len(scripts)} commands")


def main():
    kind, *arguments = sys.argv[1:]
    {"notes": check_notes, "gdb": check_gdb, "bpftrace": check_bpftrace,
     "documents": check_documents}[kind](*arguments)


if __name__ == "__main__":
    main()
