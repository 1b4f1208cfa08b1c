# SPDX-License-Identifier: MIT
"""Fails if a public function or macro is used in no program of docs/examples, or a header of C++ has no program there.

  coverage.py INCLUDE
"""
import pathlib
import sys

import cxx_pages
import examples
import headers


def main():
    names = {f for h in headers.public(pathlib.Path(sys.argv[1])) for f in h.functions()}
    missing = examples.missing(names)
    for name in missing:
        print(f"no example uses {name}()")
    without = cxx_pages.missing(pathlib.Path(sys.argv[1]))
    for name in without:
        print(f"<ukmem/{name}> has no example, or no comment that tells what it has")
    print(f"{len(names) - len(missing)} of {len(names)} public functions and macros have an example")
    return bool(missing or without) or len(names) < 100


if __name__ == "__main__":
    sys.exit(main())
