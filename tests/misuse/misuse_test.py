"""Bugs in programs, the message each gets from the malloc drop-in, and its end.

    misuse_test.py LIBRARY WITNESS PROGRAM_DIRECTORY

Every program runs with its bug, which must end in SIGABRT after exactly the
expected line on stderr; with a benign control in place of the bug; and with the
bug but the check set to warn and to ignore. WITNESS is the preload tests' proof
that the library was in use.
"""

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

FUNCTIONS = {
    "free": "free()",
    "realloc": "realloc()",
    "realloc_in_place": "realloc()",
    "usable": "malloc_usable_size()",
}

# program: what the message says about its pointer
BUGS = {
    "small_integer": "not allocated here",
    "stack_address": "not allocated here",
    "static_variable": "not allocated here",
    "foreign_mapping": "not allocated here",
    "inside_large_block": "not the start of a block",
    "large_block_plus_16": "not the start of a block",
    "double_free_large": "not an allocated block (double free?)",
}

# (program, argument for the function, message with %s for the pointer)
CASES = [
    (program, function, f"{name}: invalid pointer %s: {reason}")
    for program, reason in BUGS.items()
    for function, name in FUNCTIONS.items()
]

# UKMEM_CONF: the warnings it gets
CONFIGURATIONS = {
    "no_such_key:1": ["unknown configuration key 'no_such_key' (ukmem config lists them)"],
    "one:1,two:2": [f"unknown configuration key '{key}' (ukmem config lists them)" for key in ("one", "two")],
    "invalid_free:maybe": [
        "bad value 'maybe' for configuration key 'invalid_free' (abort|warn|ignore), using abort"
    ],
    "nonsense": ["configuration item 'nonsense' is not key:value"],
    "invalid_free:warn": [],
}

library = witness = directory = None


class MisuseTest(unittest.TestCase):
    """Runs the programs on the library."""

    def run_program(self, *command, conf=None):
        """The pointer printed, the finished process; the library was in it."""
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as testimony:
            environment = dict(os.environ, LD_PRELOAD=f"{witness}:{library}")
            environment["UKMEM_WITNESS"] = testimony.name
            environment.pop("UKMEM_CONF", None)
            if conf is not None:
                environment["UKMEM_CONF"] = conf
            run = subprocess.run(
                [os.path.join(directory, command[0]), *command[1:]],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual(testimony.read().split("\t")[0], library)
        return run.stdout.split("\n")[0], run

    def assert_says(self, run, *warnings):
        """These lines are on stderr; each of a wrong pointer has its caller behind it, where the
        function knows it."""
        wanted = ""
        for line in warnings:
            wanted += re.escape(f"ukmem: {line}\n")
            if "invalid pointer" in line and not line.startswith("malloc_usable_size()"):
                wanted += rf"ukmem:   found at .*\({os.path.basename(run.args[0])}\+0x[0-9a-f]+\)\n"
        self.assertRegex(run.stderr, rf"\A{wanted}\Z")

    def assert_went_on(self, run, *warnings):
        """It came to its end, after these lines on stderr."""
        self.assert_says(run, *warnings)
        self.assertEqual(run.returncode, 0)
        self.assertIn("went on\n", run.stdout)

    def test_bug(self):
        for program, function, message in CASES:
            with self.subTest(program=program, function=function):
                pointer, run = self.run_program(program, "bug", function)
                self.assert_says(run, message % pointer)
                self.assertEqual(run.returncode, -signal.SIGABRT)
                self.assertNotIn("went on", run.stdout)

    def test_control(self):
        for program, function, _ in CASES:
            with self.subTest(program=program, function=function):
                _, run = self.run_program(program, "control", function)
                self.assert_went_on(run)

    def test_bug_with_a_warning_only(self):
        for program, function, message in CASES:
            with self.subTest(program=program, function=function):
                pointer, run = self.run_program(program, "bug", function, conf="invalid_free:warn")
                self.assert_went_on(run, message % pointer)

    def test_bug_ignored(self):
        for program, function, _ in CASES:
            with self.subTest(program=program, function=function):
                _, run = self.run_program(program, "bug", function, conf="invalid_free:ignore")
                self.assert_went_on(run)

    def test_configuration(self):
        for conf, warnings in CONFIGURATIONS.items():
            with self.subTest(conf=conf):
                _, run = self.run_program("small_integer", "control", "free", conf=conf)
                self.assert_went_on(run, *warnings)


if __name__ == "__main__":
    library, witness, directory = (os.path.realpath(path) for path in sys.argv[1:4])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
