# SPDX-License-Identifier: MIT
"""What the checkers of this folder share: their report, and how they are checked themselves, by trees
of files in which a mistake is planted."""

import tempfile
from pathlib import Path


def report(number, what, looked_at, things, problems):
    """Prints the problems and a line of counts; the exit code."""
    for problem in problems:
        print(problem)
    if not number or not looked_at:
        print(f"{number} {what} with {looked_at} {things}: nothing to check")
        return 1
    print(f"{number} {what}, {looked_at} {things}, {len(problems)} wrong")
    return 1 if problems else 0


def write_tree(root, files, changed=None, old="", new=""):
    """Writes {name: text}, in the file `changed` with `new` in place of `old`."""
    for name, text in files.items():
        if name == changed:
            assert old in text, (name, old)
            text = text.replace(old, new)
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def self_check(checks, good, bad, empty):
    """Whether checks find what is planted, and only that; the exit code.

    checks: {name: function of a root that returns its exit code}; good: the files of a tree that
    passes all; bad: (name of a check, file, old, new) of trees that it must not pass; empty: files
    of a tree in which there is nothing to check.
    """
    trees = [(name, False, good, ()) for name in checks]
    trees += [(name, True, good, change) for name, *change in bad]
    trees += [(name, True, empty, ()) for name in checks]
    mistakes = 0
    for name, wrong, files, change in trees:
        with tempfile.TemporaryDirectory() as tmp:
            write_tree(Path(tmp), files, *change)
            if bool(checks[name](Path(tmp))) != wrong:
                mistakes += 1
                of = "good" if files is good and not change else change or "empty"
                print(f"self-check: {name}: a tree is judged wrongly: {of}")
    print(f"self-check: {len(bad)} planted mistakes, {mistakes} wrong about")
    return 1 if mistakes else 0
