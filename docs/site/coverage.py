# SPDX-License-Identifier: MIT
"""Fails if a public function or macro is used in no program of docs/examples.

  coverage.py INCLUDE
"""
import pathlib
import sys

import examples
import headers


def main():
    names = {f for h in headers.public(pathlib.Path(sys.argv[1])) for f in h.functions()}
    missing = examples.missing(names)
    for name in missing:
        print(f"no example uses {name}()")
    print(f"{len(names) - len(missing)} of {len(names)} public functions and macros have an example")
    return bool(missing) or len(names) < 100


if __name__ == "__main__":
    sys.exit(main())
