# SPDX-License-Identifier: MIT
"""What bench/run --latency measures: histograms of single mallocs and frees, and its tables."""

import json
from collections import Counter
from statistics import median

import report
from children import ChildFailed, check_origin, interleave, run_child, say

OPERATIONS = ("malloc", "free", "nothing")
# The tables show these columns of a histogram: a title and the part of the operations below it.
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
# The titles that have a target, at or below the best peer's.
JUDGED = ("p99.9", "worst")
# The scenario in which allocators are asked to give memory back: of those that can be asked.
TRIMMED = "trimmed"
# Seconds of a scenario, and with --quick.
SECONDS = (3, 0.5)


def run_latency(build, allocators, options, failures):
    """{allocator: {(scenario, operation): [{all, running: {worst, buckets}} in each round]}}

    With TRIMMED each has what the trims of the round did, too."""
    program = build / "bench/latency"
    scenarios = run_child([program, "--list"], None).splitlines()
    seconds = str(options.seconds or SECONDS[int(options.quick)])
    samples = {name: {} for name in allocators}

    def measure(name, library, scenario):
        try:
            result = json.loads(run_child([program, scenario, seconds], library))
            check_origin(result["malloc_origin"], library)
        except ChildFailed as error:
            return [(f"latency, {scenario}", error)]
        if scenario == TRIMMED and not result["trimmed_by"]:
            say(f"SKIPPED {name}, {scenario}: it cannot be asked for memory")
            return []
        for operation in OPERATIONS:
            samples[name].setdefault((scenario, operation), []).append(
                {kind: result[kind][operation] for kind in ("all", "running")}
                | ({"trims": {"by": result["trimmed_by"], **result["trims"]}}
                   if scenario == TRIMMED else {}))
        return []

    interleave(allocators, options.rounds, measure, failures,
               [(scenario,) for scenario in scenarios], options.during)
    return samples


def pooled(rounds, kind):
    """The buckets of all rounds together: [(ns, count)], ascending."""
    counts = Counter()
    for figures in rounds:
        for ns, count in figures[kind]["buckets"]:
            counts[ns] += count
    return sorted(counts.items())


def percentile(buckets, part):
    """The largest value of the bucket that has the operation below which this part of them is."""
    left = part * sum(count for _, count in buckets)
    for ns, count in buckets:
        left -= count
        if left <= 0:
            return ns
    return buckets[-1][0]


def figures_of(rounds, kind="running"):
    """{title: ns}: percentiles of all rounds together, and the median of the rounds' worst."""
    # On a busy machine every operation of a short run may have been interrupted.
    buckets = pooled(rounds, kind) or pooled(rounds, "all")
    return {**{title: percentile(buckets, part) for title, part in PERCENTILES.items()},
            "worst": median(figures[kind]["worst"] for figures in rounds)}


def latency_figures(samples, kind="running"):
    """{title: {allocator: {(scenario, operation): ns}}}"""
    found = {name: {cell: figures_of(rounds, kind) for cell, rounds in cells.items() if rounds}
             for name, cells in samples.items()}
    return {title: {name: {cell: figures[title] for cell, figures in cells.items()}
                    for name, cells in found.items()} for title in (*PERCENTILES, "worst")}


def duration(ns):
    """30 ns, 4.1 us, 12.3 ms."""
    for size, unit in ((1e6, "ms"), (1e3, "us")):
        if ns >= size:
            return f"{report.number(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def trims_table(samples):
    """What the trims did beside which single operations were timed: a row for each allocator."""
    rows = []
    for name, cells in samples.items():
        found = [figures["trims"] for figures in cells.get((TRIMMED, OPERATIONS[0]), [])
                 if figures.get("trims", {}).get("count")]
        if found:
            us, given, resident = (median(trims[what] for trims in found)
                                   for what in ("us", "given_back_kib", "resident_kib"))
            rows.append([name, f"`{found[0]['by']}`", duration(us * 1000), f"{given:.0f}",
                         f"{resident / 1024:.1f}"])
    return report.table(["", "asked by", "a trim takes", "gives back, KiB",
                         "resident after it, MiB"], rows) if rows else ""


def latency_report(run, samples):
    """A row for each allocator and operation of a scenario."""
    by_title = latency_figures(samples)
    interrupted = latency_figures(samples, "all")["worst"]
    cells = report.cells_of(samples)
    text = ["# Latency of single mallocs and frees", report.machine_section(run),
            "A pair of readings of the time stamp counter with nothing between them, *nothing*, "
            "is part of each figure. Operations of 5 us and more during which the kernel took "
            "the CPU away count in the last column only."]
    for scenario in report.unique(scenario for scenario, _ in cells):
        rows = [[f"{name}, {operation}",
                 *(duration(found[name][scenario, operation]) for found in by_title.values()),
                 duration(interrupted[name][scenario, operation])]
                for operation in OPERATIONS for name in samples
                if (scenario, operation) in by_title["worst"][name]]
        text += [f"## {scenario}",
                 report.table(["", *by_title, "worst, with interruptions"], rows)]
        if scenario == TRIMMED and trims_table(samples):
            text += ["Allocators do more or less when they are asked for memory: what other "
                     "threads' caches hold is given back by some alone. The threads go on "
                     "meanwhile.", trims_table(samples)]
    for title in JUDGED:
        found = report.ratios({name: {cell: ns for cell, ns in cells.items()
                                      if cell[1] != "nothing"}
                               for name, cells in by_title[title].items()})
        if found:
            text += [f"## ukmem / best peer in the cell: {title} (target: at most 1)",
                     report.ratio_table("", found, str)]
    return "\n\n".join(text) + "\n"
