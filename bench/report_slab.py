# SPDX-License-Identifier: MIT
"""The report of bench/run --slab: ratios of caches to their peers.

Bulk: {source: {(row, batch): [ns of an object in each round]}}, a row being a size,
touched or not; cold: {source: {(size, order of frees): [{take, write, accesses}]}};
pass: {source: {(scenario, size): [what the program says]}}; bounded: its rows.
"""

from statistics import median

from report import (batch_label, cells_of, column, geometric_mean, joined_table,
                    machine_section, medians, number, spread, table, unique)

BULK = "alloc_bulk"
LINKED = "linked"
# The order of a cold cell's figures in what the program says.
ORDERS = ["in order", "shuffled"]
PASS_OURS = "kmem_cache"
FAST_PATH_GOAL = 95


def bulk_ratios(samples):
    """alloc_bulk / each peer: a row for each row of the cells, batches as a/b/c."""
    middle = medians(samples)
    ours = middle[BULK]
    peers = [name for name in middle if name != BULK]
    rows = unique(row for row, _ in ours)
    batches = unique(batch for _, batch in ours)

    def field(name, row):
        theirs = middle[name]
        if not theirs:
            return "not installed"
        return "/".join(f"{ours[row, batch] / theirs[row, batch]:.2f}"
                        if (row, batch) in theirs else "-" for batch in batches)

    def mean(name):
        found = [ours[cell] / value for cell, value in middle[name].items() if cell in ours]
        return f"{geometric_mean(found):.2f}" if found else "not installed"

    return table(["size", *peers], [[row, *(field(name, row) for name in peers)] for row in rows]
                 + [["geometric mean", *(mean(name) for name in peers)]])


def bulk_sections(samples):
    cells = cells_of(samples)
    batches = "/".join(batch_label(batch) for batch in unique(batch for _, batch in cells))
    measured = {name: figures for name, figures in samples.items() if figures}
    text = [f"## Taking and giving back, ns of an object: {batches}",
            joined_table("size", measured, median, cells)]
    if samples.get(BULK):
        text += [f"## {BULK} / peer: {batches}", bulk_ratios(samples)]
    return text + [f"## Spread over the rounds, max/min: {batches}",
                   joined_table("size", measured, spread, cells)]


def cold_sections(samples):
    cells = cells_of(samples)
    orders = "/".join(ORDERS)
    text = []
    for key, title in (("take", "Taking, nothing in the processor's caches"),
                       ("write", "Writing to each for the first time afterwards")):
        text += [f"## {title}, ns of an object: freed {orders}",
                 joined_table("size", column(samples, key), median, cells)]
    takes = medians(column(samples, "take"))
    if BULK in takes:
        peers = [name for name in takes if name != BULK]
        text += [f"## Taking, {BULK} / peer: freed {orders}",
                 table(["size", *peers],
                       [[size, *("/".join(f"{takes[BULK][size, order] / takes[name][size, order]:.2f}"
                                          for order in ORDERS) for name in peers)]
                        for size in unique(size for size, _ in cells)])]
    accessed = {name: any(figures["accesses"] for rounds in found.values() for figures in rounds)
                for name, found in samples.items()}
    text.append("Objects with their pages inaccessible: " + "; ".join(
        f"{name} {'accesses them' if touched else 'takes them untouched'}"
        for name, touched in accessed.items()) + ".")
    return text


def pass_sections(samples):
    rates = column(samples, "ops_per_second")
    middle = medians(rates)
    rows = []
    for cell, rounds in samples.get(PASS_OURS, {}).items():
        fast = min(figures["free_fast"] for figures in rounds)
        peers = [f"{middle[PASS_OURS][cell] / found[cell]:.2f} ({name})"
                 for name, found in middle.items() if name != PASS_OURS and cell in found]
        rows.append([cell[0], number(1e-6 * middle[PASS_OURS][cell]), ", ".join(peers),
                     f"{median(figures['alloc_fast'] for figures in rounds):.1f}",
                     f"{median(figures['free_fast'] for figures in rounds):.1f}",
                     f"{fast:.1f}{'' if fast > FAST_PATH_GOAL else ' (goal missed)'}",
                     "/".join(str(max(figures[key] for figures in rounds)) for key in
                              ("slabs_start", "slabs_early", "slabs_max", "slabs_end"))])
    return ["## Passing objects on to another thread",
            table(["threads", "million/s", "ours / peer (more is better)", "allocs fast %",
                   "frees fast %", f"worst round (goal > {FAST_PATH_GOAL})",
                   "slabs: start/early/most/end"], rows),
            "## Spread over the rounds, max/min: objects per second",
            joined_table("threads", rates, spread, cells_of(rates))]


def bounded_sections(rows):
    header = ["size", "objects/slab", "counted in", "cpu_partial", "limit", "most",
              "at the end", "KiB", "all slabs", "KiB"]
    return ["## Slabs on one CPU's list, after one object of each full slab was freed, then all",
            table(header, [[row["size"], row["per_slab"], row["counted"], row["cpu_partial"],
                            row["limit"], row["most"], row["cpu_slabs"],
                            row["cpu_slabs"] * row["slab_kib"], row["slabs"],
                            row["slabs"] * row["slab_kib"]] for row in rows])]


def slab_report(run, bulk, cold, passed, bounded):
    text = ["# Object caches", machine_section(run)]
    if bulk:
        text += bulk_sections(bulk)
    if any(cold.values()):
        text += cold_sections(cold)
    if any(passed.values()):
        text += pass_sections(passed)
    if bounded:
        text += bounded_sections(bounded)
    return "\n\n".join(text) + "\n"
