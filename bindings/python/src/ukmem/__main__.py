# SPDX-License-Identifier: MIT
"""The command: `python -m ukmem COMMAND ...` is `ukmem COMMAND ...`, and `run` knows Python.

    python -m ukmem run [--stats] script.py args     by this Python, with its options
    python -m ukmem run -O script.py args            the same, and one more option
    python -m ukmem run -m module args               the same
    python -m ukmem run -c "code" args               the same
    python -m ukmem run PROGRAM args                 any other program
    python -m ukmem help                             all commands
"""

import getopt
import os
import subprocess
import sys
from typing import List

import ukmem


def python_options() -> List[str]:
    """The options that this Python was started with, without `-m ukmem`."""
    if not hasattr(sys, "orig_argv"):  # Python before 3.10
        return subprocess._args_from_interpreter_flags()
    found, _ = getopt.getopt(sys.orig_argv[1:], "bBc:dEhiIm:OPqRsStuvVW:xX:?", ["check-hash-based-pycs="])
    options = [[name, value] if value else [name] for name, value in found if name not in ("-c", "-m")]
    return sum(options, [])


def with_python(words: List[str]) -> List[str]:
    """The words after `run`, with this Python and its options in front of a script or an option of Python."""
    options = 0
    while options < len(words) and words[options].startswith("--"):
        options += 2 if words[options] == "--conf" else 1
    program = words[options:]
    first = program[0] if program else ""
    # `ukmem run` itself has no short option but -h.
    if first.endswith(".py") or (first.startswith("-") and first != "-h"):
        program = [sys.executable, *python_options(), *program]
    return words[:options] + program


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["run"]:
        words = ["run", *with_python(words[1:])]
    try:
        os.execv(ukmem.tool(), [ukmem.tool(), *words])
    except OSError as error:
        sys.exit(f"ukmem: {ukmem.tool()}: {error.strerror}")


if __name__ == "__main__":
    main()
