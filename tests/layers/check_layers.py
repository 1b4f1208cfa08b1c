#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that includes and calls in the library's source go down the layers.

    check_layers.py includes SRC      report each include that does not; exit 1 if any
    check_layers.py calls OBJECT...   the same for what object files use of each other
    check_layers.py self-check        the checker finds planted mistakes, and only those

A file's layer is its first directory below SRC. It may include files, and use functions and
variables, of its own layer and of any lower one. Within a layer of FILES the same holds for
files: a file x.c and its header x.h are one step, and use steps below it alone; so there is no
circle. The order is read from the comment at the top of one of the layer's headers (ORDERS). A public
header (<ukmem/...>) belongs to a layer, too; within that layer the private header that includes it
is used in its place.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Highest first. Layers of one row do not know each other.
LAYERS = [
    ["live"],
    ["malloc", "pool"],
    ["profile"],
    ["kmalloc"],
    ["slab"],
    ["page", "queue"],
    ["kfence"],
    ["percpu"],
    ["os"],
    ["stats"],
    ["layer"],
    ["base"],
]
# Uses that go up all the same: file and target. The table of layers links the layer live, and the
# description of the library's layout, into every program.
UPWARDS = {("layer/layer.c", "live/description.c"), ("layer/layer.c", "live/server.c")}
DEPTH = {layer: depth for depth, row in enumerate(LAYERS) for layer in row}

SRC = Path(__file__).resolve().parents[2] / "src"

# The headers whose first comment lists the layer's files, highest first: a line for each step,
# " *   NAME.c   what it is". The header itself is the lowest step.
ORDERS = {
    "slab": "slab/slab_types.h",
    "page": "page/page.h",
    "percpu": "percpu/percpu.h",
}
LISTED = re.compile(r"^ \*   ((?:[a-z]+/)?[a-z0-9_]+)\.[ch] +\S", re.MULTILINE)


def listed_files(text, header):
    """The steps that a header's first comment lists, and the header's own behind them."""
    comment = text[: text.index("#ifndef")]
    own = Path(header).stem
    return [stem for stem in LISTED.findall(comment) if stem != own] + [own]


# Steps within a layer, highest first.
FILES = {
    layer: listed_files((SRC / header).read_text(encoding="utf-8"), header)
    for layer, header in ORDERS.items()
}
FILES["kmalloc"] = """
    alloc_tag sheaf kmalloc_util kmalloc_api kmalloc_size kmalloc large_kfence large large_find
    large_guard large_debug size_class_table size_class
""".split()

# Public headers: the layer they belong to, and the private header to be included there.
PUBLIC = {
    "alloc_tag.h": ("kmalloc", None),
    "alf_queue.h": ("queue", "queue/side.h"),
    "compiler.h": ("base", None),
    "err.h": ("base", None),
    "gfp.h": ("page", None),
    "kmalloc.h": ("kmalloc", None),
    "malloc.h": ("malloc", None),
    "mempolicy.h": ("page", "page/mempolicy.h"),
    "mempool.h": ("pool", None),
    "nodemask.h": ("page", None),
    "overflow.h": ("kmalloc", None),
    "page_alloc.h": ("page", "page/page.h"),
    "percpu.h": ("percpu", "percpu/percpu.h"),
    "percpu_ops.h": ("percpu", None),
    "profile.h": ("profile", None),
    "qmempool.h": ("pool", "pool/qmempool.h"),
    "shrinker.h": ("page", None),
    "slab.h": ("slab", "slab/slab_types.h"),
    "stats.h": ("layer", None),
}

SOURCE_SUFFIXES = {".c", ".h", ".S", ".inc"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def step(name):
    """Where a file stands within its layer, lowest 0; None: the layer has no order."""
    layer, _, rest = name.partition("/")
    if layer not in FILES:
        return None
    stem = rest.rsplit(".", 1)[0]
    files = FILES[layer]
    return len(files) - files.index(stem) if stem in files else -1


def problem_between(name, target):
    """Why the file `name` may not use the file `target`, or None."""
    if (name, target) in UPWARDS:
        return None
    layer, other = name.split("/")[0], target.split("/")[0]
    if DEPTH[other] < DEPTH[layer]:
        return f"is above {layer}"
    if other != layer:
        return f"is a layer beside {layer}, not below it" if DEPTH[other] == DEPTH[layer] else None
    if step(name) is None or name.rsplit(".", 1)[0] == target.rsplit(".", 1)[0]:
        return None
    if step(target) == -1:
        return f"has no place in the order of {layer}"
    return None if step(target) < step(name) else "is above this file"


def problem_with_public(name, header):
    layer = name.split("/")[0]
    if header not in PUBLIC:
        return "is a public header of no layer" if header != "ukmem.h" else None
    owner, private = PUBLIC[header]
    if DEPTH[owner] < DEPTH[layer]:
        return f"declares functions of {owner}, above {layer}"
    if owner == layer and private and private != name:
        return f"is public: include {private}"
    return None


def problem_with_include(name, target, quoted, beside):
    """Why a file may not include `target`, or None."""
    parts = Path(target).parts
    if ".." in parts:
        return "leaves its directory"
    first = parts[0] if len(parts) > 1 else None
    if first == "ukmem":
        return problem_with_public(name, "/".join(parts[1:])) if len(parts) == 2 else None
    if first in DEPTH:
        return problem_between(name, target) if quoted else "is internal: write it in quotes"
    if not quoted:
        return None
    if (beside / target).is_file():
        return problem_between(name, str(Path(name).parent / target))
    return "is in no layer"


def check_includes(src):
    """(number of files, number of quoted includes, list of problems) of a tree."""
    files = sorted(p for p in src.rglob("*") if p.is_file() and p.suffix in SOURCE_SUFFIXES)
    quoted_includes = 0
    problems = []
    for path in files:
        name = str(path.relative_to(src))
        if name.split("/")[0] not in DEPTH or "/" not in name:
            problems.append(f"{name}: is in no layer")
            continue
        if step(name) == -1:
            problems.append(f"{name}: has no place in the order of its layer")
            continue
        text = path.read_text(encoding="utf-8")
        for match in INCLUDE.finditer(text):
            quoted, target = match[1] == '"', match[2]
            quoted_includes += quoted
            problem = problem_with_include(name, target, quoted, path.parent)
            if problem:
                line = text.count("\n", 0, match.start()) + 1
                problems.append(f"{name}:{line}: {target} {problem}")
    return len(files), quoted_includes, problems


def check_orders(src, orders):
    """List of problems: steps that are listed twice, or are no file."""
    problems = []
    for layer, steps in orders.items():
        paths = (src / layer).rglob("*.[ch]")
        files = {str(path.relative_to(src / layer).with_suffix("")) for path in paths}
        for name in sorted(set(steps)):
            if name not in files:
                problems.append(f"{layer}: its order lists {name}, which is no file")
            if steps.count(name) > 1:
                problems.append(f"{layer}: its order lists {name} twice")
    return problems


def source_of(obj):
    """The name below src of the file that an object was made of: .../NAME.c.o"""
    match = re.search(r"([a-z_]+/(?:[a-z_]+/)?[a-z0-9_]+\.c)\.o$", str(obj))
    if not match:
        return None
    parts = match[1].split("/")
    while parts and parts[0] not in DEPTH:
        parts.pop(0)
    return "/".join(parts) if len(parts) > 1 else None


def symbols(obj):
    """(defined, used) global symbols of an object file; weak references may come to nothing."""
    nm = os.environ.get("NM", "nm")
    out = subprocess.run([nm, "-g", str(obj)], check=True, capture_output=True, text=True).stdout
    defined, used = set(), set()
    for line in out.splitlines():
        *_, kind, symbol = line.split()
        if kind != "w":
            (used if kind == "U" else defined).add(symbol)
    return defined, used


def check_calls(objects):
    """(number of files, number of uses between them, list of problems)."""
    problems, uses, owner, used = [], 0, {}, {}
    for obj in objects:
        name = source_of(obj)
        if not name:
            problems.append(f"{obj}: is in no layer")
            continue
        defined, used[name] = symbols(obj)
        owner.update(dict.fromkeys(defined, name))
    for name in sorted(used):
        for symbol in sorted(used[name]):
            target = owner.get(symbol)
            if not target or target == name:
                continue
            uses += 1
            problem = problem_between(name, target)
            if problem:
                problems.append(f"{name}: uses {symbol} of {target}, which {problem}")
    return len(used), uses, problems


def report(what, files, uses, problems):
    for problem in problems:
        print(problem)
    if not files or not uses:
        print(f"{files} files with {uses} {what}: nothing to check")
        return 1
    print(f"{files} files, {uses} {what} between them, {len(problems)} wrong")
    return 1 if problems else 0


# Each line: file, what it includes, whether that is a mistake.
PLANTED_INCLUDES = [
    ("malloc/malloc.c", '"kmalloc/kmalloc.h"', False),
    ("pool/mempool.c", '"kmalloc/kmalloc.h"', False),
    ("live/description.c", '"slab/slab_types.h"', False),
    ("slab/show/print.c", '"live/description.h"', True),
    ("kmalloc/kmalloc.c", '"slab/slab_array.h"', False),
    ("slab/slab_node.c", '"slab/slab_page.h"', False),
    ("slab/slab_drain.c", '"slab_drain.h"', False),
    ("slab/slab_drain.h", '"slab/slab_types.h"', False),
    ("slab/slab_shared.c", '"queue/alf.h"', False),
    ("slab/debug/check.c", '"slab/slab_take.h"', False),
    ("page/buddy.c", '"base/list.h"', False),
    ("page/pageset.c", '"page/zone.h"', False),
    ("os/system.c", "<sys/mman.h>", False),
    ("percpu/ops.c", "<ukmem/percpu_ops.h>", False),
    ("slab/slab_types.h", '"ukmem/slab.h"', False),
    ("stats/stats.c", '"base/list.h"', False),
    ("slab/slab_page.c", '"slab/slab_node.h"', True),
    ("slab/slab_node.h", '"slab/slab_partial.h"', True),
    ("slab/slab_partial.c", '"slab/slab_partial_other.h"', True),
    ("slab/slab_unlisted.c", '"base/list.h"', True),
    ("slab/slab_limit.c", '"ukmem/slab.h"', True),
    ("slab/debug/twin.c", '"slab/debug/check.h"', True),
    ("page/zone.c", '"page/pageset.h"', True),
    ("page/limits.c", '"ukmem/slab.h"', True),
    ("os/unknown.c", "<ukmem/elsewhere.h>", True),
    ("percpu/gate.c", '"page/page.h"', True),
    ("percpu/sections.c", '"percpu/gate.h"', True),
    ("kmalloc/large.c", '"pool/pool.h"', True),
    ("pool/beside.c", '"malloc/malloc_internal.h"', True),
    ("page/aside.c", '"queue/alf.h"', True),
    ("queue/beside.c", '"page/page.h"', True),
    ("base/up.c", '"stats/stats.h"', True),
    ("stats/up.h", '"os/os.h"', True),
    ("os/indented.c", '"slab/slab_array.h"', True),
    ("os/dots.c", '"../base/list.h"', True),
    ("os/angle.c", "<base/list.h>", True),
    ("os/nowhere.c", '"elsewhere/x.h"', True),
    ("elsewhere/x.c", '"base/list.h"', True),
    ("rseq.c", '"base/list.h"', True),
]

# Each line: file, the file whose function it calls, whether that is a mistake.
PLANTED_CALLS = [
    ("slab/slab_node.c", "slab/slab_page.c", False),
    ("slab/slab_array.c", "page/zone.c", False),
    ("page/zone.c", "page/buddy.c", False),
    ("layer/layer.c", "live/description.c", False),
    ("base/lock.c", "live/description.c", True),
    ("page/buddy.c", "page/zone.c", True),
    ("page/window.c", "page/mempolicy.c", True),
    ("slab/slab_page.c", "slab/slab_node.c", True),
    ("slab/slab_partial.c", "slab/debug/twin.c", True),
    ("page/runs.c", "slab/slab_page.c", True),
    ("percpu/ops.c", "percpu/percpu_init.c", True),
]


def included_mistakes(tmp):
    src = tmp / "src"
    src.mkdir()
    found = []
    if report("includes", *check_includes(src)) == 0:
        found.append("an empty tree passed")
    for name, include, _ in PLANTED_INCLUDES:
        path = src / name
        path.parent.mkdir(parents=True, exist_ok=True)
        indent = "  " if "indented" in name else ""
        path.write_text(f"/* planted */\n{indent}#{indent}include {include}\n", encoding="utf-8")
    result = check_includes(src)
    reported = {problem.split(":")[0] for problem in result[2]}
    found += [
        f"{name} including {include}"
        for name, include, wrong in PLANTED_INCLUDES
        if (name in reported) != wrong
    ]
    if report("includes", *result) == 0:
        found.append("a bad tree passed")
    return found


def called_mistakes(tmp):
    """One object for each file: it defines a function of its name and calls another one's."""
    calls = {}
    for name, target, _ in PLANTED_CALLS:
        calls.setdefault(name, set()).add(target)
        calls.setdefault(target, set())
    objects = []
    for name, targets in calls.items():
        obj = tmp / "objs" / f"{name}.o"
        obj.parent.mkdir(parents=True, exist_ok=True)
        code = "".join(f"void {function(t)}(void);\n" for t in sorted(targets))
        body = "".join(f"{function(t)}();" for t in sorted(targets))
        code += f"void {function(name)}(void);\nvoid {function(name)}(void) {{{body}}}\n"
        subprocess.run(
            [os.environ.get("CC", "cc"), "-x", "c", "-c", "-o", str(obj), "-"],
            input=code.encode(),
            check=True,
        )
        objects.append(obj)
    _, uses, problems = check_calls(objects)
    wrong = {(name, target) for name, target, bad in PLANTED_CALLS if bad}
    reported = {
        (name, target)
        for name, target, _ in PLANTED_CALLS
        if any(p.startswith(f"{name}: uses {function(target)} of ") for p in problems)
    }
    found = [f"{name} calling {target}" for name, target in wrong ^ reported]
    if uses != len(PLANTED_CALLS):
        found.append(f"{uses} calls were seen")
    return found


PLANTED_ORDER = """/* SPDX */
/*
 * Text about high.c, and about
 *   | unit 0    | a drawing
 *
 *   high.c             the top
 *   sub/high.h         text that
 *                      continues.c here
 *   lower/             another layer
 *   types.c            this header's data
 */
#ifndef X
/*
 *   other.c            no step
 */
"""


def misread_orders(tmp):
    """The steps of a planted comment, and what is wrong with an order."""
    steps = listed_files(PLANTED_ORDER, "layer/types.h")
    found = [] if steps == ["high", "sub/high", "types"] else [f"an order: {steps}"]
    for name in ("layer/high.c", "layer/sub/high.h", "layer/types.h"):
        (tmp / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp / name).touch()
    for wrong, order in ((0, steps), (1, ["gone"] + steps), (1, ["high"] + steps)):
        if len(check_orders(tmp, {"layer": order})) != wrong:
            found.append(f"the order {order}")
    return found


def function(name):
    return name.replace("/", "_").replace(".", "_")


def self_check():
    with tempfile.TemporaryDirectory() as tmp:
        mistakes = included_mistakes(Path(tmp)) + called_mistakes(Path(tmp))
        mistakes += misread_orders(Path(tmp))
    for mistake in mistakes:
        print(f"self-check: wrong about {mistake}")
    planted = len(PLANTED_INCLUDES) + len(PLANTED_CALLS)
    print(f"self-check: {planted} planted uses, {len(mistakes)} mistakes")
    return 1 if mistakes else 0


def main(args):
    if args == ["self-check"]:
        return self_check()
    if len(args) == 2 and args[0] == "includes":
        files, uses, problems = check_includes(Path(args[1]))
        return report("includes", files, uses, check_orders(Path(args[1]), FILES) + problems)
    if len(args) > 1 and args[0] == "calls":
        return report("uses", *check_calls(args[1:]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
