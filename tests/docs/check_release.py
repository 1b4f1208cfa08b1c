#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the places that name the project's version, and the day of its release.

  check_release.py ROOT
  check_release.py self-check     a tree in which each of them is wrong in turn is found

CMakeLists.txt has the version, CHANGELOG.md the day, or "in the making". A released version also has
its interface in packaging/abi.
"""

import datetime
import email.utils
import re
import sys
from pathlib import Path

import planted

VERSION = r"\d+\.\d+\.\d+"
# File, and an expression whose group is the version.
PLACES = [
    ("CHANGELOG.md", rf"^## ({VERSION}) \("),
    ("debian/changelog", rf"\Aukmem \(({VERSION})[-+~)]"),
    ("packaging/ukmem.spec", rf"^Version: *({VERSION})$"),
    ("packaging/ukmem.spec", rf"^%changelog\n\*.* - ({VERSION})-"),
    ("packaging/meson/subprojects/ukmem.wrap", rf"^directory = ukmem-({VERSION})$"),
    ("packaging/meson/subprojects/ukmem.wrap", rf"^source_filename = ukmem-({VERSION})\.tar"),
    ("bindings/rust/ukmem/Cargo.toml", rf'^version = "({VERSION})"$'),
    ("bindings/rust/ukmem/Cargo.toml", rf'^ukmem-sys = .*version = "({VERSION})"'),
    ("bindings/rust/ukmem-sys/Cargo.toml", rf'^version = "({VERSION})"$'),
    ("bindings/rust/ukmem-sys/build.rs", rf'atleast_version\("({VERSION})"\)'),
    ("bindings/rust/Cargo.lock", rf'^name = "ukmem"\nversion = "({VERSION})"$'),
    ("bindings/rust/Cargo.lock", rf'^name = "ukmem-sys"\nversion = "({VERSION})"$'),
]
CONSUMER = ("tests/install/consumer/CMakeLists.txt", r"find_package\(ukmem ([\d.]+)")


def find(root, name, expression):
    path = root / name
    found = re.search(expression, path.read_text(encoding="utf-8"), re.M) if path.exists() else None
    return found[1] if found else None


def days(root):
    """(where, its day, or None) of the newest entries of the packages."""
    debian = find(root, "debian/changelog", r"^ -- .*>  (.*)$")
    rpm = find(root, "packaging/ukmem.spec", r"^%changelog\n\* \w+ (\w+ \d+ \d+) ")
    yield "debian/changelog", email.utils.parsedate_to_datetime(debian).date() if debian else None
    yield "packaging/ukmem.spec", datetime.datetime.strptime(rpm, "%b %d %Y").date() if rpm else None


def report(root):
    version = find(root, "CMakeLists.txt", rf"project\(ukmem VERSION ({VERSION})")
    problems = [f"{name}: the version there is {found}, that of the project {version}"
                for name, expression in PLACES if (found := find(root, name, expression)) != version]
    found = find(root, *CONSUMER)
    if not version or found != version.rpartition(".")[0]:
        problems.append(f"{CONSUMER[0]}: it asks for {found}, the project is {version}")
    day = find(root, "CHANGELOG.md", r"^## [\d.]+ \((.*)\)$")
    if day != "in the making":
        problems += [f"{name}: the day is {there}, that of CHANGELOG.md {day}" for name, there in days(root) if str(there) != day]
        if not (root / f"packaging/abi/libukmem-{version}.abi").exists():
            problems.append(f"packaging/abi has no interface of {version}, which is released")
    return planted.report(1 if version else 0, "version", len(PLACES) + 1, "places", problems)


GOOD = {
    "CMakeLists.txt": "project(ukmem VERSION 0.5.1 LANGUAGES C)\n",
    "CHANGELOG.md": "# Changes\n\n## 0.5.1 (2026-03-04)\n\n## 0.5.0 (2026-01-01)\n",
    "debian/changelog": "ukmem (0.5.1) unstable; urgency=medium\n\n  * News.\n\n -- A <a@b>  Wed, 04 Mar 2026 08:00:00 +0000\n",
    "packaging/ukmem.spec": "Version:  0.5.1\n%changelog\n* Wed Mar 04 2026 A - 0.5.1-1\n",
    "packaging/meson/subprojects/ukmem.wrap": "directory = ukmem-0.5.1\nsource_filename = ukmem-0.5.1.tar.gz\n",
    "packaging/abi/libukmem-0.5.1.abi": "<abi/>\n",
    "bindings/rust/ukmem/Cargo.toml": 'version = "0.5.1"\nukmem-sys = { path = "../ukmem-sys", version = "0.5.1" }\n',
    "bindings/rust/ukmem-sys/Cargo.toml": 'version = "0.5.1"\n',
    "bindings/rust/ukmem-sys/build.rs": '.atleast_version("0.5.1")\n',
    "bindings/rust/Cargo.lock": 'name = "ukmem"\nversion = "0.5.1"\n\nname = "ukmem-sys"\nversion = "0.5.1"\n',
    "tests/install/consumer/CMakeLists.txt": "find_package(ukmem 0.5 REQUIRED)\n",
}
BAD = [
    *(("release", name, "0.5.1", "0.5.0") for name in GOOD if name not in (CONSUMER[0], "packaging/abi/libukmem-0.5.1.abi")),
    ("release", CONSUMER[0], "0.5", "0.4"),
    ("release", "CHANGELOG.md", "2026-03-04", "2026-03-05"),
    ("release", "debian/changelog", "04 Mar", "03 Mar"),
    ("release", "packaging/ukmem.spec", "Mar 04", "Mar 05"),
    ("release", "packaging/ukmem.spec", "- 0.5.1-1", "- 0.5.0-1"),
    ("release", "packaging/meson/subprojects/ukmem.wrap", "-0.5.1.tar", "-0.5.0.tar"),
    ("release", "bindings/rust/ukmem/Cargo.toml", 'sys", version = "0.5.1"', 'sys", version = "0.5.0"'),
    ("release", "bindings/rust/Cargo.lock", 'sys"\nversion = "0.5.1"', 'sys"\nversion = "0.5.0"'),
]


def main(args):
    if len(args) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    if args[0] == "self-check":
        without = {name: text for name, text in GOOD.items() if "abi" not in name}
        with_days = {**without, "CHANGELOG.md": "## 0.5.1 (in the making)\n"}
        code = planted.self_check({"release": report}, GOOD, BAD, {"README.md": "Nothing.\n"})
        # Until a version is released, it has neither a day nor an interface that stays.
        code |= planted.self_check({"release": report}, with_days, [], without)
        return code
    return report(Path(args[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
