# SPDX-License-Identifier: MIT
"""Queues and pools between threads: million elements per second."""

import re

import drawing
import report
import report_queue
from document import Picture, Section, Table

BENCHMARKS = ("queue", "pool")
TITLES = {"queue": "Queues: producers and consumers", "pool": "Pools: threads"}
OURS = {"queue": report_queue.QUEUES, "pool": report_queue.POOLS}
BESIDE = {"queue": (), "pool": (report_queue.POOL_BACKING,)}


def split(column):
    """`4P4C b16` or `4 b16`: (threads, elements at once)"""
    numbers = [int(word) for word in re.findall(r"\d+", column)]
    return sum(numbers[:-1]), numbers[-1]


def lines_of(middle):
    """{elements at once: {name: {threads: figure}}}"""
    found = {}
    for name, cells in middle.items():
        for (group, column), figure in cells.items():
            if group == report_queue.THREADS:
                threads, bulk = split(column)
                found.setdefault(bulk, {}).setdefault(name, {})[threads] = figure
    return dict(sorted(found.items()))


def draw(kind, lines):
    drawn, axes = drawing.figure(4.2, len(lines), sharey=False)
    names = list(dict.fromkeys(name for of_bulk in lines.values() for name in of_bulk))
    for one, (bulk, of_bulk) in zip(axes.flat, lines.items()):
        ticks = sorted({threads for line in of_bulk.values() for threads in line})
        for name, line in of_bulk.items():
            one.plot(sorted(line), [line[threads] for threads in sorted(line)], label=name,
                     **drawing.style(name, names))
        one.set_xscale("log", base=2)
        drawing.plain_ticks(one.xaxis, ticks)
        one.set_ylim(bottom=0)
        one.set_title("one by one" if bulk == 1 else f"{bulk} at once")
        one.set_xlabel("threads")
    axes[0, 0].set_ylabel("million elements per second")
    drawing.legend_below(drawn, axes, 5)
    drawn.suptitle(f"{TITLES[kind]}. Higher is better")
    return drawing.svg(drawn, f"{kind}s")


def tables_of(kind, result):
    tables = []
    middle = result.medians()
    groups = list(dict.fromkeys(group for cells in middle.values() for group, _ in cells))
    for group in sorted(groups, key=lambda group: group != report_queue.THREADS):
        columns = report_queue.columns_of(middle, group)
        unit = "million elements per second" if report_queue.more_is_better(group) \
            else "ns of an element in and out"
        tables.append(Table(
            f"{kind}-{groups.index(group)}", f"{kind}, {group}: {unit}", ["", *columns],
            [[name, *(report.number(cells[group, column]) if (group, column) in cells else "-"
                      for column in columns)] for name, cells in middle.items()
             if any(of == group for of, _ in cells)]))
    return tables


def verdicts_of(kind, result):
    middle = result.medians()
    lines = []
    columns = report_queue.columns_of(middle, report_queue.THREADS)
    if columns:
        _, lines = report_queue.ratio_rows(middle, columns, report_queue.THREADS, OURS[kind],
                                           BESIDE[kind])
    return [f"{kind}, threads, ours / best peer (more is better): {line}" for line in lines]


def section(found):
    pictures, tables, verdicts = [], [], []
    for kind, result in found.items():
        lines = lines_of(result.medians())
        pictures.append(Picture(f"{kind}s", f"{TITLES[kind]}: elements per second by threads",
                                draw(kind, lines) if drawing.available() and lines else ""))
        tables += tables_of(kind, result)
        verdicts += verdicts_of(kind, result)
    return Section("queues-section", "Queues and pools",
                   "Queues of 512 places: producers put elements in, as many consumers take them out, none of "
                   "them pinned. Pools: each thread takes 1024 elements and gives them back. A queue under a "
                   "lock is there as a measure.", verdicts, pictures, tables)
