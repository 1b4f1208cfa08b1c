#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs GoogleTest programs in a virtual machine of 4 NUMA nodes with 2 CPUs each.

usage: run_vm.py boot FOLDER PROGRAM...          every case of the programs, in one boot;
                                                 results go to FOLDER/results.json
       run_vm.py case FOLDER PROGRAM --gtest_list_tests
       run_vm.py case FOLDER PROGRAM --gtest_filter=CASE
                                                 in place of the program: lists its cases, or
                                                 prints what the last boot found of one
       run_vm.py run FOLDER PROGRAM ARGUMENT...  one program, at this terminal

Programs are linked statically. FOLDER has the static program "init" (init.c); --kernel
is a folder with "vmlinuz" (get_kernel). Exits 77 (skipped) where QEMU or a kernel is
missing.
"""

import argparse
import fnmatch
import gzip
import itertools
import json
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SKIPPED = 77
QEMU = "qemu-system-x86_64"
NODE_MEMORY = "384M"
# A node's CPUs are no neighbours, so that node = CPU / 2 is wrong.
NODE_CPUS = [(0, 5), (1, 4), (2, 7), (3, 6)]
# Row: from. No order of distance is that of the numbers, nor that of the column.
DISTANCES = [[10, 40, 20, 30],
             [21, 10, 41, 31],
             [42, 22, 10, 32],
             [33, 23, 43, 10]]
# Seconds for a case, unless its program says otherwise, and for the machine to start.
CASE_SECONDS = 180
START_SECONDS = 300
# numa_balancing would move pages after they were placed; so would khugepaged, and put what is
# free beside them where they are.
KERNEL_OPTIONS = ("console=ttyS0 panic=-1 oops=panic numa_balancing=disable "
                  "transparent_hugepage=madvise quiet loglevel=4 mitigations=off "
                  "random.trust_cpu=on rdinit=/init")


def skip(folder, why):
    print(f"SKIP: {why}")
    if folder:
        write_results(folder, {"skipped": why, "cases": {}})
    sys.exit(SKIPPED)


def write_results(folder, results):
    (folder / "results.json").write_text(json.dumps(results, indent=1))


class Initramfs:
    """A cpio archive as the kernel unpacks it (format newc)."""

    def __init__(self):
        self.parts = []
        self.inode = 0

    def add(self, name, mode, data=b""):
        self.inode += 1
        path = name.encode() + b"\0"
        fields = [self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0]
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        for part in header + path, data:
            self.parts.append(part + bytes(-len(part) % 4))

    def add_file(self, name, data):
        self.add(name, stat.S_IFREG | 0o755, data)

    def add_folder(self, name):
        self.add(name, stat.S_IFDIR | 0o755)

    def compressed(self):
        self.add("TRAILER!!!", 0)
        return gzip.compress(b"".join(self.parts), 1)


def build_initramfs(folder, programs, lines):
    archive = Initramfs()
    for name in "dev", "proc", "sys", "tmp", "tests":
        archive.add_folder(name)
    archive.add_file("init", (folder / "init").read_bytes())
    archive.add_file("list", "".join(f"{line}\n" for line in lines).encode())
    for program in programs:
        archive.add_file(f"tests/{program.name}", program.read_bytes())
    path = folder / "initramfs.gz"
    path.write_bytes(archive.compressed())
    return path


def qemu_command(arguments, initramfs, console, port):
    command = [QEMU, "-accel", arguments.accel, "-cpu", "max", "-nodefaults", "-display", "none",
               "-no-reboot", "-kernel", arguments.kernel / "vmlinuz", "-initrd", initramfs,
               "-append", f"{KERNEL_OPTIONS} {arguments.append}", "-serial", console,
               "-serial", port, "-m", f"{4 * int(NODE_MEMORY[:-1])}M",
               "-smp", "8,sockets=8,cores=1,threads=1"]
    for node, cpus in enumerate(NODE_CPUS):
        command += ["-object", f"memory-backend-ram,id=memory{node},size={NODE_MEMORY}",
                    "-numa", f"node,nodeid={node},memdev=memory{node}," +
                    ",".join(f"cpus={cpu}" for cpu in cpus)]
    for source, row in enumerate(DISTANCES):
        for target, distance in enumerate(row):
            command += ["-numa", f"dist,src={source},dst={target},val={distance}"]
    return [str(word) for word in command]


def need_machine(arguments, folder):
    if not shutil.which(QEMU):
        skip(folder, f"{QEMU} is not installed (package qemu-system-x86)")
    fetch = subprocess.run([HERE / "get_kernel", arguments.kernel], text=True, check=False,
                           stdout=subprocess.PIPE)
    if fetch.returncode == SKIPPED:
        skip(folder, fetch.stdout.strip().removeprefix("SKIP: "))
    if fetch.returncode:
        sys.exit(f"get_kernel: exit {fetch.returncode}\n{fetch.stdout}")
    if fetch.stdout:
        print(fetch.stdout, end="", flush=True)


def list_cases(program, arguments):
    """["Suite.Case"] of a program that also runs on this machine, but for those left out."""
    without = arguments.without.split(":")
    output = subprocess.run([program, "--gtest_list_tests"], text=True, check=True,
                            stdout=subprocess.PIPE).stdout
    cases, suite = [], ""
    for line in output.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            cases.append(suite + name.strip())
        else:
            suite = name
    return [case for case in cases if not any(fnmatch.fnmatchcase(case, each) for each in without)]


class Results:
    """What init.c wrote to the port, as it grows."""

    def __init__(self, path):
        self.path = path
        self.cases = {}
        self.done = False
        self.current = None
        self.read = 0
        self.partial = b""

    def update(self):
        with self.path.open("rb") as port:
            port.seek(self.read)
            data = port.read()
        self.read += len(data)
        *lines, self.partial = (self.partial + data).split(b"\n")
        for line in lines:
            self.line(line.decode(errors="replace"))
        return bool(data)

    def line(self, line):
        if line.startswith("@begin "):
            self.current = line.split()[1]
            self.cases[self.current] = {"result": "did not end", "ms": 0, "output": ""}
        elif line.startswith("@end "):
            _, name, how, number, ms = line.split()
            case = self.cases[name]
            case["ms"] = int(ms)
            case["result"] = self.verdict(how, number, case["output"])
            self.current = None
            print(f"{case['ms'] / 1000:8.1f} s  {name}: {case['result']}", flush=True)
        elif line == "@done":
            self.done = True
        elif self.current and line.startswith(" "):
            self.cases[self.current]["output"] += line[1:] + "\n"

    @staticmethod
    def verdict(how, number, output):
        if how == "timeout":
            return "timeout"
        if how != "exit" or number != "0":
            return f"failed: {how} {number}"
        # GoogleTest's exit code says nothing about what did not run.
        if "[  SKIPPED ]" in output:
            return "skipped"
        return "passed" if "[  PASSED  ] 1 test" in output else "failed: ran no test"


def run_machine(command, results, seconds, case_seconds):
    """Whether it ran to its end."""
    print(" ".join(command), flush=True)
    start = last = time.monotonic()
    first = None
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as qemu:
        while True:
            ended = qemu.poll() is not None
            if results.path.exists() and results.update():
                last = time.monotonic()
                if first is None:
                    first = last
                    print(f"{first - start:8.1f} s  from start to the first test", flush=True)
            if ended:
                break
            now = time.monotonic()
            if now - start > seconds or now - last > START_SECONDS + case_seconds:
                print(f"{now - start:8.1f} s  nothing more happens, or too long: killed")
                qemu.kill()
            time.sleep(0.1)
    print(f"{time.monotonic() - start:8.1f} s  in all; {QEMU}: exit {qemu.returncode}")
    return results.done and qemu.returncode == 0


def boot(arguments):
    folder = arguments.folder
    (folder / "results.json").unlink(missing_ok=True)
    need_machine(arguments, folder)
    lines, expected = [], []
    for program in arguments.programs:
        for case in list_cases(program, arguments):
            if fnmatch.fnmatch(case, arguments.only):
                expected.append(f"{program.name}.{case}")
                lines.append(f"{arguments.case_seconds} {expected[-1]} /tests/{program.name} "
                             f"--gtest_filter={case}")
    initramfs = build_initramfs(folder, arguments.programs, lines)
    console, port = folder / "console.log", folder / "port.log"
    port.unlink(missing_ok=True)
    results = Results(port)
    whole = run_machine(qemu_command(arguments, initramfs, f"file:{console}", f"file:{port}"),
                        results, arguments.seconds, arguments.case_seconds)
    write_results(folder, {"skipped": None, "cases": results.cases})
    missing = [name for name in expected if name not in results.cases]
    if missing:
        print(f"never started: {' '.join(missing)}")
    if not whole or missing:
        print(f"The machine did not run to its end. {console}, last lines:")
        print("\n".join(console.read_text(errors="replace").splitlines()[-60:]))
        return 1
    return 0


def case_result(arguments):
    program, words = arguments.program, arguments.words
    if "--gtest_list_tests" in words:
        for suite, cases in itertools.groupby(list_cases(program, arguments),
                                              lambda case: case.partition(".")[0]):
            print(f"{suite}.", *(f"  {case.partition('.')[2]}" for case in cases), sep="\n")
        return 0
    name = next(word for word in words if word.startswith("--gtest_filter="))
    name = f"{program.name}.{name.removeprefix('--gtest_filter=')}"
    path = arguments.folder / "results.json"
    if not path.exists():
        print(f"{path} is missing: the machine was not started (test vm.boot)")
        return 1
    results = json.loads(path.read_text())
    if results["skipped"]:
        skip(None, results["skipped"])
    case = results["cases"].get(name)
    if not case:
        print(f"{name} did not run in the machine")
        return 1
    print(case["output"].replace("[  SKIPPED ]", "[ skipped ]"))
    print(f"{name}: {case['result']}, {case['ms']} ms in the machine")
    return {"passed": 0, "skipped": SKIPPED}.get(case["result"], 1)


def run(arguments):
    need_machine(arguments, None)
    program = arguments.program
    words = " ".join(arguments.words)
    initramfs = build_initramfs(arguments.folder, [program],
                                [f"0 run /tests/{program.name} {words}"])
    command = qemu_command(arguments, initramfs, f"file:{arguments.folder / 'console.log'}",
                           "stdio")
    return subprocess.run(command, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    common = argparse.ArgumentParser(add_help=False)
    absolute = lambda name: Path(name).resolve()
    common.add_argument("folder", type=absolute)
    common.add_argument("--kernel", type=absolute, default=HERE.parents[1] / "build" / "vm-kernel",
                        help="folder of vmlinuz (%(default)s)")
    common.add_argument("--without", default="", help="cases to leave out, as 'Suite.*:Suite.Case'")
    common.add_argument("--accel", default="tcg,thread=multi", help="QEMU's -accel (%(default)s)")
    common.add_argument("--append", default="", help="more options for the kernel")
    what = parser.add_subparsers(required=True)
    command = what.add_parser("boot", parents=[common])
    command.set_defaults(function=boot)
    command.add_argument("programs", type=absolute, nargs="+", metavar="PROGRAM")
    command.add_argument("--only", default="*", help="cases that match, as 'Suite.Case*'")
    command.add_argument("--seconds", type=int, default=1500, help="for all (%(default)s)")
    command.add_argument("--case-seconds", type=int, default=CASE_SECONDS,
                         help="for a case (%(default)s)")
    for name, function in ("case", case_result), ("run", run):
        command = what.add_parser(name, parents=[common])
        command.set_defaults(function=function)
        command.add_argument("program", type=absolute, metavar="PROGRAM")
        command.add_argument("words", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    arguments = parser.parse_args()
    return arguments.function(arguments)


if __name__ == "__main__":
    sys.exit(main())
