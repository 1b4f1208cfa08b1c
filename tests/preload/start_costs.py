#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bounds what the library adds to processes that do little: system calls and page faults.

    start_costs.py LIBRARY PROGRAM

Shell scripts start thousands of processes. Time would depend on the machine; these counts do
not. One process does nothing. Others run PROGRAM (first_request_test.c), which allocates 100
bytes, or 8 MiB and touches them. The first two do not look at control groups, the third does.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

# A little more than was counted (x86-64, Linux 6.18, 2 CPUs, one node, no settings).
MOST_CALLS = {"nothing": 14, "small": 38}  # 11, 31; bound to some of the CPUs 35
MOST_FAULTS = {"nothing": 20, "small": 58}  # 16 to 18, 55; of the latter two calls fault in 16
RUNS = 20


def environment(library):
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
    if library:
        env["LD_PRELOAD"] = library
    return env


def faults(command, env):
    """The fewest of several runs: now and then the system faults in a page once more."""
    fewest = None
    for _ in range(RUNS):
        pid = os.posix_spawn(command[0], command, env)
        _, status, usage = os.wait4(pid, 0)
        if status:
            sys.exit(f"{command} with {env}: status {status}")
        fewest = usage.ru_minflt if fewest is None else min(fewest, usage.ru_minflt)
    return fewest


def calls(command, library):
    """The process's system calls, a line each."""
    with tempfile.NamedTemporaryFile("r", prefix="ukmem-start.") as log:
        tracing = ["strace", "-qq", "-o", log.name]
        if library:
            tracing += ["-E", f"LD_PRELOAD={library}"]
        subprocess.run(tracing + command, check=True, env=environment(None))
        return [line for line in log.read().splitlines() if re.match(r"\w+\(", line)]


def can_trace():
    if not shutil.which("strace"):
        return False
    return subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


def check(what, without, with_library, most):
    more = with_library - without
    print(f"{what}: {without} without the library, {more} more with it; {most} are allowed")
    return more <= most


def has_one_node():
    """Of several nodes the sizes are read at once, and control groups with them."""
    try:
        with open("/sys/devices/system/node/has_memory", encoding="ascii") as nodes:
            return nodes.read().strip().isdigit()
    except OSError:
        return True


def looks_at_groups(lines):
    return any('"/proc/self/cgroup"' in line for line in lines)


def main():
    library, program = map(os.path.abspath, sys.argv[1:])
    commands = {"nothing": [shutil.which("true")], "small": [program, "small"],
                "large": [program, "large"]}
    traced = can_trace()
    good = True
    if not has_one_node():
        print("several nodes: only what does nothing is counted")
        commands = {"nothing": commands["nothing"]}
    for name, command in commands.items():
        if name in MOST_FAULTS:
            good &= check(f"{name}: page faults", faults(command, environment(None)),
                          faults(command, environment(library)), MOST_FAULTS[name])
    if not traced:
        print("system calls: strace is missing, or cannot trace here")
        return 0 if good else 1
    for name, command in commands.items():
        lines = calls(command, library)
        if name in MOST_CALLS:
            good &= check(f"{name}: system calls", len(calls(command, None)), len(lines),
                          MOST_CALLS[name])
        if looks_at_groups(lines) != (name == "large"):
            print(f"{name}: looks at control groups: {looks_at_groups(lines)}")
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
