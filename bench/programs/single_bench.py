# SPDX-License-Identifier: MIT
"""Programs with one thread that do one piece of work and end: compilers, interpreters,
sqlite3, jq, xmllint, git. Each reads what work/ has or makes, and what it writes must be the
same under each allocator as without one.
"""

import contextlib
import filecmp
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from children import ChildFailed
from kernbench import run_quietly
from processes import check_malloc, run_measured

WORK = Path(__file__).resolve().parent / "work"
# Where git looks for its configuration: nowhere but here.
GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


class Single(NamedTuple):
    """A program: its command, in which {work} is work/, {data} what make_data.py wrote, {size}
    the amount of work; and a command of it that ends at once, to see whose malloc it has.
    """
    program: str
    package: str
    arguments: tuple
    size: tuple  # and that of --quick
    ends_at_once: tuple = ("--version",)
    data: str = ""  # the kind for make_data.py
    variables: dict = {}

    def missing(self, _):
        return "" if shutil.which(self.program) else \
            f"{self.program} not found (Debian: {self.package})"

    def command(self, directory, options):
        names = {"work": WORK, "data": directory / "data", "size": self.size[options.quick]}
        return [shutil.which(self.program), *(word.format(**names) for word in self.arguments)]

    def mallocs_command(self):
        """The process that does the work."""
        return [shutil.which(self.program), *self.ends_at_once]

    def make_data(self, directory, options):
        if self.data:
            make_data(self.data, self.size[options.quick], directory / "data")

    def before_each(self, directory):
        """What is done before each run, not measured."""

    def result(self, directory, output):
        """The file that shows what the program did."""
        return output

    @contextlib.contextmanager
    def prepared(self, directory, options):
        self.make_data(directory, options)
        command = self.command(directory, options)
        expected = directory / "expected"

        def work(library, output):
            self.before_each(directory)
            with output.open("wb") as file:
                used = run_measured(command, library, directory, self.variables, file)
            return used, self.result(directory, output)

        def measure(library):
            check_malloc(self.mallocs_command(), library)
            used, result = work(library, directory / "output")
            if not filecmp.cmp(result, expected, shallow=False):
                raise ChildFailed(f"{self.program} wrote something else than it does on libc's malloc")
            return {
                ("all", "elapsed, s"): used.elapsed,
                ("all", "CPU, s"): used.cpu,
                ("all", "peak resident, MiB"): used.peak_mib,
            }

        # What is read from the disk is read before the first round.
        shutil.copy(work(None, directory / "output")[1], expected)
        if expected.stat().st_size == 0:
            raise ChildFailed(f"{self.program} wrote nothing")
        yield measure


class Compiler(Single):
    """The driver starts the compiler proper, which does the work."""

    def mallocs_command(self):
        proper = run_quietly(self.program, "-print-prog-name=cc1plus").strip()
        return [proper if "/" in proper else shutil.which(self.program), "--version"]


class GitGc(Single):
    """git gc, of a new copy of the repository each time."""

    def make_data(self, directory, options):
        super().make_data(directory, options)
        run_quietly("git", "init", "-q", "--bare", directory / "made")
        with (directory / "data").open("rb") as data:
            run_measured(["git", "-C", directory / "made", "fast-import", "--quiet"], None,
                         directory, GIT, stdin=data)

    def before_each(self, directory):
        shutil.rmtree(directory / "repository", ignore_errors=True)
        shutil.copytree(directory / "made", directory / "repository")

    def result(self, directory, output):
        packs = list((directory / "repository/objects/pack").glob("*.idx"))
        if len(packs) != 1:
            raise ChildFailed(f"git gc left {len(packs)} packs")
        return packs[0]


def make_data(kind, size, path):
    with path.open("wb") as output:
        run_measured([sys.executable, WORK / "make_data.py", kind, str(size)], None, "/",
                     output=output)


OPTIMISED = ("-std=c++17", "-O2", "-S", "-DCOPIES={size}", "-o", "-", "{work}/compile.cpp")
SINGLES = {
    "gcc": Compiler("g++", "g++", OPTIMISED, (1, 1)),
    "clang": Compiler("clang++-14", "clang-14", OPTIMISED, (1, 1)),
    "perl": Single("perl", "perl", ("{work}/work.pl", "{size}"), (7, 1),
                   variables={"PERL_HASH_SEED": "0"}),
    "lua": Single("lua5.4", "lua5.4", ("{work}/work.lua", "{size}"), (9, 1), ("-v",)),
    "ruby": Single("ruby", "ruby", ("{work}/work.rb", "{size}"), (16, 1)),
    # PHP's own allocator would otherwise take chunks of 2 MiB and serve all objects from them;
    # and -n: extensions are loaded with RTLD_DEEPBIND and have libc's malloc.
    "php": Single("php", "php-cli", ("-n", "{work}/work.php", "{size}"), (8, 1),
                  ("-n", "--version"), variables={"USE_ZEND_ALLOC": "0"}),
    "sqlite3": Single("sqlite3", "sqlite3", ("-batch", ":memory:", ".read {data}"),
                      (130_000, 2000), data="sql"),
    "jq": Single("jq", "jq", ("-c", "-f", "{work}/work.jq", "{data}"), (26_000, 500), data="json"),
    "xmllint": Single("xmllint", "libxml2-utils",
                      ("--repeat", "--xpath", "count(//em) + sum(//price)", "{data}"),
                      (5000, 100), data="xml"),
    "git": GitGc("git", "git", ("-C", "repository", "-c", "gc.auto=0", "-c", "pack.threads=1",
                                "-c", "gc.aggressiveWindow=40", "gc", "--aggressive", "--quiet"),
                 (2000, 50), data="git", variables=GIT),
}
