#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the words of src/ and include/.

    check_words.py ROOT          exit 1 if a source has a word or a sentence that it must not have
    check_words.py self-check    the checker finds planted mistakes, and only those

A word in *italics* in the last column of docs/glossary.md has been replaced: no source has it, in
code or comments, whole or as a part of a name. A phrase of several words is looked for in comments
alone. ALLOWED has the names that other interfaces give, and must be used.

No sentence of a comment begins with "Who", "Whoever", "Those" or "Nor": the actor is missing.
"""

import re
import sys
from pathlib import Path

import planted

GLOSSARY = "docs/glossary.md"
SOURCES = ["src/**/*.[chS]", "src/**/*.map", "include/**/*.h", "include/**/*.hpp"]

# A word, the files and the text that may have it.
ALLOWED = [
    ("lru", "include/ukmem/*.h", r"kmem_cache_alloc_lru|list_lru( \*lru)?|\(void\)lru|@lru"),
    ("barn", "src/slab/*", r"\b(SLAB_)?BARN_(GET|PUT)(_FAIL)?\b|\bbarn_(get|put)(_fail)?\b"),
    # Terms of glibc, and of jemalloc, whose functions the files explain.
    ("arena", "src/malloc/*.[ch]", r"\b\w*(arena|Arena|ARENA)\w*\b"),
]

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
SENTENCE = re.compile(r"(?:^|[.:?!] |- )((?:Who|Whoever|Those|Nor)\b[^.]{0,60})")


def replaced_words(glossary):
    """The words in italics in the last column of the tables."""
    words = set()
    for row in re.findall(r"^\|(.+)\|$", glossary, re.MULTILINE):
        words |= set(re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", row.split("|")[-1]))
    return sorted(words)


def pattern_of(word):
    return re.compile(r"(?<![a-z])" + word.replace(" ", r"[\s*]+") + r"(?:s|d)?(?![a-z])", re.IGNORECASE)


def only_comments(text):
    """The comments, on their lines."""
    blank, end = [], 0
    for match in COMMENT.finditer(text):
        blank += [re.sub(r"[^\n]", " ", text[end : match.start()]), match[0]]
        end = match.end()
    return "".join(blank)


def words_wrong(name, text, word, used):
    if " " in word:
        text = only_comments(text)
    for k, (allowed, files, regex) in enumerate(ALLOWED):
        if allowed == word and Path(name).match(files):
            text, n = re.subn(regex, lambda m: " " * len(m[0]), text)
            if n:
                used.add(k)
    for match in pattern_of(word).finditer(text):
        yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: '{word}' is replaced ({GLOSSARY})"


def flat(comment):
    """A comment as one line, without its decoration."""
    return " ".join(re.sub(r"^\s*(?:/\*+|\*/|\*|//)|\*/$", " ", comment, flags=re.MULTILINE).split())


def sentences_wrong(name, text):
    for match in COMMENT.finditer(text):
        for begin in SENTENCE.findall(flat(match[0])):
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: a sentence begins '{begin}'"


def check(root):
    """(number of files, number of comments, list of problems)."""
    problems, comments, used = [], 0, set()
    words = replaced_words((root / GLOSSARY).read_text(encoding="utf-8"))
    paths = sorted({path for pattern in SOURCES for path in root.glob(pattern)})
    for path in paths:
        name, text = str(path.relative_to(root)), path.read_text(encoding="utf-8")
        comments += len(COMMENT.findall(text))
        for word in words:
            problems += words_wrong(name, text, word, used)
        problems += sentences_wrong(name, text)
    for k, (word, files, _) in enumerate(ALLOWED):
        if word not in words:
            problems.append(f"'{word}' is allowed in {files}, but is not replaced ({GLOSSARY})")
        elif k not in used:
            problems.append(f"'{word}' is allowed in {files}, which does not need that")
    return len(paths), comments, problems


def report(root):
    files, comments, problems = check(root)
    return planted.report(files, "files", comments, "comments", problems)


# ---- the checker itself

GOOD = {
    GLOSSARY: "| word | meaning | not |\n|---|---|---|\n| **a** | *b* | *lru*, pool |\n| c | d | *barn* |\n"
    "| **e** | f | *arena*: g |\n| h | i | *class map* |\n",
    "include/ukmem/slab.h": "/* @lru is not used. */\nstruct list_lru;\n",
    "src/slab/page.c": """/*
 * A plurality of classes; maps. Nobody waits who holds a pool; those who do, wait.
 */
int nor = SLAB_BARN_GET_FAIL; /* barn_get: whoever knows */
const char *class_map = "a class map";
""",
    "src/malloc/malloc_info.c": "/* An arena. */\n",
}
# Each: a file, and what is replaced there by what.
BAD = [
    ("include/ukmem/slab.h", "list_lru", "lru_list"),
    ("include/ukmem/slab.h", "@lru is", "The LRU is"),
    ("src/slab/page.c", "int nor", "int page_lru"),
    ("src/slab/page.c", "barn_get:", "barns:"),
    ("src/slab/page.c", "SLAB_BARN_GET_FAIL", "BARN_SIZE"),
    ("src/slab/page.c", "classes; maps", "class\n * maps"),
    ("src/slab/page.c", "A plurality", "arena_start"),
    ("src/slab/page.c", "A plurality", "Those"),
    ("src/slab/page.c", "Nobody waits who", "Who waits and"),
    ("src/slab/page.c", "Nobody waits who", "\n * Nor waits who"),
    ("src/slab/page.c", "barn_get: whoever", "barn_get: Whoever"),
    ("src/slab/page.c", "/* barn_get:", "// Whoever\n/*"),
    ("src/malloc/malloc_info.c", "An arena", "None"),
    (GLOSSARY, "*barn*", "barn"),
]


def self_check():
    bad = [("words", *change) for change in BAD]
    return planted.self_check({"words": report}, GOOD, bad, {GLOSSARY: GOOD[GLOSSARY]})


def main(args):
    if args == ["self-check"]:
        return self_check()
    if len(args) == 1 and Path(args[0]).is_dir():
        return report(Path(args[0]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
