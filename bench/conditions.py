# SPDX-License-Identifier: MIT
"""The conditions to measure under: the machine as it is, or with an arithmetic loop beside.

With the option --busy children are pinned to one CPU, and the loop to the other hyperthread
of its core; where cores have one thread, to another CPU. With --busy both, the children are
pinned to the same CPU in both conditions, so that the loop is the only difference.
"""

import contextlib
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

QUIET, BUSY = "quiet", "busy"
# The values of the option --busy, and the conditions that each stands for.
CHOICES = {"busy": (BUSY,), "both": (QUIET, BUSY)}
SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


class Variant(NamedTuple):
    """What is measured under a condition."""
    name: str
    condition: str

    def __str__(self):
        return f"{self.name}, {self.condition}"


def cpus_in(text):
    """The numbers in a list of the kernel's: 0-1,4."""
    ends = [[int(end) for end in part.split("-")] for part in text.strip().split(",")]
    return {cpu for pair in ends for cpu in range(pair[0], pair[-1] + 1)}


def siblings(cpu, pattern=SIBLINGS):
    """The CPUs that share a core with this one, itself included."""
    try:
        return cpus_in(Path(pattern.format(cpu)).read_text(encoding="utf-8"))
    except OSError:
        return {cpu}


def choose_cpus(allowed, shared=siblings):
    """(the CPU of what is measured, that of the loop, do they share a core?), or None."""
    for cpu in sorted(allowed):
        others = (shared(cpu) & allowed) - {cpu}
        if others:
            return cpu, min(others), True
    if len(allowed) < 2:
        return None
    measured, loop = sorted(allowed)[:2]
    return measured, loop, False


class Conditions:
    """The conditions of one run; option is what --busy said, None without it."""

    def __init__(self, option, build):
        self.names = CHOICES.get(option)
        self.loop = Path(build) / "bench/busy_loop"
        self.cpus = None
        if self.names:
            self.cpus = choose_cpus(os.sched_getaffinity(0))
            if self.cpus is None:
                raise SystemExit("--busy needs two CPUs")
            if not self.loop.exists():
                raise SystemExit(f"--busy needs {self.loop}: build it first")

    def of(self, variants):
        """The variants under each condition; they themselves without the option."""
        if not self.names:
            return variants
        return {Variant(name, condition): value for name, value in variants.items()
                for condition in self.names}

    def split(self, samples):
        """{condition: samples}; the only condition is None without the option."""
        if not self.names:
            return {None: samples}
        return {condition: {variant.name: cells for variant, cells in samples.items()
                            if variant.condition == condition} for condition in self.names}

    def describe(self, condition):
        """The condition, for a report's head."""
        if condition is None:
            return ""
        measured, loop, shared = self.cpus
        beside = f"the other hyperthread of its core, CPU {loop}," if shared \
            else f"CPU {loop}, another core (cores have one thread here),"
        return f"{condition}: what is measured is pinned to CPU {measured}; {beside} " + \
            ("runs an arithmetic loop" if condition == BUSY else "is left alone")

    @contextlib.contextmanager
    def during(self, variant):
        """Children that are started meanwhile run under the variant's condition."""
        if not self.names:
            yield
            return
        measured, cpu, _ = self.cpus
        before = os.sched_getaffinity(0)
        loop = None
        try:
            if variant.condition == BUSY:
                loop = subprocess.Popen([self.loop, str(cpu)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE)
                if loop.stdout.readline() != b"busy\n":
                    raise OSError(f"{self.loop} does not run")
            os.sched_setaffinity(0, {measured})
            yield
            if loop and loop.poll() is not None:
                raise OSError(f"{self.loop} has ended")
        finally:
            os.sched_setaffinity(0, before)
            if loop:
                loop.kill()
                loop.wait()
                loop.stdout.close()
