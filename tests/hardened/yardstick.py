#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The programs by which the authors of hardened_malloc test it, on the drop-in.

    yardstick.py LIBRARY DOCUMENT [--update]

HARDENED_MALLOC_SOURCE, by default build/hardened_malloc, is a checkout of
github.com/GrapheneOS/hardened_malloc; nothing of it is in this repository. Its programs in the folder
"test" are compiled and linked with LIBRARY, and run in each of MODES. Each must end as test_smc.py
there says: the exit status or signal, and the output where it looks at it. Messages on stderr
are hardened_malloc's own, and are not compared. A program that test_smc.py does not name must exit
with 0. The last mode must meet every expectation, and the table in DOCUMENT must be what was found;
--update writes it there. Exit status: 0; 1; 77 without a checkout.
"""

import argparse
import ast
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
MODES = [("default", ""), ("`slab_debug:FZP`", "slab_debug:FZP"), ("`hardened:1`", "hardened:1")]
# KFENCE finds some of these bugs, by chance.
ALWAYS = "kfence.sample_interval:0"
# Findings that the order of objects decides must hold each time.
RUNS = 3
COMMON = ["-O3", "-w", "-D_GNU_SOURCE", "-DSLAB_CANARY=true", "-DCONFIG_EXTENDED_SIZE_CLASSES=true",
          "-include", "stdbool.h"]
LANGUAGES = {".c": ["cc", "-std=gnu2x"], ".cc": ["c++", "-std=c++17", "-fsized-deallocation"]}


def expectations(script):
    """{program: (exit status, output or None)} of test_smc.py, which is read, not run."""
    found = {}
    for method in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if not (isinstance(method, ast.FunctionDef) and method.name.startswith("test_")):
            continue
        program = status = output = None
        for call in ast.walk(method):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            if call.func.attr == "run_test":
                program = ast.literal_eval(call.args[0])
            elif call.func.attr == "assertEqual":
                subject = ast.unparse(call.args[0])
                if subject == "returncode":
                    status = ast.literal_eval(call.args[1])
                elif subject.startswith("stdout"):
                    output = ast.literal_eval(call.args[1])
        if program is None or status is None:
            sys.exit(f"FAIL: {script}: {method.name} is not understood")
        found[program] = (status, output)
    return found


def compile_program(source, library, folder):
    """Compile one program and link it with the library; its path."""
    program = folder / source.stem
    compiler = LANGUAGES[source.suffix]
    command = [*compiler, *COMMON, str(source), "-o", str(program), "-pthread", str(library),
               f"-Wl,-rpath,{library.parent}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"FAIL: {source} cannot be compiled\n{run.stderr}")
    return program


def meets(program, conf, status, output):
    """Whether the program ends as expected each time; how it ended, if not."""
    environment = dict(os.environ, UKMEM_CONF=",".join(filter(None, [conf, ALWAYS])))
    for _ in range(RUNS):
        run = subprocess.run([str(program)], env=environment, capture_output=True, timeout=120, check=False)
        if run.returncode != status or (output is not None and run.stdout != output.encode()):
            return False, f"{run.returncode}: {run.stdout[:200]!r} {run.stderr[:200]!r}"
    return True, ""


def expected(status, output):
    """The expectation in words."""
    if status < 0:
        return signal.Signals(-status).name
    return f"exit {status}" + (", its output" if output is not None else "")


def replace_table(text, table):
    """The document with the table that has programs in its first column replaced."""
    found = re.compile(r"\| program \| expected \|.*?\n(?=\n|\Z)", re.DOTALL)
    if len(found.findall(text)) != 1:
        sys.exit("FAIL: the document has no table of programs")
    return found.sub(lambda _: table, text)


def main():
    """Run all programs in all modes; 0, 1, or 77 without a checkout."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("document", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    checkout = pathlib.Path(os.environ.get("HARDENED_MALLOC_SOURCE") or ROOT / "build/hardened_malloc")
    folder = checkout / "test"
    if not (folder / "test_smc.py").exists():
        print(f"SKIP: no checkout of hardened_malloc in {checkout} (HARDENED_MALLOC_SOURCE); tests/README.md says which")
        return SKIPPED

    promises = expectations(folder / "test_smc.py")
    sources = sorted(path for path in folder.iterdir() if path.suffix in LANGUAGES)
    missing = set(promises) - {path.stem for path in sources}
    if missing or not sources:
        sys.exit(f"FAIL: programs of {folder} that are not there: {missing}")
    header = ["program", "expected", *(name for name, _ in MODES)]
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    met = [0] * len(MODES)
    broken = 0
    with tempfile.TemporaryDirectory(prefix="ukmem-yardstick.") as work, ThreadPoolExecutor(2) as pool:
        programs = pool.map(lambda path: compile_program(path, args.library, pathlib.Path(work)), sources)
        for program in programs:
            status, output = promises.get(program.name, (0, None))
            answers = [meets(program, conf, status, output) for _, conf in MODES]
            met = [sum(pair) for pair in zip(met, (yes for yes, _ in answers))]
            lines.append(f"| {program.name} | {expected(status, output)} | "
                         + " | ".join("yes" if yes else "no" for yes, _ in answers) + " |")
            if not answers[-1][0]:
                broken = 1
                print(f"FAIL: {program.name} in {MODES[-1][0]}: expected {expected(status, output)}; "
                      f"ended with {answers[-1][1]}")
    lines.append(f"| **{len(sources)} programs** | | " + " | ".join(f"**{n}**" for n in met) + " |")
    table = "\n".join(lines) + "\n"
    print(table)
    text = args.document.read_text(encoding="utf-8")
    if args.update:
        args.document.write_text(replace_table(text, table), encoding="utf-8")
    elif table not in text:
        print(f"FAIL: {args.document} has another table; yardstick.py --update writes this one")
        return 1
    return broken


if __name__ == "__main__":
    sys.exit(main())
