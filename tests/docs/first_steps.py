#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Types the commands of README's first steps into a terminal, as a reader does, and looks at what comes.

usage: first_steps.py ROOT [BUILD]

ROOT's last commit is cloned, built and installed, in a temporary folder instead of /usr/local. With BUILD
that build is installed in place of the clone's own, since that takes minutes. Exits 77 (skipped)
without tmux, or where ROOT is no checkout.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "live"))
import top_test  # noqa: E402
from live_test import expect  # noqa: E402

# "Your program": 20000 blocks of 3000 bytes, some of them new each time.
PROGRAM = """#!/usr/bin/python3
import time

kept = [bytearray(3000) for _ in range(20000)]
turn = 0
while True:
    for turn in range(turn, turn + 100):
        kept[turn % len(kept)] = bytearray(3000)
    time.sleep(0.01)
"""
SECONDS_TO_BUILD = 1500


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(77)


def commands(readme):
    """The block of README that begins with the clone, without its comments."""
    blocks = [b for b in re.findall(r"^```\n(.*?)^```$", readme.read_text(), re.M | re.S) if b.startswith("git clone")]
    expect(len(blocks) == 1, f"README has {len(blocks)} blocks of first steps")
    lines = [re.sub(r"\s+#.*", "", line) for line in blocks[0].splitlines()]
    expect(2 <= len(lines) <= 5, f"{len(lines)} commands")
    return lines


def write(path, text):
    path.write_text(text)
    path.chmod(0o755)


def main():
    root = Path(sys.argv[1]).resolve()
    build = Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None
    if not shutil.which("tmux"):
        skip("tmux is not installed")
    if subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, check=False).returncode:
        skip(f"{root} is no checkout of git")
    with tempfile.TemporaryDirectory(prefix="ukmem-first-steps-") as folder:
        here = Path(folder)
        (here / "bin").mkdir()
        # Here sudo gives nobody more rights, and the installation has a prefix of its own.
        write(here / "bin/sudo", '#!/bin/sh\nexec "$@"\n')
        if build:
            write(here / "bin/make", f'#!/bin/sh\n[ "$*" = "-C ukmem install" ] || exit 1\n'
                                     f'exec cmake --install "{build}" --prefix "$PREFIX"\n')
        write(here / "your-program", PROGRAM)
        os.chdir(here)
        os.environ.update(PREFIX=str(here / "prefix"), HOME=folder, PS1="ready$?:\\# ", HISTFILE="",
                          PATH=f"{here}/bin:{here}/prefix/bin:{os.environ['PATH']}")
        # Git refuses checkouts of other users, and that of this machine may be one.
        os.environ.update(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0="*")
        for name in "UKMEM_CONF", "LD_PRELOAD", "UKMEM_MALLOC_LIB", "DESTDIR", "MAKEFLAGS", "MAKELEVEL":
            os.environ.pop(name, None)
        with top_test.Terminal(["bash", "--norc", "--noprofile", "-i"], 100, 30) as t:
            *steps, top = commands(root / "README.md")
            t.wait_for("ready0:1")
            for done, step in enumerate(steps, 2):
                # The prompt tells the last command's end, and how many there were.
                ready = re.compile(rf"ready(\d+):{done}\b")
                t.do("send-keys", "-l", step.replace("<the repository>", str(root)))
                t.press("Enter")
                top_test.WAIT = SECONDS_TO_BUILD
                screen = "\n".join(t.wait(lambda lines, ready=ready: ready.search("\n".join(lines)), f"{step} does not end"))
                top_test.WAIT = 20
                expect(ready.search(screen)[1] == "0", f"{step} failed:\n{screen}")
            t.do("send-keys", "-l", top)
            t.press("Enter")
            # 3000 bytes and bytearray's own are of the class of 3072.
            screen = t.wait(lambda lines: any(r["CACHE"] == "kmalloc-3072" and top_test.number(r["INUSE"]) >= 20000
                                              for r in top_test.table(lines)), "the program's blocks are not seen")
            expect("your-program" in screen[0], screen[0])
            t.press("q")
            t.wait_for(f"ready0:{len(steps) + 2}")
            t.do("send-keys", "-l", "kill %1; wait; exit")
            t.press("Enter")
            t.wait_for("code=")
        print("\n".join(screen[:12]))
        print(f"{len(steps) + 1} commands from README to `{top}`")


if __name__ == "__main__":
    main()
