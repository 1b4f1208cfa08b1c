# SPDX-License-Identifier: MIT
"""Finds in docs/examples what shows how a function is used: functions of programs that a test runs."""
import dataclasses
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples"


@dataclasses.dataclass
class Snippet:
    file: str
    lines: list

    def mentions(self, name):
        return any(re.search(rf"\b{name}\b", l) for l in self.lines)


def declarations(name, lines):
    """Paragraphs between functions, such as definitions of variables."""
    paragraph, found, depth = [], [], 0
    for line in lines + [""]:
        depth += line == "{"
        if line.strip() and not depth:
            paragraph.append(line)
        elif not depth:
            if paragraph and paragraph[-1].endswith(";") and not paragraph[0].startswith("/* SPDX"):
                found.append(Snippet(name, paragraph))
            paragraph = []
        else:
            paragraph = []
        depth -= line == "}"
    return found


def read():
    """All functions of the examples, main() excepted. A comment in front belongs to its function."""
    found = []
    for path in sorted(FOLDER.glob("*.c")):
        lines = path.read_text().expandtabs(8).split("\n")
        found += declarations(path.name, lines)
        for i, line in enumerate(lines):
            if line != "{" or re.match(r"int main\(", lines[i - 1]):
                continue
            begin = i - 1
            while begin > 0 and lines[begin - 1].strip():
                begin -= 1
            end = lines.index("}", i)
            found.append(Snippet(path.name, lines[begin:end + 1]))
    return found


ALL = read()


def snippets(names, shown):
    """The shortest functions that together use all of @names which any uses, each not yet in @shown."""
    out = []
    for name in names:
        if any(s.mentions(name) for s in out):
            continue
        users = [s for s in ALL if s.mentions(name)]
        if not users:
            continue
        best = min(users, key=lambda s: len(s.lines))
        key = (best.file, tuple(best.lines))
        if key not in shown:
            shown.add(key)
            out.append(best)
    return out


def missing(names):
    return sorted(n for n in names if not any(s.mentions(n) for s in ALL))
