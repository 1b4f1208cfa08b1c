# SPDX-License-Identifier: MIT
"""What bench/run --queue and --pool measure, interleaved; report_queue.py makes the tables."""

import report_queue
from children import ChildFailed, benchmarks, check_origin, interleave, say

# Owners of CPUs need copies that are bound to CPUs.
OWNER_CONF = "percpu:cpu_id"
# Pools, by program, benchmark in it, and setting; malloc is added for each allocator.
POOLS = {
    report_queue.POOL: ("pool", "qmempool", ""),
    report_queue.OWNER: ("pool", "owner", OWNER_CONF),
    "kmem_cache": ("pool", "kmem_cache", ""),
    "rte_mempool, cache 512": ("pool_dpdk", "mempool_cache", ""),
    "rte_mempool, no cache": ("pool_dpdk", "mempool", ""),
}
# Cells with --quick: by the names of benchmarks behind that of the queue or the pool.
QUICK_QUEUE = "(simple|bulk4|threads/2x2/1/.*)"
QUICK_POOL = "((1/1|256/16)/0/.*|threads/2/16/.*)"
ALL = ".*"


def queue_cell(cell):
    """The group and the column of a cell of bench/queue, and its figure."""
    kind, column, *rest = cell["name"].split("/")
    if column == "threads":
        return (report_queue.THREADS, report_queue.pairs_label(*rest[:2])), \
            1e-6 * cell["items_per_second"]
    group = report_queue.SINGLE if kind.endswith("_spsc") else report_queue.MULTI
    return (group, column), cell["ns_per_element"]


def pool_cell(cell):
    """The same for bench/pool."""
    _, *rest = cell["name"].split("/")
    if rest[0] == "threads":
        return (report_queue.THREADS, report_queue.threads_label(*rest[1:3])), \
            1e-6 * cell["items_per_second"]
    group = report_queue.TOUCHED if rest[2] == "1" else report_queue.UNTOUCHED
    return (group, report_queue.held_label(*rest[:2])), 1e9 * cell["time_per_element"]


def run_cells(variants, place, options, failures):
    """{variant: {(group, column): [figure of each round]}} of the variants, which are
    {name: (program, benchmark and cells, library or None, environment)}.
    """
    samples = {name: {} for name in variants}

    def measure(name, variant):
        program, chosen, library, extra = variant
        command = [program, "--benchmark_format=json",
                   f"--benchmark_min_time={options.min_time}",
                   f"--benchmark_filter=^{chosen}$"]
        try:
            context, results = benchmarks(command, library, extra)
            if context:  # not every kind has every cell
                check_origin(context["malloc_origin"], library)
        except ChildFailed as error:
            return [(program.name, error)]
        for result in results:
            cell, figure = place(result)
            samples[name].setdefault(cell, []).append(figure)
        return []

    interleave(variants, options.rounds, measure, failures)
    if not any(samples.values()):
        failures.append(f"no cell is chosen by {options.cells}")
    return samples


def run_queue(build, options, failures, listing):
    """Samples of bench/queue; @listing: the names of all its benchmarks."""
    there = {line.split("/")[0] for line in listing.split()}
    kinds = [kind for kind in report_queue.KINDS if kind in there]
    missing = [kind for kind in report_queue.KINDS if kind not in there]
    if missing:
        say(f"SKIPPED {', '.join(missing)}: not there when this was built "
            "(libdpdk-dev, libck-dev)")
    cells = options.cells or (QUICK_QUEUE if options.quick else ALL)
    return run_cells({report_queue.KINDS[kind]: (build / "bench/queue", f"{kind}/{cells}",
                                                 None, {}) for kind in kinds},
                     queue_cell, options, failures)


def run_pool(build, allocators, options, failures, conf):
    """Samples of bench/pool and pool_dpdk; @conf: the environment that a setting makes."""
    cells = options.cells or (QUICK_POOL if options.quick else ALL)
    variants = {name: (build / "bench" / program, f"{benchmark}/{cells}", None,
                       conf(setting) if setting else {})
                for name, (program, benchmark, setting) in POOLS.items()}
    variants.update({f"{name} malloc": (build / "bench/pool", f"malloc/{cells}", library, {})
                     for name, library in allocators.items()})
    there = {name: variant for name, variant in variants.items() if variant[0].exists()}
    if len(there) < len(variants):
        say("SKIPPED rte_mempool: DPDK (libdpdk-dev) was not there when this was built")
    return run_cells(there, pool_cell, options, failures)
