#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds for aarch64, or for this machine, and checks what comes out.

usage: aarch64_test.py assemble MACHINE LEVEL   check_sections.py on the sections, at -OLEVEL
       aarch64_test.py emulate MACHINE          run them: qemu-aarch64, or this machine
       aarch64_test.py library [MACHINE]        the library for aarch64: check, and run

MACHINE is aarch64 or x86_64, of library also riscv64, which has no sections. Exits 77 (skipped)
where a compiler for it or its emulator is missing.
"""

import argparse
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from check_sections import Program, check_program

HERE = Path(__file__).resolve().parent
SKIPPED = 77
LEVELS = ["0", "1", "2"]
FLAGS = ["-std=gnu11", "-g1", "-Wall", "-Wextra", "-D_GNU_SOURCE", "-pthread"]
# At -O0 gcc warns of sizes that an operation rules out by its variable's.
FLAGS += ["-Wno-stringop-overflow"]
# The section in which the library tries whether the kernel restarts it does not commit.
SELF_TEST_SECTION = "section"
NO_RSEQ = {"aarch64": ["fallback", "ENOSYS"], "riscv64": ["fallback", "no critical sections for this architecture"]}
# The program of sections: what is checked, and what runs it.
SECTIONS = ["sections", "operations"]
SECTIONS_TEST = ["case", "scalar_checks", "array_checks", "sections_test"]
# Of the drop-in, what is written in assembly.
DROP_IN = ["malloc/vfork.c", "malloc/sandbox.c"]
# As distributions compile, for processors that check jumps and sign return addresses, and run on older ones, too.
BRANCHES = {"aarch64": ["-mbranch-protection=standard"]}
PROCESSORS = {"aarch64": ["max", "cortex-a72"]}


class Failure(Exception):
    pass


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(SKIPPED)


def run(*command, env=None):
    """The command's output; a Failure with it if the command fails."""
    command = [str(word) for word in command]
    done = subprocess.run(command, env={**os.environ, **(env or {})}, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise Failure(f"{shlex.join(command)}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


class Machine:
    """How programs for a machine are built and run."""

    def __init__(self, name, compiler, folder, root):
        self.name = name
        self.compiler = compiler
        self.folder = folder
        self.root = root
        self.emulator = None
        if name in NO_RSEQ:
            self.compiler = compiler or f"{name}-linux-gnu-gcc"
            self.objdump = f"{name}-linux-gnu-objdump"
            self.emulator = f"qemu-{name}"
        else:
            self.compiler = compiler or "cc"
            self.objdump = "objdump"
            if platform.machine() != name:
                skip(f"this machine is {platform.machine()}, not {name}")
        self.need(shlex.split(self.compiler)[0])
        self.need(self.objdump)
        source = folder / "probe.c"
        source.write_text("#include <stdio.h>\nint main(void) { puts(\"\"); return 0; }\n")
        try:
            self.link([source], folder / "probe")
        except Failure as failure:
            skip(f"{self.compiler} builds no static programs:\n{failure}")

    @staticmethod
    def need(tool):
        if not shutil.which(tool):
            skip(f"{tool} is not installed")

    def compile(self, source, output, *options):
        run(*shlex.split(self.compiler), *FLAGS, *options, f"-I{self.root / 'include'}",
            f"-I{self.root / 'src'}", "-c", source, "-o", output)
        return output

    def link(self, files, output, *options):
        run(*shlex.split(self.compiler), "-pthread", *(options or ["-static"]), *files,
            "-o", output)
        return output

    def run(self, program, *arguments, env=None):
        command = [program, *arguments]
        if self.emulator:
            self.need(self.emulator)
            libc = Path(run(*shlex.split(self.compiler), "-print-file-name=libc.so.6").strip())
            command = [self.emulator, "-L", libc.resolve().parents[1], *command]
        return run(*command, env=env)

    def sections_program(self, level, aborts=False):
        """The sections at -OLEVEL, in their test, which is always optimised."""
        options = [f"-DABORTS={int(aborts)}"]
        objects = [self.compile(HERE / f"{name}.c", self.folder / f"{name}.o", *options,
                                f"-O{level if name in SECTIONS else 2}")
                   for name in SECTIONS + SECTIONS_TEST]
        return self.link(objects, self.folder / f"sections-O{level}{'-aborts' * aborts}")


def report(wrong, summary):
    print(summary)
    if wrong:
        raise Failure("\n".join(wrong))


def assemble(machine, level):
    program = machine.sections_program(level)
    report(*check_program(program, machine.objdump, kinds=True, optimised=level != "0"))


def emulate(machine, levels):
    if machine.emulator:
        machine.need(machine.emulator)
    for level in levels:
        for aborts in (False, True):
            program = machine.sections_program(level, aborts)
            print(f"-O{level}: {machine.run(program).rstrip()}", flush=True)


def check_exclusives(path, objdump):
    """[what is wrong] with loads and stores that are exclusive: another access to memory between
    the two, where processors do not promise that the store ever succeeds."""
    program, wrong, begun = Program(path, objdump), [], None
    for address, step in sorted(program.code.items()):
        function = program.function(address)
        if re.match(r"lda?x[rp]", step.mnemonic):
            begun = function
        elif re.match(r"stl?x[rp]", step.mnemonic) or function != begun:
            begun = None
        elif begun and re.match(r"ld|st|cas|swp|bl", step.mnemonic):
            wrong.append(f"{function}: '{step.text}' at {address:x} in front of an exclusive store")
            begun = None
    return wrong


def check_gate(path, objdump):
    """[what is wrong] with the functions of percpu/gate.c that count a thread as outside: between
    that and the count of the thread as inside is a fence (G3)."""
    program = Program(path, objdump)
    fenced = {program.function(address) for address, step in program.code.items()
              if step.mnemonic == "dmb"}
    return [f"{name}: no fence" for name in ("pcpu_gate_return", "pcpu_gate_try_pass")
            if name not in fenced]


def library(machine, sources, definitions, options):
    """The library's sources, linked statically and, position-independent, dynamically."""
    machine.need(machine.emulator)
    options = [*options, *BRANCHES.get(machine.name, [])]
    objects = [machine.compile(HERE / "library_test.c", machine.folder / "library_test.o", "-O2",
                               "-fPIE", *options, *definitions,
                               *(["-DWITH_OBJECTS"] if machine.name == "aarch64" else []))]
    for i, source in enumerate([*sources, *DROP_IN]):
        objects.append(machine.compile(machine.root / "src" / source, machine.folder / f"{i}.o",
                                       "-O2", "-fPIC", "-fvisibility=hidden", *options,
                                       *definitions))
    fixed = machine.link(objects, machine.folder / "library-fixed")
    movable = machine.link(objects, machine.folder / "library-movable", "-pie")
    if machine.name != "riscv64":
        report(*check_program(fixed, machine.objdump, skip=[SELF_TEST_SECTION]))
        report(check_gate(fixed, machine.objdump), "the gate's fences")
        report(check_exclusives(fixed, machine.objdump), "exclusive loads and stores")
    for program, conf in (fixed, ""), (movable, "percpu:register"):
        for processor in PROCESSORS.get(machine.name, [None]):
            environment = {"UKMEM_CONF": conf, **({"QEMU_CPU": processor} if processor else {})}
            output = machine.run(program, *NO_RSEQ[machine.name], env=environment)
            print(f"{program.name} {conf} {processor or ''}\n{output.rstrip()}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=["assemble", "emulate", "library"])
    parser.add_argument("machine", nargs="?", choices=["aarch64", "riscv64", "x86_64"], default="aarch64")
    parser.add_argument("level", nargs="?", choices=LEVELS, help="all: emulate without one")
    parser.add_argument("--compiler", help="with options, if need be")
    parser.add_argument("--root", type=Path, default=HERE.parents[1], help="of include/ and src/")
    # How CMake builds the library; sources are below src/.
    for option in "--sources", "--compile_definitions", "--compile_options":
        parser.add_argument(option, default=[], type=lambda text: list(filter(None, text.split("|"))))
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="ukmem-aarch64-") as folder:
        machine = Machine(arguments.machine, arguments.compiler, Path(folder), arguments.root)
        try:
            if arguments.check == "assemble":
                assemble(machine, arguments.level or "2")
            elif arguments.check == "emulate":
                emulate(machine, [arguments.level] if arguments.level else LEVELS)
            else:
                library(machine, arguments.sources,
                        [f"-D{word}" for word in arguments.compile_definitions],
                        arguments.compile_options)
        except Failure as failure:
            print(f"FAILED\n{failure}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
