#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the command line of bench/run: test_run.py BUILD

What cannot be measured is refused before anything is measured.
"""

import contextlib
import io
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
    """Values that make no sense."""
    refused = {"--rounds": ("0", "-1", "1.5", "x"), "--threads": ("0", "1,0", "-2", ""),
               "--seconds": ("0", "-1", "nan", "inf", "x")}
    for option, values in refused.items():
        for value in values:
            told = subprocess.run([RUN, "--build", folder, f"{option}={value}"],
                                  capture_output=True, text=True, check=False)
            assert told.returncode == 2, told
            assert f"argument {option}: " in told.stderr and "round 1" not in told.stderr, told


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
        for test in test_refused, test_nothing:
            test(build, Path(folder))
    print("refused")


if __name__ == "__main__":
    main()
