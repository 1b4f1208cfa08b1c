#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks `ukmem vmstat -m`, `ukmem vmstat -C` and `ukmem kmalloc`.

usage: tables_test.py TOOL MALLOC_LIBRARY vmstat_m|vmstat_C|vmstat|kmalloc[.norseq]
"""

import math
import re
import sys

from tool import Tool, expect

# At least so many requests of the classes of 160 and 5120 bytes: a header of 33 each.
ASKED = {"kmalloc-160": 2000, "kmalloc-5120": 300}
PROGRAM = [sys.executable, "-S", "-c", "[bytes(n) for n in [100] * 2000 + [5000] * 300]"]
POOLS = ["Name", "Size", "Requests", "Fail", "Releases", "InUse", "Avail", "Pgreq", "Pgrel",
         "Npage", "PageSz", "Hiwat", "Minpg", "Maxpg", "Idle", "Flags", "Util%"]
LAYERS = ["Name", "Spin", "GrpSz", "Full", "Emty", "PoolLayer", "CacheLayer", "Hit%",
          "CpuLayer", "Hit%"]
CLASSES = ["Name", "From", "Size", "PageSz", "Objects", "Waste", "Waste%"]


def table(text, title, headings):
    """Rows as lists of words, and the lines behind them."""
    lines = text.splitlines()
    expect(lines[0] == f"{title}:", f"title: {lines[:1]}")
    expect(lines[1].split() == headings, f"headings: {lines[1]}")
    end = lines.index("") if "" in lines else len(lines)
    rows = [line.split() for line in lines[2:end]]
    for row in rows:
        expect(len(row) == len(headings), f"not {len(headings)} columns: {row}")
    expect(len({row[0] for row in rows}) == len(rows), "two rows of one name")
    return rows, lines[end:]


def tenths(part, whole):
    share = 1000 * part // whole if whole else 0
    return f"{share // 10}.{share % 10}"


def check_pool(row):
    size, requests, fail, releases, inuse, avail, pgreq, pgrel, npage, pagesz, hiwat = \
        map(int, row[1:12])
    expect(requests > 0 and fail == 0, f"not used, or failed: {row}")
    expect(inuse == requests - releases, f"InUse: {row}")
    expect(npage == pgreq - pgrel and npage <= hiwat <= pgreq, f"pages: {row}")
    expect(inuse + avail <= npage * pagesz // size, f"more objects than fit: {row}")
    expect(int(row[12]) <= int(row[13]) and int(row[14]) <= npage, f"idle: {row}")
    # Slabs are of PageSz bytes, or fewer, and have room for these objects at least.
    least, most = (inuse + avail) * size, npage * pagesz
    expect(float(tenths(inuse * size, most)) <= float(row[16]) <= float(tenths(inuse * size, least)),
           f"Util%: {row}")
    return inuse * size, least, most


def check_pools(tool):
    code, _, text = tool.run("vmstat", "-m", *PROGRAM)
    expect(code == 0, f"exit code {code}")
    rows, rest = table(text, "pools", POOLS)
    used, least, most = [sum(column) for column in zip(*map(check_pool, rows))]
    said = re.fullmatch(r"In use (\d+)K, total allocated (\d+)K; utilization ([\d.]+)%", rest[1])
    expect(said and rest[0] == "" and len(rest) == 2, f"{rest}")
    expect(int(said[1]) == used // 1024 and least // 1024 <= int(said[2]) <= most // 1024 and
           abs(float(said[3]) - used / 1024 / int(said[2]) * 100) < 0.5, f"{rest} of {used}, {least}, {most}")
    requests = {row[0]: int(row[2]) for row in rows}
    for name, asked in ASKED.items():
        expect(requests.get(name, 0) >= asked, f"{name}: {requests}")
    _, _, long = tool.run("vmstat", "--pools", *PROGRAM)
    first = table(long, "pools", POOLS)[0][0]
    expect(first[0] == rows[0][0], f"--pools differs: {first}, {rows[0]}")


def check_layers(tool):
    code, _, text = tool.run("vmstat", "-C", *PROGRAM)
    expect(code == 0, f"exit code {code}")
    rows, rest = table(text, "layers", LAYERS)
    expect(rest == [], f"more than rows: {rest}")
    for row in rows:
        pool, cache, cpu = int(row[5]), int(row[6]), int(row[8])
        expect(pool <= cache <= cpu and cpu > 0, f"layers: {row}")
        expect(row[7] == tenths(cache - pool, cache), f"hits of slabs: {row}")
        expect(row[9] == tenths(cpu - cache, cpu), f"hits of arrays: {row}")
    busiest = max(rows, key=lambda row: int(row[8]))
    expect(float(busiest[9]) > 90, f"arrays serve the busiest cache: {busiest}")
    expect(int(busiest[2]) > 0, f"which has arrays: {busiest}")


def check_plain(tool):
    code, _, text = tool.run("vmstat", *PROGRAM)
    expect(code == 0 and re.match(r"nr_free_pages \d+\n", text), f"{code}: {text}")
    for arguments in (["-m", "-C", *PROGRAM], ["-x", *PROGRAM], ["-m"]):
        code, _, text = tool.run("vmstat", *arguments)
        expect(code == 2 and text.startswith("ukmem: "), f"{arguments}: {code} {text}")
    code, text, _ = tool.run("vmstat", "--help")
    expect(code == 0, f"exit code {code}")
    for name in POOLS[1:] + LAYERS[1:-3] + ["CpuLayer"]:
        expect(re.search(rf"\b{name}", text), f"--help does not say what {name} is")


def check_classes(tool):
    code, text, _ = tool.run("kmalloc")
    expect(code == 0, f"exit code {code}")
    rows, rest = table(text, "size_classes", CLASSES)
    last, wasted, all_bytes = 0, 0, 0
    for row in rows:
        first, size, slab, objects, waste = map(int, row[1:6])
        expect(row[0] == f"kmalloc-{size}" and first == last + 1, f"order: {row}")
        expect(waste == slab - objects * size and row[6] == tenths(waste, slab), f"{row}")
        expect(math.log2(slab).is_integer() or math.log2(size) % 1, f"alignment: {row}")
        last, wasted, all_bytes = size, wasted + waste, all_bytes + slab
    expect(last == 65536, f"the last class is {last}")
    expect(rest == ["", f"A slab of each: wasted {wasted // 1024}K of {all_bytes // 1024}K; "
                    f"{tenths(wasted, all_bytes)}%"], f"{rest}")
    expect(wasted < all_bytes / 100, "a hundredth is wasted")


def main():
    tool, library, test = sys.argv[1:]
    kind, _, variant = test.partition(".")
    {"vmstat_m": check_pools, "vmstat_C": check_layers, "vmstat": check_plain,
     "kmalloc": check_classes}[kind](Tool(tool, library, variant == "norseq",
                                       PYTHONMALLOC="malloc"))


if __name__ == "__main__":
    main()
