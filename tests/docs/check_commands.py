#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the commands and the settings in the documents for users against the tool.

  check_commands.py ROOT TOOL          exit 1 if a document has what TOOL or the library refuses
  check_commands.py self-check TOOL    the checker finds planted mistakes, and only those

It checks three things:
- Each `ukmem COMMAND --option` in code: TOOL's help has the command and the option.
- Each UKMEM_CONF=... and --conf, and each recipe of docs/tuning.md (`key:value` in code): TOOL, which reads
  UKMEM_CONF as every program on the library does, does not warn of it.
- Each block of code that is a ukmem.conf: TOOL does not warn of its lines, those in sections included.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import planted
from check_man import help_of

DOCUMENTS = ["README.md", "docs/*.md", "docs/guides/*.md", "bindings/**/README.md", "packaging/README.md",
             "include/ukmem/compat/README.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
# A prompt, an assignment or another command may stand in front.
COMMAND = re.compile(r"(?:^|\$ |&& |\| |sudo |run |\w=\S+ |python -m )ukmem ([a-z]+)\b([^|&#]*)")
# The second has "=" in front of a quoted word with blanks, as a shell takes it.
SETTING = re.compile(r"(?:UKMEM_CONF=|--conf )(?:\"([^\"]*)\"|([^\s`\"|)]+))")
# Comments, sections and at least one value. Reports begin with "ukmem:".
CONFIGURATION = re.compile(r"(?:#.*\n|\[[^\]]+\]\n|\n)*(?:(?!ukmem:)[a-z_.]+(?:: | = ).*\n(?:#.*\n|\[[^\]]+\]\n|\n)*)+")
RECIPE = re.compile(r"[a-z_.]+:[^\s`]+")
# Programming languages: a line that begins with "ukmem" is none of a shell there.
OTHER_LANGUAGES = {"c", "cpp", "rust", "python", "go", "toml"}


def pieces(text):
    """(line, code) of each line of a block of commands, and of each piece of code in a sentence."""
    for match in BLOCK.finditer(text):
        first = text.count("\n", 0, match.start(2)) + 1
        if match[1] not in OTHER_LANGUAGES:
            yield from ((first + k, line.strip()) for k, line in enumerate(match[2].split("\n")))
    sentences = BLOCK.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    for match in SPAN.finditer(sentences):
        yield sentences.count("\n", 0, match.start()) + 1, match[1]


def configurations(text):
    """(line, text) of each block that is a ukmem.conf; its sections are for every program."""
    for match in BLOCK.finditer(text):
        if not match[1] and CONFIGURATION.fullmatch(match[2]):
            yield text.count("\n", 0, match.start(2)) + 1, re.sub(r"^\[.*\]$", "[*]", match[2], flags=re.MULTILINE)


class Tool:
    def __init__(self, binary):
        self.binary = binary
        listed = subprocess.run([binary, "help"], capture_output=True, text=True, check=True).stdout
        self.commands = set(re.findall(r"^  ([a-z]+)  ", listed[listed.index("Commands:"):], re.MULTILINE)) | {"help"}
        self.options = {}

    def unknown(self, command, arguments):
        """The options of a command that its help lacks, or the command itself."""
        if command not in self.commands:
            return [command]
        if command not in self.options:
            self.options[command] = {"--help", "--version"}
            help_of(self.binary, [command], self.options[command])
        words = arguments.split()
        if command == "run":
            # Behind the program's name options are the program's.
            end = next((k for k, word in enumerate(words) if not word.startswith("-") and (not k or words[k - 1] != "--conf")),
                       len(words))
            words = words[:end]
        return [word for word in re.findall(r"(?<!\S)--?[a-zA-Z][\w-]*", " ".join(words)) if word not in self.options[command]]

    def warnings(self, conf="", file=""):
        """The lines that the library writes about a setting when a program starts."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "ukmem.conf").write_text(file, encoding="utf-8")
            # With verbose:1 it writes more than warnings.
            env = {**os.environ, "UKMEM_CONF": f"{conf},verbose:0", "XDG_CONFIG_HOME": folder}
            done = subprocess.run([self.binary, "config"], env=env, capture_output=True, text=True, check=False)
        said = done.stderr.strip()
        return said or (f"exit {done.returncode}" if done.returncode else "")


def settings(name, code):
    found = [a or b for a, b in SETTING.findall(code)]
    if name == "docs/tuning.md" and RECIPE.fullmatch(code):
        found.append(code)
    # A form, as "key:value,...", is no setting.
    return [conf.replace("$UKMEM_CONF,", "") for conf in found if "..." not in conf and not conf.startswith("key:")]


def check(root, tool):
    """(documents, things looked at, list of problems)."""
    problems, looked_at, documents = [], 0, 0
    for path in sorted({path for pattern in DOCUMENTS for path in root.glob(pattern)}):
        name, text = str(path.relative_to(root)), path.read_text(encoding="utf-8")
        documents += 1
        for line, code in pieces(text):
            for command, arguments in COMMAND.findall(code):
                looked_at += 1
                problems += [f"{name}:{line}: ukmem {command} has no '{word}'" for word in tool.unknown(command, arguments)]
            for conf in settings(name, code):
                looked_at += 1
                said = tool.warnings(conf=conf)
                if said:
                    problems.append(f"{name}:{line}: {conf}: {said}")
        for line, file in configurations(text):
            looked_at += 1
            said = tool.warnings(file=file)
            if said:
                problems.append(f"{name}:{line}: {said}")
    return documents, looked_at, problems


def report(root, tool):
    documents, looked_at, problems = check(root, tool)
    return planted.report(documents, "documents", looked_at, "commands and settings", problems)


# ---- the checker itself

GOOD = {
    "README.md": "Run `ukmem run --stats ./program --of-its-own`, or\n```\n$ sudo ukmem top --once 12   # --nothing\n"
    "UKMEM_CONF=limit:2g,verbose:1 ukmem run --conf thp:never ls -l\n```\n",
    "docs/tuning.md": "| `dirty_max:1m,thp:never` | `ukmem config PROGRAM` |\n```\n# /etc/ukmem.conf\ndirty_max: 1m\n[a b*]\n"
    "thp = never\n```\n`UKMEM_CONF=\"key:value,...\"`, `UKMEM_CONF=\"$UKMEM_CONF,show:stats\"`\n```c\nukmem nothing;\n```\n",
}
# Each: a file, and what is replaced there by what.
BAD = [
    ("README.md", "run --stats", "run --statistics"),
    ("README.md", "ukmem top", "ukmem tops"),
    ("README.md", "--once 12", "--twice 12"),
    ("README.md", "limit:2g", "limits:2g"),
    ("README.md", "--conf thp:never", "--conf thp:sometimes"),
    ("docs/tuning.md", "thp:never`", "thp:no`"),
    ("docs/tuning.md", "config PROGRAM", "config --all PROGRAM"),
    ("docs/tuning.md", "thp = never", "huge = never"),
    ("docs/tuning.md", "dirty_max: 1m", "dirty_max: much"),
    ("docs/tuning.md", "show:stats", "show:some"),
]


def main(args):
    if len(args) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    tool = Tool(args[1])
    if args[0] == "self-check":
        bad = [("commands", *change) for change in BAD]
        return planted.self_check({"commands": lambda root: report(root, tool)}, GOOD, bad, {"README.md": "Nothing.\n"})
    return report(Path(args[0]), tool)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
