# SPDX-License-Identifier: MIT
"""Programs under an allocator: where their malloc comes from, servers, and what they use."""

import contextlib
import os
import pwd
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import NamedTuple

from children import CHILD_TIMEOUT, ChildFailed, check_origin, environment

# Where the program is that run_measured() starts; the driver knows the build tree.
MEASURED = {"program": None}
START_TIMEOUT = 60
STOP_TIMEOUT = 60
# How often memory that the kernel keeps no peak of is looked at; a look costs the
# process that is looked at a lock of its address space.
WATCH_INTERVAL = 0.2
TICKS = os.sysconf("SC_CLK_TCK")


def libc_path():
    """This machine's libc."""
    found = re.search(r"/\S*/libc\.so\.6$", Path("/proc/self/maps").read_text(), re.M)
    return Path(found.group(0)) if found else None


def as_user(name):
    """Arguments of subprocess that start a program as that user; None: as who runs this."""
    if name is None:
        return {}
    user = pwd.getpwnam(name)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def check_malloc(command, library, user=None):
    """Fails unless every object in a program has its malloc and free from that library.

    The command must end by itself and at once; the loader says what it binds.
    """
    loader = {"LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}
    child = subprocess.run(command, env=environment(library, loader), stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, errors="replace", cwd="/",
                           timeout=CHILD_TIMEOUT, check=False, **as_user(user))
    bound = set(re.findall(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: "
                           r"normal symbol `(?:malloc|free)'", child.stderr))
    homes = {home for _, home in bound}
    # A pointer to the function may be to the program's own way to it.
    if any(file == command[0] != home for file, home in bound):
        homes.discard(command[0])
    if not homes:
        raise ChildFailed(f"{command[0]} asks the loader for no malloc: is it static?")
    for home in homes:
        check_origin(home, library)


def end(process, how=signal.SIGTERM):
    """Ends a process that leads a session, and whatever is left of that session."""
    try:
        if process.poll() is None:
            process.send_signal(how)
            process.wait(STOP_TIMEOUT)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(server, ready, log):
    """Until ready() is true; fails when the server has ended or takes too long."""
    give_up = time.monotonic() + START_TIMEOUT
    while not ready():
        if server.poll() is not None or time.monotonic() > give_up:
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            raise ChildFailed(f"{server.args[0]} does not answer: {' '.join(last)}")
        time.sleep(0.05)


@contextlib.contextmanager
def server(command, library, log, ready, user=None, stop=signal.SIGTERM):
    """A server under an allocator, from when it is ready until the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment(library), cwd="/",
                                   stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True,
                                   **as_user(user))
    try:
        wait_for(process, ready, log)
        yield process
        if process.poll() is not None:
            raise ChildFailed(f"{command[0]} ended with status {process.returncode}")
    finally:
        end(process, stop)


class Used(NamedTuple):
    """What a command and all that it started have used, as measured.c writes it."""
    elapsed: float  # seconds
    user: float
    system: float
    peak_kib: float
    faults: float

    @property
    def cpu(self):
        return self.user + self.system

    @property
    def peak_mib(self):
        return self.peak_kib / 1024


def run_measured(command, library, directory, extra=None, output=subprocess.DEVNULL,
                 stdin=subprocess.DEVNULL):
    """Runs a command with extra variables, its standard output to an open file, if any;
    what it used.
    """
    variables = environment(library, extra)
    preloaded = variables.pop("LD_PRELOAD", "")
    reader, writer = os.pipe()
    with os.fdopen(reader) as report:
        try:
            process = subprocess.Popen([MEASURED["program"], str(writer), preloaded, *command],
                                       env=variables, cwd=directory, stdin=stdin, stdout=output,
                                       stderr=subprocess.PIPE, start_new_session=True,
                                       pass_fds=[writer])
        finally:
            os.close(writer)
        timer = threading.Timer(CHILD_TIMEOUT, os.killpg, [process.pid, signal.SIGKILL])
        timer.start()
        try:
            errors = process.stderr.read()
            process.wait()
        finally:
            timer.cancel()
            end(process)
            process.stderr.close()
        if process.returncode != 0:
            last = errors.decode(errors="replace").strip().splitlines()[-1:]
            raise ChildFailed(f"exit status {process.returncode} {' '.join(last)}")
        return Used(*map(float, report.read().split()))


def status_kib(pid, field):
    """A size that /proc/PID/status has: VmHWM, VmRSS."""
    return field_kib(Path(f"/proc/{pid}/status").read_text(), field)


def field_kib(text, field):
    """A size in the text of such a file."""
    return int(re.search(rf"^{field}:\s+(\d+) kB$", text, re.M).group(1))


def cpu_seconds(pid):
    """CPU time of a process and of those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def children(pid):
    """The children of a process, those included that it has not waited for."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def children_titled(pid, title):
    """The children of a process with a word in their title."""
    found = []
    for child in children(pid):
        with contextlib.suppress(OSError):
            if title in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found


class PssWatch:
    """Looks, while the block runs, at the children of a process that have a word in
    their title: the sum of the highest proportional and private sizes of each."""

    def __init__(self, pid, title):
        self.pid = pid
        self.title = title
        self.peaks = {}
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def _look(self):
        for child in children_titled(self.pid, self.title):
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{child}/smaps_rollup").read_text()
                sizes = dict(re.findall(r"^(Pss|Pss_Anon):\s+(\d+) kB$", text, re.M))
                before = self.peaks.setdefault(child, {})
                for key, size in sizes.items():
                    before[key] = max(before.get(key, 0), int(size))

    def _watch(self):
        while not self.done.wait(WATCH_INTERVAL):
            with contextlib.suppress(OSError):
                self._look()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def kib(self, key):
        if not self.peaks:
            raise ChildFailed("no process was seen at work; it ran too short")
        return sum(peaks.get(key, 0) for peaks in self.peaks.values())
