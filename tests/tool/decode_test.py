#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks `ukmem decode`: a report about a planted overflow gets the lines of its source.

usage: decode_test.py TOOL DROP_IN CC [ARCHIVE INCLUDE: of a statically linked program]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "overflow.c")
GUARDED = os.path.join(HERE, "guarded.c")
LONG = "a-name-of-a-file-that-is-longer-than-most-" * 5


def expect(condition, message):
    if not condition:
        sys.exit(f"FAIL: {message}")


def line_of(mark, source=SOURCE):
    with open(source, encoding="ascii") as file:
        return next(n for n, line in enumerate(file, 1) if f"/* {mark} */" in line)


def report(tool, program):
    """What the program prints: it aborts, so its exit code is no success."""
    done = subprocess.run([tool, "run", "--conf", "slab_debug:FZPU", program], capture_output=True, text=True, check=False)
    expect(done.returncode != 0 and "Right guard overwritten" in done.stderr, done.stderr)
    return done.stderr


def decode(tool, text, *files):
    done = subprocess.run([tool, "decode", *files], input=text, capture_output=True, text=True, check=False)
    expect(done.returncode == 0 and not done.stderr, f"{done.returncode}: {done.stderr}")
    expect(len(done.stdout.splitlines()) == len(text.splitlines()), "a line is missing")
    return done.stdout


def check(tool, text, *files):
    out = decode(tool, text, *files)
    for mark, what in (("allocated", "allocated at parse"), ("freed", "found at finish")):
        place = f"{what} (overflow.c:{line_of(mark)}) by thread"
        expect(place in out, f"no '{place}':\n{out}")
    # Other lines stay as they are.
    expect(out.splitlines()[0] == text.splitlines()[0], out)


def split_debug(file, debug):
    """Moves the debug information of @file to @debug; the file keeps its name and a checksum."""
    subprocess.run(["objcopy", "--only-keep-debug", file, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", file], check=True)


def check_guarded(tool, compiler, folder):
    """KFENCE's report about code in a library that is stripped, by a program that is."""
    library, program = os.path.join(folder, f"lib{LONG[:200]}.so"), os.path.join(folder, "guarded")
    subprocess.run([compiler, "-g", "-O1", "-fno-omit-frame-pointer", "-DLIBRARY", "-fPIC", "-shared", GUARDED, "-o", library],
                   check=True)
    subprocess.run([compiler, "-s", "-O1", "-fno-omit-frame-pointer", GUARDED, "-o", program, library, f"-Wl,-rpath,{folder}"],
                   check=True)
    if shutil.which("objcopy"):
        os.mkdir(os.path.join(folder, ".debug"))
        split_debug(library, os.path.join(folder, ".debug", "library.debug"))
    done = subprocess.run([tool, "run", "--conf", "kfence.sample_interval:1", program], capture_output=True, text=True,
                          timeout=100, check=False)
    expect(done.returncode == 0, f"{done.returncode}: {done.stderr}")
    out = decode(tool, done.stderr, folder)
    used, allocated, freed = (rf"guarded\.c:{line_of(mark, GUARDED)}\)" for mark in ("used", "allocated", "freed"))
    stack = r"(ukmem:     .*\n)*"
    expect(re.search(rf"BUG: KFENCE: use-after-free read in use \({used}\n"
                     rf"ukmem:   use-after-free read at .*\nukmem:     use \({used}\n{stack}"
                     r"ukmem:   kfence-#.*\n"
                     rf"ukmem:   allocated by .*\nukmem:     take \({allocated}\n{stack}"
                     rf"ukmem:   freed by .*\nukmem:     give_back \({freed}\n", out), out)


def check_static(tool, compiler, archive, include, folder):
    """A program without libraries: names of functions come from its debug information alone."""
    for flags in (["-static"], ["-static-pie", "-fPIE"]):
        program = os.path.join(folder, "static")
        done = subprocess.run([compiler, "-g", "-O1", *flags, "-DARCHIVE", "-I", include, SOURCE, archive, "-o", program],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"SKIP: this compiler links no static program: {done.stderr}")
            sys.exit(77)
        done = subprocess.run(program, capture_output=True, text=True, check=False,
                              env=dict(os.environ, UKMEM_CONF="slab_debug:FZPU"))
        expect(done.returncode != 0 and "(static+0x" in done.stderr, done.stderr)
        check(tool, done.stderr, program)


def main():
    tool, os.environ["UKMEM_MALLOC_LIB"], compiler, *static = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        if static:
            check_static(tool, compiler, *static, folder)
            return
        for name, flags in (("pie", ["-fPIE", "-pie"]), ("fixed", ["-fno-pie", "-no-pie"]), ("exported", ["-rdynamic"])):
            program = os.path.join(folder, name)
            subprocess.run([compiler, "-g", "-O1", *flags, SOURCE, "-o", program], check=True)
            check(tool, report(tool, program), program)
        text = report(tool, program)
        check(tool, text, folder)
        # From a file, and beside a library that the report does not name.
        saved = os.path.join(folder, "report")
        with open(saved, "w", encoding="ascii") as file:
            file.write(text)
        done = subprocess.run([tool, "decode", "--report", saved, program], capture_output=True, text=True, check=True)
        expect(done.stdout == decode(tool, text, program), done.stdout)
        program = os.path.join(folder, LONG)
        shutil.copy(os.path.join(folder, "pie"), program)
        check(tool, report(tool, program), program)
        program = os.path.join(folder, "a name+0x1 (of words)")
        shutil.copy(os.path.join(folder, "pie"), program)
        check(tool, report(tool, program), program)
        check_guarded(tool, compiler, folder)
        # Debug information in a file of its own.
        if shutil.which("objcopy"):
            program = os.path.join(folder, "pie")
            text = report(tool, program)
            split_debug(program, program + ".debug")
            check(tool, text, program)
            os.unlink(program + ".debug")
        # A line may be long, and the last one may have no end.
        long = "x" * 100000 + " f+0x1 (" + "y" * 100000 + " ((((" + "z" * 100000 + ")+0x1)"
        for text in (long + "\n", long, "a\nb", "a+0x1 (b+0x2"):
            expect(decode(tool, text, program) == text, f"changed: {text[:40]!r}")
        # A report that cannot be read to its end.
        done = subprocess.run([tool, "decode", "--report", "/proc/self/mem", program], capture_output=True, text=True,
                              check=False)
        expect(done.returncode == 1 and "/proc/self/mem: " in done.stderr, f"{done.returncode}: {done.stderr}")
        # Without any, the text stays.
        expect(decode(tool, text, program) == text, "changed without debug information")
        expect(decode(tool, "no report (x+0xzz) (\n", program) == "no report (x+0xzz) (\n", "a line of something else")
    done = subprocess.run([tool, "decode", "/no/such/file"], capture_output=True, text=True, check=False)
    expect(done.returncode == 2 and "/no/such/file" in done.stderr, f"{done.returncode}: {done.stderr}")
    expect(re.search("FILE", subprocess.run([tool, "help", "decode"], capture_output=True, text=True, check=True).stdout), "")
    print("reports are decoded")


if __name__ == "__main__":
    main()
