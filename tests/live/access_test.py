#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Looks at processes that may not be read, or not from where the command is: the message tells why.

usage: access_test.py TOOL VICTIM LIBRARY|- SECONDS strangers|confined|namespaces
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time

from live_test import expect, run


def works(*command):
    return subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0


def check_namespaces(test):
    """Where the command and the process are in different namespaces the message has the cause."""
    process = test.started("quiet", conf="live:1")
    pid = process.pid
    served = re.compile(rf"@ukmem/{pid}/")
    end = time.monotonic() + 30
    while not served.search(open("/proc/net/unix", encoding="utf-8", errors="replace").read()):
        expect(time.monotonic() < end, "no socket")
        time.sleep(0.02)
    for prefix, command, message in [
            (["unshare", "--pid", "--fork"], ["gauges", pid], "PIDs are not those of its /proc"),
            (["unshare", "--pid", "--fork"], ["trim", pid], "PIDs are not those of its /proc"),
            (["unshare", "--pid", "--fork"], ["ps"], "PIDs are not those of its /proc"),
            (["unshare", "--pid", "--fork", "--mount-proc"], ["gauges", pid],
             "there is no such process here; 'ukmem ps' lists those on ukmem"),
            (["unshare", "--user", "--map-root-user"], ["gauges", pid], "another user namespace"),
            (["unshare", "--net"], ["trim", pid], f"nsenter --net --target {pid}"),
            (["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"], ["gauges", pid],
             "root lacks CAP_SYS_PTRACE here")]:
        if not shutil.which(prefix[0]) or not works(*prefix) or ("setpriv" in prefix and os.geteuid()):
            print(f"not possible here: {' '.join(prefix)}")
            continue
        code, out, err = test.look(*command, prefix=prefix)
        expect(code == 1 and not out and message in err, f"{prefix}, {command}: {code}: {out}{err}")
    process.communicate("\n")


def check_confined(test):
    """Where the command gets neither /proc nor threads it says so."""
    process = test.started("quiet")
    with tempfile.TemporaryDirectory() as empty:
        hidden = ["unshare", "--mount", "sh", "-c", f'mount --bind {empty} /proc && exec "$@"', "sh"]
        if not works(*hidden):
            print("/proc cannot be hidden here")
        else:
            for command in (["ps"], ["gauges", process.pid], ["trim", process.pid]):
                code, out, err = test.look(*command, prefix=hidden)
                expect(code == 1 and not out and err.startswith("ukmem: "), f"{command}: {code}: {out}{err}")
    process.communicate("\n")
    if os.geteuid() or not shutil.which("prlimit") or not shutil.which("setpriv"):
        return
    other = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"]
    with tempfile.TemporaryDirectory() as folder:
        copy = test.for_others(folder)
        process = subprocess.Popen([*other, copy.victim, "quiet"], env=copy.environment(), text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        expect(process.stdout.readline() == "ready\n", "the program did not start")
        code, out, err = copy.look("metrics", process.pid, "--listen", "0",
                                   prefix=[*other, "prlimit", "--nproc=1"])
        expect(code == 1 and "Resource temporarily unavailable" in err, f"{code}: {out}{err}")
        process.communicate("\n")


def check_unreadable(test, prefix):
    """The sentence about one process, and about two: in a namespace that has no others."""
    alone = ["unshare", "--pid", "--fork", "--mount-proc"]
    if not works(*alone):
        print("SKIP: no namespace of processes can be made here")
        return
    for others, sentence in (("", "1 process cannot be read, so it is not known whether it runs on ukmem"),
                             ("sleep 100 &", "2 processes cannot be read, so it is not known whether they run on ukmem")):
        shell = ["sh", "-c", f'{others} "$@"; exit $?', "sh"]
        code, text, err = test.look("ps", prefix=[*alone, *shell, *prefix])
        expect(code == 0 and f"\n{sentence}; try as root\n" in text, f"{code}: {text}{err}")


def check_strangers(test):
    """Processes without ukmem, and those that may not be read."""
    sleeper = subprocess.Popen(["sleep", "100"])
    time.sleep(0.1)
    code, _, err = test.look("slabinfo", sleeper.pid)
    expect(code == 1 and "it does not run on ukmem" in err, f"{code}: {err}")
    sleeper.kill()
    sleeper.wait()
    hidden = test.started("hide")
    prefix = []
    if os.geteuid() == 0 and shutil.which("setpriv"):
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    elif os.geteuid() == 0:
        print("SKIP: no setpriv, so root reads all")
    if prefix or os.geteuid():
        code, _, err = test.look("slabinfo", hidden.pid, prefix=prefix)
        why = "it belongs to user" if prefix else "PR_SET_DUMPABLE"
        expect(code == 1 and why in err, f"{code}: {err}")
        found = json.loads(test.look("ps", "--json", prefix=prefix)[1])
        expect(found["unreadable"] >= 1, f"{found}")
        expect(hidden.pid not in [p["pid"] for p in found["processes"]], f"{found}")
        text = test.look("ps", prefix=prefix)[1]
        expect(re.search(r"^\d+ process(es)? cannot be read", text, re.M), text)
    if prefix:
        check_unreadable(test, prefix)
    hidden.communicate("\n")
    if not prefix:
        return
    # As the same user, but unreadable.
    mine = subprocess.Popen([*prefix, test.victim, "hide"], env=test.environment(),
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    expect(mine.stdout.readline() == "ready\n", "the hidden process did not start")
    code, _, err = test.look("slabinfo", mine.pid, prefix=prefix)
    expect(code == 1 and "PR_SET_DUMPABLE" in err, f"{code}: {err}")
    mine.communicate("\n")


if __name__ == "__main__":
    run({"strangers": check_strangers, "confined": check_confined, "namespaces": check_namespaces})
