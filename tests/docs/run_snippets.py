# SPDX-License-Identifier: MIT
"""Compiles the C and C++ code in a document, and runs those pieces that are programs.

  run_snippets.py DOCUMENT ROOT LIBRARY CC CXX

A piece without a main() is compiled as it stands, or, where it has statements, as the body of a function.
What it uses of the reader's own stands in a comment of HTML in front of it: <!-- with: int socket; -->
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PIECE = re.compile(r"^(?:<!-- with: (?P<own>.*?) -->\n+)?```(?P<language>c|cpp)\n(?P<code>.*?)^```$", re.M | re.S)


def fragment(code, own):
    """@code as a file of declarations, and as one with a function."""
    includes = "".join(line + "\n" for line in code.split("\n") if line.startswith("#"))
    rest = "".join(line + "\n" for line in code.split("\n") if not line.startswith("#"))
    return [f"{includes}{own}\n{rest}", f"{includes}{own}\nvoid fragment(void);\nvoid fragment(void)\n{{\n{rest}}}\n"]


def main():
    document, root, library = map(pathlib.Path, sys.argv[1:4])
    compilers = {"c": [sys.argv[4], "-std=gnu11"], "cpp": [sys.argv[5], "-std=c++17"]}
    pieces = list(PIECE.finditer(document.read_text()))
    ran = 0
    for piece in pieces:
        language, code = piece["language"], piece["code"]
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, f"piece.{language}"), pathlib.Path(folder, "program")
            compat = ["-I", root / "include/ukmem/compat"] if "<linux/" in code else []
            command = [*compilers[language], "-Wall", "-Wextra", "-Werror", *compat, "-I", root / "include", source]
            if "int main(" in code:
                source.write_text(code)
                subprocess.run([*command, "-o", program, library, f"-Wl,-rpath,{library.parent}", "-pthread"], check=True)
                subprocess.run([program], check=True, timeout=60, env={**os.environ, "UKMEM_CONF": "verbose:0"})
                ran += 1
                continue
            said = []
            for text in fragment(code, piece["own"] or ""):
                source.write_text(text)
                done = subprocess.run([*command, "-Wno-unused-variable", "-c", "-o", os.devnull], capture_output=True,
                                      text=True, check=False)
                said.append(done.stderr)
                if not done.returncode:
                    break
            else:
                print(f"FAILED: {document.name} has code that does not compile:\n{code}", *said, sep="\n")
                return 1
    print(f"{document.name}: {ran} programs ran, {len(pieces) - ran} other pieces compile")
    return not pieces


if __name__ == "__main__":
    sys.exit(main())
