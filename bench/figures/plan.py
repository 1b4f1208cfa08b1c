# SPDX-License-Identifier: MIT
"""What a report measures: jobs, each a command that writes one file of figures.

A plan has passes. A pass runs every job once that has so many passes: benchmarks with several
are spread over the whole time. An interruption costs one job.
"""

from typing import NamedTuple

GRID, PROGRAMS = "bench/run", "bench/programs/run"
# Installed packages; all that bench/peers found are for full.
FEW = ("ukmem", "glibc", "jemalloc", "mimalloc", "tcmalloc")
# Programs of one thread that end soon.
SHORT_PROGRAMS = ("perl", "lua", "sqlite3", "jq", "xmllint")
THREADS_ONLY = "threads/.*"


class Job(NamedTuple):
    name: str
    program: str  # GRID or PROGRAMS
    arguments: tuple
    seconds: float  # estimated, for each allocator
    passes: int = 1
    chooses: bool = True  # takes a list of allocators
    alone: bool = False  # a job for each allocator: it takes long


def programs(rounds, seconds, *names):
    """A job for each program."""
    return [Job(f"programs-{name}", PROGRAMS, ("--rounds", str(rounds), name), seconds)
            for name in names]


QUICK = (
    Job("grid", GRID, ("--quick", "--rounds", "1"), 1.0, passes=2),
    Job("workloads", GRID, ("--workloads", "--quick", "--rounds", "1"), 8),
    Job("latency", GRID, ("--latency", "--rounds", "1", "--seconds", "0.4"), 3),
    Job("idle", GRID, ("--idle", "--quick", "--rounds", "1", "--seconds", "0.5"), 4),
    Job("longrun", GRID, ("--longrun", "--quick", "--seconds", "3"), 4),
    Job("traces", GRID, ("--traces", "--quick", "--rounds", "2"), 1),
    Job("programs", PROGRAMS, ("--quick", "--rounds", "3", *SHORT_PROGRAMS), 2),
    Job("queue", GRID, ("--queue", "--quick", "--rounds", "1", "--cells", "threads/.x./1/.*"), 12,
        chooses=False),
    Job("pool", GRID, ("--pool", "--quick", "--rounds", "1", "--cells", "threads/.*/16/.*"), 8,
        chooses=False),
    Job("scale", GRID, ("--scale", "--quick", "--rounds", "1"), 2, chooses=False),
)
USUAL = (
    Job("grid", GRID, ("--rounds", "2"), 8, passes=3),
    Job("workloads", GRID, ("--workloads", "--rounds", "1"), 45, passes=3),
    Job("latency", GRID, ("--latency", "--rounds", "1", "--seconds", "2"), 11, passes=3),
    Job("idle", GRID, ("--idle", "--rounds", "1"), 65),
    Job("longrun", GRID, ("--longrun", "--seconds", "60"), 61, alone=True),
    Job("traces", GRID, ("--traces", "--rounds", "2"), 4, passes=3),
    *programs(3, 10, *SHORT_PROGRAMS, "php", "ruby", "gcc", "git"),
    Job("queue", GRID, ("--queue", "--rounds", "1"), 35, passes=3, chooses=False),
    Job("pool", GRID, ("--pool", "--rounds", "1"), 40, passes=3, chooses=False),
    Job("scale", GRID, ("--scale", "--rounds", "1"), 9, passes=3, chooses=False),
)
FULL = (
    Job("grid", GRID, ("--rounds", "3"), 12, passes=5),
    Job("workloads", GRID, ("--workloads", "--rounds", "1"), 45, passes=7),
    Job("latency", GRID, ("--latency", "--rounds", "1", "--seconds", "5"), 26, passes=7),
    Job("idle", GRID, ("--idle", "--rounds", "1"), 65, passes=3),
    Job("longrun", GRID, ("--longrun", "--seconds", "1800"), 1801, alone=True),
    Job("traces", GRID, ("--traces", "--rounds", "2"), 4, passes=5),
    *programs(5, 20, *SHORT_PROGRAMS, "php", "ruby", "gcc", "clang", "git", "python",
              "pyperformance", "redis", "postgres", "start"),
    Job("queue", GRID, ("--queue", "--rounds", "1"), 35, passes=7, chooses=False),
    Job("pool", GRID, ("--pool", "--rounds", "1"), 40, passes=7, chooses=False),
    Job("scale", GRID, ("--scale", "--rounds", "1"), 9, passes=7, chooses=False),
)
# For the test that the sections understand what the drivers write: its figures mean nothing.
TINY = (
    Job("grid", GRID, ("--quick", "--rounds", "1", "--sizes", "64,4096", "--batches", "1,256"), 0.5),
    Job("workloads", GRID, ("--workloads", "--quick", "--rounds", "1", "--threads", "1"), 3),
    Job("latency", GRID, ("--latency", "--rounds", "1", "--seconds", "0.1"), 1),
    Job("idle", GRID, ("--idle", "--quick", "--rounds", "1", "--seconds", "0.2"), 3),
    Job("longrun", GRID, ("--longrun", "--quick", "--seconds", "1"), 1, alone=True),
    Job("traces", GRID, ("--traces", "--quick", "--rounds", "1"), 2),
    Job("programs", PROGRAMS, ("--quick", "--rounds", "1", "perl"), 1),
    Job("queue", GRID, ("--queue", "--quick", "--rounds", "1", "--cells", "threads/1x1/1/.*"), 1, chooses=False),
    Job("pool", GRID, ("--pool", "--quick", "--rounds", "1", "--cells", "threads/.*/16/.*"), 2, chooses=False),
    Job("scale", GRID, ("--scale", "--quick", "--rounds", "1"), 1, chooses=False),
)
PLANS = {"quick": QUICK, "usual": USUAL, "full": FULL, "tiny": TINY}


def benchmark_of(name):
    """A job may be a part of a benchmark, as `programs-perl` is one of `programs`."""
    return name.partition(".")[0].partition("-")[0]


class Step(NamedTuple):
    """One command: the file that it writes (without .json), its words, and its estimated time."""
    name: str
    program: str
    arguments: tuple
    seconds: float

    def kind(self):
        """Steps of one kind take about as long as each other."""
        return benchmark_of(self.name)


def turn_of(job, number):
    """The words that tell a pass how many rounds came before it: another allocator begins then."""
    given = dict(zip(job.arguments, job.arguments[1:]))
    return ("--turn", str(1 + (number - 1) * int(given.get("--rounds", 1)))) if number > 1 else ()


def steps(jobs, allocators):
    """The commands in the order they run: pass after pass."""
    found = []
    for number in range(1, 1 + max(job.passes for job in jobs)):
        for job in jobs:
            if number > job.passes:
                continue
            groups = [[name] for name in allocators] if job.alone else [allocators]
            for names in groups:
                only = ("--only" if job.program == GRID else "--allocators", ",".join(names))
                name = f"{job.name}-{names[0]}" if job.alone else job.name
                found.append(Step(f"{name}.{number}", job.program,
                                  job.arguments + turn_of(job, number) + (only if job.chooses else ()),
                                  job.seconds * (len(names) if job.chooses else 1)))
    return found
