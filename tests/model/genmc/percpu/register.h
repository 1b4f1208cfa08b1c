/* SPDX-License-Identifier: MIT */
/* In the place of src/percpu/register.h, too. */
#include "percpu/percpu.h"
