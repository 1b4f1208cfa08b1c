/* SPDX-License-Identifier: MIT */
/* When caches give memory back; see slab_reclaim.c. */
#ifndef SLAB_SLAB_RECLAIM_H
#define SLAB_SLAB_RECLAIM_H

#include "slab/slab_types.h"

void slab_reclaim_init(void);
/* Empties all arrays, lists and queues and frees empty slabs. Result: 0, because the page layer
 * counts the pages that go back to the system. */
size_t slab_trim(void);

#endif
