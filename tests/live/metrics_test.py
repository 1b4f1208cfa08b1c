#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks `ukmem metrics PID`, `ukmem watch PID` and the dashboard.

usage: metrics_test.py TOOL VICTIM LIBRARY|- metrics|listen|dashboard|watch|prometheus

Prometheus' own parser reads the text: python3-prometheus-client of the distribution.
"""

import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from live_test import Test, expect

DASHBOARD = os.path.join(os.path.dirname(__file__), "../../tools/grafana/ukmem.json")
# The distribution's interpreter has its modules.
PARSER = ["/usr/bin/python3", "-c", """
import json, sys
try:
    from prometheus_client.openmetrics import parser
except ImportError:
    sys.exit(77)
print(json.dumps([{"name": f.name, "type": f.type, "unit": f.unit, "help": f.documentation,
                   "samples": [[s.name, s.labels, s.value] for s in f.samples]}
                  for f in parser.text_string_to_metric_families(sys.stdin.read())]))
"""]


def parse(text):
    """The families of a text, by name. Ends the test if there is no parser."""
    done = subprocess.run(PARSER, input=text, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode == 77:
        print("SKIP: python3-prometheus-client is not installed")
        sys.exit(0)
    expect(done.returncode == 0, f"not OpenMetrics: {done.stderr}")
    return {f["name"]: f for f in json.loads(done.stdout)}


def check_classic(test, pid):
    """The format before OpenMetrics has the same samples, and nothing that promtool complains about."""
    text, new = test.shown("metrics", pid, "--format", "text"), test.shown("metrics", pid)
    samples = [[line for line in t.splitlines() if not line.startswith("#")] for t in (text, new)]
    expect(samples[0] == samples[1], "the samples differ")
    names = {re.match(r"\w+", line)[0] for line in samples[0]}
    for what in ("TYPE", "HELP"):
        expect(names == set(re.findall(rf"^# {what} (\w+) ", text, re.M)), f"{what}: not of the samples")
    if not shutil.which("promtool"):
        print("promtool is not installed: the text is not shown to it")
        return
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    expect(done.returncode == 0 and not done.stdout, f"promtool: {done.returncode}: {done.stdout}")


def only(family):
    expect(len(family["samples"]) == 1, f"{family}")
    return family["samples"][0][2]


def check_json(test, pid):
    """The families and samples of the text, and of nothing else."""
    families = parse(test.shown("metrics", pid))
    found = test.json("metrics", pid)["families"]
    expect([f["name"] for f in found] == list(families), f"{[f['name'] for f in found]}")
    for f in found:
        text = families[f["name"]]
        expect(all(f[key] == text[key] for key in ("type", "unit", "help")), f"{f}, not {text}")
        expect([[s["labels"], s["value"]] for s in f["samples"]] ==
               [[labels, value] for _, labels, value in text["samples"]], f"{f}, not {text}")
    for other in ("--listen=0", "--format=text"):
        code, out, err = test.look("metrics", pid, "--json", other)
        expect(code == 2 and not out and "--json" in err, f"{other}: {code}: {err}")


def check_metrics(test):
    """All that the text says is what the other commands say."""
    process = test.started("quiet")
    pid = process.pid
    families = parse(test.shown("metrics", pid))
    gauges = test.json("gauges", pid)["gauges"]
    for name in ("allocated", "active", "resident", "retained", "mapped", "metadata"):
        f = families[f"ukmem_{name}_bytes"]
        expect(f["type"] == "gauge" and f["unit"] == "bytes", f"{f}")
        expect(only(f) == gauges[name], f"{name}: {only(f)}, not {gauges[name]}")
    info = families["ukmem"]["samples"][0][1]
    expect(info["program"] == os.path.basename(test.victim)[:15] and
           info["mode"] in ("rseq", "fallback"), f"{info}")
    caches = {c["name"]: c for c in test.json("slabinfo", pid)["caches"]}
    objects = {(labels["cache"], labels["state"]): value
               for _, labels, value in families["ukmem_cache_objects"]["samples"]}
    for name, c in caches.items():
        expect(objects[name, "used"] == c["inuse"] and objects[name, "cached"] == c["cached"] and
               sum(objects[name, s] for s in ("used", "cached", "free")) == c["objects"], f"{c}")
    for family, key in (("allocations", "allocs"), ("frees", "frees"),
                        ("fast_allocations", "allocs_fast")):
        f = families[f"ukmem_cache_{family}"]
        expect(f["type"] == "counter", f"{f['type']}")
        expect({labels["cache"]: value for _, labels, value in f["samples"]} ==
               {name: c[key] for name, c in caches.items()}, family)
    zones = test.json("zoneinfo", pid)["zones"]
    page = os.sysconf("SC_PAGESIZE")
    for family, key in (("used", "used"), ("free", "nr_free_pages"), ("dirty", "nr_free_dirty")):
        found = [v for _, _, v in families[f"ukmem_zone_{family}_bytes"]["samples"]]
        expect(found == [z[key] * page for z in zones], f"{family}: {found}")
    events = {labels["event"]: v for _, labels, v in families["ukmem_vm_events"]["samples"]}
    vmstat = test.json("vmstat", pid)["vmstat"]
    expect(all(vmstat[name] == value for name, value in events.items()) and
           set(vmstat) - set(events) == {"nr_free_pages", "nr_free_dirty", "nr_present_pages"},
           f"{events}")
    check_classic(test, pid)
    check_json(test, pid)
    process.communicate("\n")
    # A small process does not know its limit, and has no number in its place.
    process = test.started("wave", "1000")
    test.wait_for_library(process.pid)
    limit = parse(test.shown("metrics", process.pid)).get("ukmem_limit_bytes")
    expect(not limit or only(limit) < 1 << 60, f"{limit}")
    process.kill()
    process.communicate()


def get(url, accept="application/openmetrics-text; version=1.0.0, text/plain;q=0.5", wait=20):
    try:
        request = urllib.request.Request(url, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=wait) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, None, None


def check_listen(test):
    """The endpoint serves the same text until the process ends."""
    process = test.started("quiet")
    for wrong in ("", "x", "localhost:", "1:2:70000", "1.2.3.4:port"):
        code, out, err = test.look("metrics", process.pid, f"--listen={wrong}")
        expect(code == 2 and not out and "--listen" in err, f"{wrong}: {code}: {err}")
    server = subprocess.Popen([test.tool, "metrics", str(process.pid), "--listen", "127.0.0.1:0"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    url = re.search(r"http://127\.0\.0\.1:\d+/metrics", line)
    expect(url, f"{line!r}, {server.poll()}")
    status, kind, text = get(url[0])
    expect(status == 200 and kind.startswith("application/openmetrics-text"), f"{status}, {kind}")
    expect(text == test.shown("metrics", process.pid), "not what the command prints")
    status, kind, text = get(url[0], "*/*")
    expect(status == 200 and kind.startswith("text/plain; version=0.0.4"), f"{status}, {kind}")
    expect(text == test.shown("metrics", process.pid, "--format", "text"), "the format before")
    expect(get(url[0] + "x")[0] == 404, "a page that there is not")
    port = url[0].split(":")[2].partition("/")[0]
    code, _, err = test.look("metrics", process.pid, "--listen", port)
    expect(code == 1 and "cannot listen" in err, f"a port that is taken: {code}: {err}")
    # Without a host only this machine can connect.
    for where, wanted in (("0", r"127\.0\.0\.1"), (":0", r"127\.0\.0\.1"), ("[::1]:0", r"\[::1\]")):
        if "::1" in where and not os.path.exists("/proc/net/if_inet6"):
            continue
        alone = subprocess.Popen([test.tool, "metrics", str(process.pid), "--listen", where],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        line = alone.stdout.readline()
        alone.kill()
        alone.communicate()
        expect(re.search(rf"serving http://{wanted}:\d+/metrics", line) or "cannot listen on ::1" in line, f"{where}: {line!r}")
    # Clients that say nothing hold nobody up, also if they are as many as the server has threads.
    for number in (1, 8):
        silent = [http.client.HTTPConnection("127.0.0.1", int(port)) for _ in range(number)]
        for client in silent:
            client.connect()
        expect(get(url[0], wait=4)[0] == 200, f"beside {number} silent clients")
        for client in silent:
            client.close()
    # Without a descriptor left it goes on, until the process ends. (UBSan asks by a pipe whether
    # memory can be read, and takes objects for broken without one.)
    if b"__ubsan" in pathlib.Path(test.tool).read_bytes():
        print("left out under UBSan: the server without a file descriptor")
    else:
        limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (4, limits[1]))
        time.sleep(1)
        expect(server.poll() is None, "it ended, as it had no file descriptor")
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limits)
    process.communicate("\n")
    _, err = server.communicate(timeout=30)
    expect(server.returncode == 0 and not err, f"after the end: {server.returncode}: {err}")


def check_prometheus(test):
    """Prometheus itself scrapes the endpoint, and answers the dashboard's queries."""
    if not shutil.which("prometheus"):
        print("SKIP: prometheus is not installed")
        sys.exit(0)
    process = test.started("quiet")
    allocated = test.json("gauges", process.pid)["gauges"]["allocated"]
    endpoint = subprocess.Popen([test.tool, "metrics", str(process.pid), "--listen", "127.0.0.1:0"],
                                stdout=subprocess.PIPE, text=True)
    target = re.search(r"127\.0\.0\.1:\d+", endpoint.stdout.readline())[0]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        own = f"127.0.0.1:{s.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "prometheus.yml")
        with open(config, "w", encoding="ascii") as file:
            json.dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [
                {"job_name": "ukmem", "static_configs": [{"targets": [target]}]}]}, file)
        server = subprocess.Popen(["prometheus", f"--config.file={config}",
                                   f"--storage.tsdb.path={folder}/data", f"--web.listen-address={own}"],
                                  stderr=subprocess.DEVNULL)
        try:
            def ask(query):
                url = f"http://{own}/api/v1/query?" + urllib.parse.urlencode({"query": query})
                with urllib.request.urlopen(url, timeout=20) as answer:
                    return json.load(answer)["data"]["result"]

            found = []
            for _ in range(300):
                try:
                    found = ask("ukmem_allocated_bytes")
                except OSError:
                    pass
                if found:
                    break
                time.sleep(0.1)
            expect(found and int(float(found[0]["value"][1])) == allocated,
                   f"allocated {allocated}: {found}")
            with open(DASHBOARD, encoding="ascii") as file:
                panels = json.load(file)["panels"]
            for query in [t["expr"] for p in panels for t in p["targets"]]:
                query = query.replace("$__rate_interval", "10s").replace("$instance", target)
                ask(re.sub(r"\$\w+", ".*", query))  # an error in a query is an HTTP error
        finally:
            server.kill()
            server.wait()
    process.communicate("\n")
    expect(endpoint.wait(timeout=30) == 0, "the endpoint")


def check_dashboard(test):
    """Each query of the dashboard asks for metrics and labels that there are."""
    process = test.started("quiet")
    samples = {}
    for family in parse(test.shown("metrics", process.pid)).values():
        for name, labels, _ in family["samples"]:
            samples.setdefault(name, set()).update(labels)
    process.communicate("\n")
    with open(DASHBOARD, encoding="ascii") as file:
        dashboard = json.load(file)
    queries = [t["expr"] for p in dashboard["panels"] for t in p["targets"]]
    expect(len(queries) >= 10, f"{len(queries)} queries")
    queries += [v["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    for query in queries:
        names = re.findall(r"\bukmem_\w+", query)
        expect(names, f"no metric: {query}")
        for name in names:
            expect(name in samples, f"{name} is not exported: {query}")
        for name, labels in re.findall(r"(\bukmem_\w+)\{([^}]*)\}", query):
            for label in re.findall(r"(\w+)\s*=", labels):
                expect(label == "instance" or label in samples[name],
                       f"{name} has no label {label}: {query}")
    for panel in dashboard["panels"]:
        for legend in re.findall(r"\{\{(\w+)\}\}", json.dumps(panel)):
            expect(any(legend in samples[n] for t in panel["targets"]
                       for n in re.findall(r"\bukmem_\w+", t["expr"])), f"{legend}: {panel}")


def check_watch(test):
    process = test.started("quiet")
    pid = process.pid
    gauges = test.json("gauges", pid)["gauges"]
    for wrong in ("", "x", "0", "0%", "101%", "-1", "1Q", "nan%", "99999999999999999999", f"{2**54 + 1}K"):
        code, out, err = test.look("watch", pid, f"--limit={wrong}", "--once")
        expect(code == 2 and not out and "--limit" in err, f"{wrong}: {code}: {err}")
    expect(test.look("watch", pid, "--limit=1", "--gauge=x")[0] == 2, "no such gauge")
    out = test.shown("watch", pid, "--limit", str(gauges["allocated"]), "--gauge", "allocated",
                     "--once", "--command", "echo $UKMEM_PID $UKMEM_GAUGE $UKMEM_STATE "
                     "$UKMEM_VALUE $UKMEM_BOUND")
    lines = out.splitlines()
    expect(re.match(rf"\d{{4}}-.*T.* {pid} \(\S+\): allocated \S+ is above \S+$", lines[0]), out)
    expect(lines[1] == f"{pid} allocated above {gauges['allocated']} {gauges['allocated']}", out)
    found = json.loads(test.shown("watch", pid, "--limit=1k", "--once", "--json"))
    expect(found["gauge"] == "resident" and found["bound"] == 1024 and found["state"] == "above" and
           found["value"] >= 1024 and found["pid"] == pid, f"{found}")
    watched = subprocess.Popen([test.tool, "watch", str(pid), "--limit=0.0001%", "--interval=0.05",
                                "--command=false"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    line = watched.stdout.readline()
    expect("is above" in line and line.endswith("(0.0001%)\n"), line)
    process.communicate("\n")
    out, err = watched.communicate(timeout=20)
    expect(watched.returncode == 0 and not out and "the command failed: false" in err,
           f"{watched.returncode}: {out}{err}")
    # Nothing is told below the bound, and the end of the process ends the watch.
    process = test.started("wave", "1000000")
    other = subprocess.Popen([test.tool, "watch", str(process.pid), "--limit=1T", "--interval=0.01"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    code, out, err = test.look("watch", process.pid, "--limit=1T", "--interval=0.01", "--once")
    expect(code == 1 and not out and "it has ended below the bound" in err, f"{code}: {out}{err}")
    expect(other.communicate()[0] == "" and other.returncode == 0, "below the bound")
    process.communicate()
    # Above, below, and above again.
    limit = 32 << 20
    process = test.started("wave", str(2 * limit))
    out, _ = subprocess.Popen([test.tool, "watch", str(process.pid), f"--limit={limit}", "--json",
                               "--gauge=allocated", "--interval=0.01"], stdout=subprocess.PIPE,
                              text=True).communicate(timeout=60)
    process.communicate()
    states = [json.loads(line)["state"] for line in out.splitlines()]
    expect(states[:3] == ["above", "below", "above"] and
           all(a != b for a, b in zip(states, states[1:])), f"{states}")


def main():
    tool, victim, library, kind = sys.argv[1:]
    {"metrics": check_metrics, "listen": check_listen, "dashboard": check_dashboard,
     "watch": check_watch,
     "prometheus": check_prometheus}[kind](Test(tool, victim, library, 0))


if __name__ == "__main__":
    main()
