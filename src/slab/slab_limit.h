/* SPDX-License-Identifier: MIT */
/* The hard limit of a cache; see slab_limit.c. */
#ifndef SLAB_SLAB_LIMIT_H
#define SLAB_SLAB_LIMIT_H

#include "slab/slab_types.h"

/* Counts one slab more; false: it would exceed the limit. */
bool slab_limit_charge(struct kmem_cache *s, gfp_t flags);
void slab_limit_uncharge(struct kmem_cache *s);
/* Whether another slab would exceed the limit. */
bool slab_limit_reached(const struct kmem_cache *s);
/* Logs that a request failed because of the limit, if @flags allow it and it is time. */
void slab_limit_tell(struct kmem_cache *s, gfp_t flags);
/* How many slabs hold @objects. */
static inline size_t slab_slabs_of(const struct kmem_cache *s, size_t objects)
{
	return objects / s->layout.objects + (objects % s->layout.objects != 0);
}

#endif
