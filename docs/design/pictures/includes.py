#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws which files of a layer include which: includes.py LAYER > LAYER-includes.dot

A file x.c and its header x.h are one node. Includes that follow from others are left out (tred), and
so is the header with the layer's types, which all include. tred warns of circles: there are none.

    for layer in slab page percpu; do
        ./includes.py $layer | tred | dot -Tsvg -o $layer-includes.svg
    done
"""

import re
import sys
from pathlib import Path

SRC = Path(__file__).resolve().parents[3] / "src"
TYPES = {"slab/slab_types", "page/page", "percpu/percpu"}
INCLUDE = re.compile(r'^#\s*include\s*"([^"]+)\.h"', re.MULTILINE)


def main(args):
    layer = args[0]
    edges = set()
    for path in sorted((SRC / layer).rglob("*.[ch]")):
        name = str(path.relative_to(SRC).with_suffix(""))
        for target in INCLUDE.findall(path.read_text(encoding="utf-8")):
            if target.startswith(layer + "/") and target != name and not TYPES & {target, name}:
                edges.add((name, target))
    print("digraph includes {")
    print('\tgraph [bgcolor=white, ranksep=0.45, nodesep=0.15]')
    print('\tnode [shape=box, style="filled,rounded", fillcolor="#eef3fb", color="#5b7aa8",')
    print('\t\tfontname="DejaVu Sans", fontsize=10, height=0.3, margin="0.08,0.03"]')
    print('\tedge [color="#888888", arrowsize=0.5]')
    for name in sorted({name for edge in edges for name in edge}):
        label = name.removeprefix(layer + "/").removeprefix(layer + "_")
        print(f'\t"{name}" [label="{label}"]')
    for name, target in sorted(edges):
        print(f'\t"{name}" -> "{target}"')
    print("}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
