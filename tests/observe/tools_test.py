#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Heap profilers see a program on the drop-in as they see it on libc's malloc.

    tools_test.py heaptrack|valgrind|massif LIBRARY PROGRAM
    tools_test.py memray LIBRARY PYTHON

PROGRAM (leak.c) allocates 1000 blocks of 100 bytes and loses 30 of 3000. memray is that of
build/memray (scripts/install-deps check-all), or PYTHON's; UKMEM_MEMRAY_PYTHON names another Python
that has it. Exit code 77: the tool is not installed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(77)


def expect(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def run(*command, **variables):
    """Standard output and error together; the environment has no settings but @variables."""
    environment = {name: value for name, value in os.environ.items() if name != "UKMEM_CONF"}
    environment.update(variables)
    done = subprocess.run([str(word) for word in command], env=environment, text=True, timeout=250,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    expect(done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def need(tool):
    if not shutil.which(tool):
        skip(f"{tool} is not installed")


def check_heaptrack(library, program, directory):
    """It counts the program's calls, and the drop-in serves them."""
    need("heaptrack")
    text = run("heaptrack", "-o", directory / "data", program, LD_PRELOAD=library,
               UKMEM_CONF="show:slab")
    expect(re.search(r"leaked allocations:\s+30\n", text), text[-2000:])
    served = [int(n) for n in re.findall(r"kmalloc-112/alloc_fastpath: (\d+)", text)]
    slow = [int(n) for n in re.findall(r"kmalloc-112/alloc_slowpath: (\d+)", text)]
    expect(any(1000 <= a + b < 1010 for a, b in zip(served, slow)), f"{served} {slow}")
    data = next(directory.glob("data*"))
    report = run("heaptrack_print", "-l", "1", data)
    leaks = report[report.index("MEMORY LEAKS"):]
    expect(re.search(r"90\.00K leaked over 30 calls from\s+leak\s+at \S*leak\.c", leaks), leaks)


def check_valgrind(library, program, _):
    need("valgrind")
    text = run("valgrind", "--leak-check=full", program, LD_PRELOAD=library)
    expect("total heap usage: 1,030 allocs, 1,000 frees, 190,000 bytes allocated" in text, text)
    expect(re.search(r"90,000 bytes in 30 blocks are definitely lost.*\n.*malloc.*\n.*leak \(leak.c",
                     text), text)
    expect("ERROR SUMMARY: 1 errors" in text, text)


def check_massif(library, program, directory):
    need("valgrind")
    out = directory / "massif"
    run("valgrind", "--tool=massif", f"--massif-out-file={out}", program, LD_PRELOAD=library)
    text = run("ms_print", out)
    expect(re.search(r"90,000B\).*leak \(leak\.c", text), text)


MEMRAY_PROGRAM = """
blocks = []
def planted():
    for _ in range(100):
        blocks.append(bytes(200000))
planted()
"""


OWN_PYTHON = Path(__file__).resolve().parents[2] / "build/memray/bin/python"


def check_memray(library, python, directory):
    python = os.environ.get("UKMEM_MEMRAY_PYTHON", OWN_PYTHON if OWN_PYTHON.exists() else python)
    if subprocess.run([python, "-c", "import memray"], capture_output=True, check=False).returncode:
        skip(f"{python} has no memray")
    program, data = directory / "program.py", directory / "data"
    program.write_text(MEMRAY_PROGRAM, encoding="utf-8")
    text = run(python, "-m", "memray", "run", "-o", data, program, LD_PRELOAD=library,
               PYTHONMALLOC="malloc", UKMEM_CONF="show:stats")
    expect(re.search(r"^ *allocated", text, re.M) or "gauges" in text, "not on the drop-in: " + text)
    run(python, "-m", "memray", "stats", "--json", "-o", directory / "stats.json", data)
    top = json.loads((directory / "stats.json").read_text(encoding="utf-8"))
    top = top["top_allocations_by_size"][0]
    expect(top["location"].startswith("planted:") and 20000000 < top["size"] < 20100000, top)


def main():
    kind, library, subject = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="ukmem-tools-") as directory:
        {"heaptrack": check_heaptrack, "valgrind": check_valgrind, "massif": check_massif,
         "memray": check_memray}[kind](library, subject, Path(directory))


if __name__ == "__main__":
    main()
