# SPDX-License-Identifier: MIT
"""Builds the drop-in and the tool with CMake, and puts them into the wheel.

UKMEM_BUILD_DIR=dir takes both from a build of CMake's as it is, or keeps a new build there.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from setuptools.command.develop import develop
from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parents[2]
CMAKE = ROOT / "CMakeLists.txt"
if not CMAKE.is_file():
    raise SystemExit(f"ukmem is built from a checkout of its repository; {ROOT} is none")
VERSION = re.search(r"project\(ukmem VERSION ([0-9.]+)", CMAKE.read_text()).group(1)
# In the tree of a build -> in the package. The tool looks for ../lib.
FILES = {
    "src/malloc/libukmem-malloc.so": "lib/libukmem-malloc.so",
    "tools/ukmem": "bin/ukmem",
}
NOT_EDITABLE = ("ukmem cannot be installed in place, where the package has neither the library nor the tool;"
                " install it without --editable")


class BuildWithCMake(build_py):
    def run(self):
        if getattr(self, "editable_mode", False):
            raise SystemExit(NOT_EDITABLE)
        super().run()
        given = os.environ.get("UKMEM_BUILD_DIR")
        if given and not Path(given).is_absolute():
            raise SystemExit(f"UKMEM_BUILD_DIR={given}: not an absolute path")  # pip has left its caller's folder
        build = Path(given or Path(self.get_finalized_command("build").build_temp) / "cmake").resolve()
        # CMake and its generator tell what is older than the sources.
        if not given or not all((build / source).is_file() for source in FILES):
            subprocess.run(
                ["cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                 "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -g -DNDEBUG",
                 "-DUKMEM_BUILD_TESTS=OFF", "-DUKMEM_BUILD_BENCH=OFF"], check=True)
            # Without a number, make runs all of its compilers at once.
            subprocess.run(["cmake", "--build", build, "--parallel", str(os.cpu_count() or 1),
                            "--target", "ukmem_malloc", "ukmem_tool"], check=True)
        for source, name in FILES.items():
            target = Path(self.build_lib) / "ukmem" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(build / source, target)
            if shutil.which("strip"):
                subprocess.run(["strip", "--strip-debug", target], check=True)


class Develop(develop):  # what pip asks setuptools before 64 for
    def run(self):
        raise SystemExit(NOT_EDITABLE)


class Native(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    def get_tag(self):
        # Any Python: nothing is linked to it.
        return "py3", "none", super().get_tag()[2]


# Before 77 setuptools takes no name of a licence in pyproject.toml, and from there on no text.
setup(version=VERSION, license="MIT", distclass=Native,
      cmdclass={"build_py": BuildWithCMake, "develop": Develop, "bdist_wheel": Wheel})
