/* SPDX-License-Identifier: MIT */
/* Requests of checked caches; see check.c. */
#ifndef SLAB_DEBUG_CHECK_H
#define SLAB_DEBUG_CHECK_H

#include "base/config.h"
#include "page/lookup.h"
#include "slab/slab_types.h"

/* Counts a request, of one object or of many. Result: whether kmem_cache_fail() makes it fail,
 * or the cache is gone. */
bool slab_checked_fails(struct kmem_cache *s, gfp_t flags);
/* Allocate from a checked cache @s, which is not a twin. */
void *slab_checked_alloc(struct kmem_cache *s, unsigned int node, size_t size, gfp_t flags,
			 const void *caller);
size_t slab_checked_alloc_bulk(struct kmem_cache *s, unsigned int node, gfp_t flags, size_t n,
			       void **p, const void *caller);
/* Frees @obj. @s: the cache or the twin that it is an object of. */
void slab_checked_free(struct kmem_cache *s, void *obj, const void *caller);
/* Whether object @obj of @s is in use, as far as is known; reports it if not. @func: the name
 * for the report. */
bool slab_checked_in_use(struct kmem_cache *s, void *obj, const char *func, const void *caller);
/* With the tunable passthrough: whether @obj is libc's, since the library has no page there. */
static inline bool slab_passes_through(const void *obj)
{
	return unlikely(config.passthrough) && !page_lookup(obj);
}

#endif
