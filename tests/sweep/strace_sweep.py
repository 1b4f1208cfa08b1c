#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Nth system call of each kind fails, for a program on the malloc drop-in.

    strace_sweep.py LIBRARY VICTIM

strace(1) makes it fail, in each of the program's threads, once or from then on, for N = 1, 2,
... until none failed any more: also those of libc and of the dynamic linker, which may give up
before there is a program. The victim says by its exit status how it fared (victim.cpp).
UKMEM_CHECK=full tries every N with every error; otherwise some, chosen by UKMEM_TEST_SEED.
UKMEM_STRESS_SECONDS: no run begins after that; which kinds had their turn depends on the seed.
"""

import concurrent.futures
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 60
FINE = {0, 3}  # victim.cpp
# Each with the errors that make sense, and whether it may go on like that for ever.
KINDS = {
    "mmap": (["ENOMEM", "EPERM", "EAGAIN"], True),
    "munmap": (["ENOMEM", "EINVAL"], True),
    "mprotect": (["ENOMEM", "EACCES"], True),
    "madvise": (["EINVAL", "ENOMEM", "EAGAIN"], True),
    "mremap": (["ENOMEM", "EFAULT", "EINVAL"], True),
    "mincore": (["ENOSYS", "EAGAIN"], True),
    "futex": (["EINTR", "EAGAIN"], False),
    "membarrier": (["ENOSYS", "EPERM"], True),
    "rseq": (["ENOSYS", "EPERM", "EINVAL"], True),
    "openat": (["ENOENT", "EMFILE", "EACCES"], True),
    "read": (["EIO", "EINTR"], False),
    "sched_getaffinity": (["EPERM", "ENOSYS"], True),
    "getrandom": (["ENOSYS", "EAGAIN"], True),
    "clone": (["EAGAIN", "ENOMEM"], True),
    "clone3": (["EAGAIN", "ENOSYS"], True),
    "prlimit64": (["EPERM"], True),
}
# The dynamic linker may say that it found no way to begin, and the library may say these lines.
MAY_SAY = re.compile(r"\S+: error while loading shared libraries: .*"
                     r"|.*cannot allocate TLS data structures for initial thread"
                     r"|ERROR: ld\.so: object '.*' from LD_PRELOAD cannot be preloaded .*"
                     r"|ukmem: page allocation failure: .*"
                     r"|ukmem: \S+\.conf: cannot be (?:opened|read) \(errno \d+\)"
                     r"|ukmem: background_thread: cannot be created(?: now)? \(error \d+\)")
LINKER_GIVES_UP = 127


class Run:
    """One run of the victim; @when as strace has it: 5, or 5+."""

    def __init__(self, library, victim, kind, error, when):
        self.library, self.victim = library, victim
        self.kind, self.error, self.when = kind, error, when
        self.what = f"{kind}:error={error}:when={when}"
        self.wrong, self.hit = None, False

    def command(self, log):
        preload = ["-E", f"LD_PRELOAD={self.library}"] if self.library else []
        return ["strace", "-f", "-qq", "--seccomp-bpf", "-o", log, "-e", f"trace={self.kind}",
                "-e", f"inject={self.what}", "-e", "signal=none", *preload,
                "-E", "UKMEM_CONF=background_thread:always,dirty_decay_ms:10", self.victim]

    def judge(self, status, said):
        lines = [line for line in said.splitlines() if not MAY_SAY.fullmatch(line)]
        if lines:
            return "it says: " + lines[0]
        if status < 0:
            return "killed by " + signal.Signals(-status).name
        if status in FINE or (status == LINKER_GIVES_UP and said):
            return None
        return f"exit status {status}"

    def run(self):
        with tempfile.NamedTemporaryFile("r", prefix="ukmem-strace.") as log:
            child = subprocess.Popen(self.command(log.name), stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                     start_new_session=True)
            try:
                said = child.communicate(timeout=SECONDS)[1]
                self.wrong = self.judge(child.returncode, said)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
                self.wrong = f"it stands still for {SECONDS} seconds"
            self.hit = "(INJECTED)" in log.read()
        return self

    def is_ours(self):
        """Not what befalls a program without the library, too: the dynamic linker's, libc's."""
        if not self.wrong:
            return False
        alone = Run(None, self.victim, self.kind, self.error, self.when)
        return alone.run().wrong != self.wrong


def positions(full, chance):
    """1, 2, 3, ..., or ever more coarsely."""
    n = 1
    while True:
        yield n
        n += 1 if full else chance.randint(1, 1 + 2 * n)


def sweep(library, victim, kind, ever, full, chance, end):
    """Until nothing failed any more, or @end. Result: the runs."""
    errors = KINDS[kind][0]
    runs = []
    for turn, n in enumerate(positions(full, chance)):
        if time.monotonic() > end:
            return runs
        for error in errors if full else [errors[turn % len(errors)]]:
            runs.append(Run(library, victim, kind, error, f"{n}+" if ever else f"{n}").run())
        if not any(run.hit for run in runs[-len(errors) if full else -1:]):
            return runs
    return runs


def need_strace():
    """Where ptrace is forbidden there is nothing to be had."""
    if not shutil.which("strace"):
        print("SKIP: strace is not installed")
        sys.exit(77)
    probe = subprocess.run(["strace", "-f", "--seccomp-bpf", "-qq", "-o", os.devnull, "true"],
                           capture_output=True, text=True, check=False)
    if probe.returncode:
        print("SKIP: strace cannot trace here:", probe.stderr.strip())
        sys.exit(77)


def main():
    library, victim = sys.argv[1:]
    full = os.environ.get("UKMEM_CHECK") == "full"
    seed = int(os.environ.get("UKMEM_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"UKMEM_TEST_SEED={seed}")
    need_strace()
    failed = 0
    jobs = [(kind, ever) for kind, ever in itertools.product(KINDS, (False, True))
            if not ever or KINDS[kind][1]]
    random.Random(seed).shuffle(jobs)
    end = time.monotonic() + float(os.environ.get("UKMEM_STRESS_SECONDS", "inf"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        swept = pool.map(lambda job: sweep(library, victim, *job, full,
                                           random.Random(f"{seed} {job}"), end), jobs)
        for (kind, ever), runs in zip(jobs, swept):
            hits = sum(run.hit for run in runs)
            print(f"{kind}{', from N on' if ever else ''}: {hits} of {len(runs)} runs met it",
                  flush=True)
            for run in runs:
                if run.is_ours():
                    failed += 1
                    print(f"FAIL: {run.what}: {run.wrong}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
