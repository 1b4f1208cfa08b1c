# SPDX-License-Identifier: MIT
"""ukmem: the kernel's memory allocators, in user space, under Python and other programs.

    python -m ukmem run script.py args       # run a script on ukmem's malloc
    python -m ukmem run --stats PROGRAM      # or any program; print its caches at exit

Within a process that runs on it:

    ukmem.gauges().allocated                 # bytes in use
    ukmem.stats()["caches"]                  # a row for each cache
    ukmem.trim()                             # give free memory back to the system
"""

import ctypes
import json
import os
import tempfile
import threading
from typing import IO, Any, Callable, Dict, List, NamedTuple

__all__ = ["Gauges", "NotRunning", "gauges", "library", "running", "stats", "tool", "trim"]

_STATS_JSON = 1


class NotRunning(RuntimeError):
    """This process does not run on ukmem's malloc."""


class Gauges(NamedTuple):
    """The six gauges, in bytes."""

    allocated: int
    """objects and large blocks in use by the program, by usable size"""
    active: int
    """pages that these lie in"""
    resident: int
    """physical memory behind the library's pages and metadata"""
    retained: int
    """pages taken from the system that are free now and were not given back"""
    mapped: int
    """memory taken from the system for pages: active + retained"""
    metadata: int
    """physical memory behind page entries and per-CPU areas"""


class _Gauges(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in Gauges._fields]


def _function(name: str, result: Any, *arguments: Any) -> Any:
    """A function of the drop-in in this process. ctypes lets other threads run during calls."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except AttributeError:
        raise NotRunning(
            "this process does not run on ukmem's malloc: start it with "
            "`python -m ukmem run script.py`, or with "
            f"LD_PRELOAD={library()}"
        ) from None
    function.restype = result
    function.argtypes = arguments
    return function


def running() -> bool:
    """Whether this process runs on ukmem's malloc."""
    return hasattr(ctypes.CDLL(None), "ukmem_malloc_gauges_read")


def gauges() -> Gauges:
    """What is allocated, and how much memory that takes. Raises NotRunning."""
    read = _function("ukmem_malloc_gauges_read", None, ctypes.POINTER(_Gauges))
    g = _Gauges()
    read(ctypes.byref(g))
    return Gauges(*(getattr(g, name) for name in Gauges._fields))


def stats() -> Dict[str, Any]:
    """All statistics: "percpu", "gauges", "caches", "pools" and other tables. Raises NotRunning."""
    stats_print = _function("ukmem_malloc_stats_print", ctypes.c_int, ctypes.c_int, ctypes.c_int)
    text = _written(lambda fd: stats_print(fd, _STATS_JSON))
    found: Dict[str, Any] = json.loads(text)
    return found


def _written(write: Callable[[int], int]) -> bytes:
    """What `write` writes to a file. A limit on the size of files (RLIMIT_FSIZE) may refuse that;
    a pipe has none, but needs a thread, and Python 3.12 and later start none in atexit handlers."""
    try:
        with _nameless_file() as file:
            _check(write(file.fileno()))
            file.seek(0)
            return file.read()
    except OSError:
        return _piped(write)


def _nameless_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):  # not in Python before 3.8, or built for an old libc
        return open(os.memfd_create("ukmem"), "w+b")
    return tempfile.TemporaryFile()


def _piped(write: Callable[[int], int]) -> bytes:
    """What `write` writes to a pipe. It holds less than the text may be, so another thread reads."""
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as file:
        parts: List[bytes] = []
        try:
            reader = threading.Thread(target=lambda: parts.append(file.read()), daemon=True)
            reader.start()
            error = write(write_end)
        finally:
            os.close(write_end)
        reader.join()
    _check(error)
    return parts[0]


def _check(error: int) -> None:
    """Raises the exception of a negative errno."""
    if error:
        raise OSError(-error, os.strerror(-error))


def trim() -> int:
    """Give free memory back to the system, but for what CPUs have at hand if that keeps little.

    Result: bytes given back. Raises NotRunning.

    Python keeps small objects in arenas of its own; what these hold is in use here.
    """
    result: int = _function("ukmem_malloc_trim", ctypes.c_size_t)()
    return result


def _file(name: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


def library() -> str:
    """The path of libukmem-malloc.so, for LD_PRELOAD."""
    return _file("lib/libukmem-malloc.so")


def tool() -> str:
    """The path of the command `ukmem`."""
    return _file("bin/ukmem")
