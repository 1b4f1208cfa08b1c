/* SPDX-License-Identifier: MIT */
/*
 * Caches that somebody wants looked after: their arrays stay closed, so that every request
 * and every free comes by here.
 */
#include "slab/slab.h"

void *slab_checked_alloc(struct kmem_cache *s, unsigned int node, gfp_t flags,
			 const void *caller)
{
	void *obj = NULL;

	(void)caller;
	if (slab_take(s, &node, &obj, 1, flags))
		slab_event(s, SLAB_ALLOC_SLOWPATH);
	return obj;
}

void slab_checked_free(struct kmem_cache *s, void *obj, const void *caller)
{
	(void)caller;
	slab_event(s, SLAB_FREE_SLOWPATH);
	slab_put(s, &obj, 1, SLAB_PUT_CPU);
}
