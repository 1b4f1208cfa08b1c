#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles and runs the programs in a document: its C blocks with a main().

  run_snippets.py DOCUMENT ROOT LIBRARY CC
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def main():
    document, root, library, compiler = map(pathlib.Path, sys.argv[1:5])
    blocks = [b for b in re.findall(r"^```c\n(.*?)^```$", document.read_text(), re.M | re.S) if "int main(" in b]
    for block in blocks:
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, "program.c"), pathlib.Path(folder, "program")
            source.write_text(block)
            compat = ["-I", root / "include/ukmem/compat"] if "<linux/" in block else []
            subprocess.run([compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", *compat, "-I", root / "include",
                            source, "-o", program, library, f"-Wl,-rpath,{library.parent}", "-pthread"], check=True)
            subprocess.run([program], check=True, timeout=60, env={**os.environ, "UKMEM_CONF": "verbose:0"})
    print(f"{document.name}: {len(blocks)} programs ran")
    return 0


if __name__ == "__main__":
    sys.exit(main())
