#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks `ukmem slabinfo` and `ukmem slab`.

usage: slab_test.py TOOL MALLOC_LIBRARY slabinfo|slab|slab_set|slab_errors[.norseq]
"""

import re
import sys

from tool import Tool, expect

PROGRAM = ["/bin/ls", "/dev/null"]  # a shell may leave without exit handlers


def shown(tool, *arguments):
    code, _, text = tool.run(*arguments, *PROGRAM)
    expect(code == 0, f"{arguments}: exit code {code}: {text}")
    return text.splitlines()


def attributes(lines):
    found = {}
    for line in lines:
        match = re.fullmatch(r"([^/]+)/([a-z_]+): (.*)", line)
        expect(match, f"not CACHE/ATTR: VALUE: {line!r}")
        found.setdefault(match[1], {})[match[2]] = match[3]
    return found


def check_slabinfo(tool):
    lines = shown(tool, "slabinfo")
    expect(lines[0] == "slabinfo - version: 2.1", lines[0])
    expect(lines[1].startswith("# name            <active_objs> <num_objs> "), lines[1])
    rows = {line.split()[0]: line.split() for line in lines[2:]}
    for name in ("kmalloc-8", "kmalloc-64", "kmalloc-16384"):
        expect(name in rows, f"no {name}")
    expect(all(len(row) == 16 for row in rows.values()), "rows of other lengths")
    expect(sum(int(row[1]) for row in rows.values()) > 0, "nothing was allocated")


def check_slab(tool):
    found = attributes(shown(tool, "slab"))
    expect({"kmem_cache", "kmalloc-8", "kmalloc-16384"} <= set(found), sorted(found))
    expect(len({tuple(attrs) for attrs in found.values()}) == 1, "caches differ in attributes")
    one = attributes(shown(tool, "slab", "-c", "kmalloc-64"))
    expect(list(one) == ["kmalloc-64"], sorted(one))
    expect(one["kmalloc-64"]["object_size"] == "64", one)
    expect(list(one["kmalloc-64"]) == list(found["kmalloc-64"]), one)


def check_set(tool):
    settings = ("--set", "kmalloc-64/cpu_partial=30", "--set=kmalloc-128/min_partial=2")
    usual = attributes(shown(tool, "slab"))
    found = attributes(shown(tool, "slab", *settings))
    expect(usual["kmalloc-64"]["cpu_partial"] != "30", usual["kmalloc-64"])
    expect(usual["kmalloc-128"]["min_partial"] != "2", usual["kmalloc-128"])
    expect(found["kmalloc-64"]["cpu_partial"] == "30", found["kmalloc-64"])
    expect(found["kmalloc-128"]["min_partial"] == "2", found["kmalloc-128"])
    for name in ("kmalloc-128", "kmalloc-512"):
        expect(found[name]["cpu_partial"] == usual[name]["cpu_partial"], f"{name} changed")
    # A program with the library linked in may make it: the drop-in says that it has none.
    lines = shown(tool, "slab", "--set", "nosuch/cpu_partial=1", "-c", "kmalloc-8")
    expect(lines[0] == "ukmem: slab_attr: there is no cache 'nosuch'", lines[0])
    expect(list(attributes(lines[1:])) == ["kmalloc-8"], lines)


def check_errors(tool):
    for setting, message in [
            ("kmalloc-64", "is not CACHE/ATTR=VALUE"),
            ("kmalloc-64=1", "is not CACHE/ATTR=VALUE"),
            ("/cpu_partial=1", "is not CACHE/ATTR=VALUE"),
            ("a/cpu_partial=1;b/cpu_partial=1", "is not CACHE/ATTR=VALUE"),
            ("a/cpu_partial=1,verbose:1", "is not CACHE/ATTR=VALUE"),
            ("kmalloc-64/no_such=1", "there is no attribute 'no_such'"),
            ("mine/no_such=1", "there is no attribute 'no_such'"),
            ("kmalloc-64/align=1", "the attribute 'align' cannot be set"),
            ("kmalloc-64/cpu_partial=", "bad value ''"),
            ("kmalloc-64/cpu_partial=-1", "bad value '-1'"),
            ("kmalloc-16384/cpu_partial=4000", "bad value '4000'"),
            ("mine/min_partial=many", "bad value 'many'")]:
        code, _, text = tool.run("slab", "--set", setting, *PROGRAM)
        expect(code == 2, f"{setting}: exit code {code}")
        expect(message in text, f"{setting}: {text}")
    for arguments in (["slab", "-c", ""], ["slab", "--set"], ["slab"], ["slabinfo"],
                      ["slab", *(["--set", "kmalloc-64/cpu_partial=30"] * 30), *PROGRAM]):
        code, _, text = tool.run(*arguments)
        expect(code == 2 and text.startswith("ukmem: "), f"{arguments}: {code} {text}")
    for name in ("no such", "other", "kmalloc"):
        code, _, text = tool.run("slab", "-c", name, *PROGRAM)
        expect(code == 2 and f"there is no cache '{name}'" in text, f"{code}: {text}")
    code, _, text = tool.run("slab", "--conf", "show_cache:no such", *PROGRAM)
    expect(code == 0 and text == "ukmem: show_cache: there is no cache 'no such'\n", text)


def main():
    tool, library, test = sys.argv[1:]
    kind, _, variant = test.partition(".")
    {"slabinfo": check_slabinfo, "slab": check_slab, "slab_set": check_set,
     "slab_errors": check_errors}[kind](Tool(tool, library, variant == "norseq"))


if __name__ == "__main__":
    main()
