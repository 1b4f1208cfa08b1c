# SPDX-License-Identifier: MIT
"""What gdb loads with the library: ukmem.py of the same folder of data, wherever that was moved to."""

import os

import gdb

_data = os.path.realpath(__file__).partition("/gdb/auto-load/")[0]
gdb.execute("source " + os.path.join(_data, "ukmem/ukmem.py"))
