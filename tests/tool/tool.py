# SPDX-License-Identifier: MIT
"""What the tests of the command share: its runs, and how a test fails."""

import os
import subprocess
import sys

NORSEQ = "glibc.pthread.rseq=0"


def expect(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


class Tool:
    """The command, for programs on the malloc drop-in @library."""

    def __init__(self, tool, library, norseq, **variables):
        self.tool = tool
        self.environment = {name: value for name, value in os.environ.items()
                            if name not in ("GLIBC_TUNABLES", "UKMEM_CONF", *variables)}
        self.environment["UKMEM_MALLOC_LIB"] = library
        self.environment["XDG_CONFIG_HOME"] = "/nowhere"  # no file of the one who tests
        self.environment.update(variables)
        if norseq:
            self.environment["GLIBC_TUNABLES"] = NORSEQ

    def run(self, *arguments):
        """Exit code, stdout and stderr."""
        done = subprocess.run([self.tool, *arguments], env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return done.returncode, done.stdout, done.stderr
