#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the command line of bench/run: test_run.py BUILD

What cannot be measured or written is refused before anything is measured; what was measured is
written even if the report cannot be printed.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUN = HERE / "run"


def load_driver():
    """bench/run, whose name no import can have."""
    sys.path.insert(0, str(HERE))
    loader = SourceFileLoader("bench_run", str(RUN))
    module = module_from_spec(spec_from_loader("bench_run", loader))
    loader.exec_module(module)
    return module


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
    driver = load_driver()
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
