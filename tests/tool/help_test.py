#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks `ukmem help`, and that `ukmem config` and its errors show all choices.

usage: help_test.py TOOL MALLOC_LIBRARY help|config|config_files|warnings|obstacles|run_live|verbose[.norseq]
"""

import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from tool import Tool, expect

SHOW = "nothing|stats|zoneinfo|buddyinfo|vmstat|slabinfo|slab|pools|layers"


def check_help(tool):
    code, text, errors = tool.run("help")
    expect(code == 0 and not errors, f"exit code {code}: {errors}")
    expect(text == tool.run("--help")[1], f"not what --help shows: {text}")
    commands = re.findall(r"^  ([a-z]+) ", text.partition("\nCommands:\n")[2], re.M)
    expect({"run", "slabinfo", "top", "map", "help"} <= set(commands) and len(commands) >= 22 and
           len(set(commands)) == len(commands), f"{commands} in:\n{text}")
    for command in commands:
        code, own, errors = tool.run("help", command)
        expect(code == 0 and not errors, f"help {command}: exit code {code}: {errors}")
        expect(own == tool.run(command, "--help")[1], f"not {command} --help: {own}")
        expect(f"ukmem {command}" in own, f"no usage of {command}: {own}")
    code, text, errors = tool.run("help", "profile", "dump")
    expect(code == 0 and text == tool.run("profile", "dump", "--help")[1], f"{code}: {errors}")
    for arguments in (["help", "nosuch"], ["help", "run", "slab"], ["nosuch"],
                      ["nosuch", "--help"], ["nosuch", "-h"], ["nosuch", "--version"], []):
        code, text, errors = tool.run(*arguments)
        expect(code == 2 and not text, f"{arguments}: {code}: {text}")
        expect(errors.startswith("ukmem: "), f"{arguments}: {errors}")
    for word, meant in (("slabinf", "slabinfo"), ("vmsat", "vmstat"), ("porfile", "profile"),
                        ("x", None), ("nosuch", None)):
        errors = tool.run(word, "1")[2].splitlines()
        ask = f"; did you mean '{meant}'?" if meant else ""
        expect(errors[0] == f"ukmem: there is no command '{word}'{ask}", f"{errors}")


    for words in ("--help", "--version", "map --help", "help", "profile dump --help"):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([tool.tool, *words.split()], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        expect(done.returncode == 1 and "standard output" in done.stderr, f"{words}: {done.returncode}: {done.stderr}")
    for command in ("run", "slab"):
        expect("KEY:VALUE " in tool.run(command, "--help")[1] and "..." not in
               tool.run(command, "--help")[1].partition("\n")[2].partition("Options:")[2].split("Options after")[0],
               f"{command}: an option with several values")


def check_config(tool):
    code, text, errors = tool.run("config")
    expect(code == 0 and not errors, f"exit code {code}: {errors}")
    row = re.search(r"^show +choice +nothing +nothing +(\S+) ", text, re.M)
    expect(row and row[1] == SHOW, f"choices of show: {row}")
    table = text[re.search("^key ", text, re.M).start():].splitlines()
    start = table[0].index("type")
    for line in table:
        expect(line[start - 1] == " " != line[start], f"no column of types: {line}")
    code, _, errors = tool.run("run", "--conf", "show:nosuch", "/bin/ls", "/dev/null")
    expect(code == 0 and f"({SHOW})" in errors, f"{code}: {errors}")
    code, _, errors = tool.run("run", "--conf", ",thp:never,,limit:1g,", "/bin/ls", "/dev/null")
    expect(code == 0 and not errors, f"empty items: {code}: {errors}")


def check_config_files(tool):
    """A user's file, for all programs and for some; the command and a program on it agree."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ukmem.conf"
        path.write_text("dirty_max: 3m\n[ls]\nshow = stats\nnosuch: 1\n", encoding="utf-8")
        tool.environment["XDG_CONFIG_HOME"] = directory
        code, text, errors = tool.run("config")
        expect(code == 0 and not errors, f"exit code {code}: {errors}")
        expect(f"  {path}\n" in text, f"the file is not named: {text}")
        expect(re.search(rf"^dirty_max +bytes +3m +2m +\S+ +{path}:1 ", text, re.M), text)
        expect(re.search(r"^show +choice +nothing .* default ", text, re.M), text)
        for name in ("ls", "/bin/ls"):
            code, text, errors = tool.run("config", name)
            expect(re.search(rf"^show +choice +stats .* {path}:3 ", text, re.M), text)
            error = f"ukmem: {path}:4: unknown configuration key 'nosuch' (ukmem config lists them)\n"
            expect(code == 0 and errors == error, f"{code}: {errors}")
        code, _, errors = tool.run("run", "/bin/ls", "/dev/null")
        expect(code == 0 and errors.count(error) == 1 and "allocated" in errors, errors)
        code, _, errors = tool.run("run", "--conf", "config_files:0", "/bin/ls", "/dev/null")
        expect(code == 0 and not errors, f"{code}: {errors}")


def check_warnings(tool):
    """Each mistake gets one warning, though the command reads the tunables for itself, too."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ukmem.conf"
        path.write_text("nosuch: 1\n[true ukmem]\nboth: 1\n[true]\ntrues: 1\n", encoding="utf-8")
        tool.environment.update(XDG_CONFIG_HOME=directory, UKMEM_CONF="foo:1")
        places = {"nosuch": f"{path}:1: ", "both": f"{path}:3: ", "trues": f"{path}:5: ", "foo": ""}
        for command, keys in ((["config"], ["nosuch", "both", "foo"]),
                              (["config", "true"], ["nosuch", "both", "trues", "foo"])):
            code, _, errors = tool.run(*command)
            wanted = [f"ukmem: {places[key]}unknown configuration key '{key}' (ukmem config lists them)" for key in keys]
            expect(code == 0 and sorted(errors.splitlines()) == sorted(wanted), f"{command}: {errors}")


def check_obstacles(tool):
    """`ukmem run` says so where a program will have another malloc, and runs it all the same."""
    source = "#include <stdlib.h>\n%s\nint main(void) { return malloc(1) ? 7 : 8; }\n"
    own = "void *malloc(size_t n) { static char room[4096]; (void)n; return room; }"
    other = "void *%s(size_t n) { return malloc(n); }"
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "program"
        # A shell runs what the system does not, and takes the number of the processor for ">".
        os.chdir(directory)
        for compiler, text, options, warning in (
                ("cc", "", [], None),
                ("cc", own, ["-rdynamic"], "has malloc built in"),
                ("cc", own, ["-rdynamic", "-s"], "has malloc built in"),
                ("cc", other % "_rjem_malloc", [], "has _rjem_malloc built in"),
                ("cc", other % "je_malloc", ["-static"], "is statically linked"),
                ("cc", other % "my_malloc", [], None),
                ("musl-gcc", "", [], "is linked to another libc (/lib/ld-musl-x86_64.so.1)")):
            if not shutil.which(compiler):
                continue
            build = subprocess.run([compiler, "-fno-builtin", "-x", "c", "-", "-o", program, *options],
                                   input=source % text, text=True, capture_output=True)
            expect(not build.returncode, build.stderr)
            code, _, errors = tool.run("run", str(program))
            wanted = f"ukmem: warning: {program} {warning}; it keeps its own malloc\n" if warning else ""
            expect(errors.startswith(wanted) and bool(wanted) == ("warning" in errors), f"{options}: {errors!r}")
            expect(code == 7 or compiler != "cc", f"{options}: exit code {code}")
        # The loader preloads nothing into what has rights that its user has not.
        if not os.geteuid():
            for owner, group, mode in ((65534, 0, 0o4755), (0, 65534, 0o2755), (0, 0, 0o6755)):
                build = subprocess.run(["cc", "-x", "c", "-", "-o", program], input=source % "", text=True, capture_output=True)
                expect(not build.returncode, build.stderr)
                os.chown(program, owner, group)
                program.chmod(mode)
                errors = tool.run("run", str(program))[2]
                expect(("is setuid or setgid" in errors) == bool(owner or group), f"{owner}, {group}, {mode:o}: {errors!r}")
            program.chmod(0o755)
        header = bytearray(program.read_bytes())
        at, size, number = struct.unpack_from("<Q14xHH", header, 32)
        name = next(i for i in range(at, at + size * number, size) if header[i] == 3)  # PT_INTERP
        for bytes_, warning in (
                (header[:4] + b"\1" + header[5:], "another word size"),   # EI_CLASS: 32 bits
                (header[:18] + b"\xf3\0" + header[20:], "another kind"),  # e_machine: RISC-V
                (header[:64], "is statically linked"), (header[:30], ""), (b"", ""),
                (header[:name + 8] + b"\xff" * 8 + header[name + 16:], "is statically linked"),     # p_offset
                (header[:name + 32] + b"\xff" * 7 + b"\x7f" + header[name + 40:], "is statically linked"),  # p_filesz
                (header[:40] + b"\xff" * 8 + header[48:], "")):           # e_shoff
            program.write_bytes(bytes_)
            code, _, errors = tool.run("run", str(program))
            expect(warning in errors and code >= 0, f"{bytes_[:20]}: {code}: {errors}")


def check_run_live(tool):
    """`ukmem run` says live:threads, unless a file of tunables has something to say of live."""
    show = ["/bin/sh", "-c", "echo $UKMEM_CONF"]
    with tempfile.TemporaryDirectory() as directory:
        tool.environment["XDG_CONFIG_HOME"] = directory
        for text, options, wanted in (
                ("", [], "live:threads"),
                ("dirty_max: 3m\n", ["--conf", "live:1"], "live:threads,live:1"),
                ("live: 0\n", [], ""),
                ("live: 1\n", ["--conf", "dirty_max:2m"], "dirty_max:2m"),
                ("[sh]\nlive: threads\n", [], ""),
                ("[other]\nlive: 0\n", [], "live:threads"),
                ("live: nosuch\n", [], "live:threads"),
                ("live: 0\n", ["--conf", "config_files:0"], "live:threads,config_files:0"),
                ("live: 1\n", ["--stats"], "show:stats")):
            (Path(directory) / "ukmem.conf").write_text(text, encoding="utf-8")
            code, out, errors = tool.run("run", *options, *show)
            expect(code == 0 and out == wanted + "\n", f"{text!r}, {options}: {code}: {out!r}: {errors}")


def check_verbose(tool):
    version = tool.run("--version")[1].split()[1]
    code, _, errors = tool.run("run", "--conf", "verbose:1", "/bin/true")
    expect(code == 0 and errors.startswith(f"ukmem: version {version}\nukmem: the malloc drop-in is loaded\n"), errors)


def main():
    tool, library, test = sys.argv[1:]
    kind, _, variant = test.partition(".")
    checks = {"help": check_help, "config": check_config, "config_files": check_config_files,
              "warnings": check_warnings, "obstacles": check_obstacles, "run_live": check_run_live, "verbose": check_verbose}
    checks[kind](Tool(tool, library, variant == "norseq"))


if __name__ == "__main__":
    main()
