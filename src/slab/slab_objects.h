/* SPDX-License-Identifier: MIT */
/* Objects out of slabs and back; see slab_objects.c. */
#ifndef SLAB_SLAB_OBJECTS_H
#define SLAB_SLAB_OBJECTS_H

#include "slab/slab_page.h"

/* Beside gfp flags and the page layer's: present slabs only, none is made. */
#define SLAB_NO_NEW 0x10000000u

/*
 * Up to @n objects of slabs of @node into out[0..), ascending within a slab; the caller needs
 * @need of them. A caller that may not block gets what a free lock and present slabs give.
 */
unsigned int slab_objects_take(struct kmem_cache *s, unsigned int node, void **out,
			       unsigned int n, unsigned int need, gfp_t flags);

enum slab_put_to {
	SLAB_PUT_CPU,
	SLAB_PUT_NODE,
	SLAB_PUT_LATER, /* slab_put()'s own, while a fork keeps the gate closed */
};
/*
 * Objects back into their slabs, whatever nodes those are of; slabs that are no longer full
 * come onto the list of this CPU or of their node. Waits for nothing.
 */
void slab_put(struct kmem_cache *s, void **objs, unsigned int n, enum slab_put_to to);

#endif
