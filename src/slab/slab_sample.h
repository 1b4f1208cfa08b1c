/* SPDX-License-Identifier: MIT */
/* Where the slow path looks at one allocation of many; see slab_sample.c. */
#ifndef SLAB_SLAB_SAMPLE_H
#define SLAB_SLAB_SAMPLE_H

#include "slab/slab_types.h"

/*
 * Called with the allocation of @size bytes (of an object of @s) for which the countdown of
 * this CPU's array for @node ran out. @header: that array's. Winds the countdown. Result: a
 * block that serves the request in the place of an object; NULL: an object does.
 */
void *slab_sample_point(struct kmem_cache *s, unsigned int node, uint64_t header, size_t size,
			gfp_t flags, const void *caller);

#endif
