#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks with herd7 what restartable sections and those who stop them do on aarch64, in every
order of loads and stores that its memory model allows.

	litmus.py TEST EXPECTED

TEST: a function below. EXPECTED: "holds", or the name of one of its mutants, which herd7 has to
find. HERD=command: another herd7 than the one on the path. Exits with 77 where there is none.

A section is what stands between "begin" and "commit", with the instructions of
percpu/array_aarch64.h and queue/section_aarch64.h as far as memory is concerned. "membarrier" is
an interrupt of the CPU that it is for: at some place of that CPU's program there is a full
barrier, and if the place is inside a section, the section fails. So herd7 looks at one litmus
test for each place where the interrupt may come. What the test says must not be is asked of those
executions in which the interrupt came there.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

# A call of membarrier, and what it comes to on the other CPU: barriers, and words that say when.
CALL = ["DMB SY", "MOV W18,#1", "STR W18,[ipi]", "LDR W19,[ack]", "DMB SY"]
INTERRUPT = ["LDR W19,[ipi]", "DMB SY", "MOV W18,#1", "STR W18,[ack]", "DMB SY"]


class Test:
    """threads: programs, a line each, in which [x] is the variable x, "begin", "commit LINE" and
    "membarrier" are as above, and "B.. FAIL" goes to the line "fail", or to the end. bad: what must
    not be. target: the thread that the interrupt comes to."""

    def __init__(self, threads, bad, init=None, target=None):
        self.threads = [[line.strip() for line in text.strip().splitlines()] for text in threads]
        self.bad, self.init, self.target = bad, init or {}, target
        for lines in self.threads:
            if "fail" not in lines:
                lines.append("fail")

    def change(self, old, new):
        """For mutants: @old, which stands in one line, becomes @new, or goes away."""
        found = [(t, i) for t, lines in enumerate(self.threads)
                 for i, line in enumerate(lines) if line == old]
        assert len(found) == 1, f"{old}: in {len(found)} lines"
        t, i = found[0]
        self.threads[t][i:i + 1] = [new] if new else []

    def swap(self, first, second):
        """For mutants: two lines that follow each other, and are the only ones of the kind."""
        for lines in self.threads:
            for i in range(len(lines) - 1):
                if lines[i:i + 2] == [first, second]:
                    lines[i:i + 2] = [second, first]
                    return
        assert False, f"{first}; {second}: not found"


def expand(lines, place):
    """The instructions, with the interrupt before line number @place; None: there is none."""
    out, inside, dead = [], False, False
    for number, line in enumerate(lines + [""]):
        if number == place:
            out += INTERRUPT
            dead = inside  # what is left of the section is not done
        if line == "begin":
            inside = True
            out.append("MOV W17,#0")
        elif line.startswith("commit "):
            out += [] if dead else [line[len("commit "):], "MOV W17,#1"]
            inside = dead = False
        elif line == "fail":
            out.append("FAIL:")
        elif line == "membarrier":
            out += CALL
        elif line and not dead:
            out.append(line)
    return out


def places(lines):
    """Before each line, and behind the last one; "begin" is no instruction."""
    return [i for i in range(len(lines) + 1) if not i or lines[i - 1] != "begin"]


def litmus(name, test, place):
    threads = [expand(lines, place if i == test.target else None)
               for i, lines in enumerate(test.threads)]
    names = sorted({v for lines in threads for line in lines
                    for v in re.findall(r"\[([a-z]+)", line)})
    address = {v: f"X{20 + i}" for i, v in enumerate(names)}
    assert len(names) <= 9
    init = [f"{v}={test.init.get(v, 0)};" for v in names]
    init += [f"{i}:{x}={v};" for i in range(len(threads)) for v, x in address.items()]
    columns = []
    for i, lines in enumerate(threads):
        lines = [re.sub(r"\[([a-z]+)", lambda m: "[" + address[m[1]], line) for line in lines]
        columns.append([f"P{i}"] + [line.replace("FAIL", f"FAIL{i}") for line in lines])
    rows = max(map(len, columns))
    width = [max(map(len, column)) for column in columns]
    table = "\n".join(
        " " + " | ".join((c[r] if r < len(c) else "").ljust(w) for c, w in zip(columns, width)) +
        " ;" for r in range(rows))
    came = [f"{i}:W19=1" for i, lines in enumerate(threads)
            if any(line.startswith("LDR W19,") for line in lines)]
    condition = f"exists ({test.bad})\n"
    if came:
        condition = "filter (" + " /\\ ".join(came) + ")\n" + condition
    return f"AArch64 {name}\n{{ {' '.join(init)} }}\n{table}\n" + condition.replace(":W", ":X")


# An array's header: the stop bit, 8, and the count below. "slot" is the one slot. A push and a pop
# by a section, and S1.
PUSH = """
    begin
    LDR W0,[header]
    TBNZ W0,#3,FAIL
    MOV W2,#1
    EOR W3,W0,W0
    STR W2,[slot,W3,SXTW]
    ADD W1,W0,#1
    commit STR W1,[header]
"""
POP = """
    begin
    LDR W0,[header]
    TBNZ W0,#3,FAIL
    CBZ W0,FAIL
    SUB W1,W0,#1
    EOR W3,W0,W0
    LDR W2,[slot,W3,SXTW]
    commit STR W1,[header]
"""
S1 = "MOV W1,#8\nLDSETAL W1,W2,[header]"


def stop_push():
    """S1 to S3, and the stopper puts something else (2) into the slot. It has the header's last
    value, and the slot has what it put there."""
    stopper = f"{S1}\nmembarrier\nLDR W3,[header]\nLDR W4,[slot]\nMOV W5,#2\nSTR W5,[slot]"
    bad = ("(0:W3=8 /\\ ~([header]=8 /\\ [slot]=2)) \\/"
           " (0:W3=9 /\\ ~([header]=9 /\\ [slot]=2 /\\ 0:W4=1))")
    return Test([stopper, PUSH], bad, target=1), {
        "no_membarrier": lambda t: t.change("membarrier", None),
        "membarrier_first": lambda t: (t.swap("LDSETAL W1,W2,[header]", "membarrier")),
        "push_ignores_stop": lambda t: t.change("TBNZ W0,#3,FAIL", None),
        "switch_restarts_nothing": lambda t: t.change("begin", "NOP"),
    }


def stop_pop():
    """The same with a pop: the stopper and the section do not take one object (1)."""
    stopper = f"{S1}\nmembarrier\nLDR W3,[header]\nLDR W4,[slot]\nMOV W5,#2\nSTR W5,[slot]"
    bad = ("(0:W3=9 /\\ ~([header]=9 /\\ 0:W4=1 /\\ ~(1:W17=1))) \\/"
           " (0:W3=8 /\\ ~([header]=8 /\\ 1:W17=1 /\\ 1:W2=1))")
    return Test([stopper, POP], bad, {"header": 1, "slot": 1}, target=1), {
        "no_membarrier": lambda t: t.change("membarrier", None),
        "membarrier_first": lambda t: (t.swap("LDSETAL W1,W2,[header]", "membarrier")),
        "pop_ignores_stop": lambda t: t.change("TBNZ W0,#3,FAIL", None),
    }


def start_pop():
    """The stopper puts an object (2) into the slot and starts the array: a pop finds it. There is
    no membarrier: the clearing's release and the pop's address are the order."""
    starter = ("MOV W5,#2\nSTR W5,[slot]\nMOV W6,#9\nSTR W6,[header]\nMOV W1,#8\n"
               "LDCLRL W1,W2,[header]")
    return Test([starter, POP], "1:W17=1 /\\ ~(1:W2=2)", {"header": 8}), {
        "plain_clear": lambda t: t.change("LDCLRL W1,W2,[header]", "LDCLR W1,W2,[header]"),
        "slot_first": lambda t: t.change("LDR W2,[slot,W3,SXTW]", "LDR W2,[slot]"),
    }


def start_push():
    """The stopper has copied an object (1) out of the slot and starts the array: a push does not
    come before the copy."""
    starter = ("LDR W4,[slot]\nMOV W6,#8\nSTR W6,[header]\nMOV W1,#8\nLDCLRL W1,W2,[header]")
    push = PUSH.replace("MOV W2,#1", "MOV W2,#3")
    return Test([starter, push], "~(0:W4=1)", {"header": 9, "slot": 1}), {
        "plain_clear": lambda t: t.change("LDCLRL W1,W2,[header]", "LDCLR W1,W2,[header]"),
        "push_ignores_stop": lambda t: t.change("TBNZ W0,#3,FAIL", None),
    }


def owner():
    """B1 and B2: an owner's push, which no interrupt ends. If the stopper finds that the owner is
    not busy, and the bit is there, the array is the stopper's, with all that was stored."""
    push = """
        MOV W5,#1
        STR W5,[busy]
        LDR W0,[header]
        TBNZ W0,#3,FAIL
        STR W5,[slot]
        ADD W1,W0,#1
        STR W1,[header]
        fail
        MOV W6,#0
        STLR W6,[busy]
    """
    stopper = f"""
        {S1}
        membarrier
        LDAR W7,[busy]
        LDR W3,[header]
        LDR W4,[slot]
        MOV W5,#2
        STR W5,[slot]
    """
    bad = ("0:W7=0 /\\ ((0:W3=8 /\\ ~([header]=8 /\\ [slot]=2)) \\/"
           " (0:W3=9 /\\ ~([header]=9 /\\ [slot]=2 /\\ 0:W4=1)))")
    return Test([stopper, push], bad, target=1), {
        "no_membarrier": lambda t: t.change("membarrier", None),
        "not_busy": lambda t: t.change("STR W5,[busy]", None),
        "busy_late": lambda t: t.swap("STR W5,[busy]", "LDR W0,[header]"),
        "end_is_no_release": lambda t: t.change("STLR W6,[busy]", "STR W6,[busy]"),
        "look_is_no_acquire": lambda t: t.change("LDAR W7,[busy]", "LDR W7,[busy]"),
    }


# The word of a queue's side, with the index above: 1: BIASED, 2: HELD, 3: HELD by the taker,
# 17: BIASED, one place further; 19: the taker's, one place further. "ring" is the place.
ENQUEUE = """
    begin
    LDR W5,[ending]
    CBZ W5,FAIL
    LDAR W0,[word]
    CMP W0,#1
    B.NE FAIL
    MOV W2,#1
    STR W2,[ring]
    MOV W1,#17
    commit STLR W1,[word]
"""


def revoke():
    """d and f: a thread revokes another CPU's bias, calls membarrier and takes the side over. Then
    that CPU's section neither commits nor writes to the place, which is the taker's."""
    taker = """
        MOV W0,#1
        MOV W1,#2
        CAS W0,W1,[word]
        CMP W0,#1
        B.NE FAIL
        membarrier
        MOV W3,#2
        MOV W4,#3
        CASA W3,W4,[word]
        CMP W3,#2
        B.NE FAIL
        MOV W5,#2
        STR W5,[ring]
        MOV W6,#19
        STLR W6,[word]
    """
    bad = "0:W0=1 /\\ 0:W3=2 /\\ ~([ring]=2 /\\ [word]=19)"
    return Test([taker, ENQUEUE], bad, {"word": 1, "ending": 1}, target=1), {
        "no_membarrier": lambda t: t.change("membarrier", None),
        "the_dead_commit": lambda t: t.change("begin", "NOP"),
    }


def over():
    """O1 to O3 and g: membarriers are refused. Thread 1 is a CPU: a section, and the note that
    sections are over, by the same thread, so that the note's release alone orders them; then
    another thread's section, behind the barrier that the system has between threads. Thread 0 sees
    the note, and takes the side for ever."""
    cpu = ENQUEUE.replace("FAIL", "NEXT") + """
        NEXT:
        LDR W7,[ending]
        CBNZ W7,FAIL
        MOV W8,#1
        STLR W8,[over]
        DMB SY
    """ + ENQUEUE.replace("W5", "W9").replace("W0", "W10").replace(
        "CMP W10,#1", "AND W11,W10,#15\nCMP W11,#1").replace("MOV W1,#17", "ADD W1,W10,#16")
    taker = """
        MOV W0,#0
        SWPAL W0,W1,[ending]
        LDAR W2,[over]
        CBZ W2,FAIL
        LDR W3,[word]
        MOV W4,#3
        CASAL W3,W4,[word]
        MOV W5,#2
        STR W5,[ring]
    """
    return Test([taker, cpu], "0:W2=1 /\\ ~([ring]=2 /\\ [word]=3)", {"word": 1, "ending": 1}), {
        "note_is_no_release": lambda t: t.change("STLR W8,[over]", "STR W8,[over]"),
        "notes_unasked": lambda t: t.change("CBNZ W7,FAIL", None),
        "section_looks_not": lambda t: t.change("CBZ W9,FAIL", None),
    }


def commit():
    """A commit, and the other side's look at the index: what was copied is there."""
    consumer = """
        LDAR W6,[word]
        CMP W6,#17
        B.NE FAIL
        LDR W1,[ring]
    """
    return Test([consumer, ENQUEUE], "0:W6=17 /\\ ~(0:W1=1)", {"word": 1, "ending": 1}), {
        "commit_is_no_release": lambda t: t.change("commit STLR W1,[word]",
                                                   "commit STR W1,[word]"),
        "look_is_no_acquire": lambda t: t.change("LDAR W6,[word]", "LDR W6,[word]"),
    }


def limit():
    """A section uses the limit that another CPU's section left (theirs: the consumers' word), and
    gets what a producer copied before the other one looked."""
    other = """
        LDAR W0,[word]
        CMP W0,#17
        B.NE FAIL
        MOV W1,#1
        STR W1,[limit]
        MOV W2,#5
        STLR W2,[theirs]
    """
    section = """
        begin
        LDAR W0,[theirs]
        CMP W0,#5
        B.NE FAIL
        LDR W3,[limit]
        CBZ W3,FAIL
        LDR W1,[ring]
        MOV W4,#6
        commit STLR W4,[theirs]
    """
    test = Test([section, ENQUEUE, other], "0:W17=1 /\\ ~(0:W1=1)", {"word": 1, "ending": 1})
    return test, {
        "word_is_no_acquire": lambda t: t.change("LDAR W0,[theirs]", "LDR W0,[theirs]"),
    }


def reuse():
    """The other way round: a consumer's section has copied out (W1) before it commits, so a
    producer that sees the index does not overwrite the place too early."""
    consumer = """
        begin
        LDR W1,[ring]
        MOV W4,#6
        commit STLR W4,[theirs]
    """
    producer = """
        begin
        LDAR W0,[theirs]
        CMP W0,#6
        B.NE FAIL
        MOV W2,#2
        STR W2,[ring]
        MOV W3,#17
        commit STLR W3,[word]
    """
    return Test([consumer, producer], "1:W17=1 /\\ ~(0:W1=1)", {"ring": 1}), {
        "commit_is_no_release": lambda t: t.change("commit STLR W4,[theirs]",
                                                   "commit STR W4,[theirs]"),
    }


def gate():
    """A slow path counts itself, by a section, and looks whether the gate is closed; a fork closes
    it, and counts those that have left before those that have entered (percpu/gate.h). If it finds
    as many, the thread saw the gate closed or has left."""
    slow = """
        begin
        LDR W0,[entered]
        ADD W0,W0,#1
        commit STR W0,[entered]
        LDR W1,[closed]
        CBNZ W1,FAIL
        MOV W2,#1
        STR W2,[left]
    """
    fork = """
        MOV W0,#1
        SWPAL W0,W1,[closed]
        membarrier
        LDR W3,[left]
        SWPAL W0,W5,[closed]
        LDR W6,[entered]
    """
    bad = "1:W17=1 /\\ 1:W1=0 /\\ 0:W3=0 /\\ 0:W6=0"
    return Test([fork, slow], bad, target=1), {
        "no_membarrier": lambda t: t.change("membarrier", None),
        "membarrier_first": lambda t: t.swap("SWPAL W0,W1,[closed]", "membarrier"),
        "looks_first": lambda t: (t.change("LDR W1,[closed]", None),
                                  t.threads[1].insert(0, "LDR W1,[closed]")),
    }


def gate_counts():
    """G3 and G4: the gate is closed, and another thread is inside: it is the 1 in "entered". A thread
    counts itself, turns back, and counts itself as outside. A fork that sees the second count
    sees the first one, else it would take the gate for empty. Its barrier is that of processors
    without LSE, behind which a load may come before a load in front of it."""
    turns_back = """
        begin
        LDR W0,[entered]
        ADD W0,W0,#1
        commit STR W0,[entered]
        LDR W1,[closed]
        CBZ W1,FAIL
        DMB ISH
        begin
        LDR W2,[left]
        ADD W2,W2,#1
        commit STR W2,[left]
    """
    fork = """
        LDAR W3,[left]
        LDAXR W4,[closed]
        STLXR W5,W4,[closed]
        LDR W6,[entered]
    """
    return Test([fork, turns_back], "0:W3=1 /\\ 0:W6=1", {"entered": 1, "closed": 1}), {
        "leaves_without_fence": lambda t: t.change("DMB ISH", None),
        "look_is_no_acquire": lambda t: t.change("LDAR W3,[left]", "LDR W3,[left]"),
    }


TESTS = [stop_push, stop_pop, start_pop, start_push, owner, revoke, over, commit, limit, reuse, gate,
         gate_counts]


def run_herd(command, text):
    """How many executions are as the condition says, and how many are not."""
    with tempfile.NamedTemporaryFile("w", suffix=".litmus") as file:
        file.write(text)
        file.flush()
        out = subprocess.run([command, "-optace", "true", file.name], capture_output=True, text=True, check=False)
    found = re.search(r"^Observation \S+ \w+ (\d+) (\d+)$", out.stdout, re.M)
    if out.returncode or not found or "Warning" in out.stderr:
        sys.exit(f"{text}\n{out.stdout}\n{out.stderr}\nFAIL: herd7")
    return int(found[1]), int(found[2])


def main():
    name, expected = sys.argv[1:]
    test, mutants = {t.__name__: t for t in TESTS}[name]()
    command = os.environ.get("HERD", "herd7")
    if not shutil.which(command):
        print("SKIP: herd7 is not installed (herdtools7)")
        return 77
    if expected != "holds":
        mutants[expected](test)
    has_call = any("membarrier" in lines for lines in test.threads)
    found = reached = 0
    every = places(test.threads[test.target]) if has_call else [None]
    for place in every:
        text = litmus(name, test, place)
        wrong, right = run_herd(command, text)
        reached += wrong + right > 0
        if wrong:
            found += 1
            print(text)
    print(f"{name} {expected}: {found} of {len(every)} places, {reached} reached")
    if expected != "holds":
        return 0 if found else "FAIL: this should have been found"
    if reached < len(every):
        return "FAIL: an interrupt cannot come"
    return "FAIL: an execution is wrong" if found else 0


if __name__ == "__main__":
    sys.exit(main())
