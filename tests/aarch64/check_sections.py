#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks every restartable critical section in a linked program.

usage: check_sections.py [--objdump OBJDUMP] [--kinds] [--skip FUNCTION]... PROGRAM

What it checks of each descriptor in __rseq_cs (struct rseq_cs, see rseq(2)):

  the descriptor   version and flags are 0; the section has code from its start to
                   its end; the abort handler is outside of it, is one jump, and
                   has the signature in front of it
  the entry        in front of the start, and nowhere else, the descriptor's own
                   address is stored to rseq_cs; no branch from elsewhere leads in
  the CPU          the first instructions load cpu_id of the same struct rseq and
                   leave the section where it is not below the limit, unsigned; or
                   they go by a table of units: they load cpu_id with its sign, or
                   leave where it is negative and load mm_cid, and add an address from
                   the table and the array's entry, of half that width
  the way out      a branch leads to somewhere in the section, to its end, to where
                   the abort handler goes, or elsewhere in the same function
  the commit       the last instruction stores; no call, return, trap or system
                   call before it

With --kinds the program is that of sections.c and operations.c: there must be a
section in each of its functions; the commit is to the address that was made, in
the section, from the index, and stores as many bytes as the name says; what the
section loads from there has as many; nothing else is stored but slots of arrays.
Only cmpxchg_double leaves for elsewhere, when it finds other words.

PROGRAM: aarch64 or x86-64, at fixed addresses (-no-pie or -static).
"""

import argparse
import bisect
import re
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

UPDATES = ["write", "add", "and", "or", "xor"]
VALUES = ["add_return", "xchg", "cmpxchg"]
OPERATIONS = [*UPDATES, "sub", "inc", "dec", *VALUES, "sub_return", "inc_return", "dec_return",
              "try_cmpxchg"]
# name: stores of 8 bytes that may precede the commit: none, one, or a loop of them.
ARRAYS = {"section_array_pop": 0, "section_array_push": 1,
          "section_array_pop_bulk": 1, "section_array_push_bulk": 1}
# These sections find their array by a table of units.
BY_TABLE = {"section_array_pop_by_cpu": 0, "section_array_push_by_cpu": 1,
            "section_array_pop_by_cid": 0, "section_array_push_by_cid": 1}
ARRAYS |= BY_TABLE
# Functions that are not inlined at -O0, and whose they are.
OUT_OF_LINE = {"pcpu_array_pop_bulk_rseq": "section_array_pop_bulk",
               "pcpu_array_push_bulk_rseq": "section_array_push_bulk"}


def expected_functions():
    """{name: bytes its commit stores}"""
    names = {f"section_{op}_{size}": size for op in UPDATES + VALUES for size in (1, 2, 4, 8)}
    names |= {f"operation_{op}_{sign}{bits}": bits // 8
              for op in OPERATIONS for sign in "us" for bits in (8, 16, 32, 64)}
    names |= dict.fromkeys(ARRAYS, 8)
    return names | {"section_cmpxchg_double_16": 16, "operation_cmpxchg_double_u32": 8,
                    "operation_cmpxchg_double_u64": 16}


class Wrong(Exception):
    pass


class Instruction(NamedTuple):
    text: str
    following: int
    comment: str # objdump's: x86-64, the address that an operand relative to rip means

    @property
    def mnemonic(self):
        return self.text.split()[0]

    @property
    def operands(self):
        return self.text.partition(" ")[2].strip()


class Aarch64:
    name = "aarch64"
    HALF = {} # commits whose words may be loaded one by one
    signature = 0xd428bc00
    JUMP = re.compile(r"(b|b\.\w+|cbn?z|tbn?z)\s+(?:.*,\s*)?([0-9a-f]+) ?(?:<.*>)?$")
    WIDTHS = [(re.compile(pattern), size) for pattern, size in (
        (r"strb\s+w", 1), (r"strh\s+w", 2), (r"str\s+w", 4), (r"st(l?)r\s+x", 8),
        (r"stxp\s+w\d+, x\d+, x\d+,", 16))]
    STORE = re.compile(r"st|cas|swp|ld(add|clr|eor|set|[su]max|[su]min)")
    COPY_STORES = 1  # of the bulk operations
    FORBIDDEN = re.compile(r"(bl|blr|br|ret|svc|hvc|smc|brk|hlt|eret|udf|\.inst|bra\w*|blra\w*)$")

    def target(self, step):
        jump = self.JUMP.match(step.text)
        return int(jump.group(2), 16) if jump else None

    def is_plain_jump(self, step):
        return step.mnemonic == "b"

    def entry(self, before):
        """From the instructions in front of a section, nearest first: what is stored to
        [x, #8] and which x."""
        store = re.match(r"str\s+(x\d+), \[(x\d+), #8\]$", before[0].text)
        if not store:
            raise Wrong(f"in front of the start: '{before[0].text}', no store to [x, #8]")
        value, rseq = store.groups()
        low = 0
        for step in before[1:]:
            found = re.match(rf"add\s+{value}, {value}, #(0x[0-9a-f]+)$", step.text)
            if found:
                low = int(found.group(1), 16)
                continue
            found = re.match(rf"adrp?\s+{value}, ([0-9a-f]+)\b", step.text)
            if found:
                return int(found.group(1), 16) + low, rseq
            if step.mnemonic != "nop":
                break
        raise Wrong("what is stored to rseq_cs is not made by adrp and add")

    def checks_cpu(self, steps, rseq):
        """The branch that leaves for a bad CPU id, or None."""
        load = re.match(rf"ldr\s+(w\d+), \[{rseq}, #4\]$", steps[0].text)
        if not load: # a certain CPU, as the queue's locked sections have it
            wanted = re.match(r"ldr\s+(w\d+), \[x\d+, #\d+\]$", steps[0].text)
            here = re.match(rf"ldr\s+(w\d+), \[{rseq}, #4\]$", steps[1].text)
            same = wanted and here and re.match(
                rf"cmp\s+{wanted.group(1)}, {here.group(1)}$", steps[2].text)
            return steps[3] if same and steps[3].mnemonic == "b.ne" else None
        limit = re.match(r"ldr\s+(w\d+), \[x\d+\]$", steps[1].text) # as queues have it
        compare, leave = steps[2:4] if limit else steps[1:3]
        with_what = limit.group(1) if limit else r"w\d+"
        if not re.match(rf"cmp\s+{load.group(1)}, {with_what}$", compare.text):
            return None
        return leave if leave.mnemonic in ("b.cs", "b.hs") else None

    def copy(self, steps):
        """The operand that means what was found by index, from instructions behind the
        check of the CPU."""
        load = re.match(r"ldr\s+w(\d+), \[x\d+\]$", steps[0].text)
        made = load and re.match(rf"madd\s+x{load.group(1)}, x{load.group(1)}, x\d+, x\d+$",
                                 steps[1].text)
        return f"[x{load.group(1)}]" if made else None

    def by_table(self, steps, rseq):
        """Of a section that goes by a table of units: its branch for a bad CPU id, or None, the
        instructions to the array's address, and the operand that means it. None: it does not."""
        leave = None
        load = re.match(rf"ldrsw\s+x(\d+), \[{rseq}, #4\]$", steps[0].text)
        at = 1
        if not load:
            sign = re.match(rf"ldr\s+w(\d+), \[{rseq}, #4\]$", steps[0].text)
            load = re.match(rf"ldr\s+w(\d+), \[{rseq}, #24\]$", steps[2].text)
            if not sign or not load or not re.match(rf"tbnz\s+w{sign.group(1)}, #31,",
                                                    steps[1].text):
                return None
            leave, at = steps[1], 3
        x = f"x{load.group(1)}"
        if not re.match(rf"ldr\s+{x}, \[x\d+, {x}, lsl #3\]$", steps[at].text):
            return None
        entry = re.match(r"ldr\s+w(\d+), \[", steps[at + 1].text)
        added = entry and re.match(rf"add\s+{x}, {x}, x{entry.group(1)}$", steps[at + 2].text)
        return (leave, at + 3, f"[{x}]") if added else None

    def refers_to(self, step, copy):
        return step.text.endswith(copy)

    def loaded(self, step):
        """The bytes that a load loads."""
        load = re.match(r"ldr(b|h)?\s+([wx])|ldxp\s+x", step.text)
        if not load or not load.group(2):
            return 16 if load else None
        return {"b": 1, "h": 2}.get(load.group(1), 4 if load.group(2) == "w" else 8)

    def stores(self, step):
        return bool(self.STORE.match(step.mnemonic))

    def width(self, step):
        return next((size for found, size in self.WIDTHS if found.match(step.text)), None)


class X86:
    name = "x86-64"
    HALF = {16: 8}
    signature = 0x53053053
    JUMP = re.compile(r"(?:bnd |notrack )?(j\w+|loop\w*)\s+([0-9a-f]+) ?(?:<.*>)?$")
    FORBIDDEN = re.compile(r"(call\w*|ret\w*|syscall|sysenter|int3?|ud[012]\w*|hlt|lock|"
                           r"cpuid|\(bad\)|xchg)$")
    MEMORY = re.compile(r"%\ws:|\(")
    COPY_STORES = 3  # of the bulk operations: four pointers at a time, and one
    SUFFIXES = {"b": 1, "w": 2, "l": 4, "q": 8}
    # In order: the rest are of eight bytes or no general registers.
    REGISTERS = [(re.compile(pattern), size) for pattern, size in (
        (r"%([abcd][lh]|[sd]il|[sb]pl|r\d+b)$", 1), (r"%([abcd]x|[sd]i|[sb]p|r\d+w)$", 2),
        (r"%(e\w\w|r\d+d)$", 4), (r"%r\w+$", 8))]

    def target(self, step):
        jump = self.JUMP.match(step.text)
        return int(jump.group(2), 16) if jump else None

    def is_plain_jump(self, step):
        return step.mnemonic == "jmp"

    def entry(self, before):
        store = re.match(r"mov\s+(%\w+),%fs:0x8\((%\w+)\)$", before[0].text)
        if not store:
            raise Wrong(f"in front of the start: '{before[0].text}', no store to %fs:8(...)")
        value, rseq = store.groups()
        if not re.match(rf"lea\s+\S+\(%rip\),{value}$", before[1].text):
            raise Wrong("what is stored to rseq_cs is not made by a lea")
        return int(before[1].comment.split()[0], 16), rseq

    def checks_cpu(self, steps, rseq):
        load = re.match(rf"mov\s+%fs:0x4\({rseq}\),(%e\w+|%r\d+d)$", steps[0].text)
        if not load: # a certain CPU, as the queue's locked sections have it
            wanted = re.match(r"mov\s+0x\w+\(%\w+\),(%e\w+|%r\d+d)$", steps[0].text)
            same = wanted and re.match(rf"cmp\s+%fs:0x4\({rseq}\),{wanted.group(1)}$",
                                       steps[1].text)
            return steps[2] if same and steps[2].mnemonic == "jne" else None
        if not re.match(rf"cmp\s+\S+,{load.group(1)}$", steps[1].text):
            return None
        return steps[2] if steps[2].mnemonic == "jae" else None

    def copy(self, steps):
        load = re.match(r"mov\s+%fs:\(%\w+\),(%\w+)$", steps[0].text)
        made = re.match(r"imul\s+\S+,(%r\w+)$", steps[1].text)
        if not load or not made or load.group(1) != self.low_half(made.group(1)):
            return None
        return made.group(1)

    def by_table(self, steps, rseq):
        leave = None
        load = re.match(rf"movslq\s+%fs:0x4\({rseq}\),(%r\w+)$", steps[0].text)
        x, at = load and load.group(1), 1
        if not load:
            if not re.match(rf"cmpl\s+\$0x0,%fs:0x4\({rseq}\)$", steps[0].text):
                return None
            load = re.match(rf"mov\s+%fs:0x18\({rseq}\),%(e\w\w|r\d+d)$", steps[2].text)
            if steps[1].mnemonic != "js" or not load:
                return None
            x = self.whole(load.group(1))
            leave, at = steps[1], 3
        entry = re.match(r"mov\s+\S*\(.*\),%(e\w\w|r\d+d)$", steps[at].text)
        if not entry:
            return None
        array = self.whole(entry.group(1))
        added = re.match(rf"add\s+(0x0)?\(%\w+,{x},8\),{array}$", steps[at + 1].text)
        return (leave, at + 2, array) if added else None

    @staticmethod
    def whole(low):
        return "%" + (low[:-1] if low[1].isdigit() else "r" + low[1:])

    @staticmethod
    def low_half(register):
        return register + "d" if register[2].isdigit() else "%e" + register[2:]

    def refers_to(self, step, copy):
        """(copy) in an array, which for %r13 needs a displacement; else (handle,copy)"""
        return bool(re.search(rf"[ ,](0x0)?\((%\w+,{copy},1|{copy})\)", " " + step.operands))

    def loaded(self, step):
        source = re.split(r",(?![^(]*\))", step.operands)[0]
        return self.register_size(self.last_operand(step)) or self.register_size(source)

    def register_size(self, operand):
        return next((size for found, size in self.REGISTERS if found.match(operand)), None)

    def last_operand(self, step):
        operands = re.split(r",(?![^(]*\))", step.operands)
        return operands[-1]

    def stores(self, step):
        return (bool(self.MEMORY.search(self.last_operand(step))) and
                not re.match(r"(cmp[bwlq]?|test[bwlq]?|lea\w?|nop\w?|j\w+|i?mul[bwlq]?)$",
                             step.mnemonic))

    def width(self, step):
        if not self.stores(step):
            return None
        if step.mnemonic in ("cmpxchg16b", "movaps", "movapd", "movdqa", "vmovaps", "vmovdqa"):
            return 16
        source = re.split(r",(?![^(]*\))", step.operands)[0]
        return self.register_size(source) or self.SUFFIXES.get(step.mnemonic[-1])


class Descriptor(NamedTuple):
    at: int
    version: int
    flags: int
    start: int
    length: int
    abort: int

    @property
    def end(self):
        return self.start + self.length


class Program:
    """A linked ELF file: its bytes by address, functions and code."""

    def __init__(self, path, objdump):
        self.data = Path(path).read_bytes()
        if self.data[:6] != b"\x7fELF\x02\x01":
            sys.exit(f"{path} is no little-endian 64-bit ELF file")
        kind, machine = struct.unpack_from("<HH", self.data, 16)
        if machine not in (183, 62) or kind != 2:
            sys.exit(f"{path} is no program for aarch64 or x86-64 at fixed addresses")
        self.machine = Aarch64() if machine == 183 else X86()
        offset, = struct.unpack_from("<Q", self.data, 40)
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", self.data, offset + size * i)
                   for i in range(count)]
        # Of each section: its name, type, address, place in the file, length, linked section.
        self.sections = [(self.string(headers[names][4] + h[0]), h[1], h[3], h[4], h[5], h[6])
                         for h in headers]
        self.functions = self.read_functions()
        self.code = self.disassemble(path, objdump)

    def string(self, at):
        return self.data[at:self.data.index(b"\0", at)].decode()

    def word(self, address):
        """The 32 bits at an address, or None where the file has none."""
        for _, kind, start, place, length, _ in self.sections:
            if start and kind == 1 and start <= address <= start + length - 4:
                return struct.unpack_from("<I", self.data, place + address - start)[0]
        return None

    def descriptors(self):
        found = []
        for name, _, start, place, length, _ in self.sections:
            if name != "__rseq_cs":
                continue
            if start % 32 or length % 32:
                sys.exit("__rseq_cs is not made of 32-byte descriptors")
            found += [Descriptor(start + i, *struct.unpack_from("<IIQQQ", self.data, place + i))
                      for i in range(0, length, 32)]
        return found

    def read_functions(self):
        """Sorted [(address, name)]"""
        found = []
        for _, kind, _, place, length, link in self.sections:
            if kind != 2: # SHT_SYMTAB
                continue
            strings = self.sections[link][3]
            for at in range(place, place + length, 24):
                name, info, _, _, address, _ = struct.unpack_from("<IBBHQQ", self.data, at)
                if info & 15 == 2: # STT_FUNC
                    found.append((address, self.string(strings + name)))
        return sorted(found)

    def function(self, address):
        i = bisect.bisect_right(self.functions, (address, "\x7f"))
        return self.functions[i - 1][1] if i else "?"

    @staticmethod
    def disassemble(path, objdump):
        result = subprocess.run([objdump, "-d", "--no-show-raw-insn", str(path)],
                                capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit(result.stderr.strip())
        code = {}
        for section in result.stdout.split("\nDisassembly of section"):
            lines = re.findall(r"^\s*([0-9a-f]+):\t(\S.*?)\s*$", section, re.M)
            addresses = [int(address, 16) for address, _ in lines]
            for (_, text), here, after in zip(lines, addresses, [*addresses[1:], -1]):
                text, _, comment = re.sub(r"\s*(//|#(?= ))\s*", "\0", text, 1).partition("\0")
                code[here] = Instruction(text.replace("\t", " "), after, comment)
        return code


class Checker:
    def __init__(self, program):
        self.program = program
        self.machine = program.machine
        self.came_from = {}
        self.before = {}
        for address, step in program.code.items():
            self.before[step.following] = address
            target = self.machine.target(step)
            if target is not None:
                self.came_from.setdefault(target, []).append(address)
        self.targets = sorted(self.came_from)

    def steps(self, d):
        """[(address, Instruction)] of a section; its end is where one ends."""
        found, here = [], d.start
        while here < d.end:
            if here not in self.program.code:
                raise Wrong(f"no code at {here:x}")
            found.append((here, self.program.code[here]))
            here = found[-1][1].following
        if here != d.end or not found:
            raise Wrong("the end is not where an instruction ends")
        return found

    def check_descriptor(self, d):
        if d.version or d.flags:
            raise Wrong(f"version {d.version}, flags {d.flags}")
        if d.start <= d.abort < d.end:
            raise Wrong("the abort handler is inside the section")
        signature = self.program.word(d.abort - 4)
        if signature != self.machine.signature:
            raise Wrong(f"in front of the abort handler is {signature or 0:#x}, not "
                        f"{self.machine.signature:#x}")

    def check_entry(self, d):
        """The register that points at struct rseq."""
        before, here = [], d.start
        while len(before) < 4 and here in self.before:
            here = self.before[here]
            before.append(self.program.code[here])
        if len(before) < 4:
            raise Wrong("no code in front of the start")
        stored, rseq = self.machine.entry(before)
        if stored != d.at:
            raise Wrong(f"what is stored to rseq_cs is {stored:#x}, not the descriptor")
        # From behind the store, or from outside of the section into it.
        i = bisect.bisect_left(self.targets, d.start)
        while i < len(self.targets) and self.targets[i] < d.end:
            for source in self.came_from[self.targets[i]]:
                if not d.start <= source < d.end:
                    raise Wrong(f"a branch from {source:x} leads into it")
            i += 1
        return rseq

    def check_ways(self, d, steps, rseq, function):
        """What leaves the section goes where the abort handler goes."""
        handler = self.program.code.get(d.abort)
        if not handler or not self.machine.is_plain_jump(handler):
            raise Wrong("the abort handler is not a jump")
        fail = self.machine.target(handler)
        if fail is None or d.start <= fail < d.end:
            raise Wrong("the abort handler does not leave the section")
        first = [step for _, step in steps[:6]]
        table = len(first) == 6 and self.machine.by_table(first, rseq)
        leave = table[0] if table else self.machine.checks_cpu(first[:4], rseq)
        if not table and not leave:
            raise Wrong("it neither begins with a check of cpu_id against the limit, nor goes by "
                        "a table")
        if leave and self.machine.target(leave) != fail:
            raise Wrong("for a bad CPU id it leaves for elsewhere")
        for address, step in steps:
            target = self.machine.target(step)
            if target is not None and target not in (d.end, fail) and not (
                    d.start <= target < d.end):
                leaves = function is None or "cmpxchg_double" in function
                if not leaves or self.program.function(target) != self.program.function(address):
                    raise Wrong(f"'{step.text}' at {address:x} leads elsewhere")
            if self.machine.FORBIDDEN.match(step.mnemonic):
                raise Wrong(f"'{step.text}' at {address:x}")

    def check_commit(self, steps, function, rseq):
        last = steps[-1][1]
        width = self.machine.width(last)
        if width is None:
            raise Wrong(f"the last instruction is '{last.text}', no store")
        if function is None:
            return width
        others = [step for _, step in steps[:-1]]
        stores = [step for step in others if self.machine.stores(step)]
        allowed = ARRAYS.get(function, 0)
        if function in OUT_OF_LINE.values():
            allowed = self.machine.COPY_STORES
        if len(stores) != allowed:
            raise Wrong(f"{len(stores)} stores besides the commit, not {allowed}")
        table = self.machine.by_table(others[:6], rseq)
        copy = table[2] if table else self.machine.copy(others[3:])
        others = others[table[1]:] if table else others
        if bool(table) != (function in BY_TABLE):
            raise Wrong("it goes by a table" if table else "it does not go by a table")
        if not copy:
            raise Wrong("the index is not loaded and made an address behind the check")
        if not self.machine.refers_to(last, copy):
            raise Wrong(f"the commit is not to {copy}: '{last.text}'")
        for step in others:
            if self.machine.refers_to(step, copy) and self.machine.loaded(step) not in (
                    width, self.machine.HALF.get(width)):
                raise Wrong(f"the commit stores {width} bytes, '{step.text}' loads others")
        return width

    def check(self, d, function=None):
        """The bytes that the commit stores."""
        self.check_descriptor(d)
        steps = self.steps(d)
        rseq = self.check_entry(d)
        self.check_ways(d, steps, rseq, function)
        return self.check_commit(steps, function, rseq)


def check_kinds(widths, optimised):
    """[what is wrong] with which function has which sections."""
    expected = expected_functions()
    wrong = [f"{name}: no section" for name in expected if not widths.get(name)]
    for name, found in widths.items():
        size = expected.get(name)
        if size is None:
            wrong.append(f"{name}: a section in a function that has none")
        elif size not in found:
            wrong.append(f"{name}: the commit stores {sorted(found)} bytes, not {size}")
        # At -O0 an operation holds the sections of all sizes.
        elif len(found) > 1 and (optimised or name.startswith("section_")):
            wrong.append(f"{name}: sections of several sizes: {sorted(found)}")
    return wrong


def check_program(path, objdump="objdump", kinds=False, optimised=True, skip=()):
    """[what is wrong], and a line about what there was."""
    program = Program(path, objdump)
    checker = Checker(program)
    wrong, widths, committed, skipped = [], {}, Counter(), 0
    descriptors = program.descriptors()
    for d in descriptors:
        function = program.function(d.start).partition(".")[0]
        function = OUT_OF_LINE.get(function, function) if kinds else function
        try:
            if function in skip:
                checker.check_descriptor(d)
                skipped += 1
                continue
            width = checker.check(d, function if kinds else None)
            widths.setdefault(function, Counter())[width] += 1
            committed[width] += 1
        except Wrong as error:
            wrong.append(f"{function}, descriptor {d.at:x}, section {d.start:x}-{d.end:x}: {error}")
            widths.setdefault(function, Counter())
    if not descriptors:
        wrong.append("no descriptors")
    if kinds and not wrong:
        wrong = check_kinds(widths, optimised)
    sizes = ", ".join(f"{committed[size]} of {size}" for size in sorted(committed))
    summary = f"{program.machine.name}: {len(descriptors)} sections in {len(widths)} functions; " \
              f"commits by bytes: {sizes}"
    return wrong, summary + (f"; {skipped} not looked into" if skipped else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--skip", action="append", default=[])
    parser.add_argument("program")
    arguments = parser.parse_args()
    wrong, summary = check_program(arguments.program, arguments.objdump, kinds=arguments.kinds,
                                   optimised=False, skip=arguments.skip)
    for line in wrong:
        print(f"FAILED {line}")
    print(summary)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
