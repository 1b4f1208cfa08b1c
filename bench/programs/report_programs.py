# SPDX-License-Identifier: MIT
"""Turns the figures of bench/programs/run into a Markdown report.

Samples are {allocator: {(test, metric): [figure of each round]}}.
"""

from statistics import stdev

import report

REFERENCES = ["mimalloc", "glibc"]
# What a metric counts for in the geometric means, None for nothing; of a rate it is
# the inverse that is compared.
ELAPSED, CPU, MEMORY = MEANS = ("elapsed time", "CPU time", "peak memory")
RATES = ("requests/s", "transactions/s")
METRICS = {
    "requests/s": ELAPSED,
    "transactions/s": ELAPSED,
    "elapsed, s": ELAPSED,
    "elapsed, us": ELAPSED,
    "user, s": None,
    "system, s": None,
    "CPU, s": CPU,
    "CPU, us": CPU,
    "page faults": None,
    "CPU, us/transaction": CPU,
    "peak resident, MiB": MEMORY,
    "peak Pss, MiB": None,
    "peak private, MiB": MEMORY,
    "resident/used": None,
    "resident, MiB": None,
}


def with_deviation(figures):
    """Median, and standard deviation where there are several figures."""
    if not figures:
        return "-"
    middle = report.number(report.median(figures))
    return f"{middle} ({report.number(stdev(figures))})" if len(figures) > 1 else middle


def label(cell):
    return f"{cell[0]}: {cell[1]}"


def median_table(samples):
    return report.table(["median (standard deviation)", *samples],
                        [[label(cell), *(with_deviation(samples[name].get(cell))
                                         for name in samples)]
                         for cell in report.cells_of(samples)])


def relative(figure, base, metric):
    """What one costs relative to another, or None."""
    if not figure or not base:
        return None
    return base / figure if metric in RATES else figure / base


def mean_rows(costs):
    """A row of geometric means for each kind of metric; costs are {name: {cell: cost}}."""
    rows = []
    for kind in MEANS:
        groups = [[cost for (_, metric), cost in cells.items()
                   if cost and METRICS[metric] == kind] for cells in costs.values()]
        if any(groups):
            rows.append([f"geometric mean: {kind}",
                         *(f"{report.geometric_mean(group):.3f}" if group else "-"
                           for group in groups)])
    return rows


def relative_table(samples, reference):
    """Costs relative to an allocator, which must be in every cell of a mean."""
    middle = report.medians(samples)
    base = middle[reference]
    costs = {name: {cell: relative(cells.get(cell), base[cell], cell[1]) for cell in base}
             for name, cells in middle.items()}
    rows = [[label(cell), *(f"{costs[name][cell]:.2f}" if costs[name][cell] else "-"
                            for name in costs)] for cell in base]
    return report.table([f"cost relative to {reference}", *costs], rows + mean_rows(costs))


def programs_report(run, samples):
    """The report of {program: samples}."""
    text = ["# Programs\n\n" + report.machine_section(run)]
    for program, figures in samples.items():
        text += [f"## {program}", median_table(figures)]
        text += [relative_table(figures, reference) for reference in REFERENCES
                 if figures.get(reference)]
    return "\n\n".join(text) + "\n"
