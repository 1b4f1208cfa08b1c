#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the page of `ukmem map PID`.

usage: map_test.py TOOL VICTIM LIBRARY|- sums|nodes|debugged|guarded|snapshots|ends|storm|coarse|heaps|browser
"""

import html.parser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from live_test import Test, expect
from storm_test import EXCUSES

# As enum page_use of tools/live/map.h.
SLAB, OWN, LARGE, PAGES, PAGESET, DIRTY, CLEAN, FRESH, OTHER = range(9)
NR_USES = 9


def data_of(page):
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    expect(text, "the page has no data")
    return json.loads(text[1])


def map_of(test, pid, *options, code=0):
    """The data of a map, and the length of its page."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "heap.html")
        found, out, err = test.look("map", pid, "--output", path, *options)
        expect(found == code and out == "" and bool(err) == bool(code), f"{found}: {out}{err}")
        with open(path, encoding="utf-8") as file:
            page = file.read()
    expect("http" not in re.sub(r'id="data">.*?</script>', "", page, flags=re.S),
           "the page refers to another one")
    return data_of(page), len(page)


def cells_of(zone):
    for times, cell in zone["cells"]:
        for _ in range(times):
            yield cell


def check_cell(snapshot, cell, pages):
    """A cell agrees with itself. Result: bytes of objects out of slabs."""
    uses, in_memory, huge, caches, runs, memory = cell
    expect(len(uses) == NR_USES and sum(uses) == pages, f"{uses}, not of {pages} pages")
    expect(0 <= in_memory <= pages and 0 <= huge <= pages, f"{in_memory}, {huge} of {pages}")
    out = 0
    slab_pages = 0
    for cache, of_cache, objects_out, objects in zip(*[iter(caches)] * 4):
        expect(0 <= objects_out <= objects, f"{objects_out} objects of {objects}")
        slab_pages += of_cache
        if not snapshot["caches"][cache]["own"]:
            out += objects_out * snapshot["caches"][cache]["size"]
    expect(slab_pages == uses[SLAB] + uses[OWN], f"{slab_pages} pages of slabs, not {uses}")
    if runs:
        of_runs = [0] * NR_USES
        for count, length, use, _, _ in zip(*[iter(runs)] * 5):
            of_runs[use] += count * length
        expect(of_runs == uses, f"{of_runs} in runs, {uses} in the cell")
        expect(sum(memory[::2]) == pages, f"the memory of {sum(memory[::2])} pages of {pages}")
        present = sum(n for n, bits in zip(memory[::2], memory[1::2]) if bits & 1)
        expect(present == in_memory, f"{present} pages in memory, not {in_memory}")
    return out


def sums_of(snapshot):
    """What the cells of a snapshot add up to, under the names of the gauges."""
    page = snapshot["page_size"]
    uses = [0] * NR_USES
    objects = in_memory = 0
    for zone in snapshot["zones"]:
        left = zone["pages"]
        lead = int(zone["start"], 16) // page % snapshot["cell_pages"]
        for cell in cells_of(zone):
            pages = min(snapshot["cell_pages"] - lead, left)
            objects += check_cell(snapshot, cell, pages)
            uses = [a + b for a, b in zip(uses, cell[0])]
            in_memory += cell[1]
            left -= pages
            lead = 0
        expect(left == 0, f"{left} pages are in no cell")
    cached = sum(c["cached_bytes"] for c in snapshot["caches"] if not c["own"])
    metadata = sum(part["bytes"] for part in snapshot["metadata"])
    guarded = snapshot["guarded"]
    active = ((uses[SLAB] + uses[OWN] + uses[LARGE] + uses[PAGES]) * page + snapshot["aside_bytes"] +
              guarded["in_use"])
    retained = (uses[PAGESET] + uses[DIRTY]) * page + guarded["touched"] - guarded["in_use"]
    return {"allocated": objects - cached + uses[LARGE] * page + guarded["objects"], "active": active,
            "resident": in_memory * page + metadata + snapshot["aside_bytes"] + guarded["resident"],
            "retained": retained, "mapped": active + retained, "metadata": metadata}, uses


def check_sums(test, conf=""):
    """The map of a quiet process adds up to its gauges, and to its zones and caches."""
    process = test.started("quiet", conf=conf)
    gauges = test.json("gauges", process.pid)["gauges"]
    data, _ = map_of(test, process.pid)
    expect(data["ukmem"]["pid"] == process.pid, f"{data['ukmem']}")
    expect(len(data["snapshots"]) == 1, f"{len(data['snapshots'])} snapshots")
    snapshot = data["snapshots"][0]
    sums, uses = sums_of(snapshot)
    expect(snapshot["agrees"] and snapshot["memory_known"], "the map is in doubt")
    for name, value in sums.items():
        expect(value == gauges[name] == snapshot["gauges"][name],
               f"{name}: {value} in the map, {gauges[name]} in the gauges")
    expect(uses[SLAB] > 0 and uses[LARGE] > 0 and uses[OTHER] == 0, f"{uses}")
    caches = test.json("slabinfo", process.pid)["caches"]
    own = {c["name"] for c in snapshot["caches"] if c["own"]}
    # The library has slabs of its own only once a CPU missed a shared queue, for instance.
    expect((uses[OWN] > 0) == any(c["slabs"] for c in caches if c["name"] in own),
           f"{uses}: {own} in {caches}")
    zones = test.json("zoneinfo", process.pid)["zones"]
    expect(sum(z["nr_free_pages"] for z in zones) == uses[DIRTY] + uses[CLEAN] + uses[FRESH],
           f"free pages: {uses}")
    pages = {}
    for zone in snapshot["zones"]:
        for cell in cells_of(zone):
            for cache, n, out, objects in zip(*[iter(cell[3])] * 4):
                name = snapshot["caches"][cache]["name"]
                pages[name] = [a + b for a, b in zip(pages.get(name, [0, 0]), (out, objects))]
    for c in caches:
        expect(pages.get(c["name"], [0, 0]) == [c["inuse"] + c["cached"], c["objects"]],
               f"{pages.get(c['name'])} objects in the map, not {c}")
    process.communicate("\n")


def check_nodes(test):
    check_sums(test, "numa_fake:3")


def check_debugged(test):
    check_sums(test, "slab_debug:FZPU")


def check_guarded(test):
    """KFENCE's objects lie in no zone, and are part of the sums."""
    process = test.started("guarded", conf="kfence_sample_interval:1,kfence_num_objects:20")
    snapshot = map_of(test, process.pid)[0]["snapshots"][0]
    guarded = snapshot["guarded"]
    expect(0 < guarded["objects"] < guarded["in_use"] <= guarded["touched"], f"{guarded}")
    sums, _ = sums_of(snapshot)
    expect(sums == snapshot["gauges"], f"{sums}, not {snapshot['gauges']}")
    process.communicate("\n")


def check_snapshots(test):
    """Several snapshots show how a large block comes and goes; the process's end ends them."""
    block = 64 << 20
    process = test.started("wave", str(block))
    data, _ = map_of(test, process.pid, "--interval", "0.1", "--count", "100", code=1)
    found = [sums_of(s)[1][LARGE] * s["page_size"] for s in data["snapshots"]]
    times = [s["seconds"] for s in data["snapshots"]]
    expect(3 <= len(found) < 100 and max(found) >= block > min(found), f"large blocks: {found}")
    expect(times == sorted(times) and len(set(times)) == len(times), f"{times}")
    process.communicate()
    process = test.started("quiet")
    code, _, err = test.look("map", process.pid)
    expect(code == 2 and "--output" in err, f"without a file: {code}: {err}")
    code, _, err = test.look("map", process.pid, "-o", "/no/such/folder/heap.html")
    expect(code == 1 and "/no/such/folder" in err, f"a file that cannot be: {code}: {err}")
    process.communicate("\n")
    code, _, err = test.look("map", process.pid, "-o", "/no/such/folder/heap.html")
    expect(code == 1 and "no such process" in err, f"after its end: {code}: {err}")


def wait_for_handler(tool):
    """From then on a signal ends the series, not the command."""
    end = time.monotonic() + 30
    while True:
        expect(time.monotonic() < end and tool.poll() is None, f"no handler: {tool.poll()}")
        with open(f"/proc/{tool.pid}/status", encoding="ascii") as file:
            caught = re.search("^SigCgt:\\s*([0-9a-f]+)", file.read(), re.M)
        if int(caught[1], 16) >> (signal.SIGINT - 1) & 1:
            return
        time.sleep(0.02)


class Series:
    """A map in the making: a thousand snapshots, or until something ends it."""

    def __init__(self, test, pid, folder, *options):
        self.path = os.path.join(folder, "heap.html")
        self.tool = subprocess.Popen([test.tool, "map", str(pid), "-o", self.path, "--interval", "0.05",
                                      "--count", "1000", *options], text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for_handler(self.tool)
        time.sleep(2)  # the first snapshot takes a moment

    def finish(self, code=0):
        """Messages, what was printed, and the number of snapshots."""
        out, err = self.tool.communicate(timeout=60)
        expect(self.tool.returncode == code, f"{self.tool.returncode}: {err}")
        with open(self.path, encoding="utf-8") as file:
            snapshots = data_of(file.read())["snapshots"]
        for snapshot in snapshots:
            sums_of(snapshot)
        expect(1 <= len(snapshots) < 1000, f"{len(snapshots)} snapshots")
        return err, out, len(snapshots)


def check_ends(test):
    """However a series ends, its snapshots are not lost; a wrong path fails at once."""
    process = test.started("quiet")
    begin = time.monotonic()
    code, _, err = test.look("map", process.pid, "-o", "/no/such/folder/heap.html", "--interval", "60")
    expect(code == 1 and "/no/such/folder" in err and time.monotonic() - begin < 50, f"{code}: {err}")
    with tempfile.TemporaryDirectory() as folder:
        for sent in (signal.SIGINT, signal.SIGTERM):
            series = Series(test, process.pid, folder)
            expect(not os.listdir(folder), f"a file without a page: {os.listdir(folder)}")
            series.tool.send_signal(sent)
            expect(series.finish()[:2] == ("", ""), f"{sent}")
            os.unlink(series.path)
        series = Series(test, process.pid, folder, "--json")
        series.tool.send_signal(signal.SIGINT)
        _, out, snapshots = series.finish()
        told = json.loads(out)
        expect(told["ukmem"]["pid"] == process.pid and told["snapshots"] == snapshots and
               told["output"] == series.path and told["ended"] == "signal", f"{told}")
        # A signal that is ignored, as by nohup, does not end it.
        done = subprocess.run(["sh", "-c", 'trap "" HUP; "$0" map --json -o "$1" --interval 0.3 --count 4 "$2" & '
                               "sleep 0.6; kill -HUP $!; wait $!", test.tool, series.path, str(process.pid)],
                              stdout=subprocess.PIPE, text=True, check=False)
        told = json.loads(done.stdout)
        expect(done.returncode == 0 and told["ended"] == "count" and told["snapshots"] == 4, f"{done.returncode}: {told}")
        # Without a page the file is as it was.
        with open(series.path, encoding="utf-8") as file:
            before = file.read()
        process.communicate("\n")
        test.look("map", process.pid, "-o", series.path)
        stranger = subprocess.Popen(["sleep", "100"])
        for path in (series.path, f"{folder}/new.html"):
            code, _, err = test.look("map", stranger.pid, "-o", path)
            expect(code == 1 and "does not run on ukmem" in err, f"{code}: {err}")
        stranger.kill()
        stranger.wait()
        with open(series.path, encoding="utf-8") as file:
            expect(file.read() == before, "the file of another page")
        expect(os.listdir(folder) == ["heap.html"], f"{os.listdir(folder)}")
        check_full(test, folder, series.path, before)
        os.unlink(series.path)
        # Another program in the same process.
        process = subprocess.Popen(["sh", "-c", f"read x; exec {shlex.quote(test.victim)} quiet"],
                                   env=test.environment(), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        test.wait_for_library(process.pid)
        series = Series(test, process.pid, folder)
        process.stdin.write("\n")
        process.stdin.flush()
        expect(process.stdout.readline() == "ready\n", "not executed")
        err, _, snapshots = series.finish(code=1)
        expect("it runs another program now" in err and f"in {snapshots} snapshots" in err, err)
        process.communicate("\n")
        os.unlink(series.path)
        # No more process, before there were as many snapshots as were asked for.
        process = test.started("quiet")
        series = Series(test, process.pid, folder)
        process.communicate("\n")
        err, _, snapshots = series.finish(code=1)
        expect("the process has ended" in err and f"in {snapshots} snapshots" in err, err)


def check_full(test, folder, path, before):
    """Where the page has no room, the file stays as it was; a link stays a link, and a device is written to."""
    process = test.started("quiet")
    expect(test.look("map", process.pid, "-o", "/dev/null") == (0, "", ""), "to a device")
    code, _, err = test.look("map", process.pid, "-o", "/dev/full")
    expect(code == 1 and "/dev/full: No space left on device" in err, f"{code}: {err}")
    link = os.path.join(folder, "link")
    os.symlink(path, link)
    os.chmod(path, 0o640)
    for name in (path, link):
        done = subprocess.run(["sh", "-c", 'ulimit -f 8; trap "" XFSZ; exec "$0" map "$1" -o "$2"', test.tool,
                               str(process.pid), name], capture_output=True, text=True, check=False)
        expect(done.returncode == 1 and f"{name}: File too large" in done.stderr, f"{done.returncode}: {done.stderr}")
        with open(path, encoding="utf-8") as file:
            expect(file.read() == before, "the file of another page")
    expect(sorted(os.listdir(folder)) == ["heap.html", "link"], f"{os.listdir(folder)}")
    expect(test.shown("map", process.pid, "-o", link) == "", "to a link")
    with open(path, encoding="utf-8") as file:
        expect(os.path.islink(link) and file.read() != before, "not written through the link")
    expect(os.stat(path).st_mode & 0o777 == 0o640, "another mode")
    os.unlink(link)
    # A link to a file that there is not yet, from another folder.
    os.mkdir(os.path.join(folder, "links"))
    link, new = os.path.join(folder, "links", "link"), os.path.join(folder, "new.html")
    os.symlink("../new.html", link)
    expect(test.shown("map", process.pid, "-o", link) == "", "to a link that leads to no file")
    expect(os.path.islink(link) and os.path.isfile(new), "the link was replaced")
    os.unlink(link)
    os.rmdir(os.path.dirname(link))
    os.unlink(new)
    process.communicate("\n")


def check_storm(test):
    """Maps of a process that never rests are possible, if not of one moment."""
    process = test.started("storm")
    drawn, maps, end = 0, 0, time.monotonic() + 10
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "heap.html")
        while maps < 20 and (maps < 4 or time.monotonic() < end):
            maps += 1
            code, _, err = test.look("map", process.pid, "-o", path, "--interval", "0.05",
                                     "--count", "3")
            if code:
                expect(any(e in err for e in EXCUSES), f"{code}: {err}")
                continue
            with open(path, encoding="utf-8") as file:
                for snapshot in data_of(file.read())["snapshots"]:
                    sums_of(snapshot)
                    drawn += 1
    expect(2 * drawn >= 3 * maps, f"{drawn} snapshots of {3 * maps}")
    process.communicate()


def check_coarse(test):
    """However many runs and snapshots there are, the page has its bound."""
    process = test.started("quiet")
    _, once = map_of(test, process.pid)
    data, length = map_of(test, process.pid, "--interval", "0.01", "--count", "1000")
    expect(len(data["snapshots"]) == 1000, f"{len(data['snapshots'])} snapshots")
    coarse = [cell for zone in data["snapshots"][0]["zones"] for cell in cells_of(zone) if not cell[4]]
    expect(coarse, "no cell was left without its runs")
    expect(length < 1000 * once, f"{length} characters, {once} with one snapshot")
    sums, _ = sums_of(data["snapshots"][-1])
    gauges = test.json("gauges", process.pid)["gauges"]
    expect(sums == gauges, f"{sums}, not {gauges}")
    process.communicate("\n")


def densities(snapshot):
    """Of each cache of the program: bytes of its slabs, and the part of its objects that is out of them."""
    sums = {}
    for zone in snapshot["zones"]:
        for cell in cells_of(zone):
            for cache, pages, out, objects in zip(*[iter(cell[3])] * 4):
                if not snapshot["caches"][cache]["own"]:
                    name = snapshot["caches"][cache]["name"]
                    row = (pages * snapshot["page_size"], out, objects)
                    sums[name] = [a + b for a, b in zip(sums.get(name, [0, 0, 0]), row)]
    return {name: (size, out / objects) for name, (size, out, objects) in sums.items()}


HEAPS = {"scattered": (0, 0.3), "dense": (0.9, 1)}
HEAP_CACHES = ["kmalloc-64", "kmalloc-128", "kmalloc-256", "kmalloc-512"]


def check_heaps(test):
    """A scattered heap and a dense one, as the documents show them, are that. VICTIM is heaps.c."""
    in_slabs = {}
    for heap, (least, most) in HEAPS.items():
        process = test.started(heap)
        # On a busy machine the system may move a few of so many pages meanwhile, which are not in memory then.
        for _ in range(5):
            gauges = test.json("gauges", process.pid)["gauges"]
            (snapshot,) = map_of(test, process.pid)[0]["snapshots"]
            sums, uses = sums_of(snapshot)
            if sums == gauges:
                break
        expect(sums == gauges, f"{heap}: {sums}, not {gauges}")
        expect(uses[LARGE] * snapshot["page_size"] >= 4 << 20, f"{heap}: {uses}")
        found = densities(snapshot)
        for name in HEAP_CACHES:
            size, density = found[name]
            expect(size > 512 << 10 and least < density <= most, f"{heap}: {name}: {size} bytes, {density} in use")
        in_slabs[heap] = sum(size for size, _ in found.values())
        process.communicate()
    # The same objects, more or less.
    expect(in_slabs["scattered"] > 3 * in_slabs["dense"], f"{in_slabs}")


class Tables(html.parser.HTMLParser):
    """The texts of all cells of tables, and the number of pictures."""

    def __init__(self):
        super().__init__()
        self.cells, self.pictures, self.inside = [], 0, False

    def handle_starttag(self, tag, attrs):
        self.pictures += tag == "canvas"
        if tag == "td":
            self.cells.append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "td"

    def handle_data(self, data):
        if self.inside:
            self.cells[-1] += data


# Points at the first page of the first zone, which the library takes for itself, then at the
# first snapshot; what the page says then is part of the document.
POINT = """
<script>
  const box = document.querySelector("canvas").getBoundingClientRect();
  document.querySelector("canvas").dispatchEvent(
    new MouseEvent("mousemove", { clientX: box.left + 4, clientY: box.top + 4 }));
  element("slider").value = 0;
  element("slider").dispatchEvent(new Event("input"));
</script></body>"""


def find_browser():
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        print("SKIP: chromium is not installed")
    return browser


def document_of(browser, folder, url):
    """What the page is when its script has run."""
    done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu",
                           f"--user-data-dir={folder}/profile", "--dump-dom", url],
                          text=True, timeout=100, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    expect(done.returncode == 0, f"{url}: {done.returncode}: {done.stderr}")
    return done.stdout


def check_named(test):
    """Caches of one name have a line each, and colours of their own; no name is part of the script."""
    process = test.started("named")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "heap.html")
        test.shown("map", process.pid, "-o", path)
        with open(path, encoding="utf-8") as file:
            page = file.read()
    expect("</script><script>" not in page and "\\u003c/script>\\u003cscript>" in page, "a name is part of the page's script")
    process.communicate("\n")
    browser = find_browser()
    if not browser:
        return
    process = test.started("named")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "heap.html")
        test.shown("map", process.pid, "-o", path)
        shown = document_of(browser, folder, f"file://{path}")
    colours = re.findall(r"background: *([^;\"]*)[^<>]*>(?:<[^<>]*>)*cache same<", shown)
    expect(len(colours) == 2 == len(set(colours)), f"{colours}: {re.findall('.{200}cache same', shown)}")
    process.communicate("\n")


def check_browser(test):
    """A browser draws the page, and its sums do not differ from the gauges."""
    browser = find_browser()
    if not browser:
        return
    # With objects of KFENCE, as users have it.
    process = test.started("quiet", conf="kfence_sample_interval:1")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "heap.html")
        test.shown("map", process.pid, "-o", path, "--interval", "0.05", "--count", "2")

        for view in ("owner", "density", "memory"):
            shown = document_of(browser, folder, f"file://{path}#{view},1")
            tables = Tables()
            tables.feed(shown)
            expect(tables.pictures >= 1, f"{view}: nothing is drawn")
            for name in ("allocated", "active", "resident", "retained", "mapped", "metadata"):
                at = tables.cells.index(name)
                expect(tables.cells[at + 1] == tables.cells[at + 2] and tables.cells[at + 3] == "0",
                       f"{view}: {tables.cells[at:at + 4]}")
            expect("2 of 2" in shown, f"{view}: not the second snapshot")
        with open(path, encoding="utf-8") as file:
            page = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(page.replace("</body>", POINT))
        shown = document_of(browser, folder, f"file://{path}#owner,1")
        tip = re.search(r'<div id="tip"[^>]*>(.*?)</div>', shown, re.S)[1]
        start = data_of(page)["snapshots"][1]["zones"][0]["start"]
        expect(re.search(rf"Slab of \S+.* at {start}, ", tip) and f"Cell {start}, 2.00 MiB" in tip,
               f"the tip: {tip!r}")
        expect("1 of 2" in shown, "the slider shows no other snapshot")
    process.communicate("\n")


def main():
    tool, victim, library, name = sys.argv[1:]
    globals()["check_" + name](Test(tool, victim, library, 0))


if __name__ == "__main__":
    main()
