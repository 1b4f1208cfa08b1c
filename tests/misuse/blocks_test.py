"""Bugs that the malloc drop-in finds at blocks of whole pages, where they are debugged.

    blocks_test.py LIBRARY WITNESS PROGRAM

PROGRAM (blocks.c) runs with each bug, which must end in a signal after the expected report; with a
benign control in its place, which must end well and silent; with the bug and nobody looking; and
with each flag alone. WITNESS is the preload tests' proof that the library was in use.
"""

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

SIZE = 1000000
PAGES = 245
SITE = r".*\(.+\+0x[0-9a-f]+\)"
IN_PROGRAM = r".*\(blocks\+0x[0-9a-f]+\)"  # in the program, not in the library
STACK = rf"(ukmem:     {SITE}\n)*"
WHEN = IN_PROGRAM + r" by thread \d+ on cpu \d+, \d+ ms ago\n" + STACK
ALLOCATED = rf"ukmem:   allocated at {WHEN}"
FREED = rf"ukmem:   freed at {WHEN}"
FOUND = rf"(ukmem:   found at {SITE} by thread \d+\n{STACK})"
AT = r"0x[0-9a-f]+"
ABORT, FAULT = -signal.SIGABRT, -signal.SIGSEGV


def report(what, detail, rest, size=SIZE, pages=PAGES, found=FOUND):
    """A finding about the block at %s."""
    detail = f"ukmem:   {detail}\n" if detail else ""
    return (
        rf"ukmem: BUG kmalloc-large: {what}: block %s\n{detail}"
        rf"ukmem:   {size} bytes at %s, pages: {pages}\n{rest}{found}"
    )


def slack(count, first, size=SIZE, pages=PAGES):
    """Bytes between the end of what was asked for and that of the last page."""
    rest = (
        rf"ukmem:   wrong bytes: {count}, first at \+{first}: 0x41, not 0xcc\n"
        rf"(ukmem:  +[+-]\d+: ([0-9a-f]{{2}} )+ *.+\n){{1,3}}{ALLOCATED}"
    )
    return report("Right guard overwritten", None, rest, size, pages)


def beyond(access, offset):
    return report("Out of bounds", rf"{access} at {AT}, at {re.escape(offset)}", ALLOCATED)


def after(access, offset):
    return report("Use after free", rf"{access} at {AT}, at \+{offset}", ALLOCATED + FREED)


def inside(offset):
    return report("Not the start of a block", rf"free\(\) of {AT}, at \+{offset}", ALLOCATED)


def sized(function, size):
    return report("Freed with another size", rf"{function} with {size} bytes", ALLOCATED)


TWICE = report("Block already free", None, ALLOCATED + FREED)
# Nothing tells which call it was.
ASKED = report("Block already free", None, ALLOCATED + FREED, found="")
REST = PAGES * 4096 - SIZE

# bug: (the report, how it ends, the flag that finds it)
BUGS = {
    "over_1": (slack(1, SIZE), ABORT, "Z"),
    "over_8": (slack(8, SIZE + 8), ABORT, "Z"),
    "over_rest": (slack(REST, SIZE), ABORT, "Z"),
    "behind": (beyond("write", f"+{PAGES * 4096}"), FAULT, "Z"),
    "behind_read": (beyond("read", f"+{PAGES * 4096 + 100}"), FAULT, "Z"),
    "before": (beyond("write", "-1"), FAULT, "Z"),
    "before_read": (beyond("read", "-4096"), FAULT, "Z"),
    "grown": (slack(1, SIZE + 50, SIZE + 50), ABORT, "Z"),
    "shrunk": (slack(1, SIZE - 50, SIZE - 50), ABORT, "Z"),
    "moved": (slack(1, 2 * SIZE, 2 * SIZE, 489), ABORT, "Z"),
    "freed_write": (after("write", 4097), FAULT, "P"),
    "freed_write_later": (after("write", 4097), FAULT, "P"),
    "freed_read": (after("read", 10), FAULT, "P"),
    "freed_realloc": (TWICE, ABORT, "F"),
    "freed_usable": (ASKED, ABORT, "F"),
    "twice": (TWICE, ABORT, "F"),
    "twice_later": (TWICE, ABORT, "F"),
    "twice_thread": (TWICE, ABORT, "F"),
    "fork": (TWICE, ABORT, "F"),
    "plus_16": (inside(16), ABORT, "F"),
    "plus_4096": (inside(4096), ABORT, "F"),
    "plus_end": (inside(SIZE - 1), ABORT, "F"),
    "size_free": (sized(r"free_sized\(\)", SIZE + 1), ABORT, "F"),
    "size_delete": (sized("operator delete", SIZE - 1), ABORT, "F"),
    "size_aligned": (sized(r"free_aligned_sized\(\)", SIZE + 1), ABORT, "F"),
}

# An overflow of one byte, of a block got by each of these.
GOT_BY = ["malloc", "calloc", "realloc", "memalign", "posix_memalign", "valloc", "new",
          "new_aligned"]
BUGS |= {f"by_{face}": (slack(1, SIZE), ABORT, "Z") for face in GOT_BY}
SOUND = ["turn_over", "write_all"]
FEW = ["over_1", "behind", "freed_read", "twice", "plus_16", "size_free"]

library = witness = program = None


def run_program(*arguments, conf, limit=None):
    """The pointer printed, the finished process; the library was in it."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as testimony:
        environment = dict(os.environ, LD_PRELOAD=f"{witness}:{library}", UKMEM_CONF=conf,
                           UKMEM_WITNESS=testimony.name)
        command = [program, *arguments]
        if limit:
            command = ["/bin/sh", "-c", f'ulimit -v {limit >> 10}; exec "$0" "$@"', *command]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120,
                             check=False)
        if testimony.read().split("\t")[0] != library:
            raise AssertionError(f"{command} ran without the library")
    return run.stdout.split("\n")[0], run


class BlocksTest(unittest.TestCase):
    """Runs the program on the library."""

    def assert_silent(self, run):
        """It came to its end and nothing was said."""
        self.assertEqual((run.stderr, run.returncode), ("", 0), run.stdout)
        self.assertTrue(run.stdout.endswith("went on\n"))

    def test_bug(self):
        for bug, (text, end, _) in BUGS.items():
            with self.subTest(bug=bug):
                pointer, run = run_program(bug, "bug", conf="slab_debug:FZPU")
                self.assertRegex(run.stderr, rf"\A{text.replace('%s', pointer)}\Z")
                self.assertEqual(run.returncode, end)

    def test_bug_with_a_warning_only(self):
        for bug, (text, _, _) in BUGS.items():
            with self.subTest(bug=bug):
                conf = "slab_debug:FZPU,slab_debug_action:warn"
                pointer, run = run_program(bug, "bug", conf=conf)
                self.assertRegex(run.stderr, rf"\A{text.replace('%s', pointer)}\Z")
                self.assertEqual(run.returncode, 0)
                self.assertTrue(run.stdout.endswith("went on\n"))

    def test_control(self):
        for bug in [*BUGS, *SOUND]:
            with self.subTest(bug=bug):
                self.assert_silent(run_program(bug, "control", conf="slab_debug:FZPU")[1])

    def test_nobody_looks(self):
        for bug in BUGS:
            conf = "slab_debug:FZPU=kmalloc-64+dentr*" if bug in FEW else "slab_debug:-"
            with self.subTest(bug=bug, conf=conf):
                conf += ",invalid_free:ignore"
                self.assert_silent(run_program(bug, "bug", conf=conf)[1])

    def test_of_blocks_alone(self):
        for names in ("kmalloc-large", "kmalloc-64+kmalloc-l*"):
            for bug in FEW:
                with self.subTest(bug=bug, names=names):
                    _, run = run_program(bug, "bug", conf=f"slab_debug:={names}")
                    self.assertRegex(run.stderr, r"\Aukmem: BUG kmalloc-large: ")
                    self.assertEqual(run.returncode, BUGS[bug][1])

    def test_each_flag_finds_its_own(self):
        others = "slab_debug_action:warn,invalid_free:ignore"
        for bug, (_, end, finds) in BUGS.items():
            with self.subTest(bug=bug):
                _, run = run_program(bug, "bug", conf=f"slab_debug:{finds}")
                self.assertEqual(run.returncode, end)
                self.assertIn("BUG kmalloc-large: ", run.stderr)
                self.assertNotIn("allocated at", run.stderr)
                rest = "FZPU".replace(finds, "")
                _, run = run_program(bug, "bug", conf=f"slab_debug:{rest},{others}")
                if finds == "F" or bug.startswith("freed"):  # another flag may see a part of it
                    self.assertEqual(run.returncode, 0, run.stderr)
                else:
                    self.assert_silent(run)
        for flag in "FZPU":
            for sound in SOUND:
                with self.subTest(flag=flag, sound=sound):
                    self.assert_silent(run_program(sound, "control", conf=f"slab_debug:{flag}")[1])

    def test_scarce_memory(self):
        """What waits in quarantine makes room for what the program needs."""
        for conf, limit in ((",limit:32m", None), (",address_space:small", 120 << 20), ("", 200 << 20)):
            for flags in ("FZPU", "F", "P", "Z"):
                with self.subTest(conf=conf, limit=limit, flags=flags):
                    self.assert_silent(
                        run_program("turn_over", "control", conf=f"slab_debug:{flags}{conf}",
                                    limit=limit)[1])

    def test_the_hardened_mode_with_debugged_blocks(self):
        for bug, (text, end, _) in BUGS.items():
            with self.subTest(bug=bug):
                conf = "hardened:1,slab_debug:FZPU=kmalloc-large"
                pointer, run = run_program(bug, "bug", conf=conf)
                self.assertRegex(run.stderr, rf"\A{text.replace('%s', pointer)}\Z")
                self.assertEqual(run.returncode, end)


if __name__ == "__main__":
    library, witness, program = (os.path.realpath(path) for path in sys.argv[1:4])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
