# SPDX-License-Identifier: MIT
"""Builds packaging/use/program.c on the package, and runs it and a program on the drop-in."""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class UkmemTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain", "VirtualRunEnv"
    test_type = "explicit"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure(variables={"USE": os.path.join(self.recipe_folder, "..", "..", "use")})
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        folder = self.cpp.build.bindir
        self.run(os.path.join(folder, "program"), env="conanrun")
        drop_in = os.path.join(folder, "drop_in")
        self.run(f'said=$(LD_PRELOAD=$UKMEM_MALLOC_LIB "{drop_in}") && echo "$said" && [ "$said" = "ok ukmem" ]', env="conanrun")
