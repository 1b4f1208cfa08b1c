# SPDX-License-Identifier: MIT
"""Real programs: time and memory, with the spread over the rounds."""

import drawing
import report
from document import Picture, Section, Table
from results import unique

BENCHMARKS = ("programs",)
REFERENCE = "glibc"
CPU, PEAK = "CPU, s", "peak resident, MiB"
METRICS = {CPU: "CPU time", PEAK: "peak resident memory"}


def programs_of(samples, metric):
    """The programs with one process that have this metric."""
    return unique(row for cells in samples.values() for row, column in cells
                  if column == metric and row[1] == "all")


def relative(figures, base):
    """(least, median, most) of the rounds relative to the reference's median."""
    middle = report.median(base)
    return min(figures) / middle, report.median(figures) / middle, max(figures) / middle


def draw(samples, programs):
    drawn, axes = drawing.figure(1.2 + 0.55 * len(programs), len(METRICS), sharey=True)
    names = drawing.chosen(samples)
    for one, (metric, title) in zip(axes.flat, METRICS.items()):
        for place, name in enumerate(names):
            look = drawing.style(name, names)
            for k, row in enumerate(programs):
                figures, base = (samples[of].get((row, metric)) for of in (name, REFERENCE))
                if not figures or not base:
                    continue
                least, middle, most = relative(figures, base)
                y = k + 0.7 * ((place + 0.5) / len(names) - 0.5)
                one.plot([least, most], [y, y], color=look["color"], linewidth=1.2, zorder=2)
                one.plot([middle], [y], label=name, **{**look, "linestyle": "none"})
        one.axvline(1, color="#777777", linewidth=0.8, zorder=1)
        for k in range(0, len(programs), 2):
            one.axhspan(k - 0.5, k + 0.5, color="#f2f2f2", linewidth=0, zorder=0)
        one.set_title(f"{title} / {REFERENCE}")
        one.grid(axis="y", visible=False)
    axes[0, 0].set_yticks(range(len(programs)), [program for program, _ in programs])
    axes[0, 0].set_ylim(len(programs) - 0.5, -0.5)
    drawing.legend_below(drawn, axes)
    drawn.suptitle("Real programs: medians, and the span of all rounds. Further left is better")
    return drawing.svg(drawn, "programs")


def ratio_table(samples, programs, metric, title):
    names = list(samples)
    rows = []
    for row in programs:
        base = samples[REFERENCE].get((row, metric))
        fields = []
        for name in names:
            figures = samples[name].get((row, metric))
            fields.append("{1:.2f} ({0:.2f}-{2:.2f})".format(*relative(figures, base))
                          if figures and base else "-")
        rows.append([row[0], *fields])
    return Table(f"programs-{metric.split(',')[0].replace(' ', '-')}",
                 f"{title} / {REFERENCE}'s median: median (least-most)", ["program", *names], rows)


def all_table(samples):
    names = list(samples)
    cells = unique(cell for of in samples.values() for cell in of)
    return Table("programs-all", "All metrics: median (max / min)", ["", *names],
                 [[f"{program}, {test}, {metric}",
                   *(f"{report.number(report.median(of[(program, test), metric]))} "
                     f"({max(of[(program, test), metric]) / max(min(of[(program, test), metric]), 1e-9):.2f})"
                     if of.get(((program, test), metric)) else "-" for of in samples.values())]
                  for (program, test), metric in cells])


def verdicts_of(samples, programs):
    lines = []
    for metric, title in METRICS.items():
        middle = {name: {row: report.median(cells[row, metric]) for row in programs
                         if cells.get((row, metric))} for name, cells in samples.items()}
        found = report.ratios(middle)
        if found:
            mean = report.geometric_mean(ratio for ratio, _ in found.values())
            worst = max(found, key=lambda row: found[row][0])
            lines.append(f"{title}, ours / the best of {len(middle) - 1} peers for each program: geometric mean {mean:.2f}, "
                         f"worst {found[worst][0]:.2f} ({worst[0]}, against {found[worst][1]}).")
    return lines


def section(found):
    samples = found["programs"].samples
    programs = programs_of(samples, CPU)
    tables = [ratio_table(samples, programs, metric, title) for metric, title in METRICS.items()] \
        if REFERENCE in samples else []
    picture = Picture("programs", "CPU time and memory of real programs relative to glibc's malloc",
                      draw(samples, programs)
                      if drawing.available() and programs and REFERENCE in samples else "")
    return Section("programs-section", "Real programs",
                   "Compilers, interpreters and other programs at fixed work (bench/programs/README.md), what "
                   "they write being the same on every allocator.",
                   verdicts_of(samples, programs), [picture], [*tables, all_table(samples)])
