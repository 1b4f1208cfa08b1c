#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/programs/run notices programs that fail, write something else, or are missing.

    self_test.py BUILD

Programs of this test's own are found in the place of those that would be measured.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

# pylint: disable=wrong-import-position
import conditions  # noqa: E402

SOUND = "echo right"
OTHER_OUTPUT = 'case $LD_PRELOAD in *ukmem*) echo wrong ;; *) echo right ;; esac'
# Asked for its version it is sound, as it is on libc's malloc.
FAILS = '[ $# = 1 ] || case $LD_PRELOAD in *ukmem*) echo "out of luck" >&2; exit 3 ;; esac; echo right'
SILENT = ":"
NEEDED = ("env", "python3", "sh")

build = ""


class ProgramsTest(unittest.TestCase):
    """Runs the driver with a lua of its own."""

    def run_with(self, script):
        """The finished driver, which measures lua and jq; jq is not there."""
        with tempfile.TemporaryDirectory() as folder:
            for name in NEEDED:
                Path(folder, name).symlink_to(sys.executable if name == "python3"
                                              else f"/usr/bin/{name}")
            program = Path(folder, "lua5.4")
            program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            program.chmod(0o755)
            return subprocess.run(
                [sys.executable, HERE / "run", "--build", build, "--quick",
                 "--allocators", "ukmem,glibc", "lua", "jq"],
                env={**os.environ, "PATH": folder}, capture_output=True, text=True, timeout=100,
                check=False)

    def assert_failed(self, script, text):
        run = self.run_with(script)
        self.assertIn(text, run.stderr)
        self.assertEqual(run.returncode, 1)

    def test_sound(self):
        run = self.run_with(SOUND)
        self.assertNotIn("FAILED", run.stderr)
        self.assertIn("SKIPPED jq: jq not found (Debian: jq)", run.stderr)
        self.assertIn("| all: CPU, s", run.stdout)
        self.assertEqual(run.returncode, 0)

    def test_other_output(self):
        self.assert_failed(OTHER_OUTPUT, "FAILED ukmem, lua: lua5.4 wrote something else")

    def test_fails(self):
        self.assert_failed(FAILS, "FAILED ukmem, lua: exit status 3 out of luck")

    def test_silent(self):
        self.assert_failed(SILENT, "FAILED lua: lua5.4 wrote nothing")


class OptionsTest(unittest.TestCase):
    """bench/programs/run refuses options before it measures, and keeps its files."""

    def run_with(self, *options, **more):
        return subprocess.run(
            [sys.executable, HERE / "run", "--build", build, "--quick", "--allocators", "glibc",
             *options, "start"], stderr=subprocess.PIPE, text=True, timeout=100, check=False, **more)

    def test_refused(self):
        for option, value in (("--rounds", "0"), ("--rounds", "-1"), ("--seconds", "0"),
                              ("--json", "/nonexistent/x"), ("--markdown", "/")):
            run = self.run_with(f"{option}={value}", stdout=subprocess.PIPE)
            self.assertEqual(run.returncode, 2)
            self.assertIn(f"argument {option}: ", run.stderr)

    def test_written(self):
        """The files are there though nobody takes what is printed."""
        with tempfile.TemporaryDirectory() as folder, \
                open("/dev/full", "w", encoding="utf-8") as full:
            files = Path(folder, "figures.json"), Path(folder, "report.md")
            run = self.run_with("--json", files[0], "--markdown", files[1], stdout=full,
                                env={**os.environ, "PYTHONUNBUFFERED": "1"})
            self.assertIn("No space left", run.stderr)
            self.assertTrue(json.loads(files[0].read_text(encoding="utf-8"))["results"])
            self.assertIn("start", files[1].read_text(encoding="utf-8"))


class ConditionsTest(unittest.TestCase):
    """Which CPUs --busy takes."""

    def test_cpus_in(self):
        self.assertEqual(conditions.cpus_in("0-2,8\n"), {0, 1, 2, 8})

    def test_hyperthreads(self):
        pairs = {0: {0, 4}, 1: {1, 5}, 4: {0, 4}, 5: {1, 5}}
        self.assertEqual(conditions.choose_cpus({0, 1, 4, 5}, pairs.get), (0, 4, True))
        self.assertEqual(conditions.choose_cpus({0, 1, 5}, pairs.get), (1, 5, True))

    def test_cores_with_one_thread(self):
        self.assertEqual(conditions.choose_cpus({2, 3}, lambda cpu: {cpu}), (2, 3, False))
        self.assertIsNone(conditions.choose_cpus({2}, lambda cpu: {cpu}))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU")
    def test_loop_runs_only_when_busy(self):
        """One loop when busy, none when quiet, and none afterwards."""
        both = conditions.Conditions("both", build)
        before = os.sched_getaffinity(0)
        taken = {}
        for condition in both.names:
            with both.during(conditions.Variant("none", condition)):
                loops = [path for path in Path("/proc").glob("[0-9]*/stat")
                         if self.is_our_loop(path)]
                taken[condition] = len(loops)
                self.assertEqual(len(os.sched_getaffinity(0)), 1)
        self.assertEqual(taken, {conditions.QUIET: 0, conditions.BUSY: 1})
        self.assertEqual(os.sched_getaffinity(0), before)

    @staticmethod
    def is_our_loop(path):
        try:
            name, _, rest = path.read_text(encoding="utf-8").rpartition(")")
        except OSError:
            return False
        return name.endswith("(busy_loop") and int(rest.split()[1]) == os.getpid()


if __name__ == "__main__":
    build = sys.argv.pop(1)
    unittest.main()
