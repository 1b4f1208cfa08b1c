#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bounds what the library adds to a process that does nothing: system calls and page faults.

    start_costs.py LIBRARY

Shell scripts start thousands of processes. Time would depend on the machine; these counts do
not, apart from the control groups that the process is in, whose files are not counted.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

# What was counted (x86-64, Linux 6.18, 2 CPUs, one node), and a little more.
MOST_CALLS = 72  # 57
MOST_FAULTS = 62  # 59; of these two calls fault in 10
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
        pid = os.posix_spawn(command, [command], env)
        _, status, usage = os.wait4(pid, 0)
        if status:
            sys.exit(f"{command} with {env}: status {status}")
        fewest = usage.ru_minflt if fewest is None else min(fewest, usage.ru_minflt)
    return fewest


def calls(command, library):
    """The process's system calls, without those on the files of control groups."""
    with tempfile.NamedTemporaryFile("r", prefix="ukmem-start.") as log:
        tracing = ["strace", "-qq", "-y", "-o", log.name]
        if library:
            tracing += ["-E", f"LD_PRELOAD={library}"]
        subprocess.run(tracing + [command], check=True)
        lines = log.read().splitlines()
    return sum(bool(re.match(r"\w+\(", line)) and "/cgroup" not in line for line in lines)


def can_trace():
    if not shutil.which("strace"):
        return False
    return subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


def check(what, without, with_library, most):
    more = with_library - without
    print(f"{what}: {without} without the library, {more} more with it; {most} are allowed")
    return more <= most


def main():
    library = os.path.abspath(sys.argv[1])
    command = shutil.which("true")
    good = check("page faults", faults(command, environment(None)),
                 faults(command, environment(library)), MOST_FAULTS)
    if can_trace():
        good &= check("system calls", calls(command, None), calls(command, library),
                      MOST_CALLS)
    else:
        print("system calls: strace is missing, or cannot trace here")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
