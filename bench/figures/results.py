# SPDX-License-Identifier: MIT
"""The figures that bench/run and bench/programs/run wrote, one file for each pass of a job.

A job is a benchmark, or a part of one: `longrun-glibc` is a part of `longrun`. Its passes are
NAME.1.json, NAME.2.json, ...; the rounds of all of them count as rounds of one benchmark.
"""

import json
from statistics import median
from typing import NamedTuple

from plan import benchmark_of


class Results(NamedTuple):
    """One benchmark: what its files say of the run, and {name: {(row, column): [figure of each
    round]}}. Of programs a row is (program, test), a column is a metric.
    """
    header: dict
    samples: dict

    def medians(self):
        return {name: {cell: median(figures) for cell, figures in cells.items() if figures}
                for name, cells in self.samples.items()}

    def rounds(self):
        return max((len(figures) for cells in self.samples.values()
                    for figures in cells.values()), default=0)


def cells_of(raw):
    """[(name, row, column, figures)] of a file's "results"."""
    if isinstance(raw, list):  # of programs
        return [(row["allocator"], (row["program"], row["test"]), row["metric"], row["figures"])
                for row in raw]
    return [(name, *key.split("/", 1), figures) for name, cells in raw.items()
            for key, figures in cells.items()]


def load(folder):
    """{benchmark: its Results}, in the order of the files' names."""
    found = {}
    for path in sorted(folder.glob("*.*.json"), key=lambda path: path.name):
        content = json.loads(path.read_text())
        header = {key: value for key, value in content.items() if key != "results"}
        results = found.setdefault(benchmark_of(path.name), Results(
            {**header, "failures": [], "allocators": {}}, {}))
        results.header["failures"] += header.get("failures", [])
        results.header["allocators"].update(header.get("allocators", {}))
        for name, row, column, figures in cells_of(content["results"]):
            cells = results.samples.setdefault(name, {})
            cells.setdefault((row, column), []).extend(figures)
    return found


def unique(values):
    return list(dict.fromkeys(values))


def rows_and_columns(samples):
    """The rows and the columns of all names, in their first order."""
    cells = unique(cell for of_name in samples.values() for cell in of_name)
    return unique(row for row, _ in cells), unique(column for _, column in cells)
