# SPDX-License-Identifier: MIT
"""Pretended machines of many CPUs and nodes: what each figure is beside the smallest machine's."""

import drawing
import report
from document import Picture, Section, Table
from results import rows_and_columns

BENCHMARKS = ("scale",)
SHOWN = ("start, KiB", "a used CPU, KiB", "pair, ns", "slow, ns")


def draw(middle):
    machines = list(middle)
    drawn, axes = drawing.figure(0.9 + 0.32 * len(machines), len(SHOWN), sharey=True)
    for one, column in zip(axes.flat, SHOWN):
        values = [middle[name].get((column, ""), 0) for name in machines]
        bars = one.barh(machines, values, color=drawing.BLUE, height=0.65)
        one.bar_label(bars, [report.number(value) for value in values], padding=2, fontsize=8)
        one.set_title(column)
        one.set_xlim(0, 1.3 * max(values))
        one.grid(axis="y", visible=False)
    axes[0, 0].invert_yaxis()
    drawn.suptitle("ukmem on pretended machines: flat is good")
    return drawing.svg(drawn, "scale")


def section(found):
    result = found["scale"]
    middle = result.medians()
    _, _ = rows_and_columns(result.samples)
    columns = [column for column, _ in next(iter(middle.values()))]
    verdicts = []
    for column in SHOWN:
        values = [cells[column, ""] for cells in middle.values() if (column, "") in cells]
        verdicts.append(f"{column}: largest / smallest "
                        f"{report.verdict(max(values) / max(min(values), 1e-9), 1.10)}.")
    tables = [Table("scale-table", "Medians", ["pretended machine", *map(str.strip, columns)],
                    [[name, *(report.number(cells[column, ""]) if (column, "") in cells else "-"
                              for column in columns)] for name, cells in middle.items()])]
    picture = Picture("scale", "Memory and time on pretended machines of many CPUs and nodes",
                      draw(middle) if drawing.available() else "")
    return Section("scale-section", "Many CPUs and nodes, pretended",
                   "The library is told of machines that are not there (bench/README.md says what can be seen "
                   "so): memory when the program starts, memory of a used CPU, an object out of the CPU's "
                   "array and back (pair), and through refills (slow).", verdicts, [picture], tables)
