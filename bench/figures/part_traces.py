# SPDX-License-Identifier: MIT
"""What recorded programs asked of malloc, replayed."""

import drawing
import memory_runs
import report
from document import Picture, Section, Table
from results import rows_and_columns

BENCHMARKS = ("traces",)


def draw(figures, traces):
    drawn, axes = drawing.figure(3.6, len(figures))
    for one, (title, samples) in zip(axes.flat, figures.items()):
        names = list(samples)
        for name, cells in samples.items():
            look = {**drawing.style(name, names), "linestyle": "none", "markersize": 9}
            there = [k for k, trace in enumerate(traces) if cells.get((trace, ""))]
            one.plot([report.median(cells[traces[k], ""]) for k in there], there, label=name, **look)
        one.set_yticks(range(len(traces)), traces)
        one.set_ylim(len(traces) - 0.5, -0.5)
        one.set_xlim(left=0)
        one.set_title(title)
    drawing.legend_below(drawn, axes)
    drawn.suptitle("Recorded programs. Further left is better")
    return drawing.svg(drawn, "traces")


def section(found):
    result = found["traces"]
    traces, _ = rows_and_columns(result.samples)
    figures = memory_runs.trace_figures(result.samples)
    tables, verdicts = [], []
    for number, (title, samples) in enumerate(figures.items()):
        middle = report.medians(samples)
        tables.append(Table(f"traces-{number}", title, ["trace", *middle],
                            [[trace, *(report.number(cells[trace, ""]) if (trace, "") in cells
                                       else "-" for cells in middle.values())]
                             for trace in traces]))
        ratios = report.ratios(middle)
        if ratios:
            verdicts.append(f"{title}, ours / best peer: " + ", ".join(
                f"{trace} {ratio:.2f} ({peer})" for (trace, _), (ratio, peer) in ratios.items())
                + ".")
    picture = Picture("traces", "Time and memory of recorded programs",
                      draw(figures, traces) if drawing.available() else "")
    return Section("traces-section", "Recorded programs",
                   "What these programs asked of malloc (bench/trace), again and again, each recorded thread as "
                   "a thread, and nothing in between but a write to each page: the share of a "
                   "program's time that is malloc's.", verdicts, [picture], tables)
