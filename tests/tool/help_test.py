#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks `ukmem help`, and that `ukmem config` and its errors show all choices.

usage: help_test.py TOOL MALLOC_LIBRARY help|config[.norseq]
"""

import re
import sys

from tool import Tool, expect

COMMANDS = ["run", "zoneinfo", "buddyinfo", "slabinfo", "vmstat", "slab", "kmalloc", "config",
            "info", "help"]
SHOW = "nothing|stats|zoneinfo|buddyinfo|vmstat|slabinfo|slab|pools|layers"


def check_help(tool):
    code, text, errors = tool.run("help")
    expect(code == 0 and not errors, f"exit code {code}: {errors}")
    expect(text == tool.run("--help")[1], f"not what --help shows: {text}")
    for command in COMMANDS:
        expect(re.search(rf"^  {command} ", text, re.M), f"{command} is not in:\n{text}")
        code, own, errors = tool.run("help", command)
        expect(code == 0 and not errors, f"help {command}: exit code {code}: {errors}")
        expect(own == tool.run(command, "--help")[1], f"not {command} --help: {own}")
        expect(f"ukmem {command}" in own, f"no usage of {command}: {own}")
    for arguments in (["help", "nosuch"], ["help", "run", "slab"], ["nosuch"], []):
        code, text, errors = tool.run(*arguments)
        expect(code == 2 and not text, f"{arguments}: {code}: {text}")
        expect(errors.startswith("ukmem: "), f"{arguments}: {errors}")


def check_config(tool):
    code, text, errors = tool.run("config")
    expect(code == 0 and not errors, f"exit code {code}: {errors}")
    row = re.search(r"^show +choice +nothing +nothing +(\S+) ", text, re.M)
    expect(row and row[1] == SHOW, f"choices of show: {row}")
    start = text.splitlines()[2].index("type")
    for line in text.splitlines()[2:]:
        expect(line[start - 1] == " " != line[start], f"no column of types: {line}")
    code, _, errors = tool.run("run", "--conf", "show:nosuch", "/bin/ls", "/dev/null")
    expect(code == 0 and f"({SHOW})" in errors, f"{code}: {errors}")


def main():
    tool, library, test = sys.argv[1:]
    kind, _, variant = test.partition(".")
    {"help": check_help, "config": check_config}[kind](Tool(tool, library,
                                                           variant == "norseq"))


if __name__ == "__main__":
    main()
