# SPDX-License-Identifier: MIT
"""Patterns of whole programs: time against memory, a point for each allocator."""

import drawing
import report
from document import Picture, Section, Table
from results import rows_and_columns

BENCHMARKS = ("workloads",)
GROUPS = {"1 thread": (1, 1), "2 threads": (2, 2), "32 to 512 threads": (32, 512)}
TIME, MEMORY = "seconds", "peak_rss_kib"
REFERENCES = ("glibc",)


def medians_of(result, key):
    """{allocator: {cell: median of one metric}}"""
    return {name: {cell: report.median(figures[key] for figures in rounds)
                   for cell, rounds in cells.items() if rounds}
            for name, cells in result.samples.items()}


def points(middles, cells, reference):
    """{allocator: (time, memory)}, geometric means relative to the reference, of those that did all of it."""
    found = {}
    for name in middles[0]:
        if report.lacks(middles[0], cells, name, reference):
            continue
        means = [report.relative_mean(middle, cells, name, reference) for middle in middles]
        if all(means):
            found[name] = tuple(means)
    return found


def draw(groups, reference):
    drawn, axes = drawing.figure(4.0, len(groups))
    for one, (title, found) in zip(axes.flat, groups.items()):
        for name, (time, memory) in found.items():
            look = drawing.style(name, list(found))
            one.plot([time], [memory], label=name, **{**look, "linestyle": "none",
                     "markersize": 11 if name == drawing.OURS else 8})
        one.set_title(title)
        one.set_xlabel(f"elapsed time / {reference}")
        one.set_xlim(0, 1.12 * max(time for time, _ in found.values()))
        one.set_ylim(0, 1.12 * max(memory for _, memory in found.values()))
    axes[0, 0].set_ylabel(f"peak resident memory / {reference}")
    drawing.legend_below(drawn, axes)
    drawn.suptitle("Workloads: time against memory. Nearer to the lower left corner is better")
    return drawing.svg(drawn, "workloads")


def reference_of(result):
    names = [name for name in (*REFERENCES, *result.samples) if result.samples.get(name)]
    return names[0]


def best_table(id_, caption, middle, rows, columns):
    found = report.ratios(middle)
    return Table(id_, caption, ["workload", *(f"{column} thread{'s' if column != 1 else ''}" for column in columns)],
                 [[row, *("{:.2f} ({})".format(*found[row, column]) if (row, column) in found
                          else "-" for column in columns)] for row in rows])


def section(found):
    result = found["workloads"]
    rows, columns = rows_and_columns(result.samples)
    reference = reference_of(result)
    middles = [medians_of(result, TIME), medians_of(result, MEMORY)]
    cells = [(row, column) for row in rows for column in columns]
    groups = {}
    for title, (least, most) in GROUPS.items():
        chosen = [cell for cell in cells if least <= int(cell[1]) <= most]
        means = points(middles, chosen, reference)
        if len(means) > 1:
            groups[title] = means
    names = list(result.samples)
    tables = [Table("workloads-means", f"Elapsed time / peak memory, geometric means relative to "
                    f"{reference}", ["", *names],
                    [[title, *(f"{means[name][0]:.2f} / {means[name][1]:.2f}" if name in means
                               else "-" for name in names)] for title, means in groups.items()]),
              best_table("workloads-time", "Elapsed time, ukmem / best peer of the cell",
                         middles[0], rows, columns),
              best_table("workloads-memory", "Peak resident memory, ukmem / best peer of the cell",
                         middles[1], rows, columns),
              Table("workloads-ms", "Elapsed time, ms", ["workload, threads", *names],
                    [[f"{row}, {column}", *(report.number(1e3 * middles[0][name][row, column])
                                            if (row, column) in middles[0][name] else "-"
                                            for name in names)]
                     for row, column in cells
                     if any((row, column) in of for of in middles[0].values())])]
    verdicts = []
    for title, means in groups.items():
        if report.OURS in means:
            ahead = {k: min((means[name][k], name) for name in means if name != report.OURS)
                     for k in (0, 1)}
            verdicts.append(f"{title}: time {means[report.OURS][0]:.2f} of {reference}'s (best peer {ahead[0][1]} "
                            f"{ahead[0][0]:.2f}), memory {means[report.OURS][1]:.2f} (best peer "
                            f"{ahead[1][1]} {ahead[1][0]:.2f}).")
    failed = {name: report.lacks(middles[0], cells, name, reference) for name in names}
    verdicts += [f"{name} failed in {count} of the workloads, and has no mean with those." for name, count in failed.items()
                 if count]
    picture = Picture("workloads", "Time against memory of all workloads, one point for each "
                      "allocator", draw(groups, reference)
                      if drawing.available() and groups else "")
    return Section("workloads-section", "Workloads: time against memory",
                   "Patterns of whole programs, each with a fixed amount of work (bench/README.md names them). "
                   "A point is the geometric mean over all patterns with that number of threads.",
                   verdicts, [picture], tables)
