/* SPDX-License-Identifier: MIT */
/* percpu_info() returns what percpu_mode() stores. */
#ifndef UNIT_PERCPU_UTIL_H
#define UNIT_PERCPU_UTIL_H

#include "ukmem/ukmem.h"

inline struct ukmem_percpu_info percpu_info()
{
	struct ukmem_percpu_info i = {};

	percpu_mode(&i);
	return i;
}

#endif
