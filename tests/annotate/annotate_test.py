"""What AddressSanitizer and valgrind find in programs whose objects come from ukmem.

    annotate_test.py asan PROGRAM
    annotate_test.py valgrind PROGRAM VALGRIND

Each bug of annotated.c is found with the tunable annotate at its default and with passthrough;
with annotate:never nobody notices; and a sound program runs in silence. In a program
instrumented with AddressSanitizer it must be the first to report.
"""

import os
import resource
import subprocess
import sys
import unittest

BUGS = ("overflow", "underflow", "freed", "kmalloc_overflow", "kmalloc_freed")

tool, command = None, []


class AnnotateTest(unittest.TestCase):
    """Runs the program under the tool."""

    def run_program(self, bug, conf):
        """The finished process."""
        environment = dict(os.environ, UKMEM_CONF=conf, ASAN_OPTIONS="detect_leaks=0")
        return subprocess.run(
            [*command, bug],
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def assert_found(self, bug, conf, *texts):
        """One of the texts is the finding."""
        run = self.run_program(bug, conf)
        self.assertTrue(any(text in run.stderr for text in texts), run.stderr)
        self.assertIn("annotated.c", run.stderr)
        self.assertEqual(run.returncode != 0, tool == "asan")

    def assert_silent(self, bug, conf):
        """Nothing is found."""
        run = self.run_program(bug, conf)
        self.assertEqual(run.stderr, "")
        self.assertEqual(run.returncode, 0)
        self.assertTrue(run.stdout.endswith("went on\n"))

    def test_annotated(self):
        for bug in BUGS:
            with self.subTest(bug=bug):
                if tool == "asan":
                    text = "AddressSanitizer: use-after-poison"
                elif bug.startswith("kmalloc_"):
                    text = "Invalid write of size 1"
                else:
                    text = "Invalid read of size 1"
                self.assert_found(bug, "annotate:auto", text)
        if tool == "valgrind":
            self.assert_found("not_written", "annotate:auto", "depends on uninitialised value")

    def test_passthrough(self):
        for bug in BUGS:
            with self.subTest(bug=bug):
                texts = ["Invalid read of size 1", "Invalid write of size 1"]
                if tool == "asan":
                    texts = ["heap-use-after-free", "heap-buffer-overflow"]
                self.assert_found(bug, "passthrough:1", *texts)

    def test_nobody_told(self):
        for bug in BUGS:
            with self.subTest(bug=bug):
                self.assert_silent(bug, "annotate:never")

    def test_sound(self):
        for conf in (
            "annotate:auto",
            "annotate:never",
            "passthrough:1",
            "annotate:auto,slab_debug:FZPU",
            "annotate:never,slab_debug:FZPU",
        ):
            with self.subTest(conf=conf):
                self.assert_silent("none", conf)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tool = sys.argv[1]
    command = [sys.argv[2]] if tool == "asan" else [sys.argv[3], "-q", sys.argv[2]]
    unittest.main(argv=sys.argv[:1], verbosity=2)
