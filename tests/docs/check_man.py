#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the manual pages.

  check_man.py lint ROOT           mandoc -T lint finds nothing in any page
  check_man.py tool ROOT TOOL      ukmem(1) has every command and option that TOOL's help lists, and no other option
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
                if missing and (f"{missing[1]}.{missing[2]}" in known or not re.search("ukmem|kmalloc|alloc_", missing[1])):
                    continue
                findings.append(line)
    print("\n".join(findings) or f"{len(pages)} pages are clean")
    return bool(findings) or len(pages) < 10


def help_of(binary, words, options):
    """Adds the options of a command, long and short, and of the commands of its own (profile dump)."""
    text = subprocess.run([binary, "help", *words], capture_output=True, text=True, check=True).stdout
    options.update(re.findall(r"(?<![\w-])(?:--[a-z][a-z-]+|-[a-zA-Z](?=[ ,]))", text[:text.find("\n\n", text.find("Options:"))]))
    for own in re.findall(r"^  ([a-z]+)  ", text.partition("\nCommands:\n")[2], re.M):
        help_of(binary, [*words, own], options)


def tool(root, binary):
    page = (root / "docs/man/ukmem.1").read_text()
    listed = subprocess.run([binary, "help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  ([a-z]+)  ", listed[listed.index("Commands:"):], re.M)
    findings, options = [], {"--help", "--version"}
    for command in commands:
        if not re.search(rf"^\.(?:It )?.*Cm .*\b{command}\b", page, re.M):
            findings.append(f"ukmem(1) lacks the command {command}")
        help_of(binary, [command], options)
    options = {o for o in options if o.startswith("--")}
    # The page writes --x as .Fl \-x.
    shown = {"--" + o for o in re.findall(r"Fl \\-([a-z][a-z-]+)", page)}
    findings += [f"ukmem(1) lacks the option {o}" for o in sorted(options - shown)]
    findings += [f"ukmem(1) has the option {o}, the tool has not" for o in sorted(shown - options)]
    print("\n".join(findings) or f"{len(commands)} commands, {len(options)} options")
    return bool(findings) or len(commands) < 10


def main():
    root = pathlib.Path(sys.argv[2])
    return lint(root) if sys.argv[1] == "lint" else tool(root, sys.argv[3])


if __name__ == "__main__":
    sys.exit(main())
