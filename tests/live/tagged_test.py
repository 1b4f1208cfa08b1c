#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts of call sites from outside, with `ukmem allocinfo PID`.

usage: tagged_test.py TOOL TAGGED UNTAGGED
"""

import json
import subprocess
import sys


def expect(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def allocinfo(tool, pid, *options):
    done = subprocess.run([tool, "allocinfo", *options, str(pid)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stdout, done.stderr


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    tool, tagged, untagged = sys.argv[1:]
    with subprocess.Popen([tagged], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        expect(process.stdout.readline() == "ready\n", "the program does not run")
        code, out, err = allocinfo(tool, process.pid, "--json")
        expect(code == 0 and not err, f"{code}: {err}")
        sites = json.loads(out)["call_sites"]
        expect(list(json.loads(out)["ukmem"]) == ["version", "program", "pid"], out)
        found = [(s["function"], s["line"], s["bytes"], s["objects"]) for s in sites[:2]]
        expect(found == [("keep_a_hundred", 17, 100000, 100), ("keep_half", 23, 4800, 100)],
               f"{sites}")
        expect(sites[0]["file"].endswith("tagged.c"), sites[0]["file"])
        code, out, err = allocinfo(tool, process.pid)
        expect(code == 0 and not err, f"{code}: {err}")
        code, again, err = allocinfo(tool, process.pid, "--interval", "0.05", "--count", "3")
        expect(code == 0 and not err and again == "\n".join([out] * 3), f"{code}: {err}{again}")
        expect(out.splitlines()[1].split()[:2] == ["100000", "100"] and
               out.splitlines()[1].endswith("tagged.c:17 func:keep_a_hundred"), out)
    with subprocess.Popen([untagged, "quiet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        expect(process.stdout.readline() == "ready\n", "the program does not run")
        code, out, err = allocinfo(tool, process.pid)
        expect(code == 1 and "UKMEM_ALLOC_TAGS" in err and not out, f"{code}: {err}{out}")


main()
