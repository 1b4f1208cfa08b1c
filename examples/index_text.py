"""Indexes text and answers questions about it: the work that demo.sh shows.

    index_text.py FILE RESULT MEASURES

Builds an inverted index of every word of FILE with all its positions, as Python
objects, and writes what it finds - counts, most frequent words, longest lines,
phrase queries - to RESULT. That depends on FILE alone. Elapsed seconds and peak
resident memory in MB go to MEASURES.
"""

import re
import resource
import sys
import time
from collections import defaultdict

WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
PHRASES = [
    "as well as",
    "free software foundation",
    "in the case of",
    "is not supported",
    "the value of the",
    "kernel memory allocator",
]


class Index:
    """word -> positions, a position being the number of words before it."""

    def __init__(self):
        self.positions = defaultdict(list)
        self.lines = []
        self.words = 0

    def add_line(self, line):
        """Index the words of one line and keep it."""
        self.lines.append(line)
        for word in WORD.findall(line.lower()):
            self.positions[word].append(self.words)
            self.words += 1

    def most_frequent(self, count):
        """(word, occurrences), the most frequent first, then by alphabet."""
        by_count = ((word, len(places)) for word, places in self.positions.items())
        return sorted(by_count, key=lambda item: (-item[1], item[0]))[:count]

    def longest_lines(self, count):
        """(length, line number), the longest first."""
        lengths = ((len(line), number) for number, line in enumerate(self.lines, 1))
        return sorted(lengths, key=lambda item: (-item[0], item[1]))[:count]

    def find(self, phrase):
        """Positions at which the words of the phrase follow each other."""
        first, *rest = WORD.findall(phrase.lower())
        found = set(self.positions.get(first, ()))
        for distance, word in enumerate(rest, 1):
            found &= {place - distance for place in self.positions.get(word, ())}
        return sorted(found)


def describe(index):
    """The result, line by line."""
    yield f"{len(index.lines)} lines, {index.words} words, {len(index.positions)} different ones"
    top = ", ".join(f"{word} {count}" for word, count in index.most_frequent(12))
    yield f"most frequent: {top}"
    longest = ", ".join(f"{n} characters in line {line}" for n, line in index.longest_lines(3))
    yield f"longest lines: {longest}"
    checksum = 0
    for word in sorted(index.positions):
        for place in index.positions[word]:
            checksum = (checksum * 31 + place + len(word)) % (1 << 61)
    yield f"checksum of all positions: {checksum:x}"
    for phrase in PHRASES:
        hits = index.find(phrase)
        where = f", first at word {hits[0]}" if hits else ""
        yield f'"{phrase}": {len(hits)} times{where}'


def main():
    """Index the file named on the command line."""
    source, result, measures = sys.argv[1:4]
    start = time.perf_counter()
    index = Index()
    with open(source, encoding="utf-8", errors="replace") as text:
        for line in text:
            index.add_line(line.rstrip("\n"))
    with open(result, "w", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in describe(index))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with open(measures, "w", encoding="utf-8") as out:
        print(f"{seconds:.2f} {peak:.0f}", file=out)


if __name__ == "__main__":
    main()
