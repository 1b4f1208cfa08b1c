# SPDX-License-Identifier: MIT
"""The reports of bench/run --queue and --pool: a row for each queue or pool, a column for
each pattern, then ours relative to the best of the others in that column.

Samples are {queue or pool: {(group, column): [figure of each round]}}. Groups of one thread
have ns of an element, where less is better; those of threads, million elements per second.
"""

from statistics import median

from report import (cells_of, geometric_mean, machine_section, medians, number, spread, table,
                    unique)

# Groups of columns, by their titles.
SINGLE = "one thread, a single producer and consumer"
MULTI = "one thread, multi functions"
UNTOUCHED = "one thread, elements untouched"
TOUCHED = "one thread, elements written to"
THREADS = "threads"

# Kinds of bench/queue, and what the report calls them.
KINDS = {
    "alf_spsc": "ALF SPSC", "rte_spsc": "rte_ring SP/SC", "ck_spsc": "ck_ring SPSC",
    "alf_mpmc": "ALF MPMC", "alf_ticket": "ALF ticket order", "rte_mpmc": "rte_ring MP/MC",
    "rte_rts": "rte_ring RTS", "rte_hts": "rte_ring HTS", "ck_mpmc": "ck_ring MPMC",
    "spin_array": "array, spinlock", "mutex_array": "array, mutex",
}
# Ours: what is judged. The ticket order is the classic queue's: a peer.
QUEUES = (KINDS["alf_spsc"], KINDS["alf_mpmc"])
POOL, OWNER = "qmempool", "qmempool, owner"
POOLS = (POOL, OWNER)
# Also ours, and neither judged nor a peer.
POOL_BACKING = "kmem_cache"
POOL_PEER = "rte_mempool, cache 512"

# No column of threads may have a round below this part of its median.
COLLAPSE = 0.5
# Pools: threads beyond the CPUs, relative to DPDK's and to our own with as many as CPUs.
MORE_THREADS = (4, 16)
PEER_GOAL, OWN_GOAL = 50, 0.8


def pairs_label(pairs, bulk):
    producers, consumers = pairs.split("x")
    return f"{producers}P{consumers}C b{bulk}"


def threads_label(threads, bulk):
    return f"{threads} b{bulk}"


def held_label(held, bulk):
    return f"bulk{bulk}" if held == bulk else f"{held}/{held} b{bulk}"


def more_is_better(group):
    return group == THREADS


def best_peer(middle, cell, ours, others):
    """Figure and name of the best of the peers in a cell, or None."""
    peers = [(figures[cell], name) for name, figures in middle.items()
             if name not in (*ours, *others) and cell in figures]
    return (max if more_is_better(cell[0]) else min)(peers, default=None)


def ratios_to_best(middle, name, group, ours, others=()):
    """{column: (this one / best peer, that peer's name)}"""
    found = {}
    for cell, figure in middle.get(name, {}).items():
        best = best_peer(middle, cell, ours, others)
        if cell[0] == group and best:
            found[cell[1]] = (figure / best[0], best[1])
    return found


def columns_of(samples, group):
    return unique(column for place, column in cells_of(samples) if place == group)


def figures_table(samples, group, reduce, show=number):
    """A row for each queue or pool that has cells of the group."""
    columns = columns_of(samples, group)
    rows = []
    for name, figures in samples.items():
        if any(place == group for place, _ in figures):
            rows.append([name, *(show(reduce(figures[group, column]))
                                 if (group, column) in figures else "-" for column in columns)])
    return table(["", *columns], rows)


def ratio_rows(middle, columns, group, ours, others):
    """Rows of ratios and of the peers that were best, for each of ours; and their summaries."""
    rows, lines = [], []
    for name in ours:
        found = ratios_to_best(middle, name, group, ours, others)
        if not found:
            continue
        rows.append([f"{name} / best",
                     *(f"{found[column][0]:.2f}" if column in found else "-"
                       for column in columns)])
        rows.append(["", *(found[column][1] if column in found else "-" for column in columns)])
        values = {column: ratio for column, (ratio, _) in found.items()}
        worst = (min if more_is_better(group) else max)(values, key=values.get)
        lines.append(f"{name}: geometric mean of {len(values)} cells "
                     f"{geometric_mean(values.values()):.2f}, worst {values[worst]:.2f} "
                     f"({worst}, against {found[worst][1]}).")
    return rows, lines


def group_sections(samples, group, ours, others=()):
    columns = columns_of(samples, group)
    if not columns:
        return []
    unit, good = ("million elements per second", "at least") if more_is_better(group) \
        else ("ns of an element in and out", "at most")
    rows, lines = ratio_rows(medians(samples), columns, group, ours, others)
    text = [f"## {group}: {unit}", figures_table(samples, group, median)]
    if rows:
        text += [f"### {group}: ours / best peer (target: {good} 1)",
                 table(["", *columns], rows), "\n".join(lines)]
    return text


def collapses(samples):
    """min/median of every column of threads; below COLLAPSE it is one."""
    def share(figures):
        return min(figures) / median(figures)

    def show(value):
        return f"{value:.2f}{'' if value >= COLLAPSE else ' !'}"

    if not columns_of(samples, THREADS):
        return []
    return ["## threads: slowest round, million elements per second",
            figures_table(samples, THREADS, min),
            f"## threads: slowest round / median (target: at least {COLLAPSE}; !: a collapse)",
            figures_table(samples, THREADS, share, show)]


def spreads(samples, groups):
    text = []
    for group in groups:
        if columns_of(samples, group):
            text += [f"## Spread over the rounds, max/min: {group}",
                     figures_table(samples, group, spread)]
    return text


def queue_report(run, samples):
    text = ["# Queues", machine_section(run).rstrip()]
    for group in (SINGLE, MULTI, THREADS):
        text += group_sections(samples, group, QUEUES)
    return "\n\n".join([*text, *collapses(samples),
                        *spreads(samples, (SINGLE, MULTI))]) + "\n"


def more_threads(middle):
    """The targets of more threads than CPUs: rows of bulk, ratios and their goals."""
    ours, peer = middle.get(POOL, {}), middle.get(POOL_PEER, {})
    rows = []
    for group, column in ours:
        if group != THREADS or int(column.split()[0]) not in MORE_THREADS:
            continue
        own = ours.get((THREADS, f"2 {column.split()[1]}"))
        theirs = peer.get((group, column))
        figure = ours[group, column]
        rows.append([column, f"{figure / theirs:.0f}" if theirs else "-",
                     f"{figure / own:.2f}" if own else "-"])
    return rows


def pool_report(run, samples):
    text = ["# Pools", machine_section(run).rstrip()]
    for group in (UNTOUCHED, TOUCHED, THREADS):
        text += group_sections(samples, group, POOLS, (POOL_BACKING,))
    rows = more_threads(medians(samples))
    if rows:
        text += [f"## {POOL} with more threads than CPUs",
                 table(["threads, bulk", f"/ {POOL_PEER} (target: at least {PEER_GOAL})",
                        f"/ itself with 2 threads (target: at least {OWN_GOAL})"], rows)]
    return "\n\n".join([*text, *collapses(samples),
                        *spreads(samples, (UNTOUCHED, TOUCHED))]) + "\n"
