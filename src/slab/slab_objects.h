/* SPDX-License-Identifier: MIT */
/* Takes objects out of slabs and puts them back; see slab_objects.c. */
#ifndef SLAB_SLAB_OBJECTS_H
#define SLAB_SLAB_OBJECTS_H

#include "slab/slab_page.h"

/* A flag beside gfp flags and those of the page layer: make no slab. */
#define SLAB_NO_NEW 0x10000000u

/*
 * Takes up to @n objects from slabs of @node into out[0..), ascending within a slab; the caller
 * needs @need of them. Without __GFP_DIRECT_RECLAIM it only tries locks. Result: how many.
 */
unsigned int slab_objects_take(struct kmem_cache *s, unsigned int node, void **out,
			       unsigned int n, unsigned int need, gfp_t flags);

enum slab_put_to {
	SLAB_PUT_CPU,	/* onto this CPU's list, or the node's if it has no room */
	SLAB_PUT_NODE,	/* onto the list of the slab's node */
	SLAB_PUT_LATER, /* onto the deferred list; slab_put() uses it while the gate is closed
			 */
};
/*
 * Puts objects back into their slabs, of whatever nodes. A slab that is no longer full goes
 * onto the list that @to says. Waits for nothing.
 */
void slab_put(struct kmem_cache *s, void **objs, unsigned int n, enum slab_put_to to);
/* The same with SLAB_PUT_CPU; cheaper if each object lies far from the next one. */
void slab_put_scattered(struct kmem_cache *s, void **objs, unsigned int n);

#endif
