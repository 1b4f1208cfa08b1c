#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the hardened drop-in promises (docs/security.md): each promise has a program that breaks it.

    hardened_test.py LIBRARY WITNESS BUGS INIT

Every row of the table runs under UKMEM_CONF=hardened:1 and must end as the row says. Rows marked
so run without the tunable, too, where they must not: else they would prove nothing.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

FREED = "not an allocated object (double free?)"
BLOCK_FREED = "not an allocated block (double free?)"
INSIDE = "not the start of an object"
FOREIGN = "not allocated here"
SIZE = (r"allocated with another size \(\d+ usable\) than \d+ bytes(, aligned to \d+)?")
BEYOND = "written to beyond its end"
AFTER = "written to after it was freed"
TELL_SIZES = ("ukmem: malloc_usable_size()", "ukmem: malloc_object_size()")
# By what is there: a slab of some class, a block, a guard, or nothing.
NEVER = (r"(not an allocated (object|block) \(double free\?\)|not the start of an? (object|block)"
         r"|allocated as pages)")
LIVES = None
SEGV = "SIGSEGV"

LARGE = "262144"
# Small, a page, the last size class, and blocks of whole pages.
SIZES = ["1", "16", "100", "1000", "4096", "20000", "65000"]
HUGE = [LARGE, "3000000"]
# Of small blocks up to this size each byte is zero while they are free; of larger ones not.
WHOLE = ["1", "16", "100", "500"]
NOT_WHOLE = ["1000", "5000", "20000", "65000"]

# (bug, sizes, how it ends: the message, SEGV or LIVES; whether the default ends in another way)
TABLE = [
    ("free_twice", SIZES, FREED, True),
    ("free_twice", HUGE, BLOCK_FREED, False),
    ("free_twice_later", SIZES, FREED, True),
    ("free_twice_later", HUGE, BLOCK_FREED, False),
    ("free_twice_in_threads", ["64"], FREED, True),
    ("free_twice_in_threads", HUGE, BLOCK_FREED, False),
    ("free_inside", SIZES, INSIDE, False),
    ("free_inside", HUGE, "not the start of a block", False),
    ("free_inside_aligned", ["100", "4096"], INSIDE, False),
    ("free_stack", ["0"], FOREIGN, False),
    ("free_integer", ["0"], FOREIGN, False),
    ("free_mapping", ["0"], FOREIGN, False),
    ("free_never_allocated", ["0"], NEVER, False),
    ("free_far_away", ["0"], FOREIGN, False),
    ("realloc_freed", ["64", "5000"], FREED, True),
    ("realloc_freed", HUGE, BLOCK_FREED, False),
    ("realloc_integer", ["0"], FOREIGN, False),
    ("usable_freed", ["64"], FREED, True),
    ("usable_inside", ["64"], INSIDE, False),
    ("object_size_freed", ["64"], FREED, True),
    ("delete_smaller", ["64", "4000", LARGE], SIZE, True),
    ("delete_larger", ["30", "64", "4000", "40000", LARGE], SIZE, True),
    ("delete_aligned_wrong", ["64", "100"], SIZE, True),
    ("free_sized_wrong", ["64", "40000", LARGE], SIZE, True),
    ("free_aligned_sized_wrong", ["256"], SIZE, True),
    ("delete_right", ["64", LARGE], LIVES, False),
    ("delete_goes_back", ["64", "4000", "40000", LARGE], LIVES, False),
    ("free_sized_right", ["200000"], LIVES, False),
    ("write_behind", SIZES, BEYOND, True),
    # Behind a block may be the end of what is mapped, by default, too.
    ("write_behind", HUGE, SEGV, False),
    ("write_further_behind", SIZES, BEYOND, True),
    ("write_further_behind", HUGE, SEGV, False),
    ("write_in_front", HUGE, SEGV, True),
    ("grow_nothing", SIZES + HUGE, LIVES, False),
    ("string_ends", ["16", "100", "4096", "65000"], LIVES, False),
    ("read_nothing", ["0"], SEGV, True),
    ("write_nothing", ["0"], SEGV, True),
    ("overflow_far", ["16", "64", "1000", "4096", "20000", "65000"], SEGV, True),
    ("write_after_free", ["16", "128", "500"], AFTER, True),
    ("write_after_free", HUGE + [str(100 << 20)], SEGV, True),
    ("write_after_free_near_the_start", NOT_WHOLE, AFTER, True),
    ("write_after_free_near_the_end", NOT_WHOLE, AFTER, True),
    ("write_after_free_often", ["1000", "5000"], AFTER, True),
    ("write_after_free_used_again", ["16", "128", "400"], AFTER, True),
    ("write_after_free_used_again", HUGE, SEGV, True),
    ("read_after_free", WHOLE, LIVES, True),
    ("read_after_free", HUGE + [str(100 << 20)], SEGV, True),
    ("read_after_free_ends", WHOLE + NOT_WHOLE, LIVES, True),
    ("waits", SIZES + HUGE, LIVES, True),
    ("zero", WHOLE + [LARGE], LIVES, True),
    ("zero_calloc", WHOLE + NOT_WHOLE + [LARGE], LIVES, False),
    ("order", ["16", "64", "500"], LIVES, True),
    ("different_nothings", ["0"], LIVES, True),
    ("object_sizes", ["16", "1000", "65000"] + HUGE, LIVES, False),
    ("impossible", ["0"], LIVES, False),
    ("grows", ["16", "262144"], LIVES, False),
    ("aligned", ["0"], LIVES, False),
    ("far_aligned", ["0"], LIVES, False),
    ("mappings", ["0"], LIVES, False),
    ("nothings_at_a_limit", ["0"], LIVES, False),
]

# The same with all bytes of all blocks zeroed and looked at.
TABLE_WHOLE = [
    ("write_after_free", WHOLE + NOT_WHOLE, AFTER),
    ("write_after_free_used_again", ["1000"], AFTER),
    ("read_after_free", NOT_WHOLE, LIVES),
    ("zero", NOT_WHOLE, LIVES),
    ("zero_calloc", NOT_WHOLE, LIVES),
    ("free_twice", NOT_WHOLE, FREED),
]

library = witness = bugs = init = None


def run(command, conf):
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as testimony:
        environment = dict(os.environ, LD_PRELOAD=f"{witness}:{library}", UKMEM_CONF=conf,
                           UKMEM_WITNESS=testimony.name)
        child = subprocess.run(command, env=environment, capture_output=True, text=True,
                               timeout=60, check=False)
        if testimony.read().split("\t")[0] != library:
            raise AssertionError(f"{command} ran without the library")
    return child


def ends_so(child, end):
    """Whether a program ended as a row says."""
    if end is LIVES:
        return child.returncode == 0 and child.stderr == ""
    if end is SEGV:
        return child.returncode == -signal.SIGSEGV
    wanted = end if "\\" in end else re.escape(end)
    # Writes after a free are found later; functions that tell sizes do not know their caller.
    knows = end != AFTER and not child.stderr.startswith(TELL_SIZES)
    place = r"ukmem:   found at .+\)\n" if knows else ""
    return (child.returncode == -signal.SIGABRT and
            re.fullmatch(rf"ukmem: .*: invalid pointer 0x[0-9a-f]+: (objects here were )?"
                         rf"{wanted}s?\n{place}",
                         child.stderr.replace("after they were", "after it was")) is not None)


class HardenedTest(unittest.TestCase):
    """The table, and the tunables of zeroing."""

    def test_table(self):
        for bug, sizes, end, _ in TABLE:
            for size in sizes:
                with self.subTest(bug=bug, size=size):
                    child = run([bugs, bug, size], "hardened:1")
                    self.assertTrue(ends_so(child, end),
                                    f"{child.returncode} {child.stdout} {child.stderr}")

    def test_whole_objects(self):
        for zeroing in ("init_on_free:1", "init_on_alloc:1"):
            for bug, sizes, end in TABLE_WHOLE:
                for size in sizes:
                    with self.subTest(bug=bug, size=size, zeroing=zeroing):
                        child = run([bugs, bug, size], "hardened:1," + zeroing)
                        self.assertTrue(ends_so(child, end),
                                        f"{child.returncode} {child.stdout} {child.stderr}")

    def test_the_default_promises_less(self):
        for bug, sizes, end, differs in TABLE:
            if differs:
                with self.subTest(bug=bug):
                    self.assertFalse(ends_so(run([bugs, bug, sizes[0]], ""), end))

    def test_it_goes_on_where_it_is_told_to(self):
        for bug in ("free_twice", "free_inside", "write_behind", "write_after_free",
                    "delete_larger"):
            with self.subTest(bug=bug):
                child = run([bugs, bug, "64"], "hardened:1,invalid_free:warn")
                self.assertEqual((child.returncode, child.stdout), (0, "lived\n"))
                self.assertRegex(child.stderr, "^ukmem: .*: invalid pointer ")

    def test_each_bug_is_found_once(self):
        for bug, size, message, times in (
                ("free_at_once", "64", FREED, 5000), ("free_at_once", "3000", FREED, 5000),
                ("write_after_free_everywhere", "24", AFTER, 24 + 8),
                ("write_after_free_everywhere", "100", AFTER, 104 + 8),
                ("write_after_free_everywhere", "500", AFTER, 504 + 8),
                # 128 and 64 bytes at the ends, and a ninth of the 576 between them.
                ("write_after_free_everywhere", "700", AFTER, range(192 + 16, 192 + 120))):
            with self.subTest(bug=bug, size=size):
                child = run([bugs, bug, size], "hardened:1,invalid_free:warn")
                self.assertEqual((child.returncode, child.stdout), (0, "lived\n"))
                lines = child.stderr.splitlines()
                if message is FREED:
                    for line in lines[1::2]:
                        self.assertRegex(line, r"^ukmem:   found at .+\)$")
                    lines = lines[::2]
                self.assertIn(len(lines), times if isinstance(times, range) else [times],
                              child.stderr[-1000:])
                for line in lines:
                    self.assertRegex(line, rf"^ukmem: .*: {re.escape(message)}$")

    def test_init(self):
        for conf, when, good in (("init_on_alloc:1", "a", True), ("init_on_free:1", "f", True),
                                 ("init_on_alloc:1,init_on_free:1", "af", True),
                                 ("hardened:1,init_on_alloc:1", "af", True),
                                 ("hardened:1,init_on_free:1", "af", True),
                                 ("hardened:1", "a", False), ("hardened:1", "f", False),
                                 ("", "a", False), ("", "f", False),
                                 ("init_on_alloc:1", "f", False)):
            with self.subTest(conf=conf, when=when):
                self.assertEqual(run([init, when], conf).returncode == 0, good)


if __name__ == "__main__":
    library, witness, bugs, init = (os.path.realpath(path) for path in sys.argv[1:5])
    unittest.main(argv=sys.argv[:1])
