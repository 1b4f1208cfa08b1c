# SPDX-License-Identifier: MIT
"""What bench/run --longrun and --traces measure: the memory of a server that runs for long, and
recorded programs; and their tables.
"""

import contextlib
import json
import lzma
import shutil
import tempfile
from pathlib import Path

import report
from children import ChildFailed, check_origin, interleave, run_child

TRACES = Path(__file__).resolve().parent / "traces"
SUFFIX = ".xz"
# The traces to replay, where bench/trace was given some.
CHOSEN = []
# Seconds of the long run and MiB of its cache, and with --quick. The report of figures has 30 minutes.
LONG_SECONDS, LONG_MIB = (60, 8), (128, 64)
# How often a trace is replayed, and with --quick.
TIMES = (20, 3)
# The part of a long run at the end that its last figure is a mean of.
AT_END = 0.05


def run_longrun(build, allocators, options, failures):
    """{allocator: {("long run", ""): [the program's result in each round]}}"""
    quick = int(options.quick)
    seconds = options.seconds or LONG_SECONDS[quick]
    samples = {name: {} for name in allocators}
    command = [build / "bench/longrun", str(seconds), str(LONG_MIB[quick])]

    def measure(name, library):
        try:
            result = json.loads(run_child(command, library, timeout=seconds + 600))
            check_origin(result["malloc_origin"], library)
        except ChildFailed as error:
            return [("long run", error)]
        samples[name].setdefault(("long run", ""), []).append(
            {key: result[key] for key in ("seconds", "cpu_seconds", "late_seconds",
                                          "resident_kib", "payload_kib")})
        return []

    interleave(allocators, options.rounds, measure, failures, during=options.during)
    return samples


def overhead(result):
    """Resident over allocated: (at the end, mean of the run without its first tenth)."""
    parts = [resident / payload for resident, payload
             in zip(result["resident_kib"], result["payload_kib"])]
    last, first = max(1, round(AT_END * len(parts))), len(parts) // 10
    return sum(parts[-last:]) / last, sum(parts[first:]) / len(parts[first:])


def longrun_figures(samples):
    """{title: {allocator: median}}"""
    def middle(of):
        return {name: report.median(map(of, cells["long run", ""]))
                for name, cells in samples.items() if cells}

    return {
        "resident / allocated at the end": middle(lambda result: overhead(result)[0]),
        "mean": middle(lambda result: overhead(result)[1]),
        "peak resident, MiB": middle(lambda result: max(result["resident_kib"]) / 1024),
        "CPU, s": middle(lambda result: result["cpu_seconds"]),
    }


def longrun_report(run, samples):
    figures = longrun_figures(samples)
    names = [name for name, cells in samples.items() if cells]
    text = ["# Long run", report.machine_section(run),
            report.table(["", *figures], [[name, *(report.number(found[name])
                                                   for found in figures.values())]
                                          for name in names])]
    ends = next(iter(figures.values()))
    peers = {name: value for name, value in ends.items() if name != report.OURS}
    if peers and report.OURS in ends:
        best = min(peers, key=peers.get)
        text.append(f"Resident / allocated at the end: {ends[report.OURS]:.2f}, of the best peer, "
                    f"{best}, {peers[best]:.2f}: "
                    f"{report.verdict(ends[report.OURS] / peers[best], 1)}")
    return "\n\n".join(text) + "\n"


@contextlib.contextmanager
def unpacked(path):
    """The trace as the replaying program reads it."""
    if path.suffix != SUFFIX:
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="trace.") as file:
        try:
            with lzma.open(path) as packed:
                shutil.copyfileobj(packed, file)
            file.flush()
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise SystemExit(f"{path} cannot be unpacked: {error}") from error
        yield Path(file.name)


def trace_names(paths):
    """{name: path}: the name of the file, or its path where files of one name are given."""
    names = [path.name.removesuffix(SUFFIX) for path in paths]
    return {str(path) if names.count(name) > 1 else name: path
            for name, path in zip(names, paths)}


def run_traces(build, allocators, options, failures):
    """{allocator: {(trace, ""): [the program's result in each round]}}"""
    samples = {name: {} for name in allocators}
    paths = CHOSEN or sorted(TRACES.glob(f"*{SUFFIX}"))
    times = str(TIMES[int(options.quick)])

    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(unpacked(path))
                 for name, path in trace_names(paths).items()}

        def measure(name, library, trace):
            try:
                result = json.loads(run_child([build / "bench/trace_replay", files[trace], times],
                                              library))
                check_origin(result["malloc_origin"], library)
            except ChildFailed as error:
                return [(f"trace {trace}", error)]
            samples[name].setdefault((trace, ""), []).append(
                {key: value for key, value in result.items() if key != "malloc_origin"})
            return []

        interleave(allocators, options.rounds, measure, failures,
                   [(trace,) for trace in files], options.during)
    return samples


# Title, and what it is of a result.
TRACE_METRICS = {
    "CPU time of an event, ns":
        lambda result: 1e9 * result["cpu_seconds"] / result["events"] / result["times"],
    "Peak resident / peak allocated":
        lambda result: result["resident_peak_kib"] / max(1, result["payload_peak_kib"]),
}


def trace_figures(samples):
    """{title: {allocator: {(trace, ""): [figure of each round]}}}"""
    return {title: {name: {cell: list(map(of, rounds)) for cell, rounds in cells.items()}
                    for name, cells in samples.items()} for title, of in TRACE_METRICS.items()}


def trace_report(run, samples):
    cells = report.cells_of(samples)
    text = ["# Recorded programs", report.machine_section(run)]
    for title, figures in trace_figures(samples).items():
        text += [f"## {title}", report.joined_table("trace", figures, report.median, cells)]
        found = report.ratios(report.medians(figures))
        if found:
            text += [f"### ukmem / best peer: {title}",
                     report.ratio_table("trace", found, lambda _: "")]
    return "\n\n".join(text) + "\n"
