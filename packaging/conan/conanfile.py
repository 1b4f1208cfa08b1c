# SPDX-License-Identifier: MIT
"""A recipe for conan 2: the library, and the malloc drop-in beside it.

  conan create packaging/conan

A program that requires it is linked with ukmem::ukmem of CMake, or with ukmem of pkg-config.
"""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rm, rmdir
from conan.tools.scm import Version

# A build without tests, benchmarks and tools reads these files.
SOURCES = ["CMakeLists.txt", "CHANGELOG.md", "LICENSE", "cmake/*", "src/*", "include/*", "examples/*", "docs/CMakeLists.txt", "docs/man/*",
           "docs/site/*", "packaging/cpack.cmake", "tools/gdb/*"]


class Ukmem(ConanFile):
    name = "ukmem"
    license = "MIT"
    description = "The kernel's memory allocators, in user space"
    topics = ("allocator", "malloc", "slab", "kmalloc", "percpu")
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "debug": [True, False]}
    default_options = {"shared": True, "debug": False}

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, "..", "..", "CMakeLists.txt"))
        self.version = re.search(r"project\(ukmem VERSION ([\d.]+)", text)[1]

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        for pattern in SOURCES:
            copy(self, pattern, root, self.export_sources_folder)

    def configure(self):
        # The library is C.
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8", "riscv64"):
            raise ConanInvalidConfiguration(f"ukmem is for 64-bit Linux, not for {self.settings.os} on {self.settings.arch}")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in "TOOLS", "TESTS", "BENCH":
            toolchain.cache_variables[f"UKMEM_BUILD_{part}"] = False
        toolchain.cache_variables["UKMEM_DEBUG"] = bool(self.options.debug)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        # Conan writes such files itself, for what this package has.
        libdir = os.path.join(self.package_folder, "lib")
        rmdir(self, os.path.join(libdir, "cmake"))
        rmdir(self, os.path.join(libdir, "pkgconfig"))
        rmdir(self, os.path.join(self.package_folder, "share"))
        if self.options.shared:
            rm(self, "libukmem.a", libdir)
        else:
            rm(self, "libukmem.so*", libdir)

    def package_info(self):
        self.cpp_info.libs = ["ukmem"]
        self.cpp_info.system_libs = ["pthread"]
        # gcc before 13 calls libatomic for atomic operations on one and two bytes; the shared library names it.
        old_gcc = self.settings.compiler == "gcc" and Version(self.settings.compiler.version) < "13"
        if self.settings.arch == "riscv64" and old_gcc and not self.options.shared:
            self.cpp_info.system_libs.append("atomic")
        self.cpp_info.set_property("cmake_target_name", "ukmem::ukmem")
        self.cpp_info.set_property("pkg_config_name", "ukmem")
        # For LD_PRELOAD, and for the tool, wherever that comes from.
        self.runenv_info.define_path("UKMEM_MALLOC_LIB", os.path.join(self.package_folder, "lib", "libukmem-malloc.so"))
