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
	SHIM_BREAK_FULL_SLAB,
	SHIM_BREAK_ON_NODE,
	SHIM_BREAK_SHARD,
	SHIM_BREAK_PLACE,
	SHIM_BREAK_ARRAY_MAP,
	SHIM_BREAK_STOP_BIT,
	SHIM_BREAK_CHARGE,
	SHIM_BREAK_BUDGET,
	SHIM_BREAK_STOCK,
	SHIM_BREAK_RUN_INSIDE,
	SHIM_BREAK_HELD,
	SHIM_BREAK_LIMITS,
	SHIM_BREAK_DESCRIBED,
	SHIM_BREAK_QUEUE_SLACK,
	SHIM_BREAK_QUEUE_WORD,
	SHIM_BREAK_QUEUED,
	SHIM_BREAK_GATE,
	SHIM_BREAK_TABLE,
};
/* Verifies something that is always wrong, with all pauses between the looks. */
void shim_verify_wrong(void);
/* False: there is nothing of that kind to be broken. */
bool shim_break(struct kmem_cache *s, enum shim_breakage what);

#ifdef __cplusplus
}
#endif

#endif
