# SPDX-License-Identifier: MIT
"""PostgreSQL under an allocator, with pgbench and sysbench, which are not, as clients.

A cluster is made once; each measurement starts with a copy of it.
"""

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from children import ChildFailed, run_child, say
from processes import PssWatch, as_user, check_malloc, children, cpu_seconds, server

CLIENTS = 8
DATABASE = "bench"
ROLE = "bench"
PGBENCH_SCALE = (10, 1)
SYSBENCH_TABLES = 4
SYSBENCH_ROWS = (25_000, 2_000)
# Nothing waits for the disk, which would be measured instead.
SETTINGS = ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off",
            "-c", "autovacuum=off", "-c", "shared_buffers=128MB"]
# In the title of a process that works for a client.
BACKEND = b"[local]"


def find_bin():
    """The folder with the newest installed server, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"),
                   key=lambda path: float(path.parts[-3]))
    given = shutil.which("postgres")
    return found[-1].parent if found else Path(given).resolve().parent if given else None


def server_user(options):
    """Who runs the server, which refuses to be root: None is who runs this."""
    if os.geteuid() != 0:
        return None
    for name in (options.user, "postgres", "nobody"):
        with contextlib.suppress(KeyError, TypeError):
            return pwd.getpwnam(name).pw_name
    return None


def missing(options):
    if find_bin() is None:
        return "postgres not found (Debian: postgresql)"
    if os.geteuid() == 0 and server_user(options) is None:
        return "run by root, and there is no other user to run the server as"
    return ""


class Cluster:
    """A data directory, its server and its clients."""

    def __init__(self, directory, options):
        self.directory = directory
        self.options = options
        self.user = server_user(options)
        self.bin = find_bin()
        self.connection = ["-h", str(directory), "-U", ROLE]

    def as_server(self, *command):
        """Runs a helper as the user of the server."""
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False,
                              **as_user(self.user))
        if done.returncode != 0:
            raise ChildFailed(f"{command[0]}: {done.stderr.strip()}")

    def client(self, program, *arguments):
        return run_child([self.bin / program, *self.connection, *arguments], None)

    def sysbench(self, *arguments):
        rows = SYSBENCH_ROWS[self.options.quick]
        return run_child(["sysbench", "oltp_read_only", "--db-driver=pgsql",
                          f"--pgsql-host={self.directory}", f"--pgsql-user={ROLE}",
                          f"--pgsql-db={DATABASE}", f"--tables={SYSBENCH_TABLES}",
                          f"--table-size={rows}", *arguments], None)

    def start(self, data, library):
        command = [str(self.bin / "postgres"), "-D", str(data), "-k", str(self.directory),
                   "-h", "", *SETTINGS]

        def ready():
            asked = subprocess.run([self.bin / "pg_isready", "-q", "-h", self.directory],
                                   check=False)
            return asked.returncode == 0

        return server(command, library, self.directory / "log", ready, self.user,
                      stop=signal.SIGINT)

    def create(self):
        """Makes the cluster that is copied, on libc's malloc."""
        data = self.directory / "template"
        self.as_server(self.bin / "initdb", "-D", data, "-U", ROLE, "-A", "trust", "-E", "UTF8",
                       "--no-locale", "--no-sync")
        with self.start(data, None):
            self.client("createdb", DATABASE)
            self.client("pgbench", "-i", "-q", "-s", str(PGBENCH_SCALE[self.options.quick]),
                        DATABASE)
            if shutil.which("sysbench"):
                self.sysbench("prepare")

    def copy(self):
        """A fresh copy of the cluster."""
        data = self.directory / "data"
        shutil.rmtree(data, ignore_errors=True)
        self.as_server("cp", "-a", "--reflink=auto", self.directory / "template", data)
        return data


def pgbench(cluster, *arguments):
    """Transactions in all and per second."""
    text = cluster.client("pgbench", "-n", "-c", str(CLIENTS), "-j", "2", "-T",
                          str(cluster.options.seconds), *arguments, DATABASE)
    return (int(re.search(r"transactions actually processed: (\d+)", text).group(1)),
            float(re.search(r"tps = ([\d.]+)", text).group(1)))


def sysbench_read_only(cluster):
    text = cluster.sysbench(f"--threads={CLIENTS}", f"--time={cluster.options.seconds}", "run")
    found = re.search(r"transactions:\s+(\d+)\s+\(([\d.]+) per sec", text)
    return int(found.group(1)), float(found.group(2))


def backends_gone(pid, before):
    """Waits until what backends used is counted for the server: until it has waited for
    all but those that it had before. A child that has just ended has no title any more."""
    give_up = time.monotonic() + 30
    while set(children(pid)) - before:
        if time.monotonic() > give_up:
            raise ChildFailed("backends outlive their clients")
        time.sleep(0.02)


def measure(library, cluster):
    check_malloc([str(cluster.bin / "postgres"), "--version"], library, cluster.user)
    tests = {"pgbench select-only": lambda: pgbench(cluster, "-S"),
             "pgbench tpc-b": lambda: pgbench(cluster)}
    if shutil.which("sysbench"):
        tests["sysbench OLTP read-only"] = lambda: sysbench_read_only(cluster)
    figures = {}
    with cluster.start(cluster.copy(), library) as process:
        for name, run in tests.items():
            others = set(children(process.pid))
            before = cpu_seconds(process.pid)
            with PssWatch(process.pid, BACKEND) as watch:
                count, rate = run()
            backends_gone(process.pid, others)
            used = cpu_seconds(process.pid) - before
            figures[name, "transactions/s"] = rate
            figures[name, "CPU, us/transaction"] = 1e6 * used / count
            figures[name, "peak Pss, MiB"] = watch.kib("Pss") / 1024
            figures[name, "peak private, MiB"] = watch.kib("Pss_Anon") / 1024
    return figures


@contextlib.contextmanager
def prepared(directory, options):
    cluster = Cluster(directory, options)
    if cluster.user:
        shutil.chown(directory, cluster.user)
    if not shutil.which("sysbench"):
        say("SKIPPED sysbench OLTP read-only: sysbench not found (Debian: sysbench)")
    cluster.create()
    yield lambda library: measure(library, cluster)
