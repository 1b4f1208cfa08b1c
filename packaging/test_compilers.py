#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the library with other compilers and options than the presets', and uses it.

usage: test_compilers.py [VARIANT...]    all variants, or these
       test_compilers.py --list          what there is

Each variant is a build of its own, with warnings as errors: libukmem.so, libukmem.a and the drop-in.
The variant then compiles every public header in each language standard that its compiler knows,
builds examples/hello.c against the shared and the static library, runs it, and runs sort and a
shell on the drop-in. A variant whose compiler is not installed is skipped aloud. Exits 77 when
nothing but skipped variants was asked for.
"""

import argparse
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = 77
REFUSAL = "ukmem: this is a 32-bit build (-m32?); ukmem needs 64-bit pointers"
HARDENED = ("-D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection -fcf-protection "
            "-ftrivial-auto-var-init=zero -Wformat -Werror=format-security")
C_STANDARDS = ["c11", "gnu17", "c23", "c2x"]
CXX_STANDARDS = ["c++17", "c++20", "c++23", "c++2b"]
HEADER_WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def run(*command, env=None, fails=False):
    """All that the command printed. Failure if it fails, or with @fails if it does not."""
    command = [str(word) for word in command]
    done = subprocess.run(command, env={**os.environ, **(env or {})}, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if (done.returncode != 0) != fails:
        raise Failure(f"{shlex.join(command)}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def need(tool):
    if not shutil.which(tool):
        raise Skip(f"{tool} is not installed")


def expect(condition, message):
    if not condition:
        raise Failure(message)


class Build:
    """One build of the library in a folder of its own."""

    def __init__(self, folder, cc, cxx="", cflags="", ldflags="", options=()):
        self.folder = folder
        self.cc = shlex.split(cc)
        self.cxx = shlex.split(cxx) or [re.sub("clang", "clang++", re.sub("gcc", "g++", self.cc[0]))]
        self.cflags = cflags
        self.ldflags = ldflags
        need(self.cc[0])
        if not shutil.which(self.cxx[0]):
            self.cxx = None
        settings = {
            "CMAKE_C_COMPILER": self.cc[0],
            "CMAKE_CXX_COMPILER": (self.cxx or ["c++"])[0],
            "CMAKE_C_FLAGS": " ".join([*self.cc[1:], cflags]),
            "CMAKE_SHARED_LINKER_FLAGS": ldflags,
            "CMAKE_BUILD_TYPE": "None",
            "UKMEM_WERROR": "ON",
            "UKMEM_BUILD_TOOLS": "OFF",
            "UKMEM_BUILD_TESTS": "OFF",
            "UKMEM_BUILD_BENCH": "OFF",
        }
        settings.update(option.split("=", 1) for option in options)
        run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja",
            *(f"-D{name}={value}" for name, value in settings.items()))
        run("cmake", "--build", folder, "--target", "ukmem", "ukmem_static", "ukmem_malloc", "--", "--quiet")
        self.shared = folder / "src"
        self.static = folder / "src/libukmem.a"
        self.drop_in = folder / "src/malloc/libukmem-malloc.so"

    def program(self, name, *options, source=ROOT / "examples/hello.c", libraries=None):
        """Build @source against this library."""
        program = self.folder / name
        flags = shlex.split(self.cflags)
        if libraries is None:
            libraries = [self.static, "-pthread"]
        run(*self.cc, "-std=gnu11", *flags, *shlex.split(self.ldflags), *options, f"-I{ROOT / 'include'}",
            source, "-o", program, *libraries)
        return program

    def check_headers(self):
        """Every header in every standard the compilers know, and without a warning."""
        headers = sorted((ROOT / "include/ukmem").glob("*.h"))
        expect(len(headers) > 10, "there are no headers")
        for compiler, language, standards in ((self.cc, "c", C_STANDARDS), (self.cxx, "c++", CXX_STANDARDS)):
            if not compiler:
                print(f"   no {language} compiler: its headers are left out")
                continue
            source = self.folder / f"headers.{language}"
            source.write_text("".join(f"#include <ukmem/{header.name}>\n" for header in headers))
            known = 0
            for standard in standards:
                command = [*compiler, f"-std={standard}", "-fsyntax-only", "-x", language]
                if subprocess.run([*command, os.devnull], capture_output=True, check=False).returncode:
                    continue
                known += 1
                run(*command, *shlex.split(self.cflags), *HEADER_WARNINGS, f"-I{ROOT / 'include'}", source)
            expect(known >= 2, f"{compiler[0]} knows {known} of {standards}")

    def check_hello(self, static=True):
        wanted = "(3, 0) from 112 usable bytes\n"
        programs = [self.program("hello_archive"),
                    self.program("hello_shared", libraries=[f"-L{self.shared}", "-lukmem",
                                                            f"-Wl,-rpath,{self.shared}"])]
        if static:
            programs += [self.program("hello_static", "-static")]
        for program in programs:
            output = run(program)
            expect(output == wanted, f"{program} printed {output!r}")

    def check_drop_in(self):
        env = {"LD_PRELOAD": str(self.drop_in)}
        names = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", self.drop_in).splitlines()}
        missing = {"malloc", "free", "vfork", "dlopen", "prctl", "_Znwm"} - names
        expect(not missing, f"the drop-in does not export {sorted(missing)}")
        # The note by which `ukmem` finds the library in a process: link-time optimisation may drop it.
        expect(re.search(r"ukmem\s+0x", run("readelf", "-nW", self.drop_in)), "the drop-in has no note")
        maps = run("cat", "/proc/self/maps", env=env)
        expect(str(self.drop_in) in maps, "the drop-in is not in the process")
        numbers = self.folder / "numbers"
        numbers.write_text("".join(f"{i * 7919 % 100003}\n" for i in range(60000)))
        output = run("sort", "-n", "--parallel=2", numbers, env=env).split()
        expect(output == sorted(output, key=int) and len(output) == 60000, "sort's output is out of order")
        count = run("sh", "-c", 'for i in 1 2 3 4 5 6 7 8; do echo "$(echo $i)" & done; wait', env=env)
        expect(sorted(count.split()) == list("12345678"), f"sh printed {count!r}")

    def check(self, static=True):
        self.check_headers()
        self.check_hello(static)
        self.check_drop_in()


def compiler(cc, cflags="-O2"):
    """A variant: the library by this compiler."""

    def variant(folder):
        Build(folder, cc, cflags=cflags).check()

    return variant


def c23(cc):
    """A variant: the library itself as C23, in which bool is a keyword and () means (void)."""

    def variant(folder):
        Build(folder, cc, cflags="-O2", options=["CMAKE_C_STANDARD=23", "CMAKE_EXPORT_COMPILE_COMMANDS=ON"]).check()
        standards = set(re.findall(r"-std=([^\s\"+]+)[\s\"]", (folder / "compile_commands.json").read_text()))
        # Of a compiler whose own language is C23, CMake does not ask for it.
        expect(standards <= {"gnu23", "gnu2x"}, f"it was compiled as {standards}")

    return variant


def no_cxx(folder):
    """The library alone needs no compiler for C++, and is optimised unless told otherwise. No build."""
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, "-DUKMEM_BUILD_TOOLS=OFF", "-DUKMEM_BUILD_TESTS=OFF",
        "-DUKMEM_BUILD_BENCH=OFF", "-DUKMEM_WERROR=ON", env={"CXX": "/nonexistent", "CFLAGS": ""})
    cache = (folder / "CMakeCache.txt").read_text()
    expect("CMAKE_CXX_COMPILER" not in cache, "it looked for a compiler for C++")
    expect("CMAKE_BUILD_TYPE:STRING=RelWithDebInfo" in cache, "it is not optimised")


def lto(folder):
    Build(folder, "gcc", cflags="-O2 -flto=2", ldflags="-flto=2 -O2",
          options=["CMAKE_AR=" + (shutil.which("gcc-ar") or "ar"),
                   "CMAKE_RANLIB=" + (shutil.which("gcc-ranlib") or "ranlib")]).check(static=False)


def lto_clang(folder):
    need("ld.lld-14")
    Build(folder, "clang-14", cflags="-O2 -flto=thin", ldflags="-fuse-ld=lld-14",
          options=["CMAKE_AR=" + (shutil.which("llvm-ar-14") or "ar"),
                   "CMAKE_RANLIB=" + (shutil.which("llvm-ranlib-14") or "ranlib")]).check()


def hardened(folder):
    build = Build(folder, "gcc", cflags=f"-O2 {HARDENED}",
                  ldflags="-Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack")
    build.check()
    for library in build.shared / "libukmem.so", build.drop_in:
        dynamic = run("readelf", "-dlW", library)
        expect("BIND_NOW" in dynamic and "GNU_RELRO" in dynamic, f"{library}: no RELRO, or no BIND_NOW")
        expect(not re.search(r"GNU_STACK.*E", dynamic), f"{library}: the stack is executable")
    # Debian's crti.o has no such marks, so that no program has; what is compiled here must.
    objects = sorted(folder.glob("src/**/*.o"))
    expect(len(objects) > 100, f"{len(objects)} objects")
    unmarked = [file.name for file in objects if "IBT, SHSTK" not in run("readelf", "-nW", file)]
    expect(platform.machine() != "x86_64" or not unmarked, f"without IBT and shadow stack: {unmarked}")
    # Bounds are checked where the compiler sees the size.
    expect("__stack_chk_fail" in run("nm", "-D", build.drop_in), "no stack protector")


def static_pie(folder):
    build = Build(folder, "gcc", cflags="-O2")
    program = build.program("hello_static_pie", "-static-pie", "-fPIE")
    expect("DYN" in run("readelf", "-hW", program), "it is not position-independent")
    expect("INTERP" not in run("readelf", "-lW", program), "it is not static")
    expect(run(program) == "(3, 0) from 112 usable bytes\n", "hello_static_pie printed something else")


def m32(folder):
    """The compiler and CMake refuse in so many words; no 32-bit libc is needed for that."""
    for source in sorted((ROOT / "include/ukmem").glob("*.h")):
        if source.name == "gfp.h": # numbers only
            continue
        text = run("gcc", "-m32", "-fsyntax-only", f"-I{ROOT / 'include'}", "-x", "c", source, fails=True)
        errors = re.findall(r"error: .*", text)
        expect(errors and REFUSAL in errors[0], f"{source.name} first says {errors[:1]}")
    # Without a 32-bit libc the compiler links nothing, and CMake would refuse it for that.
    text = run("cmake", "-S", ROOT, "-B", folder, "-DCMAKE_C_FLAGS=-m32", "-DCMAKE_CXX_FLAGS=-m32",
               "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY", fails=True)
    expect(REFUSAL in text, f"cmake says something else:\n{text}")


def musl(folder):
    """By cmake/musl.cmake: the library linked in both ways, and the drop-in loaded by musl's loader."""
    need("musl-gcc")
    build = Build(folder, "musl-gcc", cxx="g++", cflags=f"-O1 -D_GNU_SOURCE -idirafter {folder}/kernel-headers",
                  options=[f"CMAKE_TOOLCHAIN_FILE={ROOT / 'cmake/musl.cmake'}"])
    build.cxx = None
    build.check_headers()
    build.check_hello()
    shared = [f"-L{build.shared}", "-lukmem", f"-Wl,-rpath,{build.shared}"]
    source = ROOT / "tests/aarch64/library_test.c"
    for name, options, libraries in (("threads", [], shared), ("threads_static", ["-static"], None)):
        output = run(build.program(name, *options, source=source, libraries=libraries))
        expect("sums are exact" in output, output)
        if "rseq:" in output:
            expect("registered by ukmem" in output, f"musl registers no thread, yet: {output}")
    # Every public function.
    examples = sorted((ROOT / "docs/examples").glob("*.c"))
    expect(len(examples) > 5, "there are no examples")
    for example in examples:
        run(build.program(f"example_{example.stem}", source=example, libraries=shared))
    for source in ROOT / "packaging/use/drop_in.c", ROOT / "docs/examples/malloc.c":
        program = build.program(f"on_{source.stem}", source=source, libraries=[])
        expect("ld-musl" in run("readelf", "-lW", program), f"{program} is not musl's")
        for env in {}, {"LD_PRELOAD": str(build.drop_in)}:
            output = run(program, *(["on"] if env and source.stem == "malloc" else []), env=env)
            expect(source.stem == "malloc" or output == ("ok ukmem\n" if env else "ok\n"), f"with {env}: {output}")
    output = run(folder / "on_drop_in", env={"LD_PRELOAD": str(build.drop_in), "UKMEM_CONF": "passthrough:1"})
    expect(output == "ok ukmem\n", f"on musl's own malloc: {output}")


def riscv64(folder):
    """The library and the drop-in for riscv64, in fallback mode, in an emulator."""
    need("qemu-riscv64")
    build = Build(folder, "riscv64-linux-gnu-gcc", cflags="-O2",
                  options=["CMAKE_SYSTEM_NAME=Linux", "CMAKE_SYSTEM_PROCESSOR=riscv64"])
    emulator = ["qemu-riscv64", "-L", "/usr/riscv64-linux-gnu"]
    shared = [f"-L{build.shared}", "-lukmem", f"-Wl,-rpath,{build.shared}"]
    for name, options, libraries in (("archive", [], None), ("shared", [], shared), ("static", ["-static"], None)):
        output = run(*emulator, build.program(f"hello_{name}", *options, libraries=libraries))
        expect(output == "(3, 0) from 112 usable bytes\n", f"hello_{name} printed {output!r}")
    program = build.program("on_drop_in", source=ROOT / "packaging/use/drop_in.c", libraries=["-pthread"])
    output = run(*emulator, "-E", f"LD_PRELOAD={build.drop_in}", program)
    expect(output == "ok ukmem\n", f"on the drop-in: {output}")


VARIANTS = {f"gcc-{version}": compiler(f"gcc-{version}") for version in range(11, 17)}
VARIANTS.update((f"clang-{version}", compiler(f"clang-{version}")) for version in range(14, 23))
VARIANTS.update({
    "gcc-O0": compiler("gcc", "-O0"),
    "gcc-O3-native": compiler("gcc", "-O3 -march=native"),
    "gcc-medium": compiler("gcc", "-O2 -mcmodel=medium"),
    "c23": c23("gcc"),
    "c23-gcc-14": c23("gcc-14"),
    "c23-clang": c23("clang-19"),
    "lto": lto,
    "lto-clang": lto_clang,
    "hardened": hardened,
    "no-cxx": no_cxx,
    "static-pie": static_pie,
    "m32": m32,
    "musl": musl,
    "riscv64": riscv64,
    # For `make check`: some compiler that is not the presets', quickly.
    "clang": compiler("clang-14", "-O1"),
})


def attempt(name, folder):
    began = time.monotonic()
    try:
        VARIANTS[name](folder / name)
        outcome, text = "ok", ""
    except Skip as skip:
        outcome, text = "skipped", f": {skip}"
    except Failure as failure:
        outcome, text = "FAILED", f": {failure}"
    print(f"{outcome:8} {name:14} {time.monotonic() - began:5.1f} s{text}", flush=True)
    return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the variants' names")
    parser.add_argument("--jobs", type=int, default=1, help="variants at once")
    parser.add_argument("variant", nargs="*", help="default: all but the short one of make check")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(VARIANTS))
        return 0
    unknown = set(arguments.variant) - set(VARIANTS)
    if unknown:
        parser.error(f"no variant {', '.join(sorted(unknown))}")
    names = arguments.variant or [name for name in VARIANTS if name != "clang"]
    with tempfile.TemporaryDirectory(prefix="ukmem-compilers-") as folder:
        with ThreadPoolExecutor(arguments.jobs) as pool:
            outcomes = list(pool.map(lambda name: attempt(name, Path(folder)), names))
    if "FAILED" in outcomes:
        return 1
    return 0 if "ok" in outcomes else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
