#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks `ukmem info` and `ukmem info --json`.

usage: info_test.py TOOL info|info_json[.norseq]
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

NORSEQ = "glibc.pthread.rseq=0"
FIELDS = {"version": str, "page_size": int, "percpu": dict}
PERCPU_FIELDS = {
    "mode": str, "reason": str, "self_test": str, "index": str,
    "nr_cpu_ids": int, "cpus_online": int, "unit_size": int, "chunks": int,
    "allocated": int, "static_size": int, "resident": int,
    "cpus_allowed": int, "cpu_milli": int, "memory_limit": (int, type(None)), "cache_bytes": int,
}


def expect(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def run(tool, *options, norseq):
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("GLIBC_TUNABLES", "UKMEM_CONF")}
    if norseq:
        environment["GLIBC_TUNABLES"] = NORSEQ
    return subprocess.run([tool, "info", *options], env=environment, check=True,
                          stdout=subprocess.PIPE, text=True).stdout


def check_types(found, fields):
    expect(list(found) == list(fields), f"fields {list(found)}, not {list(fields)}")
    for name, kind in fields.items():
        expect(isinstance(found[name], kind), f"{name} is {found[name]!r}")
        expect(kind is not str or found[name], f"{name} is empty")


def check_mode(percpu, usual):
    """percpu: what the tool says without libc's registration; usual: with it."""
    if usual["reason"] != "registered by libc":
        expect(percpu["mode"] == usual["mode"], f"{percpu}, but {usual} with rseq")
        return
    expect(percpu["mode"] == "fallback", f"mode {percpu['mode']} without rseq")
    expect(NORSEQ in percpu["reason"], f"reason {percpu['reason']!r} without rseq")
    expect(percpu["index"] == "cpu", f"index {percpu['index']} without rseq")


def group_limit():
    """The least memory limit of this process's control group and those above it; None: there is none."""
    limits = []
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        top = Path("/sys/fs/cgroup" if not controllers else "/sys/fs/cgroup/memory")
        name = "memory.max" if not controllers else "memory.limit_in_bytes"
        folder = top / group.lstrip("/")
        for place in (folder, *folder.parents):
            if top in (place, *place.parents) and (place / name).exists():
                limits += [int(word) for word in [(place / name).read_text().strip()] if word != "max"]
    limits = [limit for limit in limits if limit < 1 << 60]
    return min(limits) if limits else None


def check_json(tool, norseq):
    info = json.loads(run(tool, "--json", norseq=norseq))
    check_types(info, FIELDS)
    percpu = info["percpu"]
    check_types(percpu, PERCPU_FIELDS)
    expect(re.fullmatch(r"\d+\.\d+\.\d+", info["version"]), f"version {info['version']}")
    expect(info["page_size"] == os.sysconf("SC_PAGESIZE"), f"page size {info['page_size']}")
    expect(percpu["mode"] in ("rseq", "fallback"), f"mode {percpu['mode']}")
    expect(percpu["index"] in ("cpu_id", "mm_cid", "cpu"), f"index {percpu['index']}")
    expect(1 <= percpu["cpus_online"] <= percpu["nr_cpu_ids"], f"CPUs {percpu}")
    expect(percpu["unit_size"] % info["page_size"] == 0, f"unit size {percpu['unit_size']}")
    expect(percpu["cpus_allowed"] == len(os.sched_getaffinity(0)), f"CPUs allowed {percpu}")
    expect(1 <= percpu["cpu_milli"] <= 1000 * percpu["cpus_allowed"], f"CPU quota {percpu}")
    expect(percpu["memory_limit"] == group_limit(), f"memory limit {percpu}, {group_limit()}")
    expect(0 < percpu["cache_bytes"] <= 64 << 20, f"bytes per CPU {percpu}")
    expect(percpu["chunks"] >= 1, f"chunks {percpu['chunks']}")
    if norseq:
        check_mode(percpu, json.loads(run(tool, "--json", norseq=False))["percpu"])


def check_text(tool, norseq):
    text = run(tool, norseq=norseq)
    fields = json.loads(run(tool, "--json", norseq=norseq))
    percpu = fields["percpu"]
    for label, value in [
            ("version", fields["version"]), ("page size", f"{fields['page_size']} bytes"),
            ("mode", percpu["mode"]), ("reason", percpu["reason"]),
            ("self-test", percpu["self_test"]), ("index", percpu["index"]),
            ("possible CPUs", percpu["nr_cpu_ids"]), ("in use", percpu["cpus_online"]),
            ("unit size", f"{percpu['unit_size']} bytes per CPU and chunk"),
            ("chunks", percpu["chunks"]), ("allocated", f"{percpu['allocated']} bytes per CPU"),
            ("static", f"{percpu['static_size']} bytes per CPU"),
            ("CPUs allowed", percpu["cpus_allowed"]),
            ("CPU quota", f"{percpu['cpu_milli']} thousandths of a CPU at once"),
            ("memory limit", "none" if percpu["memory_limit"] is None else f"{percpu['memory_limit']} bytes"),
            ("free objects", f"{percpu['cache_bytes']} bytes per CPU, at most")]:
        expect(re.search(rf"^  {label} +{re.escape(str(value))}$", text, re.M),
               f"no line '{label} {value}' in:\n{text}")
    expect(re.search(r"^  resident +\d+ bytes", text, re.M), f"no resident size in:\n{text}")


def main():
    tool, test = sys.argv[1:]
    kind, _, variant = test.partition(".")
    {"info": check_text, "info_json": check_json}[kind](tool, variant == "norseq")


if __name__ == "__main__":
    main()
