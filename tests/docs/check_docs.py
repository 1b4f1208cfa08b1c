#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what the documents say about the tree.

    check_docs.py links ROOT     relative links and named files exist; exit 1 if one does not
    check_docs.py orders ROOT    the list of memory-order pairs and the code agree
    check_docs.py decisions ROOT decisions are numbered without gaps, and references lead to one
    check_docs.py self-check     the checker finds planted mistakes, and only those

A named file is a path in backticks, below the document's folder, the root, src/, src/'s layers or
include/ (`slab/slab_page.c`, `percpu/array_*.h`). A named function (`slab_node_take()`) is a word of the sources.

The list of pairs is the table below "Memory order" in docs/design/concurrency.md. A row has labels
(`P1`), variables, the files they are in, and what becomes visible. An access of src/ that orders
memory names a label of such a row in a comment, or works on one of its variables.
"""

import functools
import re
import sys
from pathlib import Path

import planted

DOCUMENTS = ["*.md", "docs/**/*.md", "bench/**/*.md", "tests/**/*.md"]
ORDERS = "docs/design/concurrency.md"
SOURCES = ["src/**/*.[ch]", "include/ukmem/*.h", "include/ukmem/arch/*.h"]  # compat has the kernel's orders

# ---- links and files

LINK = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"`([A-Za-z0-9_.*\[\]/-]+)`")
SUFFIX = re.compile(r"\.(c|h|cpp|md|py|sh|pml|txt|cmake|yml|svg|dot|S|map)$")


def headings(text):
    """The anchors of a document's headings, as repository viewers make them."""
    found = set()
    for line in re.findall(r"^#+ +(.+)$", text, re.MULTILINE):
        line = re.sub(r"[`*]", "", line).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", line).replace(" ", "-"))
    return found


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def link_problem(root, document, target):
    """Why a link of a document leads nowhere, or None."""
    if re.match(r"[a-z]+:", target):
        return None
    path, _, anchor = target.partition("#")
    place = (document.parent / path).resolve() if path else document.resolve()
    if root.resolve() not in [place, *place.parents]:
        return "leaves the tree"
    if not place.exists():
        return "does not exist"
    if anchor and place.suffix == ".md":
        if anchor not in headings(place.read_text(encoding="utf-8")):
            return "has no such heading"
    return None


def folders_of_names(root, document):
    yield document.parent
    yield root
    yield root / "src"
    yield root / "include"
    yield root / "include/ukmem"
    yield from (p for p in sorted((root / "src").glob("*")) if p.is_dir())


def is_file_name(name):
    """Whether text in backticks means a file of this tree."""
    if name.startswith(("/", "-", "*")) or not SUFFIX.search(name):
        return False
    return "/" in name or name.endswith((".c", ".h", ".md", ".py"))


def name_exists(root, document, name):
    return any(any(folder.glob(name)) for folder in folders_of_names(root, document))


def documents(root):
    return sorted({path for pattern in DOCUMENTS for path in root.glob(pattern)})


FUNCTION = re.compile(r"`(\w+)\([^`]*\)`")


def words_of_sources(root):
    words = set()
    for folder in ("src", "include", "tests", "bench", "examples"):
        for pattern in ("*.[ch]", "*.cpp", "CMakeLists.txt"):
            for path in (root / folder).rglob(pattern):
                words |= set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return words


def check_links(root):
    """(number of documents, number of links and names, list of problems)."""
    problems, looked_at, words = [], 0, words_of_sources(root)
    for document in documents(root):
        name = document.relative_to(root)
        text = without_code(document.read_text(encoding="utf-8"))
        for target in LINK.findall(text):
            looked_at += 1
            problem = link_problem(root, document, target)
            if problem:
                problems.append(f"{name}: link {target} {problem}")
        for named in filter(is_file_name, NAMED.findall(text)):
            looked_at += 1
            if not name_exists(root, document, named):
                problems.append(f"{name}: no file {named}")
        for function in FUNCTION.findall(text):
            looked_at += 1
            if function not in words:
                problems.append(f"{name}: no function {function}()")
    return len(documents(root)), looked_at, problems


# ---- memory order

LABEL = re.compile(r"(?<![\w.+-])([A-Z][0-9])(?!\w|\.\d)")
ORDERED = re.compile(
    r"memory_order_(acquire|release|acq_rel|seq_cst)"
    r"|__ATOMIC_(ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)"
    # Without an order of its own: sequentially consistent.
    r"|\batomic_(?:load|store|exchange|fetch_\w+|compare_exchange_(?:weak|strong))(?=\()(?<!_explicit)"
)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# T1 and T2 are threads in proofs.
NO_LABELS = {"T1", "T2"}


class Pair:
    def __init__(self, labels, variables, files):
        self.labels, self.variables, self.files = labels, variables, files
        self.name = " / ".join(labels or variables)
        self.sides = set()
        self.seen_in = set()


def read_pairs(text):
    """The rows of the table below the heading."""
    _, _, section = text.partition("\n## Memory order\n")
    rows = re.findall(r"^\|(.+)\|$", section.partition("\n## ")[0], re.MULTILINE)
    pairs = []
    for row in rows[2:]:
        labels, variables, files = [re.findall(r"`([^`]+)`", c) for c in row.split("|")[:3]]
        pairs.append(Pair(labels, variables, files))
    return pairs


def statement_around(text, blank, start, end):
    """The statement at text[start:end], with comments before it and at the end of its last line.

    @blank is the text with its comments blanked out.
    """
    first = max(blank.rfind(c, 0, start) for c in ";{}") + 1
    newline = blank.find("\n", first)
    if not blank[first:newline].strip():
        first = newline  # what ends the line belongs to the statement before
    last = min((i for i in (blank.find(c, end) for c in ";{}") if i >= 0), default=len(text))
    newline = blank.find("\n", last)
    return text[first : newline if newline >= 0 else len(text)]


def name_in_src(root, path):
    for base in ("src", "include"):
        if (root / base) in path.parents:
            return str(path.relative_to(root / base))
    return str(path)


def check_accesses(name, text, pairs, problems):
    """Each access that orders memory belongs to a pair of this file. Result: how many there are."""
    here = [pair for pair in pairs if name in pair.files]
    blank = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    accesses = 0
    for match in ORDERED.finditer(blank):
        statement = statement_around(text, blank, match.start(), match.end())
        if "signal_fence" in statement:
            continue
        accesses += 1
        words = set(re.findall(r"\w+", COMMENT.sub(" ", statement)))
        labels = set(LABEL.findall(" ".join(COMMENT.findall(statement))))
        mine = [p for p in here if labels & set(p.labels) or words & set(p.variables)]
        if not mine:
            line = text.count("\n", 0, match.start()) + 1
            problems.append(f"{name}:{line}: orders memory, for no pair of the list")
        for pair in mine:
            pair.seen_in.add(name)
            pair.sides.add((match[1] or match[2] or "seq_cst").lower())
    return accesses


def check_labels(name, text, pairs, problems):
    """Each label of a comment is that of a pair, in a file of this pair."""
    found = set()
    for comment in COMMENT.findall(text):
        found |= set(LABEL.findall(comment))
    for label in sorted(found - NO_LABELS):
        pair = next((p for p in pairs if label in p.labels), None)
        if not pair:
            problems.append(f"{name}: {label} is not in the list")
        elif name not in pair.files:
            problems.append(f"{name}: {label} is the name of a pair in {', '.join(pair.files)}")
    return found


def check_orders(root):
    """(number of files, number of accesses, list of problems)."""
    problems, accesses, found = [], 0, {}
    pairs = read_pairs((root / ORDERS).read_text(encoding="utf-8"))
    paths = sorted({path for pattern in SOURCES for path in root.glob(pattern)})
    for path in paths:
        name, text = name_in_src(root, path), path.read_text(encoding="utf-8")
        found[name] = check_labels(name, text, pairs, problems)
        accesses += check_accesses(name, text, pairs, problems)
    seen = set()
    for pair in pairs:
        for label in pair.labels:
            if label in seen:
                problems.append(f"{label} is listed twice")
            seen.add(label)
            if not any(label in found.get(file, ()) for file in pair.files):
                problems.append(f"{pair.name}: {label} is in none of its files")
        for file in pair.files:
            if file not in found:
                problems.append(f"{pair.name}: no file {file}")
            elif file not in pair.seen_in and not set(pair.labels) & found[file]:
                problems.append(f"{pair.name}: {file} has nothing of it")
        if pair.variables and not pair.sides & {"acq_rel", "seq_cst"}:
            for side in sorted({"acquire", "release"} - pair.sides):
                problems.append(f"{pair.name}: nobody has the side that is {side}")
    return len(paths), accesses, problems


# ---- decisions

DECISION = re.compile(r"^\*\*D([0-9]+)\.([0-9]+)[ .]", re.MULTILINE)
REFERENCE = re.compile(r"\bD([0-9]+\.[0-9]+)\b")


def check_decisions(root):
    """(number of documents, number of decisions, list of problems)."""
    problems, all_of_them, pages = [], set(), {}
    for document in sorted((root / "docs/design").glob("*.md")):
        text = document.read_text(encoding="utf-8")
        numbers = DECISION.findall(text)
        for n, (page, number) in enumerate(numbers, 1):
            if int(number) != n or pages.setdefault(page, document.name) != document.name:
                problems.append(f"{document.name}: D{page}.{number} is out of turn")
            all_of_them.add(f"{page}.{number}")
    for document in documents(root):
        for number in REFERENCE.findall(document.read_text(encoding="utf-8")):
            if number not in all_of_them:
                problems.append(f"{document.relative_to(root)}: there is no decision D{number}")
    return len(pages), len(all_of_them), problems


CHECKS = {
    "links": (check_links, "documents", "links and names"),
    "orders": (check_orders, "files", "accesses that order memory"),
    "decisions": (check_decisions, "pages", "decisions"),
}


def report(which, root):
    check, what, things = CHECKS[which]
    number, looked_at, problems = check(root)
    return planted.report(number, what, looked_at, things, problems)


# ---- the checker itself

GOOD = {
    "README.md": "# A\n[design](docs/design/1-a.md#the-way-down) `slab/page.c` `slab/pa*.h` `x/y` `find(p)`\n",
    "docs/design/1-a.md": "# B\n## The way: down\n**D1.1 One.** so\n**D1.2 Two.** see D1.1\n",
    ORDERS: "# C\n## Memory order\n| pair | variable | where | what |\n|---|---|---|---|\n"
    "| `P1` / `P2` | | `slab/page.c` | x |\n| | `word` | `slab/page.c`, `slab/page.h` | y |\n"
    "## Proofs\n| `x` | `y` | `z` | no pair |\n",
    "src/slab/page.c": """
	/* P1 / P2: a pair, between T1 and T2 */
	int x = 1; /* with P1 */
	atomic_fetch_or_explicit(p, 1, memory_order_release); /* P1 */
	if (x)
		atomic_load_explicit(p, memory_order_acquire); /* P2 */
	atomic_store_explicit(&word, 1, memory_order_release);
""",
    "src/slab/page.h": "find(p)\n\treturn atomic_load_explicit(&word, memory_order_acquire);\n",
}
# Each: a check, a file, what is replaced there by what.
BAD = [
    ("links", "README.md", "1-a.md#", "2-a.md#"),
    ("links", "README.md", "the-way-down", "the-way-up"),
    ("links", "README.md", "slab/page.c", "slab/pages.c"),
    ("links", "README.md", "slab/pa*.h", "slab/pb*.h"),
    ("links", "README.md", "docs/design/1-a.md#the-way-down", "../elsewhere.md"),
    ("links", "README.md", "`find(p)`", "`find_it()`"),
    ("orders", "src/slab/page.c", "release); /* P1 */", "release);"),
    ("orders", "src/slab/page.c", "P1", "P3"),
    ("orders", "src/slab/page.h", "return", "/* P1 */ return"),
    ("orders", "src/slab/page.h", "&word", "&other"),
    ("orders", "src/slab/page.h", "_explicit(&word, memory_order_acquire)", "(&other)"),
    ("orders", "src/slab/page.h", "memory_order_acquire", "memory_order_relaxed"),
    ("orders", ORDERS, "`P2`", "`P1`"),
    ("orders", ORDERS, "| `P1`", "| `Q1` / `P1`"),
    ("orders", ORDERS, "`slab/page.h`", "`slab/gone.h`"),
    ("orders", ORDERS, "| `slab/page.c` |", "| `slab/page.c`, `slab/page.h` |"),
    ("decisions", "docs/design/1-a.md", "see D1.1", "see D1.3"),
    ("decisions", "docs/design/1-a.md", "D1.2 Two", "D1.3 Two"),
]


def self_check():
    checks = {which: functools.partial(report, which) for which in CHECKS}
    return planted.self_check(checks, GOOD, BAD, {ORDERS: ""})


def main(args):
    if args == ["self-check"]:
        return self_check()
    if len(args) == 2 and args[0] in CHECKS:
        return report(args[0], Path(args[1]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
