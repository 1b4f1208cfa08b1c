# SPDX-License-Identifier: MIT
"""CPython under an allocator, every object from malloc: benchmarks of pyperformance
where the Python has that package, python_work.py where not.
"""

import contextlib
import json
import shutil
import subprocess
from pathlib import Path
from statistics import median

from children import ChildFailed, run_child, say
from processes import check_malloc

WORK = Path(__file__).resolve().parent / "python_work.py"
WORK_REPEATS = (10, 1)
# CPython keeps small objects from malloc unless told otherwise.
EVERY_OBJECT = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
INHERIT = "--inherit-environ=LD_PRELOAD," + ",".join(EVERY_OBJECT)
# Those of pyperformance that need no other packages and take objects.
PYPERFORMANCE = ["deepcopy", "deltablue", "gc_collect", "generators", "json_dumps", "json_loads",
                 "logging", "raytrace", "regex_compile", "richards", "xml_etree"]
PYPERF_OPTIONS = (["--processes=2", "--values=3", "--warmups=1"],
                  ["--processes=1", "--values=1", "--warmups=1", "--min-time=0.02"])


def missing(options):
    return "" if shutil.which(options.python) else f"{options.python} not found"


def real_python(options):
    """The interpreter itself: a command may be a script that looks for it."""
    return run_child([options.python, "-c", "import sys; print(sys.executable)"], None).strip()


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


def read_pyperf(path):
    """{(benchmark, metric): figure} of a file written by pyperf."""
    suite = json.loads(path.read_text())
    figures = {}
    for benchmark in suite["benchmarks"]:
        runs = [run for run in benchmark["runs"] if run.get("values")]
        # What is the same in all runs stands further out.
        common = {**suite.get("metadata", {}), **benchmark.get("metadata", {})}
        peaks = [{**common, **run["metadata"]}["mem_max_rss"] for run in runs]
        cell = common["name"]
        figures[cell, "elapsed, s"] = median(value for run in runs for value in run["values"])
        figures[cell, "peak resident, MiB"] = max(peaks) / 2 ** 20
    return figures


def measure_pyperformance(python, folder, library, directory, options):
    figures = {}
    for name in PYPERFORMANCE:
        script = folder / f"bm_{name}" / "run_benchmark.py"
        if not script.exists():
            raise ChildFailed(f"this pyperformance has no {name}")
        output = directory / "figures.json"
        output.unlink(missing_ok=True)
        run_child([python, script, "--quiet", f"--output={output}", INHERIT,
                   *PYPERF_OPTIONS[options.quick]], library, EVERY_OBJECT)
        figures.update(read_pyperf(output))
    return figures


@contextlib.contextmanager
def prepared(directory, options):
    python = real_python(options)
    folder = find_pyperformance(python)
    if folder is None:
        say(f"NOTE {python} has no pyperformance; the standard library's work is measured")

    def measure(library):
        check_malloc([python, "-c", "pass"], library)
        if folder:
            return measure_pyperformance(python, folder, library, directory, options)
        return measure_work(python, library, options)

    yield measure
