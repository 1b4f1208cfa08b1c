/* SPDX-License-Identifier: MIT */
/*
 * Findings of the layers' verification. Each layer has a function that looks whether the
 * invariants beside its structures hold, and reports each that does not: what, where, whose.
 *
 * Other threads may go on meanwhile. What a layer's locks protect is then looked at under them;
 * all else (per-CPU arrays, a slab's words) may be in the middle of a change, and what is wrong
 * for a moment only is no finding: verify_run() looks several times and keeps what stays.
 *
 * Nothing is written or allocated while locks are held: findings are kept as text.
 */
#ifndef BASE_VERIFY_H
#define BASE_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "ukmem/compiler.h"

enum {
	VERIFY_FINDINGS = 16, /* at most: what follows the first ones is seldom news */
	VERIFY_TEXT = 160,    /* bytes of each */
};

/* Synchronization: its caller's. */
struct verify {
	unsigned int n; /* findings */
	char text[VERIFY_FINDINGS][VERIFY_TEXT];
};

void verify_found(struct verify *v, const char *fmt, ...) UKMEM_PRINTF(2, 3);

/* A finding unless @condition. */
#define verify_that(v, condition, ...)                                                         \
	do {                                                                                   \
		if (unlikely(!(condition)))                                                    \
			verify_found(v, __VA_ARGS__);                                          \
	} while (0)

/*
 * Calls @look, which verifies everything, until it finds nothing, and at most VERIFY_LOOKS
 * times; keeps in @v what it found each time. Result: the number of findings. May block.
 */
enum { VERIFY_LOOKS = 5 };
unsigned int verify_run(struct verify *v, void (*look)(struct verify *v, void *arg), void *arg);

#endif
