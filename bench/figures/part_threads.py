# SPDX-License-Identifier: MIT
"""The same work done by more and more threads."""

import drawing
import report
from document import Picture, Section, Table
from part_workloads import TIME, medians_of
from results import rows_and_columns

BENCHMARKS = ("workloads",)
# A pattern with fewer numbers of threads makes no line.
LEAST = 3


def draw(lines, names):
    columns = 3
    count = len(lines)
    drawn, axes = drawing.figure(2.6 * ((count + columns - 1) // columns) + 0.6, columns,
                                 (count + columns - 1) // columns)
    for one, (row, of_row) in zip(axes.flat, lines.items()):
        ticks = sorted({threads for line in of_row.values() for threads in line})
        for name, line in of_row.items():
            one.plot(sorted(line), [1e3 * line[threads] for threads in sorted(line)], label=name,
                     **drawing.style(name, names))
        one.set_xscale("log")
        one.set_yscale("log")
        drawing.plain_ticks(one.xaxis, ticks)
        low = 1e3 * min(min(line.values()) for line in of_row.values())
        high = 1e3 * max(max(line.values()) for line in of_row.values())
        marks = [mark for power in range(-1, 6) for mark in
                 (10.0 ** power, 2 * 10.0 ** power, 5 * 10.0 ** power)
                 if 0.7 * low <= mark <= 1.4 * high]
        drawing.plain_ticks(one.yaxis, marks)
        one.set_title(row)
        one.set_xlabel("threads")
        one.set_ylabel("ms")
    for one in axes.flat[count:]:
        one.set_visible(False)
    drawing.legend_below(drawn, axes)
    drawn.suptitle("Elapsed time of a fixed amount of work, by the number of threads. Lower is better")
    return drawing.svg(drawn, "threads")


def section(found):
    result = found["workloads"]
    middle = medians_of(result, TIME)
    rows, _ = rows_and_columns(result.samples)
    lines = {}
    for row in rows:
        of_row = {name: {int(threads): figure for (of, threads), figure in cells.items()
                         if of == row} for name, cells in middle.items()}
        if max(map(len, of_row.values())) >= LEAST:
            lines[row] = {name: line for name, line in of_row.items() if line}
    names = list(middle)
    tables = [Table(f"threads-{row}", f"{row}: elapsed time, ms", ["threads", *names],
                    [[threads, *(report.number(1e3 * of_row[name][threads])
                                 if threads in of_row.get(name, {}) else "-" for name in names)]
                     for threads in sorted({t for line in of_row.values() for t in line})])
              for row, of_row in lines.items()]
    picture = Picture("threads", "Elapsed time of workloads by the number of threads",
                      draw(lines, names) if drawing.available() and lines else "")
    return Section("threads-section", "Scaling over threads",
                   "These workloads run with several numbers of threads, beyond the number of CPUs, too. "
                   "The work is the same in each, so once all CPUs are busy the best line is a flat one.", [], [picture], tables)
