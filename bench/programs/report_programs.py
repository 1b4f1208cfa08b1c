# SPDX-License-Identifier: MIT
"""Turns the figures of bench/programs/run into a Markdown report.

Samples are {allocator: {(test, metric): [figure of each round]}}.
"""

from statistics import stdev

import report

REFERENCES = ["mimalloc", "glibc"]
# Geometric mean and worst program: CPU time / best peer, peak memory / glibc.
CPU_TARGETS, PEAK_TARGETS = (0.97, 1.03), (1.03, 1.08)
# Programs with several processes at work, or that measure something else.
NO_TARGETS = ("postgres", "kernbench", "start")
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


def program_cost(middle, name, reference, kind):
    """One allocator's cost relative to another in a program: the geometric mean over its tests,
    or None where a figure is missing.
    """
    base = {cell: figure for cell, figure in middle.get(reference, {}).items()
            if METRICS[cell[1]] == kind}
    costs = [relative(middle.get(name, {}).get(cell), figure, cell[1])
             for cell, figure in base.items()]
    return report.geometric_mean(costs) if costs and all(costs) else None


def widest(samples, names, kind):
    """The largest spread of a figure of this kind among these allocators, max/min."""
    return max((report.spread(figures) for name in names
                for (_, metric), figures in samples.get(name, {}).items()
                if METRICS[metric] == kind), default=1)


def target_rows(samples):
    """{program: {allocator: (CPU time, peak memory) relative to glibc}} of the programs that have
    targets.
    """
    found = {}
    for program, figures in samples.items():
        middle = report.medians(figures)
        costs = {name: tuple(program_cost(middle, name, "glibc", kind) for kind in (CPU, MEMORY))
                 for name in figures}
        if program in NO_TARGETS or not all(costs.get(report.OURS, (None,))):
            continue
        found[program] = {name: pair for name, pair in costs.items() if all(pair)}
    return found


def targets_section(samples):
    """CPU time and peak memory of each program beside glibc's and the best peer's."""
    costs = target_rows(samples)
    if not costs:
        return []
    rows, to_best, to_glibc, peaks = [], {}, {}, {}
    for program, of in costs.items():
        time, peak = of[report.OURS]
        # glibc is one of the peers.
        best, (best_time, best_peak) = min(((name, pair) for name, pair in of.items()
                                            if name != report.OURS), key=lambda item: item[1][0])
        to_best[program], to_glibc[program], peaks[program] = time / best_time, time, peak
        spreads = "/".join(report.number(widest(samples[program], [name], CPU))
                           for name in (report.OURS, best))
        rows.append([program, f"{time:.3f}", f"{best_time:.3f} ({best})", f"{time / best_time:.3f}",
                     spreads, f"{peak:.3f}", f"{best_peak:.3f}"])
    rows.append(["geometric mean", f"{report.geometric_mean(to_glibc.values()):.3f}", "",
                 f"{report.geometric_mean(to_best.values()):.3f}", "",
                 f"{report.geometric_mean(peaks.values()):.3f}", ""])
    lines = []
    for what, found, (mean, most) in (("CPU time / best peer", to_best, CPU_TARGETS),
                                      ("peak resident / glibc", peaks, PEAK_TARGETS)):
        worst = max(found, key=found.get)
        lines.append(f"- {what}: geometric mean "
                     f"{report.verdict(report.geometric_mean(found.values()), mean)}; worst "
                     f"{report.verdict(found[worst], most)}, {worst}; above it: "
                     f"{', '.join(name for name in found if found[name] > most) or 'none'}")
    names = report.unique(name for of in costs.values() for name in of)
    everyone = [[program, *("/".join(f"{figure:.2f}" for figure in of[name]) if name in of else "-"
                            for name in names)] for program, of in costs.items()]
    full = [name for name in names if all(name in of for of in costs.values())]
    everyone.append(["geometric mean", *(
        "/".join(f"{report.geometric_mean([of[name][k] for of in costs.values()]):.2f}"
                 for k in (0, 1)) if name in full else "-" for name in names)])
    return ["## Targets: programs with one thread",
            report.table(["", "CPU / glibc", "best peer / glibc", "CPU / best peer",
                          "spread, ours/best", "peak / glibc", "best peer's peak / glibc"], rows),
            "\n".join(lines),
            "## CPU time and peak resident memory / glibc",
            report.table(["", *names], everyone)]


def programs_report(run, samples):
    """The report of {program: samples}."""
    text = ["# Programs\n\n" + report.machine_section(run), *targets_section(samples)]
    for program, figures in samples.items():
        text += [f"## {program}", median_table(figures)]
        text += [relative_table(figures, reference) for reference in REFERENCES
                 if figures.get(reference)]
    return "\n\n".join(text) + "\n"
