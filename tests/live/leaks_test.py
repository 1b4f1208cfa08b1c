#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Searches processes for leaks, with `ukmem leaks PID`.

usage: leaks_test.py TOOL LEAKER LIBRARY|- SECONDS TEST

LEAKER (leaker.c) runs on LIBRARY, preloaded; "-": it is linked with the library.
"""

import json
import os
import re
import subprocess
import sys
import time

# Objects of the program that the test knows nothing of, such as those of the C library.
MOST_OTHERS = 0
# Of objects in use, the part that may be reported though something leads to them.
MOST_WRONG = 1 / 1000

# Where the functions of leaker.c begin that leak in a profiled process.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "leaker.c"),
          encoding="utf-8") as source:
    LINES = {line[line.index("planted_"):line.index("(void)")]: number
             for number, line in enumerate(source, 1)
             if line.startswith("static") and "planted_" in line}


def expect(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def page_tables(process):
    """KiB."""
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
        return int(re.search(r"^VmPTE:\s*(\d+)", status.read(), re.MULTILINE)[1])


class Test:
    def __init__(self, tool, leaker, library, seconds):
        self.tool, self.leaker, self.seconds = tool, leaker, float(seconds)
        self.preload = None if library == "-" else library

    def started(self, what, conf=""):
        env = {n: v for n, v in os.environ.items() if n not in ("UKMEM_CONF", "LD_PRELOAD")}
        if self.preload:
            env["LD_PRELOAD"] = self.preload
        if conf:
            env["UKMEM_CONF"] = conf
        process = subprocess.Popen([self.leaker, what], env=env, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        known = {}
        for line in process.stdout:
            if line == "ready\n":
                break
            kind, address = line.split()
            expect(int(address, 16) not in known, f"{line}: twice")
            known[int(address, 16)] = kind
        return process, known

    def command(self, process, *options):
        """Exit code, stdout and stderr. The command never crashes."""
        done = subprocess.run([self.tool, "leaks", *options, str(process.pid)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        expect(0 <= done.returncode <= 2, f"{done.returncode}: {done.stderr}")
        return done.returncode, done.stdout, done.stderr

    def search(self, process, *options):
        code, out, err = self.command(process, "--json", "--limit", "100000", *options)
        expect(code == 0 and not err, f"{options}: {code}: {err}")
        found = json.loads(out)
        self.check(found)
        return found

    @staticmethod
    def check(found):
        """Numbers sum up, and are possible."""
        groups = found["groups"]
        for name in ("direct", "indirect"):
            expect(sum(g[name] for g in groups) == found[name], f"{name}: {found}")
            expect(sum(g[name] * g["size"] for g in groups) == found[name + "_bytes"], name)
        for g in groups:
            expect(g["bytes"] == (g["direct"] + g["indirect"]) * g["size"] > 0, f"{g}")
            expect(len(set(g["addresses"])) == g["direct"] + g["indirect"], f"{g}")
        expect(found["direct"] + found["indirect"] <= found["objects"], "more than there are")
        expect(found["direct_bytes"] + found["indirect_bytes"] <= found["bytes"], "bytes")

    @staticmethod
    def end(process):
        process.stdin.close()
        expect(process.wait() == 0, f"the process ended with {process.returncode}")

    def planted(self, conf=""):
        """Exactly the planted objects are found."""
        process, known = self.started("plant", conf)
        for options in ((), ("--stop",), ("--stop", "--min-age", "0.2"), ("--min-age", "0")):
            found = self.search(process, *options)
            reported = {int(a, 16) for g in found["groups"] for a in g["addresses"]}
            leaked = {a for a, kind in known.items() if kind != "kept"}
            expect(leaked <= reported, f"{options}: {len(leaked - reported)} not found: "
                   f"{[known[a] for a in leaked - reported][:9]}")
            others = reported - leaked
            kept = {a for a in others if a in known}
            expect(not kept, f"{options}: {len(kept)} are no leaks")
            expect(len(others) <= MOST_OTHERS, f"{options}: {len(others)} unknown objects")
            count = list(known.values()).count
            # Of the ring, one object stands for all.
            expect(found["indirect"] == count("indirect") + count("ring") - 1,
                   f"{options}: {found['indirect']} indirect")
            lists = [g for g in found["groups"] if g["indirect"]]
            expect(len(lists) == 1 and lists[0]["direct"] == 2, f"{lists}")
            # Three million bytes; a block with guards is no larger than it has to be.
            large = 3002368 if conf else 3145728
            eight = [g for g in found["groups"] if g["size"] == large]
            expect(len(eight) == 1 and eight[0]["direct"] == 20 and
                   eight[0]["first_bytes"] == "11" * 16, f"{eight}")
        done = subprocess.run([self.tool, "leaks", "--error-exitcode", "9", str(process.pid)],
                              capture_output=True, text=True, check=False)
        expect(done.returncode == 9 and "\nleaked: 1" in done.stdout, f"{done.returncode}: {done.stderr}")
        code, out, err = self.command(process, "--limit", "2")
        expect(code == 0 and not err, err)
        expect("\nleaked: 1" in out and "kmalloc-9216" in out, out)
        expect(out.count("\n  0x") == sum(min(2, g["direct"] + g["indirect"])
                                          for g in found["groups"]), out)
        self.end(process)

    def planted_debugged(self):
        """Objects of twins, with guards and in quarantine."""
        self.planted("slab_debug:FZPU")

    def guarded(self):
        """Objects in KFENCE's pool are found, keep others, and have their stacks."""
        process, known = self.started("guarded", "kfence_sample_interval:1")
        if not known:
            process.wait()
            print("SKIP: no pool")
            return
        leaked = {a for a, kind in known.items() if kind != "kept"}
        for options in ((), ("--stop",), ("--min-age", "0")):
            found = self.search(process, *options)
            reported = {int(a, 16) for g in found["groups"] for a in g["addresses"]}
            expect(reported == leaked, f"{options}: not found: "
                   f"{[known[a] for a in leaked - reported]}, and no leaks: "
                   f"{[(hex(a), known.get(a)) for a in reported - leaked]}")
            expect(found["indirect"] == list(known.values()).count("indirect"), f"{found}")
            # Guarded objects count as all objects of their cache; two are in slabs.
            (group,) = found["groups"]
            stacks = found["guarded"]
            expect(group["size"] == 112 and group["direct"] + group["indirect"] == 25, f"{group}")
            # Code without frame pointers lets the library guess the frames behind the caller.
            expect(sum(s["objects"] for s in stacks) == 23 and
                   all(s["bytes"] == 100 * s["objects"] for s in stacks), f"{stacks}")
            addresses = [a for s in stacks for a in s["addresses"]]
            expect(len(set(addresses)) == 23 and set(addresses) <= set(group["addresses"]), f"{stacks}")
            for stack in stacks:
                expect(any(f["function"].startswith("planted_guarded") for f in stack["frames"][:2]),
                       f"{stack['frames']}")
        code, out, err = self.command(process, "--limit", "2")
        expect(code == 0 and not err, err)
        expect("\nguarded of them, in KFENCE's pool: 23, 2.2K, each with its stack\n\n" in out, out)
        printed = re.findall(r"^(\d+) guarded objects?, \S+: 0x", out, re.M)
        expect(sum(int(n) for n in printed) == 23, out)
        expect(0 < out.index("guarded object") < out.index("  planted_guarded"), out)
        self.end(process)

    def stacks(self):
        """In a profiled process, leaked samples are grouped by stack, with lines."""
        # As many samples as the interval asks for, whatever they cost on this machine.
        process, _ = self.started("stacks", "profile:1,profile_interval:64k,profile_cpu:0")
        for options in ((), ("--stop",)):
            found = self.search(process, *options)
            exact = {"planted_hot": 40000, "planted_cold": 8000}
            expect(abs(found["direct"] - sum(exact.values())) <= MOST_OTHERS, f"{found['direct']}")
            stacks = {}
            for stack in found["stacks"]:
                functions = [f["function"] for f in stack["frames"]]
                name = next((f for f in functions if f.startswith("planted_")), "")
                if not name:
                    expect(stack["samples"] <= MOST_OTHERS, f"{stack}")
                    continue
                frame = stack["frames"][functions.index(name)]
                expect(name not in stacks and "main" in functions, f"{name}: {functions}")
                expect(os.path.basename(frame["file"]) == "leaker.c" and
                       LINES[name] < frame["line"] < LINES[name] + 5, f"{frame}")
                expect(len(set(stack["addresses"])) == stack["samples"] > 0, f"{stack}")
                stacks[name] = stack
            expect(stacks.keys() == exact.keys(), f"{stacks.keys()}")
            expect(found["stacks"][0] is stacks["planted_hot"], "not the largest first")
            samples = [g for g in found["groups"] if g["cache"] == "sampled"]
            expect(all(g["size"] < 4096 for g in samples), f"sizes of pages: {samples}")
            expect({a for g in samples for a in g["addresses"]} ==
                   {a for s in found["stacks"] for a in s["addresses"]}, "other addresses")
            for name, stack in stacks.items():
                # About 25 samples of the rarer place: five standard deviations.
                expect(abs(stack["objects"] - exact[name]) < exact[name], f"{name}: {stack}")
                expect(207 < stack["bytes"] / stack["objects"] < 225, f"{stack}")
        code, out, err = self.command(process, "--limit", "2")
        expect(code == 0 and not err, err)
        hot, cold = out.index("\n  planted_hot (leaker.c:"), out.index("\n  planted_cold (leaker.c:")
        expect(0 < hot < cold and "planted_held" not in out, out)
        self.end(process)
        process, _ = self.started("plant")
        expect("stacks" not in self.search(process), "stacks without a profile")
        self.end(process)

    def clean(self):
        process, known = self.started("clean")
        for options in ((), ("--stop",)):
            found = self.search(process, *options)
            expect(found["objects"] >= len(known), f"{found['objects']} objects")
            wrong = found["direct"] + found["indirect"]
            expect(wrong <= MOST_OTHERS, f"{options}: {wrong}: "
                   f"{[(g['cache'], g['direct'], g['indirect']) for g in found['groups']]}")
        self.end(process)

    def storm(self):
        """Stopped, nothing is found; else next to nothing. Nothing breaks."""
        process, _ = self.started("storm")
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            code, out, err = self.command(process, "--json", "--stop", "--limit", "100000")
            if code:
                expect("changes too fast" in err, err)
                continue
            found = json.loads(out)
            self.check(found)
            wrong = found["direct"] + found["indirect"]
            expect(wrong <= found["objects"] * MOST_WRONG, f"stopped: {wrong}")
            expect(found["stopped_seconds"] < 5, f"{found['stopped_seconds']} s")
            code, out, err = self.command(process, "--json", "--min-age", "0.1", "--limit",
                                          "100000")
            expect(code == 0 or "changes too fast" in err, err)
            if code == 0:
                found = json.loads(out)
                self.check(found)
                wrong = found["direct"] + found["indirect"]
                expect(wrong <= found["objects"] / 100, f"{wrong} of {found['objects']}")
        self.end(process)

    def sparse(self):
        """A search reads no pages that were never touched: it would give the process tables for them."""
        process, _ = self.started("sparse")
        if not os.access(f"/proc/{process.pid}/pagemap", os.R_OK):
            print("SKIP: the system does not tell what is in memory")
            self.end(process)
            return
        before = page_tables(process)
        found = self.search(process)
        grown = page_tables(process) - before
        expect(found["direct"] <= MOST_OTHERS, f"{found['direct']} leaks")
        expect(grown < 300, f"{grown} KiB of page tables for 600 MB that nobody touched")
        self.end(process)

    def comes_and_goes(self):
        """A process that ends during a search."""
        for delay in (0, 0.02, 0.1):
            process, _ = self.started("plant")
            with subprocess.Popen([self.tool, "leaks", str(process.pid)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as tool:
                time.sleep(delay)
                process.kill()
                process.wait()
                _, err = tool.communicate()
                expect(tool.returncode == 1, f"{tool.returncode}: {err}")
                expect("ended" in err or "no such process" in err or
                       "does not run on ukmem" in err, err)


def main():
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    test = Test(*sys.argv[1:5])
    getattr(test, sys.argv[5])()


if __name__ == "__main__":
    main()
