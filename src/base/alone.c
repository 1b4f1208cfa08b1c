/* SPDX-License-Identifier: MIT */
/* See alone.h. */
#include "base/alone.h"

_Thread_local unsigned int alone_depth;
