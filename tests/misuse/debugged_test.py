"""Bugs that the malloc drop-in finds where its caches are debugged.

    debugged_test.py LIBRARY WITNESS PROGRAM

PROGRAM (debugged.c) runs with each bug, which must end in SIGABRT after the expected
report; with a benign control in its place, which must end well and silent; and
with the bug and nobody looking. WITNESS is the preload tests' proof that the library was
in use.
"""

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

CACHE = "kmalloc-112"
SIZE = 100  # of malloc(100): as many are usable
WHERE = r".*\(debugged\+0x[0-9a-f]+\)"  # in the program, not in the library
WHEN = WHERE + r" by thread \d+ on cpu \d+, \d+ ms ago\n"
ALLOCATED = rf"ukmem:   allocated at {WHEN}"
FREED = rf"ukmem:   freed at {WHEN}"
FOUND = rf"(ukmem:   found at {WHERE} by thread \d+\n)?"


def report(what, rest, cache=CACHE, size=SIZE):
    """A finding about the object at %s."""
    return (
        rf"ukmem: BUG {cache}: {what}: object %s\n"
        rf"ukmem:   {size} bytes at %s, number \d+ of \d+ in slab 0x[0-9a-f]+\n" + rest + FOUND
    )


def wrong(side, count, first, wanted, whose, size=SIZE):
    """A finding about bytes."""
    first = re.escape(first)
    return report(
        side,
        rf"ukmem:   wrong bytes: {count}, first at {first}: 0x41, not {wanted}\n"
        r"(ukmem:  +[+-]\d+: ([0-9a-f]{2} )+ *.+\n){1,3}" + whose,
        size=size,
    )


def guard(side, count, first, size=SIZE):
    """An object in use; its record may have been overwritten, too."""
    return wrong(f"{side} guard overwritten", count, first, "0xcc", f"({ALLOCATED})?", size)


def poison(count, first):
    """An object that was free."""
    return wrong("Poison overwritten", count, first, "0x6b", ALLOCATED + FREED)


def sized(call, cache=CACHE, size=SIZE):
    """A free whose size is not the object's."""
    return report("Freed with another size", rf"ukmem:   {call}\n" + ALLOCATED, cache, size)


TWICE = report("Object already free", ALLOCATED + FREED)


def invalid(reason):
    """Not an object at all."""
    return (rf"ukmem: free\(\): invalid pointer %s: {reason}\n"
            r"ukmem:   found at [^\n]+\n")


BUGS = {
    "twice": TWICE,
    "pqp": TWICE,
    "twice_1024": TWICE,
    "twice_256k": TWICE,
    "twice_thread": TWICE,
    "realloc_freed": TWICE,
    "usable_freed": TWICE,
    "one": invalid("not allocated here"),
    "stack": invalid("not allocated here"),
    "plus_1": invalid("not the start of an object"),
    "plus_8": invalid("not the start of an object"),
    "plus_4k": invalid("not .+"),
    "plus_16k": invalid("not .+"),
    "plus_1g": invalid("not allocated here"),
    "overflow_1": guard("Right", 1, "+100"),
    "overflow_8": guard("Right", 8, "+100"),
    "overflow_32": guard("Right", 32, "+100"),
    # Over the record, too, so that nobody knows what was asked for.
    "overflow_1m": guard("Right", 32, "+112", 112),
    "underflow_1": guard("Left", 1, "-1"),
    "underflow_8": guard("Left", 8, "-8"),
    "underflow_32": guard("Left", 32, "-32"),
    "underflow_1m": guard("Left", 32, "-32"),
    "freed_first": poison(8, "+0"),
    "freed_50": poison(1, "+50"),
    "freed_all": poison(100, "+0"),
    "size_smaller": sized(r"free_sized\(\) with 1 bytes"),
    "size_delete": sized("operator delete with 300 bytes"),
    "size_aligned": sized(r"free_aligned_sized\(\) with 300 bytes, aligned to 64", "kmalloc-128"),
    "size_shrunk": sized(r"free_sized\(\) with 300 bytes", "kmalloc-80", 80),
}

# An overflow of one byte, in an object got and given back by each of these.
GOT_BY = ["malloc", "calloc", "realloc", "realloc_more", "reallocarray", "memalign",
          "aligned_alloc", "posix_memalign", "new", "new_nothrow", "new_aligned"]
GIVEN_TO = ["realloc", "realloc_0", "cfree", "free_sized", "delete"]
BUGS |= {f"by_{face}": guard("Right", 1, "+100") for face in GOT_BY}
BUGS |= {f"to_{face}": guard("Right", 1, "+100") for face in GIVEN_TO}

library = witness = program = None


class DebuggedTest(unittest.TestCase):
    """Runs the program on the library."""

    def run_program(self, *arguments, conf):
        """The pointer printed, the finished process; the library was in it."""
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as testimony:
            environment = dict(os.environ, LD_PRELOAD=f"{witness}:{library}")
            environment["UKMEM_WITNESS"] = testimony.name
            environment["UKMEM_CONF"] = conf
            run = subprocess.run(
                [program, *arguments],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual(testimony.read().split("\t")[0], library)
        return run.stdout.split("\n")[0], run

    def assert_silent(self, run):
        """It came to its end and nothing was said."""
        self.assertEqual(run.stderr, "")
        self.assertEqual(run.returncode, 0)
        self.assertTrue(run.stdout.endswith("went on\n"))

    def test_bug(self):
        for bug, text in BUGS.items():
            with self.subTest(bug=bug):
                pointer, run = self.run_program(bug, "bug", conf="slab_debug:FZPU")
                self.assertRegex(run.stderr, rf"\A{text.replace('%s', pointer)}\Z")
                self.assertEqual(run.returncode, -signal.SIGABRT)

    def test_bug_with_a_warning_only(self):
        conf = "slab_debug:FZPU,slab_debug_action:warn,invalid_free:warn"
        for bug, text in BUGS.items():
            if bug.endswith("1m"):  # much is found after that
                continue
            with self.subTest(bug=bug):
                pointer, run = self.run_program(bug, "bug", conf=conf)
                self.assertRegex(run.stderr, rf"\A{text.replace('%s', pointer)}")
                self.assertTrue(run.stdout.endswith("went on\n"))
                self.assertEqual(run.returncode, 0)

    def test_control(self):
        for bug in BUGS:
            with self.subTest(bug=bug):
                self.assert_silent(self.run_program(bug, "control", conf="slab_debug:FZPU")[1])

    def test_nobody_looks(self):
        for bug in BUGS:
            with self.subTest(bug=bug):
                conf = "slab_debug:-,invalid_free:ignore"
                self.assert_silent(self.run_program(bug, "bug", conf=conf)[1])

    def test_of_other_caches(self):
        for bug in ("twice", "overflow_1", "freed_all"):
            with self.subTest(bug=bug):
                conf = "slab_debug:FZPU=kmalloc-64+dentry*"
                self.assert_silent(self.run_program(bug, "bug", conf=conf)[1])
                conf = "slab_debug:FZPU=kmalloc-64+kmalloc-11*"
                _, run = self.run_program(bug, "bug", conf=conf)
                self.assertEqual(run.returncode, -signal.SIGABRT)

    def test_of_no_cache(self):
        conf = "slab_debug:FZPU=kmalloc-64+dentry+inode*"
        _, run = self.run_program("twice", "control", conf=conf)
        self.assertEqual(run.stderr, "ukmem: slab_debug: there is no cache 'dentry'\n")
        self.assertTrue(run.stdout.endswith("went on\n"))


if __name__ == "__main__":
    library, witness, program = (os.path.realpath(path) for path in sys.argv[1:4])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
