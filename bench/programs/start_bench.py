# SPDX-License-Identifier: MIT
"""What an allocator costs those that end at once: a shell that starts a small program
over and over, as build systems and scripts do.
"""

import contextlib
import shutil

from children import run_child
from processes import check_malloc, field_kib, run_measured

STARTS = (300, 20)
LOOP = "i=0; while [ $i -lt {} ]; do cat /proc/self/status >/dev/null; i=$((i + 1)); done"


def missing(_):
    absent = [name for name in ("sh", "cat") if not shutil.which(name)]
    return f"{', '.join(absent)} not found" if absent else ""


def measure(library, directory, options):
    starts = STARTS[options.quick]
    check_malloc([shutil.which("cat"), "/dev/null"], library)
    status = run_child(["cat", "/proc/self/status"], library)
    used = run_measured(["sh", "-c", LOOP.format(starts)], library, directory)
    return {
        ("sh starts cat", "elapsed, us"): 1e6 * used.elapsed / starts,
        ("sh starts cat", "CPU, us"): 1e6 * used.cpu / starts,
        ("sh starts cat", "page faults"): used.faults / starts,
        ("cat", "peak resident, MiB"): field_kib(status, "VmHWM") / 1024,
    }


@contextlib.contextmanager
def prepared(directory, options):
    yield lambda library: measure(library, directory, options)
