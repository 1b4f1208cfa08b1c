# SPDX-License-Identifier: MIT
"""The machine that figures come from, and how noisy it is."""

import os
import platform
import subprocess
import time
from pathlib import Path
from statistics import median

# How much work is repeated to see how its time varies.
NOISE_LOOPS = 100_000
LSCPU = ("Model name", "CPU(s)", "Thread(s) per core", "Core(s) per socket", "Socket(s)",
         "NUMA node(s)", "L1d cache", "L2 cache", "L3 cache", "Hypervisor vendor")


def first_line(path, absent="not told"):
    try:
        return Path(path).read_text(encoding="utf-8").strip().splitlines()[0]
    except (OSError, IndexError):
        return absent


def chosen(path):
    """The word in brackets of a kernel's setting: always [madvise] never."""
    words = first_line(path)
    return words.partition("[")[2].partition("]")[0] or words


def lscpu():
    try:
        lines = subprocess.run(["lscpu"], capture_output=True, text=True, check=True,
                               env={**os.environ, "LC_ALL": "C"}).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return {}
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    return {key: found[key].strip() for key in LSCPU if key in found}


def memory_gib():
    kib = int(first_line("/proc/meminfo").split()[1])
    return f"{kib / 2**20:.1f} GiB"


def describe(driver):
    """[(what, value)]; @driver: bench/run, which knows the CPU by its numbers."""
    cpu = "/sys/devices/system/cpu"
    info = driver.machine_info()
    rows = [("CPU", info["cpu"]), *(row for row in lscpu().items() if row[0] != "Model name"),
            ("CPUs that may be used", str(info["cpus"])),
            ("hyperthreads (SMT)", first_line(f"{cpu}/smt/control")),
            ("governor", first_line(f"{cpu}/cpu0/cpufreq/scaling_governor",
                                    "none: the CPU's frequency is not the kernel's to choose")),
            ("memory", memory_gib()),
            ("huge pages (THP)", chosen("/sys/kernel/mm/transparent_hugepage/enabled")),
            ("kernel", f"{platform.system()} {info['kernel']}"),
            ("libc", info["libc"]),
            ("date", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()))]
    return rows


def stolen_ticks():
    """Ticks that the hypervisor gave to others, and all of them."""
    ticks = [int(word) for word in first_line("/proc/stat").split()[1:9]]
    return ticks[7], sum(ticks)


def noise(seconds):
    """How the time of the same work varies: the median in ms, the 95th percentile and the worst
    relative to it; the share of CPU time that a hypervisor took; the load.
    """
    times = []
    steal, total = stolen_ticks()
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times) < 20:
        begin = time.perf_counter()
        sum(range(NOISE_LOOPS))
        times.append(1e3 * (time.perf_counter() - begin))
    steal_after, total_after = stolen_ticks()
    times.sort()
    middle = median(times)
    return {
        "ms": middle,
        "p95": times[len(times) * 95 // 100] / middle,
        "worst": times[-1] / middle,
        "stolen": (steal_after - steal) / max(1, total_after - total),
        "load": os.getloadavg()[0],
    }
