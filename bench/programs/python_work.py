#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Small benchmarks made of Python's standard library.

    python_work.py --list           their names
    python_work.py NAME REPEATS     runs one; prints elapsed and CPU seconds, peak KiB, as JSON
"""

import ast
import collections
import copy
import heapq
import json
import pickle
import queue
import re
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def json_round_trip():
    data = [{"id": i, "name": f"name {i}", "tags": [str(i % 7)] * 5, "weight": i / 3}
            for i in range(5000)]
    return json.loads(json.dumps(data)) == data


def dict_churn():
    table = {}
    for i in range(150_000):
        table[f"key {i * 7919 % 20011}"] = (i, str(i))
        if i % 3 == 0:
            table.pop(f"key {i * 31 % 20011}", None)
    return 0 < len(table) <= 20011


class Node:
    def __init__(self, depth):
        self.left = Node(depth - 1) if depth else None
        self.right = Node(depth - 1) if depth else None

    def count(self):
        return 1 + (self.left.count() + self.right.count() if self.left else 0)


def binary_trees():
    return all(Node(12).count() == 2 ** 13 - 1 for _ in range(8))


def compile_source():
    source = Path(ast.__file__).read_text(encoding="utf-8")
    return len(ast.dump(ast.parse(source))) > 100_000 and compile(source, "ast", "exec")


def xml_round_trip():
    root = ElementTree.Element("root")
    for i in range(8000):
        item = ElementTree.SubElement(root, "item", {"id": str(i)})
        item.text = f"text of item {i}"
    text = ElementTree.tostring(root)
    return ElementTree.tostring(ElementTree.fromstring(text)) == text


def pickle_and_copy():
    data = {i: (f"value {i}", [i, i / 2, {"deep": str(i)}]) for i in range(8000)}
    return pickle.loads(pickle.dumps(data)) == data == copy.deepcopy(data)


def text_and_regex():
    text = " ".join(f"word{i * 104729 % 9973}-{i}" for i in range(60_000))
    words = collections.Counter(re.findall(r"([a-z]+\d+)-\d+", text))
    return sum(words.values()) == 60_000 and len(text.upper().replace("-", "--").split()) == 60_000


def sort_and_heap():
    numbers = [(i * 1103515245 + 12345) % 2 ** 31 / 7 for i in range(120_000)]
    heap = []
    for number in numbers:
        heapq.heappush(heap, number)
    return [heapq.heappop(heap) for _ in numbers] == sorted(numbers)


def threads_and_queue():
    passed, counts = queue.Queue(1000), []

    def consume():
        counts.append(sum(len(item[1]) for item in iter(passed.get, None)))

    consumers = [threading.Thread(target=consume) for _ in range(4)]
    for thread in consumers:
        thread.start()
    for i in range(30_000):
        passed.put((i, "x" * (i % 500)))
    for _ in consumers:
        passed.put(None)
    for thread in consumers:
        thread.join()
    return sum(counts) == sum(i % 500 for i in range(30_000))


WORK = [json_round_trip, dict_churn, binary_trees, compile_source, xml_round_trip,
        pickle_and_copy, text_and_regex, sort_and_heap, threads_and_queue]


def main():
    names = {work.__name__: work for work in WORK}
    if sys.argv[1:] == ["--list"]:
        print("\n".join(names))
        return
    work, repeats = names[sys.argv[1]], int(sys.argv[2])
    start, cpu_start = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        if not work():
            sys.exit(f"{work.__name__}: the result is wrong")
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak = int(re.search(r"^VmHWM:\s+(\d+) kB$", status, re.M).group(1))
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_rss_kib": peak}))


if __name__ == "__main__":
    main()
