# SPDX-License-Identifier: MIT
"""The memory of a server that runs for long, over time."""

import drawing
import memory_runs
import report
from document import Picture, Section, Table

BENCHMARKS = ("longrun",)
CELL = ("long run", "")


def draw(samples):
    drawn, axes = drawing.figure(4.2, 2)
    names = list(samples)
    seconds = max(result["seconds"] for cells in samples.values() for result in cells[CELL])
    unit, scale = ("min", 60) if seconds > 200 else ("s", 1)
    for name, cells in samples.items():
        result = cells[CELL][0]
        looks = len(result["resident_kib"])
        times = [result["seconds"] / scale * (k + 1) / looks for k in range(looks)]
        look = {**drawing.style(name, names), "markevery": max(1, looks // 8)}
        axes[0, 0].plot(times, [kib / 1024 for kib in result["resident_kib"]], label=name, **look)
        start = looks // 10
        axes[0, 1].plot(times[start:], [resident / payload for resident, payload in zip(
            result["resident_kib"], result["payload_kib"])][start:], label=name, **look)
    payload = next(iter(samples.values()))[CELL][0]["payload_kib"]
    times = [seconds / scale * (k + 1) / len(payload) for k in range(len(payload))]
    axes[0, 0].fill_between(times, [kib / 1024 for kib in payload], color="#dddddd",
                            label="allocated", zorder=1)
    axes[0, 0].set_title("resident memory, MiB")
    axes[0, 1].set_title("resident / allocated")
    axes[0, 0].set_ylim(bottom=0)
    axes[0, 1].set_ylim(bottom=1)
    for one in axes.flat:
        one.set_xlabel(unit)
    drawing.legend_below(drawn, axes, 7)
    drawn.suptitle("A server that runs for long, its cache halved for the last third. Lower is better")
    return drawing.svg(drawn, "longrun")


def section(found):
    samples = {name: cells for name, cells in found["longrun"].samples.items() if cells.get(CELL)}
    figures = memory_runs.longrun_figures(samples)
    ends = next(iter(figures.values()))
    peers = {name: value for name, value in ends.items() if name != report.OURS}
    verdicts = []
    if peers and report.OURS in ends:
        best = min(peers, key=peers.get)
        verdicts = [f"Resident / allocated at the end: {ends[report.OURS]:.2f}, of the best peer, {best}, "
                    f"{peers[best]:.2f}; ours / best {report.verdict(ends[report.OURS] / peers[best], 1)}."]
    late = {name: max(result["late_seconds"] for result in cells[CELL])
            for name, cells in samples.items()}
    verdicts += [f"{name} handled the last request {seconds:.1f} s late."
                 for name, seconds in late.items() if seconds > 1]
    length = max(result["seconds"] for cells in samples.values() for result in cells[CELL])
    tables = [Table("longrun-table", "Medians", ["", *figures],
                    [[name, *(report.number(of[name]) for of in figures.values())]
                     for name in samples])]
    picture = Picture("longrun", "Resident memory of a long run over time",
                      draw(samples) if drawing.available() else "")
    return Section("longrun-section", "Memory over time",
                   f"A server for {length:g} s, at a fixed rate: keys and values with the sizes "
                   "of Memcached's general-purpose pool at Facebook (Atikoglu et al., SIGMETRICS 2012), values "
                   "that grow and shrink in turns, buffers of requests, a few entries that stay. "
                   "Resident memory is the whole process's, allocated is what is in the cache.",
                   verdicts, [picture], tables)
