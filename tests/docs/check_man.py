#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the manual pages.

  check_man.py lint ROOT           mandoc -T lint finds nothing in any page; the values of tunables are numbers
  check_man.py tool ROOT TOOL      ukmem(1) has every command that TOOL's help lists, and of each just its options
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def lint(root):
    if not shutil.which("mandoc"):
        print("SKIP: mandoc is missing")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, root / "docs/man/generate", folder, "1.2.3"], check=True)
        pages = [p for p in sorted(pathlib.Path(folder).glob("*.[1-9]")) if not p.read_text().startswith(".so ")]
        known = {p.name for p in pathlib.Path(folder).iterdir()}
        findings = []
        for p in pages:
            out = subprocess.run(["mandoc", "-T", "lint", p], capture_output=True, text=True, check=False).stdout
            for line in out.splitlines():
                # Pages of other projects need not be installed here.
                missing = re.search(r"referenced manual not found: Xr (\S+) (\d)", line)
                if missing and (f"{missing[1]}.{missing[2]}" in known or not re.match("ukmem|kmalloc|alloc_", missing[1])):
                    continue
                findings.append(line)
        findings += values((pathlib.Path(folder) / "ukmem.conf.5").read_text())
    print("\n".join(findings) or f"{len(pages)} pages are clean")
    return bool(findings) or len(pages) < 10


VALUE = r"\d+(?: [KMGT]iB)?"


def values(page):
    """What is wrong with the defaults and ranges of ukmem.conf(5)."""
    findings, seen = [], 0
    for item in re.split(r"^\.It Cm ", page, flags=re.M)[1:]:
        heading, _, text = item.partition("\n")
        text = " ".join(text.partition("\n.El")[0].split())
        name, _, form = heading.partition(" : Ar ")
        if form in ("number", "bytes", "0 | 1"):
            seen += 1
            wanted = rf"The default is {VALUE}" + ("" if form == "0 | 1" else rf", the range {VALUE} to {VALUE}")
            if not re.search(rf" {wanted}\.$", f" {text}"):
                findings.append(f"ukmem.conf(5): no default and range of {name} in numbers: {text}")
    return findings if seen > 20 else [*findings, f"ukmem.conf(5) has {seen} numbers"]


def help_of(binary, words, options):
    """Adds the options of a command, long and short, and of the commands of its own (profile dump)."""
    text = subprocess.run([binary, "help", *words], capture_output=True, text=True, check=True).stdout
    options.update(re.findall(r"(?<![\w-])(?:--[a-z][a-z-]+|-[a-zA-Z](?=[ ,]))", text[:text.find("\n\n", text.find("Options:"))]))
    for own in re.findall(r"^  ([a-z]+)  ", text.partition("\nCommands:\n")[2], re.M):
        help_of(binary, [*words, own], options)


# The words in a heading behind the names of commands.
MACROS = {"Oo", "Op", "Ar", "Fl", "Ns"}


def names_of(words):
    """Commands in the arguments of .Cm: "a , b" is two, "profile start" is one."""
    words = re.sub(r'"([^"]*)"', lambda m: m[1].replace(" ", "_"), words).split()
    end = next((i for i, word in enumerate(words) if word in MACROS), len(words))
    return {name.strip(" .;:").replace("_", " ") for name in " ".join(words[:end]).split(" , ")}


def options_shown(page):
    """Long options by command: in its own item, and in an item of an option that several have."""
    shown = {}
    for item in re.split(r"^(?=\.(?:It|El))", page, flags=re.M):
        options = {"--" + o for o in re.findall(r"Fl \\-([a-z][a-z-]+)", item)}  # --x is .Fl \-x there
        heading = re.match(r"\.It (Cm|Fl) (.*)", item)
        if heading and heading[1] == "Cm":
            commands = names_of(heading[2])
        elif heading:
            commands = set().union(*(names_of(m) for m in re.findall(r"^\.Cm (.*)", item, re.M)))
        else:
            continue
        for command in commands:
            shown.setdefault(command, set()).update(options)
    return shown


def options_there(binary, words):
    """The same of the tool; a command that has commands of its own has them in its place."""
    text = subprocess.run([binary, "help", *words], capture_output=True, text=True, check=True).stdout
    own = re.findall(r"^  ([a-z]+)  ", text.partition("\nCommands:\n")[2], re.M)
    if own:
        return {name: options for word in own for name, options in options_there(binary, [*words, word]).items()}
    options = set()
    help_of(binary, words, options)
    return {" ".join(words): {o for o in options if o.startswith("--")} - {"--help", "--version"}}


def tool(root, binary):
    shown, there = options_shown((root / "docs/man/ukmem.1").read_text()), options_there(binary, [])
    findings = []
    for command, options in there.items():
        if command not in shown:
            findings.append(f"ukmem(1) lacks the command {command}")
            continue
        findings += [f"ukmem(1) lacks {o} of {command}" for o in sorted(options - shown[command])]
        findings += [f"ukmem(1) has {o} of {command}, the tool has not" for o in sorted(shown[command] - options)]
    findings += [f"ukmem(1) has the command {c}, the tool has not" for c in sorted(set(shown) - set(there))]
    print("\n".join(findings) or f"{len(there)} commands")
    return bool(findings) or len(there) < 10


def main():
    root = pathlib.Path(sys.argv[2])
    return lint(root) if sys.argv[1] == "lint" else tool(root, sys.argv[3])


if __name__ == "__main__":
    sys.exit(main())
