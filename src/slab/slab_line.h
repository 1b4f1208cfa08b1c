/* SPDX-License-Identifier: MIT */
/* Lines of the processor's cache that objects on two CPUs share; see slab_line.c. */
#ifndef SLAB_SLAB_LINE_H
#define SLAB_SLAB_LINE_H

#include "base/alone.h"
#include "slab/slab_types.h"

enum {
	SLAB_LINE_SIZE_MAX = 4 * CACHE_LINE, /* larger objects do not leave their lines */
	SLAB_LINE_OBJECTS = CACHE_LINE / 8,  /* that are smaller than a line, and share one */
};

/* Whether another CPU may write to an object in a line of an object of @s. */
static inline bool slab_line_is_shared(const struct kmem_cache *s)
{
	return s->size % CACHE_LINE && s->size < SLAB_LINE_SIZE_MAX && !alone_is_program();
}

/*
 * Takes objects out of this CPU's array for @node into @held, with room for SLAB_LINE_OBJECTS:
 * the one that it would hand out next, and those below it that lie near that. The caller has
 * passed the gate, and puts them back into their slabs. Result: how many.
 */
unsigned int slab_line_leave(struct kmem_cache *s, unsigned int node, void **held);

/* Winds the countdown of an array that @cpu is about to open, so that its objects soon come
 * by. */
void slab_line_wind_new(struct kmem_cache *s, unsigned int node, unsigned int cpu);

#endif
