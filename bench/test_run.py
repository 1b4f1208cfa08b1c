#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the command line of bench/run: test_run.py BUILD

bench/run refuses options that make no sense, and files that it cannot write, before it measures.
It writes the figures even if it cannot print the report.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from load_program import load_program

RUN = Path(__file__).resolve().parent / "run"


def test_refused(_, folder):
    """Values that make no sense, and files that cannot be written."""
    refused = {"--rounds": ("0", "-1", "1.5", "x"), "--threads": ("0", "1,0", "-2", ""),
               "--seconds": ("0", "-1", "nan", "inf", "x"),
               "--json": (folder, folder / "absent/x"), "--markdown": (folder / "absent/x",)}
    for option, values in refused.items():
        for value in values:
            told = subprocess.run([RUN, "--build", folder, f"{option}={value}"],
                                  capture_output=True, text=True, check=False)
            assert told.returncode == 2, told
            assert f"argument {option}: " in told.stderr and "round 1" not in told.stderr, told


def test_written(build, folder):
    """The files are there though nobody takes what is printed."""
    figures, text = folder / "figures.json", folder / "report.md"
    with open("/dev/full", "w", encoding="utf-8") as full:
        told = subprocess.run(
            [RUN, "--build", build, "--longrun", "--quick", "--seconds", "0.5", "--only", "glibc",
             "--json", figures, "--markdown", text], env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert told.returncode != 0 and "No space left" in told.stderr, told
    assert json.loads(figures.read_text())["results"]["glibc"], figures.read_text()
    assert text.read_text().startswith("# Long run"), text.read_text()


def test_nothing(_, folder):
    """A run in which no cell was chosen is an error."""
    driver = load_program(RUN)
    driver.find_build = lambda *_: folder
    for cells, code in (({}, 1), ({("cell", ""): []}, 1), ({("cell", ""): [1]}, 0)):
        measured = ({}, {"glibc": cells}, "the report")
        driver.chosen_program = lambda _, measured=measured: ("none", lambda *_: measured)
        sys.argv[1:] = []
        told = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
            assert driver.main() == code, cells
        assert ("nothing was measured" in told.getvalue()) == bool(code), cells


def main():
    build = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="run.") as folder:
        for test in test_refused, test_written, test_nothing:
            test(build, Path(folder))
    print("refused, written")


if __name__ == "__main__":
    main()
