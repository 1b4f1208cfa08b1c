#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of the report of figures, on a small sample of results that is checked in.

    test_figures.py tables      the figures in the tables are those of the data
    test_figures.py page        the page is self-contained, its pictures are whole (77: no matplotlib)
    test_figures.py draw        pictures of some peers are judged by all (77: no matplotlib)
    test_figures.py fewer       an allocator that failed in a workload has no mean with it
    test_figures.py resume      an interrupted run goes on, a complete one begins anew
    test_figures.py key         other libraries, or another machine, and an interrupted run does not go on
    test_figures.py ended       a signal ends the measured program, too
    test_figures.py cut         a step whose file was cut off has measured nothing
    test_figures.py turns       over the passes of a job each allocator begins as often as another
    test_figures.py live BUILD [STEPS]    what the drivers of a built tree write becomes a page, all of it or these steps

The expected figures are computed here from the files, without the report's code.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from statistics import median
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

# pylint: disable=wrong-import-position
from load_program import load_program  # noqa: E402

SAMPLE = HERE / "sample/data"
DATA = SAMPLE / "sample"
SKIPPED = 77


class Tables(HTMLParser):
    """{id: [the header, rows...]}, all text."""

    def __init__(self):
        super().__init__()
        self.found, self.rows, self.text = {}, None, None

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self.rows = self.found[dict(attributes)["id"]] = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.text = ""

    def handle_data(self, data):
        if self.text is not None:
            self.text += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.rows[-1].append(self.text)
            self.text = None


def render(folder, data=SAMPLE, *options):
    """(the page, the summary)"""
    subprocess.run([HERE / "run", "--render", *options, "--plan", "sample", "--data", data,
                    "--output", folder], check=True, stdout=subprocess.DEVNULL)
    return (folder / "index.html").read_text(), (folder / "summary.md").read_text()


def raw(benchmark, folder=DATA):
    """{name: {"row/column": figures}} of all files of a benchmark."""
    found = {}
    for path in sorted(folder.glob(f"{benchmark}[.-]*.json")):
        for name, cells in json.loads(path.read_text())["results"].items():
            for cell, figures in cells.items():
                found.setdefault(name, {}).setdefault(cell, []).extend(figures)
    return found


def near(text, value):
    """A figure as it is written: it has at least two digits."""
    written = float(text)
    digits = len(text.partition(".")[2])
    return abs(written - value) <= 0.5001 * 10 ** -digits


class Differences(list):
    """What a table says that the data do not."""

    def see(self, where, text, value):
        if text == "-" or not near(text, value):
            self.append(f"{where}: {text}, not {value:.4g}")


def check_grid(tables, data, wrong):
    middle = {name: {cell: median(figures) for cell, figures in cells.items()}
              for name, cells in data.items()}
    header, *rows = tables["grid-ns"]
    batches = [word.removeprefix("batch ") for word in tables["grid-ratios"][0][1:]]
    seen = 0
    for row in rows:
        for name, field in zip(header[1:], row[1:]):
            for batch, text in zip(batches, field.split(" / ")):
                wrong.see(f"grid {row[0]} {name}", text, middle[name][f"{row[0]}/{batch}"])
                seen += 1
    for row in tables["grid-ratios"][1:]:
        for batch, field in zip(batches, row[1:]):
            cell = f"{row[0]}/{batch}"
            best = min((middle[name][cell], name) for name in middle if name != "ukmem")
            text, peer = re.fullmatch(r"(\S+) \((.*)\)", field).groups()
            wrong.see(f"grid ratio {cell}", text, middle["ukmem"][cell] / best[0])
            if peer != best[1]:
                wrong.append(f"grid {cell}: the best peer is {best[1]}, not {peer}")
            seen += 1
    return seen


def check_workloads(tables, data, wrong):
    seen = 0
    header, *rows = tables["workloads-ms"]
    for row in rows:
        workload, threads = row[0].split(", ")
        for name, text in zip(header[1:], row[1:]):
            rounds = data[name][f"{workload}/{threads}"]
            wrong.see(f"workload {row[0]} {name}", text,
                      1e3 * median(figures["seconds"] for figures in rounds))
            seen += 1
    for row in tables["workloads-memory"][1:]:
        for column, text in zip(tables["workloads-memory"][0][1:], row[1:]):
            cell = f"{row[0]}/{column.split()[0]}"
            if cell in data["ukmem"]:
                middle = {name: median(figures["peak_rss_kib"] for figures in cells[cell])
                          for name, cells in data.items()}
                ours = middle.pop("ukmem")
                wrong.see(f"memory {cell}", text.split()[0], ours / min(middle.values()))
                seen += 1
    return seen


def check_latency(tables, data, wrong):
    units = {"ns": 1, "us": 1e3, "ms": 1e6}
    seen = 0
    for cell in data["ukmem"]:
        scenario, operation = cell.split("/")
        header, *rows = tables[f"latency-{scenario}"]
        for row in rows:
            if row[0].split(", ")[0] != operation:
                continue
            rounds = data[row[0].split(", ")[1]][cell]
            counts = Counter()
            for figures in rounds:
                counts.update(dict(map(tuple, figures["running"]["buckets"])))
            every = sorted(counts.elements())
            expected = {"p50": every[-(-len(every) // 2) - 1],
                        "p99": every[-(-99 * len(every) // 100) - 1],
                        "p99.9": every[-(-999 * len(every) // 1000) - 1],
                        "worst": median(figures["running"]["worst"] for figures in rounds)}
            for title, field in zip(header[1:], row[1:]):
                if title in expected:
                    text, unit = field.split()
                    wrong.see(f"latency {scenario} {row[0]} {title}", text,
                              expected[title] / units[unit])
                    seen += 1
    return seen


def check_longrun(tables, data, wrong):
    header, *rows = tables["longrun-table"]
    for row in rows:
        result, = data[row[0]]["long run/"]
        pairs = list(zip(result["resident_kib"], result["payload_kib"]))
        last = [resident / payload for resident, payload in pairs[-round(len(pairs) / 20):]]
        wrong.see(f"long run {row[0]}", row[1], sum(last) / len(last))
        wrong.see(f"long run {row[0]}", row[header.index("peak resident, MiB")],
                  max(result["resident_kib"]) / 1024)
    return len(rows)


def check_idle(tables, data, wrong):
    seen = 0
    for key in ("freed", "idle", "trimmed"):
        header, *rows = tables[f"idle-{key}"]
        for row in rows:
            for name, text in zip(header[1:], row[1:]):
                wrong.see(f"idle {row[0]} {name}", text,
                          median(figures[key] for figures in data[name][f"{row[0]}/"]))
                seen += 1
    return seen


def check_traces(tables, data, wrong):
    header, *rows = tables["traces-0"]
    for row in rows:
        for name, text in zip(header[1:], row[1:]):
            wrong.see(f"trace {row[0]} {name}", text, median(
                1e9 * figures["cpu_seconds"] / figures["events"] / figures["times"]
                for figures in data[name][f"{row[0]}/"]))
    return len(rows)


def check_scale(tables, data, wrong):
    header, *rows = tables["scale-table"]
    columns = [cell.removesuffix("/") for cell in next(iter(data.values()))]
    for row in rows:
        for title, column, text in zip(header[1:], columns, row[1:]):
            assert title == column.strip()
            wrong.see(f"scale {row[0]} {title}", text, median(data[row[0]][f"{column}/"]))
    return len(rows)


def check_threads_of(kind):
    def check(tables, data, wrong):
        seen = 0
        for name, (header, *rows) in tables.items():
            if re.fullmatch(rf"{kind}-\d+", name):
                for row in rows:
                    # Columns of two groups have no name in common but in their group.
                    figures = {cell.split("/", 1)[1]: median(values) for cell, values
                               in data[row[0]].items() if group_of(cell, header, data)}
                    for column, text in zip(header[1:], row[1:]):
                        if text != "-":
                            wrong.see(f"{kind} {row[0]} {column}", text, figures[column])
                            seen += 1
        return seen
    return check


def group_of(cell, header, data):
    """Is this cell's group the one whose columns the header has, for every name?"""
    group = cell.split("/", 1)[0]
    columns = {other.split("/", 1)[1] for cells in data.values() for other in cells
               if other.split("/", 1)[0] == group}
    return columns == set(header[1:])


def check_programs(tables, wrong):
    rows = json.loads((DATA / "programs.1.json").read_text())["results"]
    figures = {(row["program"], row["allocator"], row["metric"]): row["figures"] for row in rows
               if row["test"] == "all"}
    header, *lines = tables["programs-CPU"]
    for line in lines:
        base = median(figures[line[0], "glibc", "CPU, s"])
        for name, field in zip(header[1:], line[1:]):
            texts = re.fullmatch(r"(\S+) \((\S+)-(\S+)\)", field).groups()
            values = figures[line[0], name, "CPU, s"]
            for text, value in zip(texts, (median(values), min(values), max(values))):
                wrong.see(f"{line[0]} {name}", text, value / base)
    return len(lines)


CHECKS = {"grid": check_grid, "workloads": check_workloads, "latency": check_latency,
          "longrun": check_longrun, "idle": check_idle, "traces": check_traces,
          "scale": check_scale, "queue": check_threads_of("queue"),
          "pool": check_threads_of("pool")}


def differences(page):
    parser = Tables()
    parser.feed(page)
    wrong = Differences()
    for name, check in CHECKS.items():
        assert check(parser.found, raw(name), wrong) > 0, f"nothing of {name} was checked"
    assert check_programs(parser.found, wrong) > 0
    return wrong


def test_tables(folder):
    page, summary = render(folder, SAMPLE, "--tables")
    wrong = differences(page)
    assert not wrong, "\n".join(wrong)
    assert "## Latency of single operations" in summary and "| 1 thread |" in summary
    # The sample's machine had other work, which the page says; of a quiet one it says nothing.
    for text in page, summary:
        assert "The machine was not quiet: it had a load of 31.1" in text, "noise goes unnoticed"
    quiet = folder / "quiet"
    shutil.copytree(DATA, quiet / "sample")
    state = json.loads((quiet / "sample/state.json").read_text())
    for when in "noise_before", "noise_after":
        state[when].update(load=0.3 if when == "noise_before" else 20, p95=1.1, stolen=0.0)
    (quiet / "sample/state.json").write_text(json.dumps(state))
    assert "not quiet" not in render(folder, quiet, "--tables")[0], "a quiet machine is called noisy"
    # A run that was interrupted has had no noise afterwards.
    del state["noise_after"]
    (quiet / "sample/state.json").write_text(json.dumps(state))
    for text, found in ((page, False), (summary, False), *((one, True) for one in render(folder, quiet, "--tables"))):
        assert ("The run was not finished" in text) == found, "a run that was interrupted looks like a whole one"
    # With other data each of these checks fails.
    for name in CHECKS:
        changed = folder / name
        shutil.copytree(DATA, changed / "sample")
        for path in (changed / "sample").glob(f"{name}[.-]*.json"):
            path.write_text(re.sub(r"(?<=[ \[])(\d+\.\d{2,}|[1-9]\d{3,})(?=[,\]}])",
                                   lambda number: str(2 * float(number[0]) + 1000), path.read_text()))
        assert differences(render(folder, changed, "--tables")[0]), f"other figures of {name} went unnoticed"


def test_fewer(folder):
    """A workload that an allocator failed in is not left out of its mean as if it had been done."""
    changed = folder / "fewer"
    shutil.copytree(DATA, changed / "sample")
    name = next(name for name in raw("workloads") if name not in ("ukmem", "glibc"))
    for path in (changed / "sample").glob("workloads.*.json"):
        content = json.loads(path.read_text())
        cells = content["results"][name]
        del cells[next(cell for cell in cells if cell.endswith("/1"))]
        path.write_text(json.dumps(content))
    page, summary = render(folder, changed, "--tables")
    assert f"{name} failed in 1 of the workloads" in page and f"{name} failed in 1 of" in summary, summary
    tables = Tables()
    tables.feed(page)
    header, *rows = tables.found["workloads-means"]
    assert {row[0]: row[header.index(name)] == "-" for row in rows}["1 thread"], rows


def test_page(folder):
    page, _ = render(folder)
    for pattern in (r"<script", r"<link", r"<img", r"<iframe", r"@import", r"\bsrc=",
                    r"href=\"(?!#)", r"url\((?!#)"):
        assert not re.search(pattern, page), f"the page refers to another: {pattern}"
    rest = re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)
    assert "http" not in rest, "the page names an address"
    pictures = re.findall(r"<svg .*?</svg>", page, re.S)
    if not pictures:
        print("SKIPPED: python3-matplotlib is missing, there are no pictures")
        return SKIPPED
    assert len(pictures) == 11, f"{len(pictures)} pictures"
    for picture in pictures:
        root = xml.fromstring(picture)
        assert len(list(root.iter())) > 50, "a picture is empty"
    ids = Counter(re.findall(r'\bid="([^"]*)"', page))
    twice = [name for name, count in ids.items() if count > 1]
    assert not twice, f"ids are there twice: {twice[:5]}"
    lost = set(re.findall(r'(?:href="|url\()#([^")]*)', page)) - set(ids)
    assert not lost, f"no element has these ids: {sorted(lost)[:5]}"
    return 0


def test_draw(folder):
    """The grid's picture has the peers that --draw names; the best of each cell is of all."""
    (all_drawn, words), (one_drawn, same_words) = render(folder), render(folder, SAMPLE, "--draw", "glibc")
    names = set(raw("grid")) - {"ukmem"}
    assert len(names) > 1 and "glibc" in names, names
    assert words == same_words, "the tables and verdicts are of other peers"
    assert f"Against the best of {len(names)} peers in each cell" in words
    wrong = subprocess.run([HERE / "run", "--render", "--draw", "nobody", "--plan", "sample", "--data", SAMPLE,
                            "--output", folder], stderr=subprocess.PIPE, text=True, check=False)
    assert wrong.returncode and "nobody was not measured" in wrong.stderr, wrong
    found = [re.search(r'<figure id="grid".*?</figure>', page, re.S) for page in (all_drawn, one_drawn)]
    if not all(found):
        print("SKIPPED: python3-matplotlib is missing, there are no pictures")
        return SKIPPED
    # Texts are drawn as paths, each behind a comment that has its words.
    titles = [set(re.findall(r"<!-- (.*?) -->", one[0])) & (names | {f"best of {len(names)} peers"}) for one in found]
    assert titles == [names | {f"best of {len(names)} peers"}, {"glibc", f"best of {len(names)} peers"}], titles
    programs = re.search(r'<figure id="programs".*?</figure>', one_drawn, re.S)[0]
    drawn = set(re.findall(r"<!-- (.*?) -->", programs)) & {"ukmem", *names}
    assert drawn == {"ukmem", "glibc"}, drawn
    return 0


def test_resume(folder):
    """A plan of steps that fail at once: what they leave is enough to see which ran."""
    command = [HERE / "run", "--plan", "quick", "--only", "glibc", "--data", folder / "data",
               "--output", folder, "--build", folder, "--noise", "0.1", "--tables"]

    def run():
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    first = run()
    steps = re.findall(r"^\[\d+/(\d+)\] (\S+);", first, re.M)
    assert len(steps) == int(steps[0][0]) > 5, first
    files = sorted((folder / "data/quick").glob("*.1.json"))
    kept = files[0].stat().st_ino
    # Interrupted in the last steps: the file of one is missing, of the other cut off.
    state = folder / "data/quick/state.json"
    content = json.loads(state.read_text())
    del content["noise_after"]
    state.write_text(json.dumps(content))
    files[-1].unlink()
    files[-2].write_text(files[-2].read_text()[:20])
    second = run()
    assert len(re.findall(r"^\[", second, re.M)) == 2 and "going on" in second, second
    assert files[0].stat().st_ino == kept, "a step that was there ran again"
    third = run()
    assert len(re.findall(r"^\[", third, re.M)) == len(steps), third
    # Interrupted, and another program measures now: figures of both do not go together.
    content = json.loads(state.read_text())
    del content["noise_after"]
    state.write_text(json.dumps(content))
    (folder / "bench").mkdir()
    (folder / "bench/malloc_grid").write_text("another")
    (folder / "bench/malloc_grid").chmod(0o755)
    fourth = run()
    assert len(re.findall(r"^\[", fourth, re.M)) == len(steps) and "beginning anew" in fourth, fourth


def test_key(folder):
    """What tells runs apart that must not be put together: the machine, a peer's build, its version."""
    module, driver = load_program(HERE / "run"), load_program(HERE.parent / "run")
    library = folder / "libpeer.so"
    options = SimpleNamespace(data=folder, plan="usual", build=folder, noise=0, only=["peer"], steps=None)
    driver.find_allocators = lambda *_: {"peer": library}
    keys = []
    for text, kernel in (("one", "6.1"), ("two", "6.1"), ("two", "6.2"), ("two", "6.2")):
        library.write_text(text)
        driver.machine_info = lambda kernel=kernel: {"cpu": "", "cpus": 2, "kernel": kernel, "libc": ""}
        keys.append(module.Run(options, driver).state["key"])
    assert len(set(keys[:3])) == 3 and keys[2] == keys[3], keys


def test_ended(folder):
    """A run that a signal ends takes the drivers' children with it, and goes on later."""
    started, program = folder / "started", folder / "bench/trace_replay"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $$ > {started}.new; mv {started}.new {started}; exec sleep 100\n")
    program.chmod(0o755)
    with subprocess.Popen([HERE / "run", "--plan", "tiny", "--steps", "traces", "--only", "glibc", "--data", folder / "data",
                           "--output", folder, "--build", folder, "--noise", "0.1", "--tables"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        end = time.monotonic() + 60
        while not started.exists() and time.monotonic() < end:
            time.sleep(0.01)
        run.terminate()
        told = run.communicate(timeout=60)[1]
    assert run.returncode == 143 and "Traceback" not in told, (run, told)
    assert not Path("/proc", started.read_text().strip()).exists(), "the measured program is still there"
    assert not (folder / "data/tiny/traces.1.json").exists(), "a step that was ended counts as done"


def test_cut(folder):
    """Steps that write their file, part of it, or nothing; what is left of a try before is not theirs."""
    module = load_program(HERE / "run")
    run = module.Run.__new__(module.Run)
    run.folder, run.build, run.state = folder, folder, {"took": {}}
    whole = '{"failures": [], "results": {"a": {}}}'
    program = folder / "program"
    program.write_text('#!/bin/sh\nfor new; do :; done\n[ ! "$TEXT" ] || printf %s "$TEXT" > "$new"\n')
    program.chmod(0o755)
    step = module.plan.Step("some.1", program, (), 1)
    for text, measured in ((whole, True), (whole[:-5], False), ("", False)):
        os.environ["TEXT"] = text
        (folder / "some.1.new").write_text(whole)
        run.do(step)
        found = json.loads((folder / "some.1.json").read_text())
        assert bool(found["results"]) == measured, (text, found)
        assert measured or found["failures"] == ["some.1: exit status 0, nothing measured"], found
        assert run.is_done(step) and not (folder / "some.1.new").exists(), text


def test_turns(_):
    """Which allocators begin the rounds of all passes of a job: each as often as the others, or once less."""
    module, driver = load_program(HERE / "run"), load_program(HERE.parent / "run")
    names, begin = list(module.plan.FEW), {}
    for step in module.plan.steps(module.plan.FULL, names):
        if step.program != module.plan.GRID or "--longrun" in step.arguments:
            continue
        sys.argv[1:] = step.arguments
        order = []
        driver.interleave(dict.fromkeys(names), driver.parse_options().rounds, lambda name, *_, order=order: order.append(name) or [],
                          [])
        begin.setdefault(step.kind(), Counter(dict.fromkeys(names, 0))).update(order[::len(names)])
    assert sum(begin["latency"].values()) == 7 and sum(begin["grid"].values()) == 15, begin
    for kind, counts in begin.items():
        assert max(counts.values()) - min(counts.values()) <= 1, (kind, counts)


# Of a benchmark: its section, and the table that has a figure of each allocator.
SECTIONS = {"grid": ("grid-section", "grid-ns"), "workloads": ("workloads-section", "workloads-ms"),
            "latency": ("latency-section", "latency-quiet"), "idle": ("idle-section", "idle-freed"),
            "longrun": ("longrun-section", "longrun-table"), "traces": ("traces-section", "traces-0"),
            "programs": ("programs-section", "programs-CPU"), "queue": ("queues-section", "queue-0"),
            "pool": ("queues-section", "pool-0"), "scale": ("scale-section", "scale-table")}


def test_live(folder, build, *steps):
    """Measures by the plan tiny, and renders: a change of what a driver writes is noticed."""
    wanted = steps[0].split(",") if steps else list(SECTIONS)
    if not shutil.which("perl"):
        wanted = [name for name in wanted if name != "programs"]
    done = subprocess.run([HERE / "run", "--plan", "tiny", "--only", "ukmem,glibc", "--build", build, "--data", folder / "data",
                           "--output", folder, "--noise", "0.1", "--steps", ",".join(wanted)],
                          capture_output=True, text=True, check=False)
    logs = "".join(path.read_text()[-600:] for path in sorted((folder / "data/tiny").glob("*.log")))
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{logs}"
    text = (folder / "index.html").read_text()
    page = Tables()
    page.feed(text)
    for name in wanted:
        section, table = SECTIONS[name]
        assert f'<section id="{section}"' in text, f"the page has no section of {name}"
        assert table in page.found, f"{name}: no table {table} in {sorted(page.found)}"
        _, *rows = page.found[table]
        figures = [field for row in rows for field in row[1:]]
        assert figures and any(re.search(r"\d", field) for field in figures), f"{name}: {table} has no figures"
        allocators = {"ukmem", "glibc"} <= {field for row in page.found[table] for field in row[:1]} | set(page.found[table][0])
        assert allocators or name in ("latency", "queue", "pool", "scale"), f"{name}: {page.found[table]}"
    return 0


def main():
    tests = {"tables": test_tables, "page": test_page, "draw": test_draw, "live": test_live, "resume": test_resume,
             "cut": test_cut, "turns": test_turns, "key": test_key, "ended": test_ended, "fewer": test_fewer}
    with tempfile.TemporaryDirectory(prefix="figures.") as folder:
        return tests[sys.argv[1]](Path(folder), *sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
