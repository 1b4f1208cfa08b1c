#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that every include in the library's source goes down the layers.

    check_layers.py SRC           report each include that does not; exit 1 if any
    check_layers.py --self-check  the checker finds planted mistakes, and only those

A file's layer is its first directory below SRC. It may include files of its own
layer and of any lower one. Public headers (<ukmem/...>) may be included anywhere.
"""

import re
import sys
import tempfile
from pathlib import Path

# Highest first. Layers of one row do not know each other.
LAYERS = [
    ["malloc"],
    ["kmalloc", "pool"],
    ["slab"],
    ["page", "queue"],
    ["percpu"],
    ["os"],
    ["stats"],
    ["base"],
]
DEPTH = {layer: depth for depth, row in enumerate(LAYERS) for layer in row}

SOURCE_SUFFIXES = {".c", ".h", ".S", ".inc"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def problem_with(layer, target, quoted, beside):
    """Why a file of `layer` may not include `target`, or None."""
    parts = Path(target).parts
    if ".." in parts:
        return "leaves its directory"
    first = parts[0] if len(parts) > 1 else None
    if first == "ukmem":
        return None
    if first in DEPTH:
        if not quoted:
            return "is internal: write it in quotes"
        if first == layer or DEPTH[first] > DEPTH[layer]:
            return None
        if DEPTH[first] == DEPTH[layer]:
            return f"is a layer beside {layer}, not below it"
        return f"is above {layer}"
    if not quoted or (beside / target).is_file():
        return None
    return "is in no layer"


def check(src):
    """(number of files, number of quoted includes, list of problems) of a tree."""
    files = sorted(p for p in src.rglob("*") if p.is_file() and p.suffix in SOURCE_SUFFIXES)
    quoted_includes = 0
    problems = []
    for path in files:
        name = path.relative_to(src)
        layer = name.parts[0]
        if layer not in DEPTH:
            problems.append(f"{name}: is in no layer")
            continue
        text = path.read_text(encoding="utf-8")
        for match in INCLUDE.finditer(text):
            quoted, target = match[1] == '"', match[2]
            quoted_includes += quoted
            problem = problem_with(layer, target, quoted, path.parent)
            if problem:
                line = text.count("\n", 0, match.start()) + 1
                problems.append(f"{name}:{line}: {target} {problem}")
    return len(files), quoted_includes, problems


def report(src):
    files, includes, problems = check(src)
    for problem in problems:
        print(problem)
    if not files or not includes:
        print(f"{src}: {files} source files with {includes} includes: nothing to check")
        return 1
    print(f"{files} files, {includes} includes between them, {len(problems)} wrong")
    return 1 if problems else 0


# Each line: file, what it includes, whether that is a mistake.
PLANTED = [
    ("malloc/malloc.c", '"kmalloc/kmalloc.h"', False),
    ("kmalloc/kmalloc.c", '"slab/slab.h"', False),
    ("slab/slab.c", '"slab/slab.h"', False),
    ("slab/slab_near.c", '"slab.h"', False),
    ("slab/slab.h", '"queue/alf.h"', False),
    ("page/buddy.c", '"base/list.h"', False),
    ("page/system.c", "<sys/mman.h>", False),
    ("percpu/public.c", "<ukmem/percpu.h>", False),
    ("slab/public.c", '"ukmem/slab.h"', False),
    ("stats/stats.c", '"base/list.h"', False),
    ("percpu/up.c", '"page/page.h"', True),
    ("kmalloc/beside.c", '"pool/pool.h"', True),
    ("pool/beside.c", '"kmalloc/kmalloc.h"', True),
    ("page/beside.c", '"queue/alf.h"', True),
    ("queue/beside.c", '"page/page.h"', True),
    ("base/up.c", '"stats/stats.h"', True),
    ("stats/up.h", '"os/os.h"', True),
    ("os/indented.c", '"slab/slab.h"', True),
    ("slab/dots.c", '"../base/list.h"', True),
    ("slab/angle.c", "<base/list.h>", True),
    ("slab/nowhere.c", '"elsewhere/x.h"', True),
    ("elsewhere/x.c", '"base/list.h"', True),
    ("rseq.c", '"base/list.h"', True),
]


def self_check():
    failures = []
    with tempfile.TemporaryDirectory() as tmp:
        src = Path(tmp) / "src"
        src.mkdir()
        if report(src) == 0:
            failures.append("an empty tree passed")
        for name, include, _ in PLANTED:
            path = src / name
            path.parent.mkdir(exist_ok=True)
            indent = "  " if "indented" in name else ""
            path.write_text(f"/* planted */\n{indent}#{indent}include {include}\n", encoding="utf-8")
        _, _, problems = check(src)
        reported = {problem.split(":")[0] for problem in problems}
        for name, include, wrong in PLANTED:
            if (name in reported) != wrong:
                verdict = "was not reported" if wrong else "was reported"
                failures.append(f"{name} including {include} {verdict}")
        if report(src) == 0:
            failures.append("a bad tree passed")
    for failure in failures:
        print(f"self-check: {failure}")
    print(f"self-check: {len(PLANTED)} planted includes, {len(failures)} failures")
    return 1 if failures else 0


def main(args):
    if args == ["--self-check"]:
        return self_check()
    if len(args) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    return report(Path(args[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
