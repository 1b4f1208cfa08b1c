# SPDX-License-Identifier: MIT
"""The entries of *.toml: what a mutant changes, and whether an entry is right.

README.md says what an entry may have.
"""

import fnmatch
import functools
import re
import shlex
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCES = ["src", "include", "tools"]
SUFFIXES = {".c", ".h", ".cpp"}
# Strings unless they say otherwise.
FIELDS = {"id": str, "what": str, "file": str, "in": str, "find": str, "replace": str,
          "edits": list, "preset": str, "test": str, "command": str, "ctest": str, "vm": str,
          "targets": list, "env": dict, "norseq": bool, "hangs": bool, "timeout": int,
          "attempts": int, "sample": bool, "output": str}
TESTS = ["test", "command", "ctest", "vm"]
EDIT_FIELDS = {"file", "in", "find", "replace"}
PRESETS = {"dev", "release", "asan", "tsan"}


class Wrong(Exception):
    """A mutant whose entry is wrong, or a build or a test that is."""


def load():
    """All mutants, in the order of files.

    A file's table [defaults] is part of each entry. An entry that is to be caught `by` several of
    the tests that the table [tests] names is a mutant for each of them.
    """
    mutants = []
    for path in sorted(HERE.glob("*.toml")):
        table = tomllib.loads(path.read_text())
        for entry in table["mutant"]:
            whole = {**table.get("defaults", {}), **entry, "from": path.name}
            tests = whole.pop("by", [])
            for name in tests:
                mutants.append({**whole, **table["tests"][name], "id": f"{whole['id']}.{name}"})
            if not tests:
                mutants.append(whole)
    return mutants


def edits_of(mutant):
    """Its changes; what each leaves out is as in the entry itself."""
    outer = {key: mutant[key] for key in EDIT_FIELDS & mutant.keys()}
    return [{**outer, **edit} for edit in mutant.get("edits", [{}])]


def extents(text, name):
    """Where functions and macros of that name are defined: (begin, end)."""
    found = []
    for match in re.finditer(rf"^[A-Za-z_][^\n;={{}}]*\b{re.escape(name)}\b\)?\(", text, re.M):
        body = re.compile(r"[^;{]*?\n\{").match(text, match.end())
        end = text.find("\n}", match.end())
        if body and end >= 0:
            found.append((match.start(), end + 2))
    for match in re.finditer(rf"^#define {re.escape(name)}\b(?:.*\\\n)*.*", text, re.M):
        found.append(match.span())
    return found


def files_of(root, pattern):
    """Sources below root; with a pattern those whose path it fits."""
    for top in SOURCES:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SUFFIXES:
                name = str(path.relative_to(root))
                if not pattern or fnmatch.fnmatch(name, pattern):
                    yield path


def words(text):
    """The text as a pattern to which white space is alike, wherever it may be."""
    pattern, before = "", ""
    for token in re.findall(r"\w+|[^\w\s]", text):
        apart = re.match(r"\w", token) and re.match(r"\w", before)
        pattern += (r"\s+" if apart else r"\s*" if before else "") + re.escape(token)
        before = token
    return pattern


@functools.lru_cache(maxsize=None)
def text_at(path, _):
    return path.read_text()


def text_of(path):
    """Its text as it is now."""
    return text_at(path, path.stat().st_mtime_ns)


def places(root, edit):
    """Where its text is: (file, begin, end)."""
    pattern = re.compile(words(edit["find"]))
    found = []
    for path in files_of(root, edit.get("file")):
        text = text_of(path)
        if edit.get("in", "") not in text:
            continue
        spans = extents(text, edit["in"]) if "in" in edit else [(0, len(text))]
        for begin, end in spans:
            found += [(path, *match.span()) for match in pattern.finditer(text, begin, end)]
    return found


def apply(root, mutant):
    """Changed files and their new texts; nothing is written."""
    texts = {}
    for edit in edits_of(mutant):
        where = places(root, edit)
        scope = " ".join(str(edit[key]) for key in ("file", "in") if key in edit)
        if len(where) != 1:
            raise Wrong(f"`{edit['find'].strip()}` is {len(where)} times in {scope or 'sources'}")
        path, begin, end = where[0]
        texts.setdefault(path, []).append((begin, end, edit["replace"].strip("\n")))
    result = {}
    for path, changes in texts.items():
        text = path.read_text()
        for begin, end, new in sorted(changes, reverse=True):
            text = text[:begin] + new + text[end:]
        if text == path.read_text():
            raise Wrong(f"nothing changes in {path.relative_to(root)}")
        result[path] = text
    return result


# ---------------------------------------------------------------- checking entries

def targets_of(mutant):
    if "test" in mutant:
        return [shlex.split(mutant["test"])[0]]
    if "vm" in mutant:
        return ["guest", "vm_init"]
    return mutant.get("targets", [])


def cmake_words():
    """Names in the tests' CMake files, of targets among others."""
    found = set()
    for path in (ROOT / "tests").rglob("CMakeLists.txt"):
        found |= set(re.findall(r"[\w.]+", path.read_text()))
    return found


def cases():
    """Suite.Case of GoogleTest's cases as they are written in the sources."""
    found = set()
    for path in (ROOT / "tests").rglob("*.cpp"):
        found |= {f"{suite}.{case}" for suite, case in re.findall(
            r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", path.read_text(), re.M)}
    return found


def check_test(mutant, names, all_cases):
    if sum(key in mutant for key in TESTS) != 1:
        raise Wrong(f"has to have one of {', '.join(TESTS)}")
    for target in targets_of(mutant):
        if target not in names:
            raise Wrong(f"there is no target {target}")
    if "command" in mutant:
        for word in shlex.split(mutant["command"]):
            if word.startswith("tests/") and not (ROOT / word).exists():
                raise Wrong(f"there is no {word}")
    _, *rest = shlex.split(mutant.get("test", f"- {mutant.get('vm', '')}"))
    for pattern in (rest[0].split(":") if rest and not rest[0].startswith("-") else []):
        plain = re.sub(r"^[\w*]+/|/[\w*]+$", "", pattern)
        if not fnmatch.filter(all_cases, plain):
            raise Wrong(f"there is no test case {pattern}")


def check_entry(mutant, names, all_cases):
    for key, value in mutant.items():
        if key != "from" and not isinstance(value, FIELDS.get(key, ())):
            raise Wrong(f"{key}: not a field, or of another type")
    for edit in edits_of(mutant):
        missing = {"find", "replace"} - edit.keys()
        if missing:
            raise Wrong(f"has no {', '.join(sorted(missing))}")
        if not {"file", "in"} & edit.keys():
            raise Wrong("has neither file nor in")
    if not mutant.get("what"):
        raise Wrong("does not say what it breaks")
    if mutant.get("preset", "dev") not in PRESETS:
        raise Wrong(f"preset {mutant['preset']}")
    check_test(mutant, names, all_cases)
    apply(ROOT, mutant)


def check(mutants):
    """Prints what is wrong with entries. Result: how many are wrong."""
    names, all_cases, seen, wrong = cmake_words(), cases(), set(), 0
    for mutant in mutants:
        name = mutant.get("id", "an entry without an id")
        try:
            if name in seen:
                raise Wrong("is there twice")
            check_entry(mutant, names, all_cases)
        except Wrong as error:
            print(f"{mutant['from']}: {name}: {error}")
            wrong += 1
        seen.add(name)
    print(f"{len(mutants) - wrong} of {len(mutants)} mutants apply once and name a test")
    return wrong
