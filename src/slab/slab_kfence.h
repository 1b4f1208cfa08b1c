/* SPDX-License-Identifier: MIT */
/* Objects of caches in KFENCE's pool; see slab_kfence.c. */
#ifndef SLAB_SLAB_KFENCE_H
#define SLAB_SLAB_KFENCE_H

#include "kfence/kfence.h"
#include "slab/slab_types.h"

void *slab_kfence_take(struct kmem_cache *s, unsigned int node, size_t size, gfp_t flags,
		       const void *caller);

/*
 * For slow paths: now and then an object of @size bytes for the cache, between guard pages; its
 * constructor was called. Nearly always NULL, after one load. @node: as for slab_alloc_slow();
 * @caller: the program's; NULL: the library's own request, which gets none. The caller has
 * nothing in hand and holds no lock.
 */
static always_inline void *slab_kfence_alloc(struct kmem_cache *s, unsigned int node,
					     size_t size, gfp_t flags, const void *caller)
{
	return kfence_gate_is_open() ? slab_kfence_take(s, node, size, flags, caller) : NULL;
}

/* Frees @obj, which kfence_has(). @s: the cache that the program named, or NULL. */
void slab_kfence_free(const struct kmem_cache *s, void *obj, const char *func,
		      const void *caller);

#endif
