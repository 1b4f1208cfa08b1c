/* SPDX-License-Identifier: MIT */
/* Breaks one invariant, for verify_test.cpp. */
#ifndef UNIT_VERIFY_SHIM_H
#define UNIT_VERIFY_SHIM_H

#include <stdbool.h>

#include "ukmem/slab.h"

#ifdef __cplusplus
extern "C" {
#endif

enum shim_breakage {
	SHIM_BREAK_BITMAP,
	SHIM_BREAK_INUSE,
	SHIM_BREAK_NR_PARTIAL,
	SHIM_BREAK_ARRAY_OBJECT,
	SHIM_BREAK_ARRAY_COUNT,
	SHIM_BREAK_NR_FREE,
	SHIM_BREAK_BLOCK_ORDER,
};
/* False: there is nothing of that kind to be broken. */
bool shim_break(struct kmem_cache *s, enum shim_breakage what);

#ifdef __cplusplus
}
#endif

#endif
