#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the interface of libukmem.so with that of the last version; docs/abi.md has the rules.

usage: abi.py check LIBRARY [--version VERSION]   symbols, then types
       abi.py update LIBRARY [--version VERSION]  make LIBRARY's interface the baseline
       abi.py notices LIBRARY ARCHIVE [--cc CC]   see `check` fail: a symbol less, a structure changed

LIBRARY is of x86-64, with debug information, for the comparison of types, which needs abidw and
abidiff (package abigail-tools). Exits 77 (skipped) if only that could not be done.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SYMBOLS = ROOT / "debian/libukmem0.symbols"
FOLDER = ROOT / "packaging/abi"
CHANGELOG = ROOT / "CHANGELOG.md"
SKIPPED = 77
# These options leave out parameters' names, and all that depends on the folder of the build.
DUMP = ["abidw", "--no-parameter-names", "--exported-interfaces-only", "--no-corpus-path", "--no-comp-dir-path",
        "--no-show-locs", "--no-elf-needed"]


class Failure(Exception):
    pass


class NotComparable(Exception):
    pass


def run(*command):
    command = [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def number(version):
    return [int(part) for part in version.split(".")]


def project_version():
    return re.search(r"project\(ukmem VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def released(version):
    """Does CHANGELOG.md give this version a date? Until then it is in the making."""
    return bool(re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", CHANGELOG.read_text(), re.MULTILINE))


def exported(library):
    """{symbol: its version}, without the nodes themselves."""
    found = {}
    for line in run("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines():
        _, kind, name = line.split()
        symbol, _, version = name.partition("@")
        if kind != "A":
            found[symbol] = version.lstrip("@")
    if not found:
        raise Failure(f"{library} exports nothing")
    return found


def recorded():
    """{symbol: (its version, since when)} of the Debian package's list."""
    rows = re.findall(r"^ (\w+)@(\w+) ([\d.]+)", SYMBOLS.read_text(), re.MULTILINE)
    return {symbol: (version, since) for symbol, version, since in rows if symbol != version}


def check_symbols(library, version):
    now, before = exported(library), recorded()
    wrong = []
    for symbol, (node, _) in before.items():
        if symbol not in now:
            wrong.append(f"{symbol}@{node} is gone: programs that use it no longer start")
        elif now[symbol] != node:
            wrong.append(f"{symbol} had the version {node}, now {now[symbol]}: programs do not find it")
    # A node is closed by the release of a version that has symbols in it.
    closed = {node: since for node, since in before.values() if number(since) < number(version) or released(since)}
    for symbol in sorted(now.keys() - before.keys()):
        if now[symbol] in closed:
            wrong.append(f"{symbol} is new, but has the version {now[symbol]} of {closed[now[symbol]]}, which is released: "
                         "give it a node of the next version in src/ukmem.map (docs/abi.md)")
        else:
            print(f"new: {symbol}@{now[symbol]}; before the release: packaging/abi.py update")
    print(f"symbols: {len(before)} recorded, {len(now)} exported")
    return wrong


def public_types():
    """Names of structures that the headers define; others they only name."""
    text = "".join(path.read_text() for path in sorted((ROOT / "include/ukmem").glob("*.h")))
    names = set(re.findall(r"^(?:struct|union) (\w+) \{", text, re.MULTILINE))
    if len(names) < 5:
        raise Failure(f"the headers define {sorted(names)} alone")
    return names


def dump(library):
    """abidw's XML of the library, without what the headers hide."""
    corpus = tree.fromstring(run(*DUMP, library))
    public = public_types()
    if not any(kind.get("name") in public for kind in corpus.iter("class-decl")):
        raise Failure(f"{library} has no debug information")
    for kind in corpus.iter("class-decl"):
        if kind.get("name") not in public and kind.get("is-anonymous") != "yes":
            for child in list(kind):
                kind.remove(child)
            kind.attrib.pop("size-in-bits", None)
            kind.attrib.pop("alignment-in-bits", None)
            kind.set("is-declaration-only", "yes")
    remove_unreachable(corpus)
    for unit in corpus.iter("abi-instr"):
        unit.set("path", re.sub(r"^.*?src/", "src/", unit.get("path", "")))
        for attribute in "comp-dir-path", "language":
            unit.attrib.pop(attribute, None)
    tree.indent(corpus, " ")
    return tree.tostring(corpus, encoding="unicode") + "\n"


def references(node):
    return {inner.get(name) for inner in node.iter() for name in ("type-id", "naming-typedef-id")} - {None}


def remove_unreachable(corpus):
    """Leave the declarations of exported symbols, and the types that these need."""
    types = {}
    for unit in corpus.iter("abi-instr"):
        for node in unit:
            if node.get("id"):
                types.setdefault(node.get("id"), []).append(node)
    wanted, todo = set(), set()
    for unit in corpus.iter("abi-instr"):
        for node in unit:
            if node.get("elf-symbol-id"):
                todo |= references(node)
    while todo:
        name = todo.pop()
        wanted.add(name)
        for node in types.get(name, []):
            todo |= references(node) - wanted
    for unit in list(corpus.iter("abi-instr")):
        for node in list(unit):
            if not node.get("elf-symbol-id") and node.get("id") not in wanted:
                unit.remove(node)
        if not len(unit):
            corpus.remove(unit)


def version_of(path):
    return path.stem.partition("-")[2]


def baseline():
    """The file of the last released version; before there is one, of the newest."""
    files = sorted(FOLDER.glob("libukmem-*.abi"), key=lambda path: number(version_of(path)))
    if not files:
        raise Failure(f"{FOLDER} has no baseline")
    return ([path for path in files if released(version_of(path))] or files)[-1]


def why_not_types(library):
    if "X86-64" not in run("readelf", "-h", library):
        return "the baseline is of x86-64"
    missing = [tool for tool in ("abidw", "abidiff") if not shutil.which(tool)]
    return f"{' and '.join(missing)} not installed (package abigail-tools)" if missing else None


def format_of(text):
    """abidiff compares no files of two formats, which are the numbers before the dot."""
    found = re.search(r'<abi-corpus version="(\d+)', text)
    return found and found[1]


def check_types(library, old):
    now = dump(library)
    formats = [format_of(text) for text in (old.read_text(), now)]
    if formats[0] != formats[1]:
        raise NotComparable(f"{old.name} is of format {formats[0]}, this abidw's is {formats[1]}")
    with tempfile.TemporaryDirectory(prefix="ukmem-abi-") as folder:
        new = Path(folder) / "now.abi"
        new.write_text(now)
        # New functions and objects are check_symbols()'s.
        command = ["abidiff", "--no-added-syms", "--no-show-locs", str(old), str(new)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    # 4: the interface changed; 8: incompatibly; 1 and 2: abidiff itself failed.
    if done.returncode:
        return [f"{old.name} and this build differ:\n{done.stdout}{done.stderr}"]
    print(f"types: as in {old.name}")
    return []


def check(library, version):
    wrong = check_symbols(library, version)
    why = why_not_types(library)
    if not why:
        try:
            wrong += check_types(library, baseline())
        except NotComparable as error:
            why = str(error)
    for line in wrong:
        print(f"FAILED: {line}")
    if why:
        print(f"SKIP: types are not compared: {why}")
    return 1 if wrong else SKIPPED if why else 0


def update(library, version):
    if released(version):
        raise Failure(f"{version} is released, and its baseline stays: first set the next version (docs/abi.md)")
    before, now = recorded(), exported(library)
    gone = before.keys() - now.keys()
    if gone:
        raise Failure(f"{sorted(gone)} are gone: that needs another soname, not another baseline")
    nodes = sorted(set(now.values()))
    since = {node: min((before[s][1] for s, n in now.items() if n == node and s in before), key=number,
                       default=version) for node in nodes}
    lines = ["libukmem.so.0 libukmem0 #MINVER#", "* Build-Depends-Package: libukmem-dev"]
    lines += [f" {node}@{node} {since[node]}" for node in nodes]
    lines += [f" {s}@{now[s]} {before[s][1] if s in before else version}" for s in sorted(now)]
    SYMBOLS.write_text("\n".join(lines) + "\n")
    path = FOLDER / f"libukmem-{version}.abi"
    text = dump(library)
    # The next version is compared with that of the last release until it is released itself.
    for old in FOLDER.glob("libukmem-*.abi"):
        if not released(version_of(old)):
            old.unlink()
    path.write_text(text)
    print(f"{path}: {len(text)} bytes; {SYMBOLS}: {len(now)} symbols")
    return 0


def notices(library, archive, compiler, version):
    """The check on a library that lacks a symbol, and against a baseline with other structures."""
    victim = "ukmem_kmem_cache_alloc"
    if check_symbols(library, version):
        raise Failure("the library itself is not as recorded")
    with tempfile.TemporaryDirectory(prefix="ukmem-abi-") as folder:
        script = Path(folder) / "less.map"
        script.write_text(f"UKMEM_0 {{ global: ukmem_*; local: {victim}; *; }};\n")
        less = Path(folder) / "libukmem.so"
        run(compiler, "-shared", "-o", less, f"-Wl,--version-script={script}", "-Wl,--whole-archive", archive,
            "-Wl,--no-whole-archive", "-pthread")
        wrong = check_symbols(less, version)
        if len(wrong) != 1 or not wrong[0].startswith(f"{victim}@UKMEM_0 is gone"):
            raise Failure(f"without {victim} the check says {wrong}")
        print(f"noticed: {wrong[0]}")
        moved = run("nm", "-D", "--defined-only", library).count(" T ")
        if moved < 100:
            raise Failure(f"{moved} functions")
        # A new symbol in an old node, in a later version, and in this one once it is released.
        later = ".".join(["0", str(number(version)[1] + 1), "0"])
        table = SYMBOLS.read_text()
        for now, dated, expected in (later, True, 1), (version, True, 1), (version, False, 0):
            wrong = with_changelog(version, dated, lambda now=now: without(table, victim, lambda: check_symbols(library, now)))
            if len(wrong) != expected or any("give it a node" not in line for line in wrong):
                raise Failure(f"of {victim}, new in {now}, {version} being {'' if dated else 'not '}released, the check says {wrong}")
            print(*(f"noticed: {line}" for line in wrong), sep="\n")
        try:
            with_changelog(version, True, lambda: update(library, version))
        except Failure as refused:
            print(f"noticed: {refused}")
        else:
            raise Failure(f"the baseline of {version}, which is released, is replaced")

        why = why_not_types(library)
        if why:
            print(f"SKIP: types are not compared: {why}")
            return SKIPPED
        text = baseline().read_text()
        for what, pattern, other in (
            ("a structure's size", r"(<class-decl name=\"kmem_cache_args\" size-in-bits=\")\d+", r"\g<1>8"),
            ("a function less", rf"<elf-symbol name=\"(ukmem_kfree)\"", r'<elf-symbol name="ukmem_kfree_before"'),
        ):
            changed, count = re.subn(pattern, other, text)
            if not count:
                raise Failure(f"{baseline()}: nothing like {pattern}")
            old = Path(folder) / "libukmem-0.0.0.abi"
            old.write_text(changed)
            wrong = check_types(library, old)
            if not wrong:
                raise Failure(f"abidiff does not notice {what}")
            print(f"noticed: {what}")
    return 0


def replaced(name, text, call):
    """Call while the file that the global variable names is another one, which has this text."""
    whole = globals()[name]
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        globals()[name] = Path(file.name)
        try:
            return call()
        finally:
            globals()[name] = whole


def without(table, symbol, call):
    """Call with a list that lacks the symbol."""
    return replaced("SYMBOLS", "".join(line for line in table.splitlines(True) if f" {symbol}@" not in line), call)


def with_changelog(version, dated, call):
    """Call with a list of changes in which the version is released, or is not."""
    return replaced("CHANGELOG", f"## {version} ({'2026-11-25' if dated else 'in the making'})\n", call)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["check", "update", "notices"])
    parser.add_argument("library", type=Path)
    parser.add_argument("archive", type=Path, nargs="?", help="libukmem.a, for notices")
    parser.add_argument("--version", default=project_version(), help="default: the project's")
    parser.add_argument("--cc", default="cc")
    arguments = parser.parse_args()
    try:
        if arguments.command == "notices":
            return notices(arguments.library, arguments.archive, arguments.cc, arguments.version)
        return {"check": check, "update": update}[arguments.command](arguments.library, arguments.version)
    except NotComparable as why:
        print(f"SKIP: types are not compared: {why}")
        return SKIPPED
    except Failure as failure:
        print(f"FAILED: {failure}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
