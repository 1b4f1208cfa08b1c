# SPDX-License-Identifier: MIT
"""What gdb loads with the library: ukmem.py of the same prefix, wherever that was moved to."""

import os

import gdb

_prefix = os.path.realpath(__file__).partition("/share/gdb/auto-load/")[0]
gdb.execute("source " + os.path.join(_prefix, "share/ukmem/ukmem.py"))
