# SPDX-License-Identifier: MIT
"""CPython under an allocator, every object from malloc: python_work.py, and benchmarks of
pyperformance.
"""

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

from children import ChildFailed, run_child
from processes import check_malloc, run_measured

WORK = Path(__file__).resolve().parent / "python_work.py"
# Where scripts/install-deps puts pyperformance.
VENV = Path(__file__).resolve().parent.parent.parent / "build/pyperformance"
WORK_REPEATS = (10, 1)
# CPython keeps small objects from malloc unless told otherwise.
EVERY_OBJECT = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
# The benchmarks of pyperformance that need no other packages and take objects, and how often one
# process runs each: some tenths of a second.
PYPERFORMANCE = {"deepcopy": 400, "deltablue": 100, "gc_collect": 100, "generators": 8,
                 "go": 3, "json_dumps": 25, "json_loads": 12000, "logging": 6000, "pyflate": 1,
                 "raytrace": 1, "regex_compile": 3, "richards": 9, "xml_etree": 1}


def missing(options):
    return "" if shutil.which(options.python) else f"{options.python} not found"


def real_python(command):
    """The interpreter itself: a command may be a script that looks for it."""
    return run_child([command, "-c", "import sys; print(sys.executable)"], None).strip()


def pythons(options):
    """Interpreters that may have pyperformance: the one asked for, and install-deps'."""
    candidates = [options.python, str(VENV / "bin/python")]
    return [real_python(python) for python in candidates if shutil.which(python)]


def find_pyperformance(python):
    """The folder with pyperformance's benchmarks, or None when it is not installed."""
    code = "import pyperformance, pyperf; print(pyperformance.__path__[0])"
    asked = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    folder = Path(asked.stdout.strip(), "data-files/benchmarks")
    return folder if asked.returncode == 0 and folder.is_dir() else None


def measure_work(python, library, options):
    figures = {}
    for name in run_child([python, WORK, "--list"], None).split():
        result = json.loads(run_child([python, WORK, name, str(WORK_REPEATS[options.quick])],
                                      library, EVERY_OBJECT))
        figures[name, "elapsed, s"] = result["seconds"]
        figures[name, "CPU, s"] = result["cpu_seconds"]
        figures[name, "peak resident, MiB"] = result["peak_rss_kib"] / 1024
    return figures


def measure_pyperformance(python, folder, library, directory, options):
    """The process that pyperf would start to measure, with a fixed amount of work."""
    figures = {}
    for name, loops in PYPERFORMANCE.items():
        script = folder / f"bm_{name}" / "run_benchmark.py"
        if not script.exists():
            raise ChildFailed(f"this pyperformance has no {name}")
        output = directory / "figures.json"
        output.unlink(missing_ok=True)
        loops = 1 if options.quick else loops
        used = run_measured(
            [python, script, "--worker", f"--loops={loops}", "--values=1", "--warmups=0",
             f"--output={output}"], library, directory, EVERY_OBJECT)
        if not json.loads(output.read_text(encoding="utf-8"))["benchmarks"]:
            raise ChildFailed(f"{name} has measured nothing")
        figures[name, "elapsed, s"] = used.elapsed
        figures[name, "CPU, s"] = used.cpu
        figures[name, "peak resident, MiB"] = used.peak_mib
    return figures


@contextlib.contextmanager
def prepared(directory, options):
    python = real_python(options.python)

    def measure(library):
        check_malloc([python, "-c", "pass"], library)
        return measure_work(python, library, options)

    yield measure


class Pyperformance:
    """The benchmarks of pyperformance."""

    @staticmethod
    def missing(options):
        if any(find_pyperformance(python) for python in pythons(options)):
            return ""
        return "pyperformance is not installed (scripts/install-deps bench-programs)"

    @staticmethod
    @contextlib.contextmanager
    def prepared(directory, options):
        python = next(python for python in pythons(options) if find_pyperformance(python))
        folder = find_pyperformance(python)

        def measure(library):
            check_malloc([python, "-c", "pass"], library)
            return measure_pyperformance(python, folder, library, directory, options)

        yield measure
