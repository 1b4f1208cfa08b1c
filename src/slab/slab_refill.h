/* SPDX-License-Identifier: MIT */
/* Fills this CPU's array out of slabs; see slab_refill.c. */
#ifndef SLAB_SLAB_REFILL_H
#define SLAB_SLAB_REFILL_H

#include "percpu/gate.h"
#include "slab/slab_types.h"

/* How many objects to move to or from an array of @capacity; @more are added. */
unsigned int slab_half_of(const struct kmem_cache *s, unsigned int capacity, unsigned int more);
/* Takes one object, and others for this CPU's array. The thread is in a slow path. NULL: no
 * memory. */
void *slab_refill(struct kmem_cache *s, unsigned int node, gfp_t flags);

/*
 * Whether this thread was in a slow path before it came into this one. A signal handler that
 * interrupted a slow path has the rest of that one's stack, so its batches are small.
 */
static inline bool slab_is_inside(void)
{
	return pcpu_gate_depth > 1;
}

#endif
