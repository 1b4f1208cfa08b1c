# SPDX-License-Identifier: MIT
"""Memory of a program that stands still after it freed all it had."""

import drawing
import report
from document import Picture, Section, Table
from results import rows_and_columns

BENCHMARKS = ("idle",)


def mean_curve(rounds):
    """What stays, the median over the rounds at each of the moments."""
    return [report.median(values) for values in zip(*(figures["stays"] for figures in rounds))]


def draw(samples, scenarios):
    columns = 3
    lines = (len(scenarios) + columns - 1) // columns
    drawn, axes = drawing.figure(2.5 * lines + 0.6, columns, lines, sharex=True, sharey=True)
    names = list(samples)
    for one, scenario in zip(axes.flat, scenarios):
        for name, cells in samples.items():
            rounds = cells.get((scenario, ""))
            if rounds:
                curve = mean_curve(rounds)
                times = [rounds[0]["seconds"] * k / (len(curve) - 1) for k in range(len(curve))]
                one.plot(times, curve, label=name, **{**drawing.style(name, names),
                                                      "markevery": max(1, len(curve) // 5)})
        one.set_title(scenario)
        one.set_ylim(0, 105)
    for one in axes.flat[len(scenarios):]:
        one.set_visible(False)
    for one in axes[-1]:
        one.set_xlabel("s")
    for row in axes:
        row[0].set_ylabel("% of the peak")
    drawing.legend_below(drawn, axes)
    drawn.suptitle("Memory that is still resident after all was freed. Lower is better")
    return drawing.svg(drawn, "idle")


def section(found):
    samples = found["idle"].samples
    scenarios, _ = rows_and_columns(samples)
    names = list(samples)
    tables = []
    for key, title in report.IDLE_MOMENTS.items():
        rows = [[scenario, *(str(round(report.median(figures[key] for figures in cells[scenario, ""])))
                             if cells.get((scenario, "")) else "-"
                             for cells in samples.values())] for scenario in scenarios]
        tables.append(Table(f"idle-{key}", f"Percent of the peak given back {title}",
                            ["", *names], rows))
    tables.insert(0, tables.pop(1))
    picture = Picture("idle", "Resident memory while a program stands still",
                      draw(samples, scenarios) if drawing.available() else "")
    return Section("idle-section", "Memory given back",
                   "A program allocates objects, writes to all of them, frees them (in one case all but one of "
                   "64) and stands still without asking for anything. At the end the allocator is "
                   "asked to give back what it can.", [], [picture], tables)
