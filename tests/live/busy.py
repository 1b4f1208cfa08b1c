#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A Python program that works: it makes objects of many kinds and drops them, in threads.

It says "ready" when it has its objects, works until a line comes, then says "rests", and ends when
stdin does.
"""

import gc
import json
import random
import re
import sys
import threading

KEPT = 8000
THREADS = 3


class Node:
    def __init__(self, number, other):
        self.number = number
        self.other = other
        self.names = {f"name {number}": number, number: [str(number)] * (number % 9)}


def work(kept, number, stop):
    chance = random.Random(number)
    while not stop.is_set():
        for _ in range(200):
            place = chance.randrange(KEPT)
            kept[place] = Node(chance.randrange(1 << 20), None)
        first = Node(0, None)
        first.other = Node(1, first)  # a cycle, for the collector
        text = json.dumps({str(i): [i, str(i) * 3, {"a": i / 7}] for i in range(chance.randrange(500))})
        kept[chance.randrange(KEPT)] = json.loads(text)
        kept[chance.randrange(KEPT)] = re.sub(r"\d+", lambda m: m[0] * 2, text)[:chance.randrange(5000)]
        kept[chance.randrange(KEPT)] = type(f"Type{number}", (Node,), {"value": chance.random()})
        kept[chance.randrange(KEPT)] = {chance.random() for _ in range(50)}


def main():
    kept = [Node(i, None) for i in range(KEPT)]
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=(kept, i, stop)) for i in range(THREADS)]
    print("ready", flush=True)
    for thread in threads:
        thread.start()
    sys.stdin.readline()
    stop.set()
    for thread in threads:
        thread.join()
    gc.collect()
    print("rests", flush=True)
    sys.stdin.readline()


main()
