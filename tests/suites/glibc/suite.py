#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""glibc's own tests of malloc, and of what allocates by it, on the drop-in.

    suite.py SOURCE WORK LIBRARY WITNESS [--seconds N] [--list FILE]

SOURCE is glibc's source as tests/suites/get_source unpacks it. The programs that programs.txt (or
FILE) names are compiled in WORK, with the headers of shim.h in the place of glibc's <support/...>, and
run without and with the library. A program fails that exits with 0 without the library only, three
times in a row. One that does not exit with 0 without it says nothing here, and is printed. With
--seconds those of malloc/ run in an order that UKMEM_TEST_SEED chooses, as many as are begun within that time.
Exit status: 0; 1; 77 without sources.
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
TRIES = 3
TIMEOUT = 120
# Seconds each: not with --seconds.
LONG = {f"malloc/tst-{name}.c" for name in ("mallocfork2", "mallocfork3", "malloc-thread-fail", "malloc-tcache-leak")}
# Headers of these names include shim.h.
HEADERS = ["support/" + name for name in (
    "check.h support.h test-driver.h xthread.h xunistd.h temp_file.h xdlfcn.h capture_subprocess.h "
    "xstdio.h timespec.h xsignal.h namespace.h xtime.h xstdlib.h xmemstream.h").split()]
HEADERS += ["libc-diag.h", "array_length.h", "malloc-size.h"]
# Warnings are glibc's own matter, and no call may be taken for one of the compiler's.
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g1", "-w", "-fno-builtin",
         "-Werror=implicit-function-declaration"]


def read_list(path):
    """The programs to run, and {program: why it is not run}."""
    run, left_out = [], {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, _, reason = line.partition(" ")
        if not name or name.startswith("#"):
            continue
        if reason:
            left_out[name] = reason.strip()
        else:
            run.append(name)
    return run, left_out


def run_group(program, environment, folder):
    """Run a program; its exit status, or "late", and what it said. None of its processes stays."""
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen([str(program)], env=environment, cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=output, stderr=subprocess.STDOUT, start_new_session=True) as process:
            try:
                status = process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                status = "late"
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        output.seek(0)
        return status, output.read().decode(errors="replace")


class Suite:
    """Where sources and programs are, and how they are compiled and run."""

    def __init__(self, args):
        self.source, self.work = args.source, args.work
        self.library, self.witness = args.library, args.witness
        self.headers = self.work / "include"
        for header in HEADERS:
            self.write_header(header, '#include "shim.h"\n')
        self.write_header("support/test-driver.c", '#include "shim_main.h"\n')
        # For "../test-skeleton.c", as seen from the folder "quoted".
        self.write_header("test-skeleton.c", '#define SHIM_SKELETON\n#include "shim_main.h"\n')
        (self.headers / "quoted").mkdir(exist_ok=True)
        self.shim = self.work / "shim.o"
        self.compile(["-c", HERE / "shim.c", "-o", self.shim])

    def write_header(self, name, text):
        """A header among those that tests find."""
        path = self.headers / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")

    def compile(self, words):
        """Run the compiler; why it failed, or nothing."""
        command = ["cc", *FLAGS, "-iquote", self.headers / "quoted", "-I", self.headers, "-I", HERE,
                   "-I", self.source, "-I", self.source / "sysdeps/pthread", *words]
        run = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        return run.stderr if run.returncode else ""

    def build(self, name):
        """Compile one program, unless it is there and newer than what it is made of."""
        program = self.work / name.replace("/", ".").removesuffix(".c")
        newest = max(path.stat().st_mtime for path in [self.source / name, *HERE.glob("shim*")])
        if program.exists() and program.stat().st_mtime > newest:
            return program, ""
        return program, self.compile([self.source / name, self.shim, "-o", program, "-lpthread", "-ldl", "-lm"])

    def run(self, program, with_library):
        """Run a program in a folder of its own; its exit status, or what it was, and what it said."""
        with tempfile.TemporaryDirectory(prefix="ukmem-suite.", ignore_cleanup_errors=True) as folder:
            environment = dict(os.environ, LC_ALL="C", TZ="UTC", TMPDIR=folder)
            testimony = pathlib.Path(folder, "witness")
            if with_library:
                environment |= {"LD_PRELOAD": f"{self.witness}:{self.library}", "UKMEM_WITNESS": str(testimony)}
            status, said = run_group(program, environment, folder)
            if with_library:
                rows = testimony.read_text(encoding="utf-8").splitlines() if testimony.exists() else []
                if not rows or any(row.split("\t")[0] != str(self.library) for row in rows):
                    return "not on the library", said
            return status, said

    def judge(self, name):
        """("ok", "nothing to compare" or "FAIL", what to print) of one program."""
        program, error = self.build(name)
        if error:
            return "FAIL", f"{name} cannot be compiled\n{error}"
        for _ in range(TRIES):
            without, said_without = self.run(program, False)
            if without != 0:
                return "nothing to compare", f"{name}: {without} without the library: {said_without[-300:]}"
            status, said = self.run(program, True)
            if status == 0:
                return "ok", ""
            print(f"{name}: {status} with the library", flush=True)
        return "FAIL", f"{name}: {status} with the library, {TRIES} times\n{said[-3000:]}"


def main():
    """Run the list; 0, 1 if a program fails with the library only, 77 without sources."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("source", "work", "library", "witness"):
        parser.add_argument(name, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--list", type=pathlib.Path, default=HERE / "programs.txt")
    args = parser.parse_args()
    if not (args.source / "malloc/tst-malloc.c").exists():
        print(f"SKIP: no glibc sources in {args.source}; tests/suites/get_source fetches them")
        return SKIPPED
    names, left_out = read_list(args.list)
    # Another version of glibc has others.
    present = [name for name in names if (args.source / name).exists()]
    for path in sorted((args.source / "malloc").glob("tst-*.c")):
        name = str(path.relative_to(args.source))
        if name not in names and name not in left_out:
            print(f"not known: {name}; programs.txt does not say whether it can be run")
    if args.seconds:
        seed = os.environ.get("UKMEM_TEST_SEED") or str(random.randrange(1 << 32))
        print(f"UKMEM_TEST_SEED={seed}")
        present = [name for name in present if name.startswith("malloc/") and name not in LONG]
        random.Random(seed).shuffle(present)
    suite = Suite(args)
    end = time.monotonic() + (args.seconds or float("inf"))
    counts = {"ok": 0, "nothing to compare": 0, "FAIL": 0, "not begun": 0}

    def in_time(name):
        return suite.judge(name) if time.monotonic() < end else ("not begun", "")

    with ThreadPoolExecutor(2) as pool:
        for outcome, text in pool.map(in_time, present):
            counts[outcome] += 1
            if text:
                print(f"{outcome}: {text}", flush=True)
    print(", ".join(f"{outcome}: {count}" for outcome, count in counts.items())
          + f"; left out with a reason: {len(left_out)}")
    return 1 if counts["FAIL"] or not counts["ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
