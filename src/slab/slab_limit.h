/* SPDX-License-Identifier: MIT */
/* How many slabs a cache may have; see slab_limit.c. */
#ifndef SLAB_SLAB_LIMIT_H
#define SLAB_SLAB_LIMIT_H

#include "slab/slab_types.h"

/* One slab more; false: it would be one too many. */
bool slab_limit_charge(struct kmem_cache *s, gfp_t flags);
void slab_limit_uncharge(struct kmem_cache *s);
/* Whether another slab would be one too many. */
bool slab_limit_reached(const struct kmem_cache *s);
/* A request failed because of the limit: logs that, if @flags allow and it is time. */
void slab_limit_tell(struct kmem_cache *s, gfp_t flags);
/* How many slabs hold @objects. */
static inline size_t slab_slabs_of(const struct kmem_cache *s, size_t objects)
{
	return objects / s->layout.objects + (objects % s->layout.objects != 0);
}

#endif
