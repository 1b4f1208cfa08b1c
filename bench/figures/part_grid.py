# SPDX-License-Identifier: MIT
"""A malloc+free pair, over sizes and batches: a heat map of ratios."""

import drawing
import report
from document import Picture, Section, Table
from results import rows_and_columns

BENCHMARKS = ("grid",)
# The picture has so many peers, the best ones, or those that were chosen. "Best of each cell" is of all peers, and the
# tables have all.
MOST_PEERS = 5


def batch_label(batch):
    return "1" if batch == "1" else batch


def ratios_to(middle, peer):
    """{cell: ours / this peer's}"""
    mine, other = middle.get(report.OURS, {}), middle[peer]
    return {cell: mine[cell] / other[cell] for cell in mine if cell in other}


def draw(rows, columns, panels):
    """A heat map for each (title, {cell: ratio})."""
    drawn, axes = drawing.figure(4.4, len(panels), sharey=True)
    for one, (title, found) in zip(axes.flat, panels):
        drawing.heat_map(one, rows, columns, lambda row, column, of=found: of.get((row, column)))
        one.set_title(title)
        one.set_xticks(range(len(columns)), [batch_label(column) for column in columns])
        one.set_xlabel("batch")
    axes[0, 0].set_ylabel("size, bytes")
    drawn.suptitle("malloc+free: ukmem's CPU time / the peer's. Below 1 (blue): ukmem is faster")
    return drawing.svg(drawn, "grid")


def section(found):
    result = found["grid"]
    rows, columns = rows_and_columns(result.samples)
    middle = result.medians()
    best = report.ratios(middle)
    peers = {name: ratios_to(middle, name) for name in middle if name != report.OURS}
    means = {name: report.geometric_mean(ratios.values()) for name, ratios in peers.items()
             if ratios}
    shown = drawing.chosen(sorted(means, key=means.get, reverse=True))
    if not drawing.DRAWN:
        shown = shown[:MOST_PEERS]
    panels = [(f"best of {len(peers)} peers", {cell: ratio for cell, (ratio, _) in best.items()}),
              *((name, peers[name]) for name in shown)]
    verdicts = []
    if best:
        mean, (size, batch), worst, peer = report.summary(best)
        verdicts = [
            f"Against the best of {len(peers)} peers in each cell: geometric mean "
            f"{report.verdict(mean, report.GRID_GEOMEAN_TARGET)}; worst cell "
            f"{report.verdict(worst, report.GRID_WORST_TARGET)}, {size} bytes, batch {batch}, "
            f"against {peer}.",
            "Against one peer over the whole grid, ours / theirs: "
            + ", ".join(f"{name} {means[name]:.2f}" for name in sorted(means, key=means.get)) + "."]
    tables = [
        Table("grid-ratios", "ukmem / best peer of the cell, and which that is",
              ["size", *(f"batch {column}" for column in columns)],
              [[row, *("{:.2f} ({})".format(*best[row, column]) if (row, column) in best else "-"
                       for column in columns)] for row in rows]),
        Table("grid-ns", "CPU time of a pair, ns: " + " / ".join(
            f"batch {column}" for column in columns),
              ["size", *middle],
              [[row, *(" / ".join(report.number(cells[row, column])
                                  if (row, column) in cells else "-" for column in columns)
                       for cells in middle.values())] for row in rows]),
        Table("grid-spread", "Spread over the rounds, max / min", ["size", *result.samples],
              [[row, *(" / ".join(f"{report.spread(cells[row, column]):.2f}"
                                  if cells.get((row, column)) else "-" for column in columns)
                       for cells in result.samples.values())] for row in rows]),
    ]
    picture = Picture("grid", "Heat map of ukmem's CPU time of a malloc and free, relative to "
                      "peers, over sizes and batches",
                      draw(rows, columns, panels) if drawing.available() and best else "")
    return Section("grid-section", "malloc and free",
                   "Objects of one size are allocated, one or a batch of them, written to, and freed in "
                   "the same order, in one thread. Of each cell the fastest peer is another one.",
                   verdicts, [picture], tables)
