# SPDX-License-Identifier: MIT
"""Child processes of bench/run: one of them, and rounds of many."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

CHILD_TIMEOUT = 600
# These signals end a run, and are held off while it cleans up.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# {library: variables that its children get}, filled in by who knows the libraries.
ENVIRONMENT = {}
# The number of the first round: it chooses who begins. Runs whose rounds are put together have different ones.
TURN = [1]


class ChildFailed(Exception):
    pass


def say(*words):
    print(*words, file=sys.stderr, flush=True)


class Start:
    """A signal that comes while a child starts waits: nobody knows the child yet who could end it."""
    running = False
    pending = None


def stop(number, _):
    """Ends the run as an error does, so that its children and files go with it."""
    if Start.running:
        Start.pending = number
        return
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


def stop_by_signals():
    for number in SIGNALS:
        signal.signal(number, stop)


@contextlib.contextmanager
def child_process(command, end, **options):
    """A process; whatever ends the block before it has ended, end(process) is called, and it is waited for."""
    Start.running = True
    try:
        with subprocess.Popen(command, **options) as process:
            try:
                Start.running = False
                if Start.pending:
                    stop(Start.pending, None)
                yield process
            except BaseException:
                end(process)
                raise
    finally:
        Start.running = False


def environment(library, extra=None):
    """The variables of a child under an allocator, with extra ones."""
    variables = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    variables.update(extra or {})
    variables.update(ENVIRONMENT.get(library, {}))
    if library:
        variables["LD_PRELOAD"] = str(library.resolve())
    return variables


def run_child(command, library, extra=None, timeout=CHILD_TIMEOUT):
    """Runs a command under an allocator, with extra variables; its standard output."""
    try:
        with child_process(command, subprocess.Popen.kill, env=environment(library, extra),
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            text, errors = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as expired:
        raise ChildFailed(f"no result after {timeout} s") from expired
    except OSError as error:
        raise ChildFailed(f"{command[0]} does not start: {error.strerror}") from error
    if child.returncode != 0:
        last = errors.strip().splitlines()[-1:]
        raise ChildFailed(f"exit status {child.returncode} {' '.join(last)}")
    return text


def check_origin(origin, library):
    """Fails unless the child's malloc came from the library it was to run on."""
    expected = library.resolve().name if library else "libc.so.6"
    if library and os.path.exists(origin):
        right = os.path.samefile(origin, library)
    else:
        right = Path(origin).name == expected
    if not right:
        raise ChildFailed(f"its malloc came from {origin}, not from {expected}")


def interleave(variants, rounds, measure, failures, cells=((),), during=None):
    """measure(name, value, *cell): in every round, for every cell, all variants in a row,
    in an order that rotates from round to round; each inside of during(name). TURN says by how
    much the order of the first round is rotated.
    """
    during = during or (lambda name: contextlib.nullcontext())
    names = list(variants)
    for number in range(rounds):
        shift = (TURN[0] - 1 + number) % len(names)
        for cell, name in itertools.product(cells, names[shift:] + names[:shift]):
            say(f"round {number + 1}/{rounds}: {' '.join(map(str, (name, *cell)))}")
            with during(name):
                failed = measure(name, variants[name], *cell)
            for label, error in failed:
                say(f"FAILED {name}, {label}: {error}")
                failures.append(f"{name}, {label}, round {number + 1}: {error}")


def benchmarks(command, library, extra):
    """What a program with Google Benchmark says: its context and its results, or None and nothing
    where no benchmark was chosen.
    """
    text = run_child(command, library, extra)
    if not text.strip():
        return None, []
    result = json.loads(text)
    for cell in result["benchmarks"]:
        if cell.get("error_occurred"):
            raise ChildFailed(f"{cell['name']}: {cell['error_message']}")
    return result["context"], result["benchmarks"]
