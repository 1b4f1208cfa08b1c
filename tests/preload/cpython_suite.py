#!/usr/bin/python3
"""CPython's own test-suite on the library.

    cpython_suite.py LIBRARY WITNESS [--seconds N]

Runs modules of Debian's test-suite (package libpython3-testsuite) without and
with the library and compares the outcome test by test: a test that fails with
the library only is a failure, and so is one that did not run. PYTHONMALLOC=malloc
sends every object through malloc; two modules also run with CPython's default.
With --seconds they run in an order that UKMEM_TEST_SEED chooses, as many as are
begun within that time.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor

PYTHON = "/usr/bin/python3"
SKIPPED = 77
EVERY_OBJECT = [
    "test_dict",
    "test_list",
    "test_json",
    "test_re",
    "test_threading",
    "test_fork1",
    "test_subprocess",
]
DEFAULT_MALLOC = ["test_json", "test_re"]
# Only without --seconds: types and modules in C that have blocks of every kind.
MORE = """
test_array test_bytes test_bz2 test_codecs test_collections test_ctypes test_deque test_functools test_gc
test_generators test_io test_itertools test_long test_lzma test_memoryview test_mmap test_pickle test_queue test_set
test_sort test_sqlite3 test_struct test_thread test_threading_local test_tuple test_unicode test_weakref
test_xml_etree_c test_zlib
""".split()
MODULE_TIMEOUT = 300


def shipped(module):
    """Whether the system's Python has this test module."""
    code = f"import importlib.util as u, sys; sys.exit(not u.find_spec('test.{module}'))"
    run = subprocess.run([PYTHON, "-c", code], stderr=subprocess.DEVNULL, check=False)
    return run.returncode == 0


def outcomes(report):
    """{test name: "ok", "skipped", "failure" or "error"} from a JUnit report."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case} & {"skipped", "failure", "error"}
        found[case.get("name")] = min(kinds, default="ok")
    return found


def run_module(module, environment, only=None):
    """Run one module, or only one test of it; its outcomes and its log."""
    with tempfile.TemporaryDirectory(prefix="ukmem-preload.") as directory:
        report = os.path.join(directory, "report.xml")
        command = [PYTHON, "-m", "test", "--timeout", str(MODULE_TIMEOUT)]
        command += ["--junit-xml", report, "--tempdir", directory]
        command += ["-m", only, module] if only else [module]
        run = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=2 * MODULE_TIMEOUT,
            check=False,
        )
        log = f"{run.stdout}\nexit status {run.returncode}"
        return (outcomes(report) if os.path.exists(report) else {}), log


def is_flaky(module, name, environment):
    """Whether a test that failed passes three times when run alone.

    Some depend on timing. One that did not run at all gets no second chance.
    """
    return all(run_module(module, environment, name)[0].get(name) == "ok" for _ in range(3))


def compare(module, allocator, library, witness, testimony):
    """Run a module both ways; the number of tests worse off with the library."""
    plain = dict(os.environ, PYTHONHASHSEED="0")
    if allocator:
        plain["PYTHONMALLOC"] = allocator
    preloaded = dict(plain, LD_PRELOAD=f"{witness}:{library}", UKMEM_WITNESS=testimony)
    with ThreadPoolExecutor(2) as pool:
        runs = pool.map(lambda environment: run_module(module, environment), (plain, preloaded))
        (without, log_without), (with_library, log_with) = runs
    label = f"{module} (PYTHONMALLOC={allocator or 'unset'})"
    if not without:
        print(f"FAIL: {label}: no report without the library\n{log_without}")
        return 1

    worse = 0
    for name, before in sorted(without.items()):
        after = with_library.get(name, "did not run")
        if after == before:
            continue
        print(f"{label}: {name}: {before} without the library, {after} with it")
        if after == "ok":
            continue
        if after != "did not run" and is_flaky(module, name, preloaded):
            print(f"{label}: {name}: passed three times alone")
            continue
        worse += 1
    if worse:
        print(f"FAIL: {label}\n{log_with}")
    passed = sum(outcome == "ok" for outcome in with_library.values())
    print(f"{label}: {passed} of {len(without)} tests passed with the library", flush=True)
    return worse


def witnessed(testimony, library):
    """Number of processes, all of which must have used the library."""
    with open(testimony, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    rseq_off = "pthread.rseq=0" in os.environ.get("GLIBC_TUNABLES", "")
    for home, rseq_size, program in rows:
        if home != library:
            sys.exit(f"FAIL: {program} used the malloc of {home}")
        if rseq_off and rseq_size != "0":
            # Tests of subprocess start programs with an environment of their own.
            print(f"note: {program} ran without the tunable")
    return len(rows)


def main():
    """Run all modules; 0, or 1 if any is worse off with the library."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library", type=os.path.realpath)
    parser.add_argument("witness", type=os.path.realpath)
    parser.add_argument("--seconds", type=float)
    args = parser.parse_args()
    library, witness = args.library, args.witness
    if not os.access(PYTHON, os.X_OK):
        print(f"SKIP: {PYTHON} is not installed")
        return SKIPPED
    runs = [(module, "malloc") for module in EVERY_OBJECT]
    runs += [(module, None) for module in DEFAULT_MALLOC]
    if not args.seconds:
        runs += [(module, "malloc") for module in MORE]
    else:
        seed = os.environ.get("UKMEM_TEST_SEED") or str(random.randrange(1 << 32))
        print(f"UKMEM_TEST_SEED={seed}")
        random.Random(seed).shuffle(runs)
    end = time.monotonic() + (args.seconds or float("inf"))
    worse = done = 0
    with tempfile.NamedTemporaryFile(prefix="ukmem-preload.") as testimony:
        for module, allocator in runs:
            if done and time.monotonic() >= end:
                break
            if not shipped(module):
                print(f"SKIP: {module} is not shipped with {PYTHON}")
                continue
            worse += compare(module, allocator, library, witness, testimony.name)
            done += 1
        if not done:
            print("SKIP: no test module is installed (package libpython3-testsuite)")
            return SKIPPED
        print(f"library in use in {witnessed(testimony.name, library)} processes")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
