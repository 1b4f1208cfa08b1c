# SPDX-License-Identifier: MIT
"""The report: what was measured on which machine, then a section for each benchmark."""

import part_grid
import part_idle
import part_latency
import part_longrun
import part_programs
import part_queues
import part_scale
import part_threads
import part_traces
import part_workloads
import results
from document import Document, Section, Table

# In the order of the page. Each has BENCHMARKS, and section(the Results of these).
PARTS = (part_grid, part_workloads, part_threads, part_scale, part_queues, part_latency,
         part_longrun, part_idle, part_traces, part_programs)


# A machine is not quiet above one of these: its load before, the 95th percentile over the median of the same work, the
# share of CPU time that a hypervisor took.
QUIET_LOAD, QUIET_P95, QUIET_STOLEN = 1, 1.5, 0.05


def noise_warning(state):
    """A sentence if the machine had other work; [] if it was quiet. The load afterwards is the benchmarks' own."""
    before, after = (state.get(when) or {} for when in ("noise_before", "noise_after"))
    load = before.get("load", 0)
    p95, stolen = (max(found.get(key, 0) for found in (before, after)) for key in ("p95", "stolen"))
    if load <= QUIET_LOAD and p95 <= QUIET_P95 and stolen <= QUIET_STOLEN:
        return []
    return [f"The machine was not quiet: it had a load of {load:.1f} before, one turn of twenty of the same work took more than "
            f"{p95:.1f} times the median, and the hypervisor took {100 * stolen:.0f} %. So elapsed times say little, and worst "
            "cases nothing."]


def unfinished(state):
    """A sentence about a run that was interrupted: the noise afterwards is what is measured last."""
    return [] if state.get("noise_after") else ["The run was not finished: sections and rounds may be missing, of some "
                                                "allocators more than of others."]


def noise_table(state):
    rows = [[when, f"{found['ms']:.2f}", f"{found['p95']:.2f}", f"{found['worst']:.1f}",
             f"{100 * found['stolen']:.1f} %", f"{found['load']:.2f}"]
            for when, found in (("before", state.get("noise_before")),
                                ("after", state.get("noise_after"))) if found]
    return Table("noise", "The same work again and again, before and after the measurements: a quiet machine "
                 "has ratios near 1, nothing taken by the hypervisor and a load below 1",
                 ["", "median, ms", "95th percentile / median", "worst / median",
                  "taken by the hypervisor", "load"], rows)


def versions_table(state):
    return Table("versions", "Allocators", ["name", "library", "version"],
                 [[name, info["library"], info["version"]]
                  for name, info in state["allocators"].items()], words=True)


def machine_section(state, found):
    rounds = ", ".join(f"{name} {result.rounds()}" for name, result in found.items())
    return Section("machine", "Machine and allocators",
                   "All figures are of one machine. Allocators take turns within each round, and what is "
                   "compared are medians over the rounds. Only ratios within one run mean "
                   f"anything. Rounds: {rounds}.", [], [],
                   [Table("machine-table", "Machine", ["", ""], state["machine"], words=True),
                    versions_table(state), noise_table(state)])


def make(folder, state):
    found = results.load(folder)
    sections = [machine_section(state, found)]
    for part in PARTS:
        there = {name: found[name] for name in part.BENCHMARKS if name in found
                 and found[name].samples}
        if there:
            sections.append(part.section(there))
    failures = [failure for result in found.values() for failure in result.header["failures"]]
    machine = dict(map(tuple, state["machine"]))
    return Document("ukmem: figures",
                    f"{machine['CPU']}, {machine['CPUs that may be used']} CPUs, "
                    f"{machine['kernel']}, {machine['date']}; plan: {state['plan']}.",
                    unfinished(state) + noise_warning(state), sections, failures)
