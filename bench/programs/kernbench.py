# SPDX-License-Identifier: MIT
"""gcc building a real project: as many jobs as CPUs, and every process under the allocator.

The project is Lua, in the source package that Debian has; where that cannot be had,
this one; or what --source names.
"""

import contextlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from children import ChildFailed, say
from processes import check_malloc, run_measured

PACKAGE = "lua5.4"
ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ["gcc", "make"]


def missing(_):
    absent = [program for program in PROGRAMS if not shutil.which(program)]
    return f"{', '.join(absent)} not found" if absent else ""


def run_quietly(*command, directory="/"):
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise ChildFailed(f"{command[0]}: {' '.join(last)}")
    return done.stdout


def source_list():
    """Lines for apt with the sources of what this machine takes from Debian."""
    targets = run_quietly("apt-get", "indextargets", "--format",
                          "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)",
                          "Created-By: Packages")
    found = {tuple(line.split()[:3]) for line in targets.splitlines()
             if line.split()[3:] == ["Debian"]}
    if not found:
        raise ChildFailed("apt knows no archive of Debian")
    return "".join(f"deb-src {' '.join(target)}\n" for target in sorted(found))


def download(directory):
    """Has apt fetch the package's sources, with lists of its own: no root, nothing stays."""
    lists = directory / "apt"
    (lists / "partial").mkdir(parents=True)
    # Not among the lists, where apt removes what it does not know.
    wanted = directory / "sources.list"
    wanted.write_text(source_list())
    options = ["-qq", "-o", f"Dir::Etc::SourceList={wanted}",
               "-o", "Dir::Etc::SourceParts=/dev/null", "-o", f"Dir::State::Lists={lists}",
               "-o", f"Dir::Cache={lists}", "-o", "APT::Sandbox::User="]
    run_quietly("apt-get", *options, "update")
    run_quietly("apt-get", *options, "source", "--download-only", PACKAGE, directory=directory)
    return next(directory.glob("*.orig.tar.*"))


def unpack(tarball, directory):
    with tarfile.open(tarball) as archive:
        archive.extractall(directory)
    return next(path for path in directory.iterdir() if path.is_dir())


def debian_source(directory, build):
    """A tree of the package, and its name; kept in the build tree for the next time."""
    kept = build / "programs"
    tarball = next(kept.glob(f"{PACKAGE}_*.orig.tar.*"), None)
    if tarball is None:
        with tempfile.TemporaryDirectory(dir=directory) as fetched:
            found = download(Path(fetched))
            kept.mkdir(parents=True, exist_ok=True)
            tarball = Path(shutil.copy(found, kept))
    (directory / "source").mkdir()
    version = re.search(r"_(.*)\.orig", tarball.name).group(1)
    return unpack(tarball, directory / "source"), f"{PACKAGE} {version}"


def own_source(directory):
    """A tree of this project for make, and its name."""
    tree = directory / "own"
    run_quietly("cmake", "-S", ROOT, "-B", tree, "-G", "Unix Makefiles",
                "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DUKMEM_BUILD_TESTS=OFF",
                "-DUKMEM_BUILD_BENCH=OFF")
    return tree, "ukmem"


def find_source(directory, options):
    if options.source:
        return options.source.resolve(), options.source.name
    try:
        return debian_source(directory, options.build)
    except (ChildFailed, OSError, StopIteration) as error:
        say(f"NOTE kernbench builds ukmem itself, not {PACKAGE}: {error}")
        return own_source(directory)


def measure(library, tree, name):
    check_malloc([run_quietly("gcc", "-print-prog-name=cc1").strip(), "--version"], library)
    check_malloc([shutil.which("make"), "--version"], library)
    run_quietly("make", "clean", directory=tree)
    used = run_measured(["make", f"-j{len(os.sched_getaffinity(0))}"], library, tree)
    row = f"gcc, {name}"
    return {
        (row, "elapsed, s"): used.elapsed,
        (row, "user, s"): used.user,
        (row, "system, s"): used.system,
        (row, "CPU, s"): used.cpu,
        (row, "peak resident, MiB"): used.peak_mib,
    }


@contextlib.contextmanager
def prepared(directory, options):
    tree, name = find_source(directory, options)
    say(f"kernbench: make in {name}")
    # What is read from the disk is read before the first round.
    run_measured(["make", f"-j{len(os.sched_getaffinity(0))}"], None, tree)
    yield lambda library: measure(library, tree, name)
