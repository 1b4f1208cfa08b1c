# SPDX-License-Identifier: MIT
"""Redis under an allocator, and redis-benchmark, which is not, as its client."""

import contextlib
import csv
import re
import shutil
import subprocess
import time

from children import run_child
from processes import check_malloc, cpu_seconds, server, status_kib

PROGRAMS = ["redis-server", "redis-benchmark", "redis-cli"]
TESTS = "set,get,lpush,lpop,sadd,hset,spop,zadd,mset"
# Values are written, then overwritten with larger and with smaller ones.
SIZES = [64, 700, 32]
CLIENTS = 50
PIPELINE = 16
REQUESTS = (100_000, 10_000)
# Memory is measured so long after all data was deleted.
SETTLE_SECONDS = 5


def missing(_):
    absent = [program for program in PROGRAMS if not shutil.which(program)]
    return f"{', '.join(absent)} not found (Debian: redis-server)" if absent else ""


def memory_info(socket):
    """What the server says about its memory."""
    return dict(re.findall(r"^(\w+):([\d.]+)\s*$", run_child(
        ["redis-cli", "-s", socket, "info", "memory"], None), re.M))


def load(socket, requests):
    """{(test, "requests/s"): figure} of all tests with all sizes."""
    figures = {}
    for size in SIZES:
        text = run_child(["redis-benchmark", "-s", socket, "--csv", "-t", TESTS, "-d", str(size),
                          "-n", str(requests), "-r", str(requests), "-c", str(CLIENTS),
                          "-P", str(PIPELINE)], None)
        for row in csv.DictReader(text.splitlines()):
            test = row["test"].partition(" (")[0]
            figures[f"{test}, {size} bytes", "requests/s"] = float(row["rps"])
    return figures


def measure(library, directory, options):
    socket = directory / "socket"
    command = [shutil.which("redis-server"), "--port", "0", "--unixsocket", str(socket),
               "--dir", str(directory), "--save", "", "--appendonly", "no",
               "--daemonize", "no"]
    check_malloc([command[0], "--version"], library)

    def ready():
        answer = subprocess.run(["redis-cli", "-s", socket, "ping"], capture_output=True,
                                text=True, check=False)
        return answer.stdout.strip() == "PONG"

    with server(command, library, directory / "log", ready) as process:
        figures = load(socket, REQUESTS[options.quick])
        figures["all requests", "CPU, s"] = cpu_seconds(process.pid)
        figures["all requests", "peak resident, MiB"] = status_kib(process.pid, "VmHWM") / 1024
        info = memory_info(socket)
        figures["at the end", "resident/used"] = \
            float(info["used_memory_rss"]) / float(info["used_memory"])
        run_child(["redis-cli", "-s", socket, "flushall", "sync"], None)
        time.sleep(SETTLE_SECONDS)
        figures["all deleted", "resident, MiB"] = status_kib(process.pid, "VmRSS") / 1024
    return figures


@contextlib.contextmanager
def prepared(directory, options):
    yield lambda library: measure(library, directory, options)
