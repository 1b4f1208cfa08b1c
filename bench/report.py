# SPDX-License-Identifier: MIT
"""Turns the raw figures of bench/run into a Markdown report.

Samples are {allocator: {cell: [figure of each round]}}, where a cell is a pair
of a row and a column: size and batch, or workload and threads. For per-CPU
operations, a mode is in the place of an allocator, and a cell is operation and
pattern; for pages it is a source of memory, for zonelists a setting.
"""

import math
import re
from statistics import median

OURS = "ukmem"
GRID_GEOMEAN_TARGET = 0.80
GRID_WORST_TARGET = 1.10
# Workloads are compared with the first of these that is there.
WORKLOAD_REFERENCES = ("mimalloc-v2", "mimalloc")
# Groups of workloads: the least and the greatest number of threads, and targets for
# ours relative to the reference, of elapsed time and memory.
WORKLOAD_GROUPS = {
    "single-thread": (1, 1, 0.85, 0.55),
    "2 threads": (2, 2, None, None),
    "32-512 threads": (32, 512, 0.65, 0.25),
    "all": (1, math.inf, 0.80, 0.55),
}
# Key in the program's result, title, unit and what turns the figure into it.
WORKLOAD_METRICS = [
    ("seconds", "Elapsed time", "ms", 1e3),
    ("cpu_seconds", "CPU time", "ms", 1e3),
    ("peak_rss_kib", "Peak resident memory", "MiB", 1 / 1024),
]

# When bench/idle looks at the memory.
IDLE_MOMENTS = {
    "freed": "when all is freed",
    "idle": "after standing still",
    "trimmed": "after the allocator was asked to",
}

PERCPU_DEFAULT = "default"
# The operation that has targets, and what it may cost relative to another.
PERCPU_OPERATION = "this_cpu_add"
PERCPU_TARGETS = [("plain add", 2.5), ("lock add", 0.35)]

# The source of pages that others are compared with: it does what they do.
PAGES_REFERENCE = "get_free_pages"
# Key of a sample, title.
PAGES_METRICS = [("cpu", "CPU time"), ("elapsed", "Elapsed time")]
# Settings of the cache, and what a hog counts: key, title and what turns it into that.
ZONELIST_CACHE = ("zonelist_cache:1", "zonelist_cache:0")
HOG_METRICS = [
    ("pages_per_second", "Pages per second, thousands", 1e-3),
    ("cpu_per_page", "CPU time of a page, ns", 1e9),
    ("user_per_page", "User time of a page, ns", 1e9),
    ("system_per_page", "System time of a page, ns", 1e9),
]


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(math.log(value) for value in values) / len(values))


def medians(samples):
    """{allocator: {cell: median}}, without the cells that were never measured."""
    return {name: {cell: median(figures) for cell, figures in cells.items() if figures}
            for name, cells in samples.items()}


def ratios(middle):
    """{cell: (ours / best peer, name of that peer)} from medians()."""
    found = {}
    for cell, ours in middle.get(OURS, {}).items():
        peers = [(cells[cell], name) for name, cells in middle.items()
                 if name != OURS and cell in cells]
        if peers:
            best, name = min(peers)
            found[cell] = (ours / best, name)
    return found


def number(value):
    """Three digits or so: 6.31, 63.1, 631."""
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def table(header, rows):
    """A Markdown table with its columns aligned."""
    lines = [[str(field) for field in row] for row in [header, *rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    text = ["| " + " | ".join(field.ljust(width) for field, width in zip(line, widths)) + " |"
            for line in lines]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def unique(values):
    return list(dict.fromkeys(values))


def cells_of(samples):
    return unique(cell for cells in samples.values() for cell in cells)


def joined_table(corner, samples, reduce, cells, show=number):
    """A row for each row of cells; in it, for each allocator, the columns as a/b/c."""
    columns = unique(column for _, column in cells)

    def field(name, row):
        figures = [samples[name].get((row, column)) for column in columns]
        return "/".join(str(show(reduce(f))) if f else "-" for f in figures)

    return table([corner, *samples],
                 [[row, *(field(name, row) for name in samples)]
                  for row in unique(row for row, _ in cells)])


def spread(figures):
    return max(figures) / min(figures)


def ratio_table(corner, found, label):
    """Ours / best peer: a row for each row of the cells, a column for each column."""
    columns = unique(column for _, column in found)

    def field(row, column):
        if (row, column) not in found:
            return "-"
        value, peer = found[row, column]
        return f"{value:.2f} ({peer})"

    return table([corner, *(label(column) for column in columns)],
                 [[row, *(field(row, column) for column in columns)]
                  for row in unique(row for row, _ in found)])


def summary(found):
    """Geometric mean of ratios(), the worst cell and its ratio and peer."""
    worst = max(found, key=lambda cell: found[cell][0])
    return geometric_mean([value for value, _ in found.values()]), worst, *found[worst]


def machine_section(run):
    machine = run["machine"]
    lines = [f"{machine['cpu']}, {machine['cpus']} CPUs; Linux {machine['kernel']}; "
             f"{machine['libc']}; {run['date']}. {run['rounds']} interleaved rounds, "
             "medians over the rounds.", ""]
    if run.get("condition"):
        lines.append(f"- condition: {run['condition']}")
    for name, allocator in run.get("allocators", {}).items():
        version = f" ({allocator['version']})" if allocator["version"] else ""
        lines.append(f"- {name}: `{allocator['library']}`{version}")
    for name, mode in run.get("modes", {}).items():
        lines.append(f"- {name}: mode {mode['mode']}, {mode['reason']}; index {mode['index']}")
        if mode["left_out"]:
            lines.append(f"- {name}: {mode['left_out']} figures left out, of threads that did "
                         "not run at the same time")
    for name, value in run["environment"].items():
        lines.append(f"- set for all of them: `{name}={value}`")
    lines += [f"- **failed**: {failure}" for failure in run["failures"]]
    return "\n".join(lines)


def under(condition, text):
    """A report whose headings name the condition that its tables were measured under."""
    return re.sub(r"^(#+ .*)$", rf"\1 [{condition}]", text, flags=re.M) if condition else text


def batch_label(batch):
    return "one" if batch == 1 else str(batch)


def verdict(value, target):
    return f"{value:.2f} (target <= {target:.2f}: {'met' if value <= target else 'missed'})"


def grid_report(run, samples):
    cells = cells_of(samples)
    batches = "/".join(batch_label(batch) for batch in unique(batch for _, batch in cells))
    found = ratios(medians(samples))
    text = ["# malloc grid", machine_section(run),
            f"## CPU time of a malloc+free pair, ns: {batches}",
            joined_table("size", samples, median, cells)]
    if found:
        mean, (size, batch), worst, peer = summary(found)
        text += ["## ukmem / best peer in the cell",
                 ratio_table("size", found, batch_label),
                 f"Geometric mean of {len(found)} cells: {verdict(mean, GRID_GEOMEAN_TARGET)}.\n"
                 f"Worst cell: {verdict(worst, GRID_WORST_TARGET)}, "
                 f"{size} bytes, batch {batch_label(batch)}, against {peer}."]
    text += [f"## Spread over the rounds, max/min: {batches}",
             joined_table("size", samples, spread, cells)]
    return "\n\n".join(text) + "\n"


def relative_mean(middle, cells, name, reference):
    """Geometric mean of one allocator's figures relative to another's, or None."""
    mine, other = middle[name], middle[reference]
    found = [mine[cell] / other[cell] for cell in cells if cell in mine and cell in other]
    return geometric_mean(found) if found else None


def lacks(middle, cells, name, reference):
    """In how many of the reference's cells this allocator failed: a mean of the others is of other work."""
    return sum(cell in middle[reference] and cell not in middle[name] for cell in cells)


def of_fewer(middle, cells, name, reference):
    """What is said beside such a mean."""
    there = sum(cell in middle[reference] for cell in cells)
    failed = lacks(middle, cells, name, reference)
    return f" ({there - failed} of {there} cells)" if failed else ""


def relative_table(middles, groups, reference):
    """Geometric means relative to one peer, all metrics as a/b/c, a row for each group
    of cells: {what it is called: cells}.
    """
    def field(name, cells):
        means = [relative_mean(middle, cells, name, reference) for middle in middles]
        return "/".join(f"{mean:.2f}" if mean else "-" for mean in means) \
            + of_fewer(middles[0], cells, name, reference)

    names = list(middles[0])
    return table(["", *names], [[label, *(field(name, cells) for name in names)]
                                for label, cells in groups.items()])


def groups_by_column(cells, label):
    """Groups for relative_table(): one for each column, and all."""
    groups = {label(value): [cell for cell in cells if cell[1] == value]
              for value in unique(value for _, value in cells)}
    return {**groups, "all": cells}


def column(samples, key):
    """The samples of one metric, from samples that are dictionaries."""
    return {name: {cell: [figures[key] for figures in rounds] for cell, rounds in cells.items()}
            for name, cells in samples.items()}


def workload_groups(cells):
    """{group and how many cells it has: its cells}, and {the same: its targets}."""
    groups, targets = {}, {}
    for title, (least, most, *goals) in WORKLOAD_GROUPS.items():
        chosen = [cell for cell in cells if least <= cell[1] <= most]
        if chosen:
            groups[f"{title} ({len(chosen)})"] = chosen
            targets[f"{title} ({len(chosen)})"] = goals
    return groups, targets


def workload_verdicts(middles, groups, targets, reference):
    """A line for each group that has targets: ours beside them."""
    lines = []
    for label, goals in targets.items():
        means = [relative_mean(middle, groups[label], OURS, reference) for middle in middles]
        if all(goals) and all(means):
            time, memory = map(verdict, means, goals)
            lines.append(f"- {label}: time {time}, memory {memory}"
                         + of_fewer(middles[0], groups[label], OURS, reference))
    return "\n".join(lines)


def workload_relations(samples, cells):
    """The sections that compare all with one peer, or nothing without it."""
    reference = next((name for name in WORKLOAD_REFERENCES if samples.get(name)), None)
    if reference is None:
        return []
    groups, targets = workload_groups(cells)
    middles = {key: medians(column(samples, key)) for key, *_ in WORKLOAD_METRICS}
    titles = "/".join(title for _, title, *_ in WORKLOAD_METRICS)
    text = [f"## Relative to {reference}, geometric means: {titles}",
            relative_table(list(middles.values()), groups, reference)]
    if OURS in samples:
        judged = [middles["seconds"], middles["peak_rss_kib"]]
        text += [f"## Targets, relative to {reference}",
                 workload_verdicts(judged, groups, targets, reference)]
    return text


def workload_report(run, samples):
    """samples: each figure is a dictionary with the keys of WORKLOAD_METRICS."""
    cells = cells_of(samples)
    threads = "/".join(str(count) for count in unique(count for _, count in cells))
    metrics = [(title, unit, scale, column(samples, key))
               for key, title, unit, scale in WORKLOAD_METRICS]
    text = ["# Workloads", machine_section(run), *workload_relations(samples, cells)]
    for title, unit, scale, figures in metrics:
        text += [f"## {title}, {unit}: {threads} threads",
                 joined_table("workload", figures, lambda f, by=scale: by * median(f), cells)]
    for title, _, _, figures in metrics:
        found = ratios(medians(figures))
        if found:
            mean, (workload, count), worst, peer = summary(found)
            text += [f"## ukmem / best peer in the cell: {title}",
                     ratio_table("workload", found, lambda count: f"{count} threads"),
                     f"Geometric mean of {len(found)} cells: {mean:.2f}. Worst cell: "
                     f"{worst:.2f}, {workload} with {count} threads, against {peer}."]
    for title, _, _, figures in metrics:
        text += [f"## Spread over the rounds, max/min: {title}, {threads} threads",
                 joined_table("workload", figures, spread, cells)]
    return "\n\n".join(text) + "\n"


def steepest(middle):
    """The dearest cell and the cheapest, and their ratio: 1 is flat."""
    dear, cheap = max(middle, key=middle.get), min(middle, key=middle.get)
    return dear, cheap, middle[dear] / middle[cheap]


def flat_report(run, samples):
    """samples: each figure is a dictionary with the keys of PAGES_METRICS."""
    cells = cells_of(samples)
    threads = "/".join(str(count) for count in unique(count for _, count in cells))
    metrics = {title: column(samples, key) for key, title in PAGES_METRICS}
    cpu = medians(column(samples, "cpu"))
    text = ["# malloc+free of 4 to 64 KiB", machine_section(run)]
    for title, figures in metrics.items():
        text += [f"## {title} of a pair, ns: {threads} threads",
                 joined_table("size, batch", figures, median, cells)]
    text += ["## Flatness: the dearest cell of each, CPU time",
             table(["", "dearest / cheapest", "dearest", "cheapest"],
                   [[name, f"{ratio:.2f}", "{}, {} threads".format(*dear),
                     "{}, {} threads".format(*cheap)]
                    for name, middle in cpu.items() if middle
                    for dear, cheap, ratio in [steepest(middle)]])]
    found = ratios(cpu)
    if found:
        mean, (row, count), worst, peer = summary(found)
        text += ["## ukmem / best peer in the cell: CPU time",
                 ratio_table("size, batch", found, lambda count: f"{count} threads"),
                 f"Geometric mean of {len(found)} cells: {mean:.2f}. Worst cell: "
                 f"{worst:.2f}, {row} with {count} threads, against {peer}."]
    for title, figures in metrics.items():
        text += [f"## Spread over the rounds, max/min: {title}, {threads} threads",
                 joined_table("size, batch", figures, spread, cells)]
    return "\n\n".join(text) + "\n"


def heap_report(run, samples):
    """samples: each figure is the CPU time of an object, ns."""
    cells = cells_of(samples)
    text = ["# Large heaps", machine_section(run)]
    # A table for each set of steps: those of chase, of refill, of mixed ages, of large blocks.
    steps = {row: tuple(column for of, column in cells if of == row) for row, _ in cells}
    for columns in unique(steps.values()):
        chosen = [cell for cell in cells if steps[cell[0]] == columns]
        text += [f"## CPU time of an object, ns: {'/'.join(columns)}",
                 joined_table("", samples, median, chosen)]
    found = ratios(medians(samples))
    if found:
        mean, (row, step), worst, peer = summary(found)
        text += ["## ukmem / best peer in the cell",
                 ratio_table("", found, str),
                 f"Geometric mean of {len(found)} cells: {mean:.2f}. Worst cell: "
                 f"{worst:.2f}, {step} of {row}, against {peer}."]
    text += ["## Spread over the rounds, max/min",
             table(["", "step", *samples],
                   [[row, step, *(number(spread(cells[row, step])) if cells.get((row, step))
                                  else "-" for cells in samples.values())]
                    for row, step in cells])]
    return "\n\n".join(text) + "\n"


def idle_figures(result):
    """What bench/idle said, as percent of the peak that went back, and that stayed at equal
    distances of time; without what was resident before anything was allocated.
    """
    peak = result["peak_kib"] - result["start_kib"]
    returned = {key: 100 * (result["peak_kib"] - result[f"{key}_kib"]) / peak
                for key in IDLE_MOMENTS}
    stays = [100 * (kib - result["start_kib"]) / peak for kib in result["while_idle_kib"]]
    return {**returned, "peak_mib": peak / 1024, "trimmed_by": result["trimmed_by"],
            "seconds": result["seconds"], "stays": stays}


def idle_report(run, samples):
    """samples: each figure is what idle_figures() makes."""
    cells = cells_of(samples)
    peaks = column(samples, "peak_mib")
    text = ["# Memory given back", machine_section(run),
            "## Peak of resident memory, MiB", joined_table("scenario", peaks, median, cells)]
    for key, title in IDLE_MOMENTS.items():
        text += [f"## Percent of the peak given back: {title}",
                 joined_table("scenario", column(samples, key), median, cells, round)]
    asked = {name: unique(figures["trimmed_by"] for rounds in found.values()
                          for figures in rounds) for name, found in samples.items()}
    text.append("Asked: " + "; ".join(f"{name} {', '.join(names) or 'has no way to'}"
                                      for name, names in asked.items()) + ".")
    return "\n\n".join(text) + "\n"


def percpu_table(figures, cells):
    """ns and ratios: a row for each operation, three columns for each pattern."""
    patterns = unique(pattern for _, pattern in cells)
    references = [reference for reference, _ in PERCPU_TARGETS]

    def fields(operation, pattern):
        value = figures.get((operation, pattern))
        if value is None:
            return ["-"] * (1 + len(references))
        return [number(value), *(number(value / figures[reference, pattern])
                                 if (reference, pattern) in figures else "-"
                                 for reference in references)]

    header = ["operation"]
    for pattern in patterns:
        header += [f"{pattern}: ns", *(f"/ {reference}" for reference in references)]
    return table(header, [[operation, *(field for pattern in patterns
                                        for field in fields(operation, pattern))]
                          for operation in unique(operation for operation, _ in cells)])


def percpu_targets(figures, cells):
    rows = []
    for pattern in unique(pattern for _, pattern in cells):
        for reference, target in PERCPU_TARGETS:
            if {(PERCPU_OPERATION, pattern), (reference, pattern)} <= figures.keys():
                ratio = figures[PERCPU_OPERATION, pattern] / figures[reference, pattern]
                rows.append([pattern, f"{PERCPU_OPERATION} / {reference}", number(ratio),
                             f"<= {target:.2f}", "ok" if ratio <= target else "missed"])
    return table(["pattern", "ratio", "measured", "target", ""], rows)


def percpu_report(run, samples):
    cells = cells_of(samples)
    middle = medians(samples)
    text = ["# Per-CPU operations", machine_section(run)]
    for name, mode in run["modes"].items():
        text += [f"## {name}: mode {mode['mode']}", percpu_table(middle[name], cells)]
    chosen = run["modes"].get(PERCPU_DEFAULT)
    if chosen:
        text.append(f"## Targets, in mode {chosen['mode']}")
        if chosen["mode"] != "rseq":
            text.append("**No restartable sequences here: every operation is a locked "
                        "instruction, and the targets do not apply.**")
        text.append(percpu_targets(middle[PERCPU_DEFAULT], cells))
    patterns = "/".join(unique(pattern for _, pattern in cells))
    text += [f"## Spread over the rounds, max/min: {patterns}",
             joined_table("operation", samples, spread, cells)]
    return "\n\n".join(text) + "\n"


def pages_report(run, samples):
    """samples: each figure is a dictionary with the keys of PAGES_METRICS."""
    cells = cells_of(samples)
    batches = "/".join(batch_label(batch) for batch in unique(batch for _, batch in cells))
    metrics = {title: column(samples, key) for key, title in PAGES_METRICS}
    text = ["# Pages", machine_section(run)]
    for title, figures in metrics.items():
        text += [f"## {title} of a pair, ns: {batches}",
                 joined_table("size", figures, median, cells)]
    if any(samples[PAGES_REFERENCE].values()):
        titles = "/".join(metrics)
        text += [f"## Relative to {PAGES_REFERENCE}, geometric means: {titles}",
                 relative_table([medians(figures) for figures in metrics.values()],
                                groups_by_column(
                                    cells, lambda batch: f"batches of {batch_label(batch)}"),
                                PAGES_REFERENCE)]
    for title, figures in metrics.items():
        text += [f"## Spread over the rounds, max/min: {title}, {batches}",
                 joined_table("size", figures, spread, cells)]
    return "\n\n".join(text) + "\n"


def cache_table(corner, samples, scale=1):
    """Rows and columns as those of the cells; in each with the cache, without, their ratio."""
    cells = cells_of(samples)
    columns = unique(column for _, column in cells)
    middle = medians(samples)

    def fields(row, column):
        with_it, without = (middle[name].get((row, column)) for name in ZONELIST_CACHE)
        if not with_it or not without:
            return ["-"] * 3
        return [number(scale * with_it), number(scale * without), f"{with_it / without:.2f}"]

    header = [corner]
    for name in columns:
        header += [f"{name}: on", "off", "on/off"]
    return table(header, [[row, *(field for name in columns for field in fields(row, name))]
                          for row in unique(row for row, _ in cells)])


def select(samples, kind, setting):
    """The samples of zonelists of one kind and one setting, a row for each level."""
    return {name: {(row[2], nodes): figures for (row, nodes), figures in cells.items()
                   if row[:2] == (kind, setting)} for name, cells in samples.items()}


def zonelist_report(run, lists, hogs):
    text = ["# Zonelists", machine_section(run) + f"\n- node_limit: {run['node_limits']}"]
    groups = unique(row[:2] for row, _ in cells_of(lists))
    for group in groups:
        figures = select(lists, *group)
        text += ["## {}, {}: ns of a page by number of nodes, zonelist_cache on and off".format(
                     *group), cache_table("full", figures)]
    for key, title, scale in HOG_METRICS:
        text += [f"## Hog, {run['hog_nodes']} nodes: {title}, zonelist_cache on and off",
                 cache_table("hog", column(hogs, key), scale)]
    for group in groups:
        figures = select(lists, *group)
        nodes = "/".join(str(count) for count in unique(count for _, count in cells_of(figures)))
        text += ["## Spread over the rounds, max/min: {}, {}, {} nodes".format(*group, nodes),
                 joined_table("full", figures, spread, cells_of(figures))]
    figures = column(hogs, HOG_METRICS[0][0])
    percent = "/".join(unique(share for _, share in cells_of(figures)))
    text += [f"## Spread over the rounds, max/min: hog, {percent}",
             joined_table("hog", figures, spread, cells_of(figures))]
    return "\n\n".join(text) + "\n"
