#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Installs a build into a temporary prefix and uses it as strangers would.

Programs in C and C++ are built against the prefix with pkg-config, with
pkg-config --static and with find_package(ukmem), and run; then the names the
libraries export and the installed command are looked at. Exits 77 (skipped) for a
sanitizer build, whose libraries need the sanitizer's runtime in every program.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CONSUMER = Path(__file__).resolve().parent / "consumer"

LIBC_NAMES = set(
    """malloc free calloc realloc reallocarray cfree posix_memalign aligned_alloc memalign
    valloc pvalloc malloc_usable_size malloc_trim mallinfo mallinfo2 malloc_info malloc_stats
    mallopt free_sized free_aligned_sized chroot dlopen dlmopen prctl __register_atfork
    vfork __vfork clone malloc_object_size
    mallocx rallocx xallocx sallocx dallocx sdallocx nallocx
    mallctl mallctlnametomib mallctlbymib malloc_stats_print
    ukmem_malloc_stats_print ukmem_malloc_gauges_read ukmem_malloc_trim""".split()
)
# operator new, new[], delete, delete[] in all their forms.
CXX_OPERATOR = re.compile(r"_Z(n[wa]m|d[la]Pv)\w*")
# A program calls these first and most: a drop-in without them is none.
INDISPENSABLE = {"malloc", "free", "calloc", "realloc", "_Znwm", "_Znam", "_ZdlPv", "_ZdaPvm"}


class Failure(Exception):
    pass


def expect(condition, message):
    if not condition:
        raise Failure(message)


def run(*command, env=None):
    """The command's standard output; a Failure with all it said if it fails."""
    command = [str(word) for word in command]
    done = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"{shlex.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def needed(program):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-dW", program))


def exported(library):
    """The dynamic symbols a library defines, without its version nodes."""
    symbols = set()
    for line in run("nm", "-D", "--defined-only", library).splitlines():
        _, kind, name = line.split()
        if kind != "A":
            symbols.add(name.split("@")[0])
    return symbols


def declared(include_dir):
    """The symbols the installed headers promise."""
    names = set()
    for header in include_dir.rglob("*.h"):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(encoding="utf-8"), flags=re.DOTALL)
        for declaration in re.findall(r"^UKMEM_EXPORT\b[^;]*;", text, re.MULTILINE):
            renamed = re.search(r"UKMEM_SYMBOL\((\w+)\)", declaration)
            plain = re.search(r"\b(ukmem_\w+)\(", declaration)
            expect(renamed or plain, f"{header.name}: no symbol in: {declaration}")
            names.add(f"ukmem_{renamed[1]}" if renamed else plain[1])
    return names


class Tree:
    """The installed tree and the tools to use it with."""

    def __init__(self, args, tmp):
        self.args = args
        self.tmp = tmp
        self.prefix = tmp / "prefix"
        self.lib = self.prefix / args.libdir
        self.shared_env = {"LD_LIBRARY_PATH": str(self.lib)}
        run(args.cmake, "--install", args.build, "--prefix", self.prefix, env={"DESTDIR": ""})

    def flags(self, *options):
        env = {"PKG_CONFIG_PATH": str(self.lib / "pkgconfig")}
        return run("pkg-config", *options, "ukmem", env=env).split()

    def check_program(self, program, shared):
        """It runs, says the version, and needs the shared library or does not."""
        output = run(program, env=self.shared_env if shared else None)
        expect(output.strip() == self.args.version, f"{program} printed {output!r}")
        soname = "libukmem.so." + self.args.version.split(".")[0]
        libraries = needed(program)
        expect((soname in libraries) == shared, f"{program} needs {libraries}")

    def compile_and_check(self, name, options, shared):
        for compiler, std, source in (
            (self.args.cc, "-std=c11", "user.c"),
            (self.args.cxx, "-std=c++17", "user.cpp"),
        ):
            program = self.tmp / f"{name}_{Path(source).suffix[1:]}"
            run(compiler, std, "-Wall", "-Wextra", "-Werror", CONSUMER / source, "-o", program, *options)
            self.check_program(program, shared)


def pkg_config_shared(tree):
    tree.compile_and_check("shared", tree.flags("--cflags", "--libs"), shared=True)


def pkg_config_static(tree):
    flags = tree.flags("--static", "--cflags", "--libs")
    tree.compile_and_check("static", ["-static", *flags], shared=False)


def pkg_config_compat(tree):
    """The kernel's own header names, in the folder that ukmem.pc names."""
    folder = tree.flags("--variable=compat_includedir")
    found = [Path(name).resolve() for name in folder]
    expect(found == [tree.prefix / "include/ukmem/compat"], f"compat_includedir is {folder}")
    program = tree.tmp / "compat"
    options = [f"-I{folder[0]}", *tree.flags("--cflags", "--libs"), "-pthread"]
    source = CONSUMER / "kernel_user.c"
    run(tree.args.cc, "-std=gnu11", "-Wall", "-Wextra", "-Werror", source, "-o", program, *options)
    tree.check_program(program, shared=True)


def pkg_config_relocatable(tree):
    """Nothing in ukmem.pc says where the tree was configured for."""
    moved = tree.tmp / "moved"
    tree.prefix.rename(moved)
    try:
        env = {"PKG_CONFIG_PATH": str(moved / tree.args.libdir / "pkgconfig")}
        directory = run("pkg-config", "--variable=libdir", "ukmem", env=env).strip()
        expect(Path(directory).resolve() == moved / tree.args.libdir, f"moved, but libdir={directory}")
    finally:
        moved.rename(tree.prefix)
    version = tree.flags("--modversion")
    expect(version == [tree.args.version], f"ukmem.pc has version {version}")


def pkg_config_system(tree):
    """Under /usr no folder is named that the compiler searches without being told."""
    stage = tree.tmp / "stage"
    run(tree.args.cmake, "--install", tree.args.build, "--prefix", "/usr/", env={"DESTDIR": str(stage)})
    env = {"PKG_CONFIG_PATH": str(stage / "usr" / tree.args.libdir / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "ukmem", env=env).split()
    expect(flags == [], f"under /usr programs are compiled with {flags}")


def configure_consumer(tree, prefix, *options):
    """The folder of the consumer's build, which finds the package in @prefix."""
    args = tree.args
    build = tree.tmp / f"consumer_of_{prefix.name}"
    settings = {
        "CMAKE_PREFIX_PATH": prefix,
        "CMAKE_C_COMPILER": args.cc,
        "CMAKE_CXX_COMPILER": args.cxx,
    }
    defines = [f"-D{name}={value}" for name, value in settings.items()]
    run(args.cmake, "-S", CONSUMER, "-B", build, "-G", args.generator, *defines, *options)
    return build


def cmake_package(tree):
    build = configure_consumer(tree, tree.prefix)
    run(tree.args.cmake, "--build", build)
    for language in ("c", "cxx"):
        tree.check_program(build / f"{language}_ukmem", shared=True)
        tree.check_program(build / f"{language}_static", shared=False)
    tree.check_program(build / "c_compat", shared=True)
    package = "".join(p.read_text(encoding="utf-8") for p in (tree.lib / "cmake/ukmem").iterdir())
    expect("ukmem-malloc" not in package, "the CMake package mentions the malloc drop-in")


def cmake_package_without_archive(tree):
    """ukmem::ukmem is found where the distribution has libukmem.a in another package."""
    prefix = tree.tmp / "without_archive"
    shutil.copytree(tree.prefix, prefix, symlinks=True)
    (prefix / tree.args.libdir / "libukmem.a").unlink()
    configure_consumer(tree, prefix, "-DLIBRARIES=ukmem")


def cmake_versions(tree):
    """find_package() takes patches of one minor version, and each range that contains the version: docs/abi.md."""
    major, minor, patch = (int(number) for number in tree.args.version.split("."))
    this, before, after = (f"{major}.{number}" for number in (minor, minor - 1, minor + 1))
    requests = {
        "": True,
        this: True,
        tree.args.version: True,
        f"{tree.args.version} EXACT": True,
        f"{this}.{patch + 1}": False,
        f"{this}.{patch + 1} EXACT": False,
        before: False,
        after: False,
        f"{major}": False,
        f"{major + 1}": False,
        f"{this}...{major}.99": True,
        f"{this}...<{after}": True,
        f"{before}...{major + 1}": True,
        f"{before}...{tree.args.version}": True,
        f"{before}...<{tree.args.version}": False,
        f"{this}.{patch + 1}...{major}.99": False,
        f"{after}...{major + 1}": False,
    }
    project = tree.tmp / "versions"
    project.mkdir()
    lines = ["cmake_minimum_required(VERSION 3.25)", "project(versions LANGUAGES C)"]
    for request in requests:
        lines += ["unset(ukmem_DIR CACHE)", f"find_package(ukmem {request} CONFIG QUIET)",
                  f'message("[{request}] ${{ukmem_FOUND}}")']
    # A program of 32 bits.
    lines += ["set(CMAKE_SIZEOF_VOID_P 4)", "unset(ukmem_DIR CACHE)", "find_package(ukmem CONFIG QUIET)",
              'message("[32] ${ukmem_FOUND}")']
    (project / "CMakeLists.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = subprocess.run(
        [tree.args.cmake, "-S", project, "-B", project / "build", "-G", tree.args.generator,
         f"-DCMAKE_PREFIX_PATH={tree.prefix}", f"-DCMAKE_C_COMPILER={tree.args.cc}"],
        capture_output=True, text=True, check=True)
    found = dict(re.findall(r"^\[(.*)\] (\d)$", done.stderr, re.MULTILINE))
    wanted = {request: str(int(taken)) for request, taken in {**requests, "32": False}.items()}
    expect(found == wanted, f"find_package(ukmem ...) finds {found}, not {wanted}")


def library_symbols(tree):
    library = tree.lib / "libukmem.so"
    soname = re.search(r"\(SONAME\).*\[(.+)\]", run("readelf", "-dW", library))
    major = tree.args.version.split(".")[0]
    expect(soname and soname[1] == f"libukmem.so.{major}", f"the SONAME is {soname and soname[1]}")
    symbols = exported(library)
    strangers = sorted(name for name in symbols if not name.startswith("ukmem_"))
    expect(not strangers, f"libukmem.so exports {strangers}")
    promised = declared(tree.prefix / "include")
    expect(promised, "the installed headers declare nothing")
    expect(promised <= symbols, f"declared but not exported: {sorted(promised - symbols)}")


def malloc_symbols(tree):
    symbols = exported(tree.lib / "libukmem-malloc.so")
    strangers = sorted(n for n in symbols - LIBC_NAMES if not CXX_OPERATOR.fullmatch(n))
    expect(not strangers, f"libukmem-malloc.so exports {strangers}")
    expect(INDISPENSABLE <= symbols, f"not exported: {sorted(INDISPENSABLE - symbols)}")


def command(tree):
    ukmem = tree.prefix / "bin/ukmem"
    if not tree.args.tool:
        expect(not ukmem.exists(), f"a build without the tool installs {ukmem}")
        return
    version = run(ukmem, "--version")
    expect(version == f"ukmem {tree.args.version}\n", f"ukmem --version printed {version!r}")
    env = {"UKMEM_MALLOC_LIB": "", "LD_PRELOAD": ""}
    run(ukmem, "run", "/bin/true", env=env)
    # In a prefix src/malloc is a stranger; in a build tree it is the drop-in's place.
    stranger = tree.prefix / "src/malloc/libukmem-malloc.so"
    stranger.parent.mkdir(parents=True)
    stranger.touch()
    maps = run(ukmem, "run", "cat", "/proc/self/maps", env=env)
    expect(str(tree.lib / "libukmem-malloc.so") in maps, "ukmem run did not preload the drop-in")
    shutil.rmtree(tree.prefix / "src")


def manual_pages(tree):
    """man(1) finds a page for ukmem.conf, the drop-in, and functions, also by other names of a page, and for the tool."""
    man = tree.prefix / "share/man"
    for name in ("ukmem.conf.5", "libukmem-malloc.7", "kmem_cache_create.3", "kmalloc.3", "alloc_pages.3"):
        page = man / f"man{name[-1]}" / name
        expect(page.is_file() and ".Sh NAME" in page.read_text(), f"no manual page {page}")
    alias = (man / "man3/kmem_cache_free.3").read_text()
    expect(alias == ".so man3/kmem_cache_create.3\n", f"kmem_cache_free.3 is {alias!r}")
    for name in ("man/man1/ukmem.1", "bash-completion/completions/ukmem"):
        path = tree.prefix / "share" / name
        expect(path.is_file() == bool(tree.args.tool), f"the tool and {path}: one of them is not installed")


def licence(tree):
    sources = Path(__file__).resolve().parents[2]
    for name in ("LICENSE", "LICENSES.third-party") if tree.args.tool else ("LICENSE",):
        text = tree.prefix / "share/licenses/ukmem" / name
        expect(text.is_file() and text.read_bytes() == (sources / name).read_bytes(), f"no licence {text}")


def gdb_script(tree):
    """gdb loads the script with either library, if it may, whatever the folder of data is called."""
    if not shutil.which("gdb"):
        print("SKIP: gdb is not installed: its script is not loaded")
        return
    share = tree.prefix / "share"
    renamed = shutil.copytree(share, tree.tmp / "data")
    for library, data in (("libukmem.so", share), ("libukmem-malloc.so", share), ("libukmem.so", renamed)):
        loaders = data / "gdb/auto-load"
        path = (tree.lib / library).resolve()
        text = run("gdb", "-batch", "-nx", "-iex", f"add-auto-load-safe-path {loaders}",
                   "-iex", f"add-auto-load-scripts-directory {loaders}",
                   "-ex", "help ukmem address", path)
        expect("ukmem address ADDRESS" in text, f"{library}, {loaders}: {text}")


def uninstalled(tree):
    """scripts/uninstall removes what was installed, and nothing else; a second time it says that there is nothing."""
    root = Path(__file__).resolve().parents[2]
    stage, listed = tree.tmp / "stage", tree.tmp / "installed.txt"
    shutil.copytree(tree.prefix, stage / str(tree.prefix).lstrip("/"), symlinks=True)
    place = stage / str(tree.prefix).lstrip("/")
    files = [tree.prefix / p.relative_to(place) for p in place.rglob("*") if not p.is_dir() or p.is_symlink()]
    listed.write_text("\n".join(map(str, files)), encoding="utf-8")
    stranger = place / "include/ukmem/stranger.h"
    stranger.write_text("")
    run(root / "scripts/uninstall", listed, stage)
    left = [p for p in place.rglob("*") if not p.is_dir()]
    expect(left == [stranger], f"left: {left}")
    folders = [p.name for p in place.rglob("ukmem*") if p.is_dir()]
    expect(folders == ["ukmem"], f"folders left: {folders}")
    expect((tree.lib / "libukmem.so").is_file(), "it removed files outside of DESTDIR")
    again = subprocess.run([root / "scripts/uninstall", listed, stage], capture_output=True, text=True, check=False)
    expect(again.returncode == 1 and "has installed nothing" in again.stderr, f"{again.returncode}: {again.stderr}")


CHECKS = [
    pkg_config_shared,
    pkg_config_static,
    pkg_config_compat,
    pkg_config_relocatable,
    pkg_config_system,
    cmake_package,
    cmake_package_without_archive,
    cmake_versions,
    library_symbols,
    malloc_symbols,
    command,
    gdb_script,
    manual_pages,
    licence,
    uninstalled,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option in ("build", "cmake", "generator", "libdir", "cc", "cxx", "version"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("--tool", type=int, required=True, help="1: the build has the command ukmem")
    parser.add_argument("--sanitize", default="", help="the sanitizer this build has, if any")
    args = parser.parse_args()
    if args.sanitize:
        print(f"skipped: a build with -fsanitize={args.sanitize}")
        return 77

    failures = 0
    with tempfile.TemporaryDirectory(prefix="ukmem-install-") as tmp:
        tree = Tree(args, Path(tmp).resolve())
        for check in CHECKS:
            try:
                check(tree)
                print(f"ok      {check.__name__}")
            except Failure as failure:
                failures += 1
                print(f"FAILED  {check.__name__}: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
