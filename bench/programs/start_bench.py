# SPDX-License-Identifier: MIT
"""What an allocator costs those that end at once: a shell that starts a small program
over and over, as build systems and scripts do.
"""

import contextlib
import re
import shutil

from children import ChildFailed, run_child
from processes import check_malloc, run_measured

STARTS = (300, 20)
LOOP = "i=0; while [ $i -lt {} ]; do cat /proc/self/status >/dev/null; i=$((i + 1)); done"


def missing(_):
    absent = [name for name in ("sh", "cat") if not shutil.which(name)]
    return f"{', '.join(absent)} not found" if absent else ""


def peak_kib(library):
    """What a process that does next to nothing has had resident."""
    status = run_child(["cat", "/proc/self/status"], library)
    peak = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.M)
    if not peak:
        raise ChildFailed("cat /proc/self/status: no VmHWM")
    return int(peak.group(1))


def measure(library, directory, options):
    starts = STARTS[options.quick]
    check_malloc([shutil.which("cat"), "/dev/null"], library)
    elapsed, used = run_measured(["sh", "-c", LOOP.format(starts)], library, directory)
    return {
        ("sh starts cat", "elapsed, us"): 1e6 * elapsed / starts,
        ("sh starts cat", "CPU, us"): 1e6 * (used.ru_utime + used.ru_stime) / starts,
        ("sh starts cat", "page faults"): used.ru_minflt / starts,
        ("cat", "peak resident, MiB"): peak_kib(library) / 1024,
    }


@contextlib.contextmanager
def prepared(directory, options):
    yield lambda library: measure(library, directory, options)
