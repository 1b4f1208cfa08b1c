# SPDX-License-Identifier: MIT
"""Single mallocs and frees: percentiles up to the worst, disturbed in five ways."""

import drawing
import latency_runs
import report
from document import Picture, Section, Table
from latency_runs import duration
from results import rows_and_columns

BENCHMARKS = ("latency",)
TIMED = ("malloc", "free")
NOTHING = "nothing"
WHAT = {
    "quiet": "a thread for each CPU",
    "preempted": "four threads for each CPU",
    "purged": "all is freed now and then, and the program stands still: memory decays",
    "trimmed": "another thread asks for memory back every 10 ms: CPUs are stopped, their caches "
               "drained",
    "forks": "the process forks every 20 ms",
}
# A curve begins here: below it all are the fast paths.
FROM = 0.9


def curve(buckets):
    """([1 / (1 - part)], [ns]): how slow one of so many operations is."""
    total = sum(count for _, count in buckets)
    xs, ys, below = [], [], 0
    for ns, count in buckets:
        below += count
        if below > FROM * total and below < total:
            xs.append(total / (total - below))
            ys.append(ns)
    return xs, ys


def round_duration(ns):
    """100 us, of a power of ten."""
    size, unit = (1e6, "ms") if ns >= 1e6 else (1e3, "us") if ns >= 1e3 else (1, "ns")
    return f"{ns / size:g} {unit}"


def draw(samples, scenarios):
    drawn, axes = drawing.figure(2.5 * len(scenarios) + 0.6, len(TIMED), len(scenarios),
                                 sharex=True, sharey=True)
    names = list(samples)
    for row, scenario in zip(axes, scenarios):
        for one, operation in zip(row, TIMED):
            for name, cells in samples.items():
                rounds = cells.get((scenario, operation))
                if rounds:
                    look = drawing.style(name, names)
                    xs, ys = curve(latency_runs.pooled(rounds, "running"))
                    one.plot(xs, ys, label=name, **{**look, "marker": None})
            one.set_xscale("log")
            one.set_yscale("log")
            one.set_title(f"{scenario}: {operation}")
            drawing.plain_ticks(one.xaxis, [10, 100, 1e3, 1e4, 1e5, 1e6],
                                lambda value, _: f"{100 - 100 / value:.6g} %")
            drawing.plain_ticks(one.yaxis, [10, 100, 1e3, 1e4, 1e5, 1e6, 1e7],
                                lambda value, _: round_duration(value))
    drawing.legend_below(drawn, axes)
    drawn.suptitle("How slow a part of all operations is at most. Lower is better")
    return drawing.svg(drawn, "latency")


def scenario_table(scenario, by_title, interrupted, names):
    rows = []
    for operation in (*TIMED, NOTHING):
        for name in names:
            if (scenario, operation) in by_title["worst"].get(name, {}):
                rows.append([f"{operation}, {name}",
                             *(duration(found[name][scenario, operation])
                               for found in by_title.values()),
                             duration(interrupted[name][scenario, operation])])
    return Table(f"latency-{scenario}", f"{scenario}: {WHAT.get(scenario, '')}",
                 ["", *by_title, "worst, with interruptions"], rows)


def verdicts_of(by_title, scenarios):
    """The worst ratio to the best peer, and the cells that are above 1."""
    lines = []
    for title in latency_runs.JUDGED:
        found = report.ratios({name: {cell: ns for cell, ns in cells.items() if cell[1] in TIMED}
                               for name, cells in by_title[title].items()})
        if found:
            above = [f"{scenario} {operation} {ratio:.2f} ({peer})"
                     for (scenario, operation), (ratio, peer) in found.items() if ratio > 1]
            lines.append(f"{title}, ours / best peer, target at most 1: met in "
                         f"{len(found) - len(above)} of {len(found)}"
                         + (f"; above it {', '.join(above)}." if above else "."))
    return lines


def section(found):
    samples = found["latency"].samples
    scenarios, _ = rows_and_columns(samples)
    by_title = latency_runs.latency_figures(samples)
    interrupted = latency_runs.latency_figures(samples, "all")["worst"]
    tables = [scenario_table(scenario, by_title, interrupted, list(samples))
              for scenario in scenarios]
    picture = Picture("latency", "Percentiles of single mallocs and frees in five situations",
                      draw(samples, scenarios) if drawing.available() else "")
    return Section("latency-section", "Latency of single operations",
                   "Each malloc and each free is timed by itself while threads replace random ones of their "
                   "objects (16 bytes to 64 KiB) and pass an eighth on. \"nothing\" is the timing "
                   "alone: it is part of every figure, and its worst is what the machine does "
                   "to any code. Operations of 5 us and more during which the kernel took the CPU from "
                   "the thread are left out, but for the last column. Percentiles are of all "
                   "rounds together, the worst is the median of the rounds' worst.",
                   verdicts_of(by_title, scenarios), [picture], tables)
