/* SPDX-License-Identifier: MIT */
/*
 * Findings of the layers' verification. Each layer has a function that checks the invariants
 * stated beside its structures, and adds a finding for each that does not hold: the invariant,
 * the place and the cache, zone or queue.
 *
 * Other threads may go on meanwhile. The functions look at structures under the layer's locks
 * where there are any; all else (per-CPU arrays, a slab's words) may be in the middle of a
 * change. So verify_run() looks several times, and keeps the findings that every look has.
 *
 * The functions hold locks, so they neither write nor allocate: findings are kept as text.
 */
#ifndef BASE_VERIFY_H
#define BASE_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "ukmem/compiler.h"

enum {
	VERIFY_FINDINGS = 16, /* the most findings that are kept */
	VERIFY_TEXT = 160,    /* bytes of one finding */
};

/* Synchronization: one thread uses it. */
struct verify {
	unsigned int n; /* findings */
	char text[VERIFY_FINDINGS][VERIFY_TEXT];
};

void verify_found(struct verify *v, const char *fmt, ...) UKMEM_PRINTF(2, 3);

/* Adds a finding unless @condition. */
#define verify_that(v, condition, ...)                                                         \
	do {                                                                                   \
		if (unlikely(!(condition)))                                                    \
			verify_found(v, __VA_ARGS__);                                          \
	} while (0)

/*
 * Calls @look, which verifies everything, until it finds nothing, and at most VERIFY_LOOKS
 * times; @v gets the findings that every call had. Result: their number. May block.
 */
enum { VERIFY_LOOKS = 5 };
unsigned int verify_run(struct verify *v, void (*look)(struct verify *v, void *arg), void *arg);

#endif
