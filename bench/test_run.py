#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the command line of bench/run: test_run.py BUILD

bench/run refuses options that make no sense, and files that it cannot write, before it measures.
It writes the figures even if it cannot print the report. A signal ends its children, too.
"""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import report
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


def program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_failing(_, folder):
    """A program that cannot list what it measures, or cannot start, is told in a line."""
    for name, option in (("workloads", "--workloads"), ("heap", "--heap"), ("queue", "--queue")):
        program(folder / "bench" / name, "echo out of luck >&2; exit 3")
        for text, why in ((None, "exit status 3 out of luck"), ("#!/nonexistent", "does not start")):
            if text:
                (folder / "bench" / name).write_text(text)
            told = subprocess.run([RUN, "--build", folder, option, "--only", "glibc"], capture_output=True,
                                  text=True, check=False)
            assert told.returncode == 1 and why in told.stderr, told
            assert "Traceback" not in told.stderr, told


def test_ended(_, folder):
    """A run that a signal ends takes its child and its files with it."""
    started, files = folder / "started", folder / "files"
    program(folder / "bench/trace_replay", f"echo $$ > {started}.new; mv {started}.new {started}; exec sleep 100")
    files.mkdir()
    for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
        started.unlink(missing_ok=True)
        with subprocess.Popen([RUN, "--build", folder, "--traces", "--only", "glibc"], stderr=subprocess.PIPE,
                              env={**os.environ, "TMPDIR": str(files)}, text=True) as run:
            end = time.monotonic() + 60
            while not started.exists() and time.monotonic() < end:
                time.sleep(0.01)
            run.send_signal(number)
            told = run.communicate(timeout=60)[1]
        assert run.returncode == 128 + number and "Traceback" not in told, (run, told)
        assert not list(files.iterdir()), list(files.iterdir())
        assert not Path("/proc", started.read_text().strip()).exists(), "its child is still there"


def test_starting(_, folder):
    """A signal that comes while a child starts ends that child, too."""
    started = folder / "starting"
    told = subprocess.run([sys.executable, "-c", f"""if True:
        import os, signal, subprocess, sys
        sys.path.insert(0, {str(RUN.parent)!r})
        import children
        class Popen(subprocess.Popen):
            def __init__(self, *words, **options):
                super().__init__(*words, **options)
                open({str(started)!r}, "w").write(str(self.pid))
                os.kill(os.getpid(), signal.SIGTERM)
                len([])
        subprocess.Popen = Popen
        children.stop_by_signals()
        children.run_child(["sleep", "100"], None)"""], capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 143, told
    assert not Path("/proc", started.read_text()).exists(), "the child is still there"


def test_profile_cost(_, folder):
    """bench/profile-cost has proved nothing where it measured nothing."""
    (folder / "library").touch()
    for option, code, why in (("--only=nobody", 1, "nothing was measured"), ("--rounds=0", 2, "above 0"),
                              ("--seconds=0", 2, "above 0")):
        told = subprocess.run([RUN.parent / "profile-cost", "--library", folder / "library", option],
                              capture_output=True, text=True, check=False)
        assert told.returncode == code and why in told.stderr, told


def test_peers(_, folder):
    """Sources of another version than the one that bench/peers names are fetched anew."""
    tools, made = folder / "tools", folder / "peers"
    sources = made / "crates/rpmalloc-sys/vendor/rpmalloc-sys"

    def fill(version, changes):
        """The commands that make the crate's sources in the folder where they stand."""
        return f"""mkdir -p rpmalloc/rpmalloc
            echo 'version = "{version}+b097fd0"' > Cargo.toml
            echo '{changes}' > rpmalloc/CHANGELOG
            echo 'int some;' > rpmalloc/rpmalloc/rpmalloc.c"""

    program(tools / "cargo", f"mkdir -p vendor/rpmalloc-sys; cd vendor/rpmalloc-sys; {fill('0.2.3', '1.4.5')}")
    sources.mkdir(parents=True)
    subprocess.run(["sh", "-c", fill("0.2.2", "1.4.4")], cwd=sources, check=True)
    for fetches in True, False:
        if not fetches:
            program(tools / "cargo", "exit 1")
        subprocess.run([RUN.parent / "peers", "--folder", made, "--only", "rpmalloc"], check=True, capture_output=True,
                       env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
        found = json.loads((made / "peers.json").read_text())
        assert found["rpmalloc"]["version"] == "1.4.5" and found["rpmalloc"]["from"] == "rpmalloc-sys 0.2.3", found


def test_fewer(*_):
    """A mean says of how many cells it is, where an allocator failed in some."""
    cells = [("fast", 1), ("slow", 1)]
    figures = {"seconds": 1, "cpu_seconds": 1, "peak_rss_kib": 1}
    samples = {name: {cell: [figures] for cell in cells} for name in ("ukmem", "mimalloc-v2", "glibc")}
    whole = "\n".join(report.workload_relations(samples, cells))
    samples["ukmem"]["slow", 1] = []
    fewer = "\n".join(report.workload_relations(samples, cells))
    assert "cells)" not in whole and fewer.count("1.00/1.00/1.00 (1 of 2 cells)") == 2, (whole, fewer)
    assert re.search(r"- single-thread .*memory .* \(1 of 2 cells\)$", fewer, re.M), fewer


def main():
    build = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="run.") as folder:
        for test in (test_refused, test_written, test_nothing, test_failing, test_ended, test_starting, test_fewer,
                     test_profile_cost, test_peers):
            test(build, Path(folder))
    print("refused, written")


if __name__ == "__main__":
    main()
