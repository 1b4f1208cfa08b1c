#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The gdb script, on a process that gdb has stopped and on its core file.

    gdb_test.py SCRIPT PROGRAM CHURN LIBRARY

PROGRAM (held.c) is linked to the library; CHURN (churn.c) runs on the drop-in LIBRARY. Exit code
77: gdb is not installed, or may not trace here.
"""

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


def gdb(*lines, arguments=()):
    with tempfile.NamedTemporaryFile("w", suffix=".gdb", encoding="utf-8") as script:
        print("set auto-load no", "set pagination off", "set width 0", "set confirm off",
              "set startup-with-shell off", "set breakpoint pending on", *lines, sep="\n",
              file=script, flush=True)
        run = subprocess.run(["gdb", "-batch", "-nx", "-x", script.name, *map(str, arguments)],
                             capture_output=True, text=True, timeout=250, check=False)
    if "ptrace" in run.stderr and "not permitted" in run.stderr:
        skip("gdb may not trace here")
    return run.stdout, run.stderr


VARIABLES = ["used", "inside", "waiting", "in_slab", "block", "pages", "checked", "checked_freed",
             "foreign"]


def questions():
    yield "echo QUESTIONS\\n"
    for name in VARIABLES:
        yield f"echo == {name}\\n"
        yield f"ukmem address {name}"
    yield "echo == caches\\n"
    yield "ukmem caches"
    yield "echo == witness\\n"
    yield "ukmem caches witness"
    yield "echo == none\\n"
    yield "ukmem address"


def answers(text):
    text = text[text.index("QUESTIONS"):]
    parts = re.split(r"^== (\w+)\n", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def check_answers(found):
    def matches(name, pattern):
        expect(re.fullmatch(pattern, found[name], re.S), f"{name}: {found[name]}\nnot {pattern}")

    slab = r"  slab 0x[0-9a-f]+ of 3 pages: 59 of 61 objects free in it\n"
    at = r"0x[0-9a-f]+"
    matches("used", rf"({at}): object \d+ of cache witness, 200 bytes at \1: in use\n{slab}")
    start = found["used"].partition(":")[0]
    matches("inside", rf"{at}: byte 7 of object \d+ of cache witness, 200 bytes at {start}: "
                      rf"in use\n{slab}")
    matches("waiting", rf"({at}): object \d+ of cache witness, 200 bytes at \1: free, in the array "
                       rf"of (CPU \d+|threads without a CPU)\n{slab}")
    matches("in_slab", rf"({at}): object \d+ of cache witness, 200 bytes at \1: free, in its slab\n"
                       rf"{slab}")
    matches("block", rf"({at}): a block of whole pages, 327680 bytes at \1: in use\n")
    matches("pages", rf"({at}): 8 pages at \1: in use\n")
    matches("checked", rf"({at}): object \d+ of cache debugged \(debugged\), 100 bytes at \1: "
                       rf"in use\n  slab [^\n]+\n  allocated by take_checked( \+ \d+)? "
                       rf"\(\S*held.c:\d+\), thread \d+, CPU \d+, at \d+ ms\n")
    matches("checked_freed", rf"({at}): object .* of cache debugged \(debugged\), 100 bytes at \1: "
                             rf"free\n.*\n  allocated by take_checked.*\n  freed by main.*\n")
    matches("foreign", rf"{at}: no memory of ukmem\n")
    row = re.search(r"^witness +200 +1 +61 +1 +12 +1 -$", found["caches"], re.M)
    expect(row, f"no row of witness: {found['caches']}")
    expect(re.search(r"^debugged +100 +1 +\d+ +1 +\d+ +\d+ FZPU$", found["caches"], re.M),
           found["caches"])
    expect(re.search(r"^kmalloc-64 +64 ", found["caches"], re.M), "no kmalloc-64")
    expect(len(found["witness"].splitlines()) == 2, found["witness"])


def check_linked(script, program):
    with tempfile.TemporaryDirectory() as directory:
        core = Path(directory) / "core"
        out, errors = gdb(f"source {script}", "ukmem caches", arguments=[program])
        expect("has not been used yet" in errors, f"before the start: {out} {errors}")
        out, errors = gdb("break stop_here", "run", f"source {script}",
                          f"generate-core-file {core}", *questions(), arguments=[program])
        expect("QUESTIONS" in out, f"{out}\n{errors}")
        expect("usage: ukmem address" in errors, errors)
        live = answers(out)
        check_answers(live)
        expect(core.exists(), f"{out} {errors}")
        out, errors = gdb(f"source {script}", *questions(), arguments=[program, core])
        dead = answers(out)
        check_answers(dead)
        for name in VARIABLES:
            expect(live[name] == dead[name], f"{name}: live {live[name]}, core {dead[name]}")


def check_preloaded(script, churn, library):
    """All objects of a program on the drop-in, which is in the middle of everything."""
    out, errors = gdb(f"set environment LD_PRELOAD {library}", "break main", "run",
                      "break printf", "watch object[19999]", "continue", "continue",
                      f"source {script}", "echo QUESTIONS\\n",
                      "ukmem address object[0]", "ukmem address object[19998]",
                      "ukmem caches kmalloc-64", arguments=[churn])
    lines = out[out.index("QUESTIONS"):].splitlines() if "QUESTIONS" in out else []
    expect(len(lines) >= 6, f"{out}\n{errors}")
    for line in (lines[1], lines[3]):
        expect(re.search(r": object \d+ of cache kmalloc-(64|192|288), \d+ bytes at \S+: in use$",
                         line), line)
    row = next(line for line in lines if line.startswith("kmalloc-64 "))
    expect(6600 <= int(row.split()[2]) <= 7000, row)


def check_guarded(script, program):
    """Objects in KFENCE's pool, which lies in no zone."""
    out, errors = gdb("set environment UKMEM_CONF kfence.sample_interval:1", "set environment GUARDED 1",
                      "break stop_here", "run", f"source {script}", "echo QUESTIONS\\n",
                      "echo == used\\n", "ukmem address guarded", "echo == inside\\n",
                      "ukmem address (char *)guarded + 5", "echo == freed\\n", "ukmem address guarded_freed",
                      "echo == beside\\n", "ukmem address (char *)guarded + 61", "echo == row\\n",
                      "ukmem caches kmalloc-64", arguments=[program])
    expect("QUESTIONS" in out, f"{out}\n{errors}")
    found = answers(out)
    what = r"an object of kmalloc-64 that KFENCE guards, 61 bytes at (0x[0-9a-f]+): "
    who = r"  allocated by take_guarded( \+ \d+)? \(\S*held.c:\d+\), thread \d+\n"
    for name, pattern in (("used", rf"\S+: {what}in use\n{who}"),
                          ("inside", rf"\S+: byte 5 of {what}in use\n{who}"),
                          ("freed", rf"\S+: {what}free, in quarantine\n{who}  freed by main.*\n"),
                          ("beside", r"\S+: in KFENCE's pool, in no object\n")):
        expect(re.fullmatch(pattern, found[name], re.S), f"{name}: {found[name]}")
    expect(re.search(r"^kmalloc-64 +64 +[1-9]", found["row"], re.M), found["row"])


def check_calls(script, program):
    """An expression calls no function of the program, and gdb's setting stays as it was."""
    attempts = ["python", "for expression in ('stop_here()', '\"text\"', 'no_such_name'):", "    try:",
                "        gdb.execute('ukmem address ' + expression)", "    except gdb.error as error:",
                "        print('error:', error)", "end"]
    out, errors = gdb("break stop_here", "run", f"source {script}", "echo QUESTIONS\\n", *attempts,
                      "show may-call-functions", arguments=[program])
    expect("QUESTIONS" in out, f"{out}\n{errors}")
    found = out[out.index("QUESTIONS"):].splitlines()[1:]
    expect(len(found) == 4 and all("may-call-functions is off" in line for line in found[:2]), found)
    expect(found[2] == 'error: No symbol "no_such_name" in current context.', found)
    expect("Python Exception" not in errors, errors)
    expect(found[3].endswith("is on."), found)


def main():
    script, program, churn, library = sys.argv[1:]
    if not shutil.which("gdb"):
        skip("gdb is not installed")
    out, _ = gdb("python print('yes')")
    if "yes" not in out:
        skip("this gdb has no Python")
    check_linked(script, program)
    check_guarded(script, program)
    check_calls(script, program)
    check_preloaded(script, churn, library)


if __name__ == "__main__":
    main()
