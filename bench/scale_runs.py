# SPDX-License-Identifier: MIT
"""What bench/run --scale measures on pretended machines, its tables and its plots."""

import json
import statistics
from pathlib import Path

import report
from children import ChildFailed, interleave, run_child, say

# Pretended machines: CPUs, distance of their ids, nodes.
MACHINES = [(cpus, 1, 1) for cpus in (2, 8, 64, 256)] \
    + [(64, 1, nodes) for nodes in (2, 8, 28)] + [(8, 32, 1)]
QUICK = [(2, 1, 1), (8, 1, 2), (4, 32, 1)]
# Column: key in the program's output, unit, divisor.
COLUMNS = {
    "start, KiB": ("start_bytes", 1024),
    "its page tables, KiB": ("start_tables", 1024),
    "start, us": ("start_ns", 1000),
    "a used CPU, KiB": ("cpu_bytes", 1024),
    "its page tables, KiB ": ("cpu_tables", 1024),
    "pair, ns": ("pair_ns", 1),
    "slow, ns": ("slow_ns", 1),
    "trim, us": ("trim_ns", 1000),
    "fork, us": ("fork_ns", 1000),
    "statistics, us": ("stats_ns", 1000),
}
# The issue of growth: the largest over the smallest of these, over all machines.
TARGETS = ("start, KiB", "a used CPU, KiB", "pair, ns", "slow, ns")
TARGET = 1.10


def name_of(machine):
    cpus, stride, nodes = machine
    ids = f", ids 0 to {(cpus - 1) * stride}" if stride > 1 else ""
    return f"{cpus} CPUs{ids}, {nodes} node{'s' if nodes > 1 else ''}"


def run_scale(build, options, failures, ukmem_conf):
    """{machine: {(column, ""): [figure in each round]}}"""
    machines = {name_of(machine): machine for machine in (QUICK if options.quick else MACHINES)}
    samples = {name: {} for name in machines}

    def measure(name, machine):
        cpus, stride, nodes = machine
        conf = ukmem_conf("percpu:cpu_id", f"numa_fake:{nodes if nodes > 1 else 0}")
        try:
            found = json.loads(run_child([build / "bench/scale", str(cpus), str(stride)], None,
                                         conf))
        except ChildFailed as error:
            return [("scale", error)]
        for column, (key, divisor) in COLUMNS.items():
            samples[name].setdefault((column, ""), []).append(found[key] / divisor)
        return []

    interleave(machines, options.rounds, measure, failures)
    return samples


def medians(samples):
    return {name: {column: statistics.median(figures) for (column, _), figures in cells.items()}
            for name, cells in samples.items() if cells}


def growth(middle, column):
    """The largest over the smallest figure of a column."""
    figures = [cells[column] for cells in middle.values()]
    return max(figures) / max(min(figures), 1e-9)


def scale_report(run, samples):
    middle = medians(samples)
    rows = [[name, *[report.number(cells[column]) for column in COLUMNS]]
            for name, cells in middle.items()]
    lines = ["# scale", "", report.machine_section(run), "",
             report.table(["pretended machine", *map(str.strip, COLUMNS)], rows), ""]
    for column in TARGETS if middle else ():
        value = growth(middle, column)
        lines.append(f"- {column}: largest / smallest {report.verdict(value, TARGET)}")
    return "\n".join(lines) + "\n"


def plot(folder, samples):
    """A picture of each column, if matplotlib is there (Debian: python3-matplotlib)."""
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
        matplotlib.use("Agg")
        from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    except ImportError:
        say("SKIPPED plots: matplotlib (python3-matplotlib) is missing")
        return
    middle = medians(samples)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for column, (key, _) in COLUMNS.items():
        figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
        axes.barh(list(middle), [cells[column] for cells in middle.values()])
        axes.invert_yaxis()
        axes.set_xlabel(column.strip())
        figure.savefig(Path(folder) / f"{key}.svg")
        pyplot.close(figure)
