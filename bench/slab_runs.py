# SPDX-License-Identifier: MIT
"""What bench/run --slab measures, interleaved; report_slab.py makes tables of it."""

import json

import report_slab
from children import ChildFailed, benchmarks, check_origin, interleave, run_child, say

# Objects, by program and by benchmark in it; malloc is added for each allocator.
SLAB_SOURCES = {
    report_slab.BULK: ("slab", "alloc_bulk"),
    "alloc": ("slab", "alloc"),
    "rte_mempool, cache 512": ("slab_dpdk", "mempool_cache"),
    "rte_mempool, no cache": ("slab_dpdk", "mempool"),
}
# Objects passed from thread to thread, all and --quick; and repetitions when cold.
SLAB_PASS_OPS = ("1e7", "1e6")
SLAB_COLD_TIMES = (5, 1)


def bulk_command(build, program, benchmark, options):
    command = [build / "bench" / program, *(["bulk"] if program == "slab" else []),
               "--benchmark_format=json", f"--benchmark_min_time={options.min_time}"]
    batches = "(1|64)" if options.quick else "[0-9]+"
    return [*command, f"--benchmark_filter=^{benchmark}/[0-9]+/{batches}/"]


def measure_bulk(build, variants, options, samples):
    """The function that measures one of the variants of taking and giving back."""
    def measure(name, variant):
        program, benchmark, library = variant
        try:
            context, results = benchmarks(bulk_command(build, program, benchmark, options),
                                          library, {})
            check_origin(context["malloc_origin"], library)
        except ChildFailed as error:
            return [("bulk", error)]
        for cell in results:
            size, batch, touch = map(int, cell["name"].split("/")[1:4])
            row = f"{size}, {'written to' if touch else 'untouched'}"
            samples[name].setdefault((row, batch), []).append(1e9 * cell["time_per_object"])
        return []

    return lambda name: measure(name, variants[name])


def measure_cold(build, options, samples):
    """The function that measures all sources of cold objects."""
    command = [build / "bench/slab", "cold", "--json",
               "--times", str(SLAB_COLD_TIMES[int(options.quick)])]

    def measure():
        try:
            rows = json.loads(run_child(command, None))
        except ChildFailed as error:
            return [("cold", error)]
        for row in rows:
            for i, order in enumerate(report_slab.ORDERS):
                samples.setdefault(row["source"], {}).setdefault((row["size"], order), []).append(
                    {"take": row["take"][i], "write": row["write"][i],
                     "accesses": row["accesses"]})
        return []

    return measure


def measure_pass(build, options, samples):
    """The function that measures how one source passes objects on; malloc of a library."""
    def measure(name, library):
        command = [build / "bench/slab", "pass", "--json",
                   "--ops", SLAB_PASS_OPS[int(options.quick)],
                   *([] if name == report_slab.PASS_OURS else ["--malloc"])]
        try:
            results = [json.loads(line) for line in run_child(command, library).splitlines()]
            for result in results:
                check_origin(result["malloc_origin"], library)
        except ChildFailed as error:
            return [("pass", error)]
        for result in results:
            row = "{0}+{0}, {1}".format(result["pairs"],
                                        "pinned" if result["pinned"] else "not pinned")
            samples[name].setdefault((row, ""), []).append(result)
        return []

    return measure


def run_slab(build, allocators, options, failures):
    """Samples of taking in bulk, of cold objects, and of passing on: see report_slab."""
    variants = {name: (program, benchmark, None)
                for name, (program, benchmark) in SLAB_SOURCES.items()}
    mallocs = {f"{name} malloc": library for name, library in allocators.items()}
    variants.update({name: ("slab", "malloc", library) for name, library in mallocs.items()})
    bulk = {name: {} for name in variants}
    cold = {}
    passed = {name: {} for name in (report_slab.PASS_OURS, *mallocs)}
    in_bulk = measure_bulk(build, variants, options, bulk)
    when_cold = measure_cold(build, options, cold)
    passing = measure_pass(build, options, passed)
    jobs = {f"bulk, {name}": lambda name=name: in_bulk(name)
            for name, (program, *_) in variants.items() if (build / "bench" / program).exists()}
    if len(jobs) < len(variants):
        say("SKIPPED rte_mempool: DPDK (libdpdk-dev) was not there when this was built")
    jobs["cold"] = when_cold
    jobs.update({f"pass, {name}": lambda name=name: passing(name, mallocs.get(name))
                 for name in passed})
    interleave(jobs, options.rounds, lambda _, job: job(), failures)
    return bulk, cold, passed
