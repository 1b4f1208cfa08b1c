/* SPDX-License-Identifier: MIT */
/* In the place of src/percpu/sections.h, too. */
#include "percpu/percpu.h"
