#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bugs of a program on the malloc drop-in, found by KFENCE.

    kfence_test.py LIBRARY WITNESS PROGRAM RARE

PROGRAM is kfence_bug.c. Its rare bug is done to one block of RARE. Each bug gets its report, with the stacks that allocated and freed the
object, and the program goes on or ends as configured.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

CONF = "kfence.sample_interval:4"
TRACK = r"by thread \d+ at \d+\.\d{6}s \(\d+\.\d{6}s ago\):\n"
PLACE = r"ukmem:     .*\(kfence_bug\+0x[0-9a-f]+\)\n"

# bug: the report's title, the beginning of the next line, and whether the object was freed
BUGS = {
    "right": ("out-of-bounds write", r"out-of-bounds write at 0x[0-9a-f]+ \(16B right of kfence-#\d+\)", False),
    "left": ("out-of-bounds read", r"out-of-bounds read at 0x[0-9a-f]+ \(1B left of kfence-#\d+\)", False),
    "read": ("use-after-free read", r"use-after-free read at 0x[0-9a-f]+ \(in kfence-#\d+\)", True),
    "write": ("use-after-free write", r"use-after-free write at 0x[0-9a-f]+ \(in kfence-#\d+\)", True),
    "damage": ("memory corruption", r"corrupted memory at 0x[0-9a-f]+ \[ 0x01 .*\] \(1B right of kfence-#\d+\)", True),
    "inside": ("invalid free", r"free\(\) of 0x[0-9a-f]+ \(in kfence-#\d+\)", False),
    "double": ("invalid free", r"free\(\) of 0x[0-9a-f]+ \(in kfence-#\d+\)", True),
}
FAULTS = ("right", "left", "read", "write")

library = witness = program = rare = None


class KfenceTest(unittest.TestCase):
    """Runs the program on the library."""

    def start(self, *arguments, conf=CONF):
        environment = dict(os.environ, LD_PRELOAD=f"{witness}:{library}", UKMEM_CONF=conf)
        return subprocess.Popen(
            [program, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_program(self, *arguments, conf=CONF):
        process = self.start(*arguments, conf=conf)
        out, err = process.communicate(timeout=60)
        return out, err, process.returncode

    def assert_report(self, bug, err):
        title, line, freed = BUGS[bug]
        pattern = (
            rf"ukmem: BUG: KFENCE: {title} in .*\(kfence_bug\+0x[0-9a-f]+\)\n"
            rf"ukmem:   {line}.*\n"
            rf"(ukmem:     .*\n)*"
            rf"ukmem:   kfence-#\d+: 0x[0-9a-f]+-0x[0-9a-f]+, size=\d+1?, cache=kmalloc-(\d+|large)\n"
            rf"ukmem:   allocated {TRACK}{PLACE}"
        )
        if freed:
            pattern += rf"(ukmem:     .*\n)*ukmem:   freed {TRACK}{PLACE}"
        self.assertRegex(err, pattern)
        self.assertEqual(err.count("BUG: KFENCE"), 1, err)
        self.assertEqual("freed by" in err, freed, err)

    def test_reports(self):
        for bug in BUGS:
            with self.subTest(bug):
                out, err, code = self.run_program(bug, conf=CONF + ",invalid_free:warn")
                self.assert_report(bug, err)
                self.assertEqual((out, code), ("went on\n", 0))

    def test_large(self):
        for bug in BUGS:
            with self.subTest(bug):
                out, err, code = self.run_program(bug, "large", conf=CONF + ",invalid_free:warn")
                self.assert_report(bug, err)
                self.assertEqual((out, code), ("went on\n", 0))
                self.assertIn("cache=kmalloc-large\n", err)

    def test_abort(self):
        for bug in BUGS:
            with self.subTest(bug):
                out, err, code = self.run_program(bug, conf=CONF + ",kfence.on_fault:abort")
                self.assert_report(bug, err)
                self.assertEqual(code, -(signal.SIGSEGV if bug in FAULTS else signal.SIGABRT))
                self.assertEqual(out, "")

    def test_wrong_frees_end_the_program_by_default(self):
        out, err, code = self.run_program("double")
        self.assert_report("double", err)
        self.assertEqual((out, code), ("", -signal.SIGABRT))

    def test_the_programs_handler(self):
        out, err, code = self.run_program("right", "handler")
        self.assert_report("right", err)
        self.assertEqual((out, code), ("went on\n", 0))
        out, err, code = self.run_program("right", "handler", conf=CONF + ",kfence.on_fault:abort")
        self.assert_report("right", err)
        self.assertTrue(err.endswith("the program's own handler\n"), err)
        self.assertEqual((out, code), ("", 3))

    def test_rare_overflow(self):
        # As it is by default: one object in 100 ms.
        process = self.start("rare", rare, conf="kfence.sample_interval:100")
        line = process.stderr.readline()
        process.kill()
        process.communicate()
        self.assertRegex(line, "^ukmem: BUG: KFENCE: memory corruption in ")

    def test_no_bug(self):
        out, err, code = self.run_program("none", conf=CONF + ",show:stats")
        self.assertEqual((out, code), ("end\n", 0))
        self.assertNotIn("KFENCE", err)
        taken = re.search(r"kfence:\n(?:  .*\n)*?  taken +(\d+)\n", err)
        self.assertTrue(taken, err)
        self.assertGreater(int(taken[1]), 3)

    def test_off(self):
        out, err, code = self.run_program("none", conf="kfence.sample_interval:0,show:stats")
        self.assertEqual((out, code), ("end\n", 0))
        self.assertNotIn("\nkfence:", err)

    def test_witness(self):
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as testimony:
            os.environ["UKMEM_WITNESS"] = testimony.name
            self.run_program("read")
            del os.environ["UKMEM_WITNESS"]
            self.assertEqual(testimony.read().split("\t")[0], library)


if __name__ == "__main__":
    library, witness, program, rare = sys.argv[1:5]
    unittest.main(argv=sys.argv[:1], verbosity=1)
