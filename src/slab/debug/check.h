/* SPDX-License-Identifier: MIT */
/* Requests of checked caches; see check.c. */
#ifndef SLAB_DEBUG_CHECK_H
#define SLAB_DEBUG_CHECK_H

#include "base/config.h"
#include "page/lookup.h"
#include "slab/slab_types.h"

/* In place of all else while s->checked. @s: not a twin. */
void *slab_checked_alloc(struct kmem_cache *s, unsigned int node, gfp_t flags,
			 const void *caller);
size_t slab_checked_alloc_bulk(struct kmem_cache *s, unsigned int node, gfp_t flags, size_t n,
			       void **p, const void *caller);
/* @s: the cache or the twin that @obj is of. */
void slab_checked_free(struct kmem_cache *s, void *obj, const void *caller);
/* Whether @obj, an object of @s or its place, is in use as far as is known; false: reported. */
bool slab_checked_in_use(struct kmem_cache *s, void *obj, const void *caller);

/* Whether @obj is in no page of the library, so that it is libc's for all that is known. */
static inline bool slab_passes_through(const void *obj)
{
	return unlikely(config.passthrough) && !page_lookup(obj);
}

#endif
