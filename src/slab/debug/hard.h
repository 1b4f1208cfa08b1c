/* SPDX-License-Identifier: MIT */
/* Objects of hardened caches; see hard.c. */
#ifndef SLAB_DEBUG_HARD_H
#define SLAB_DEBUG_HARD_H

#include "slab/slab_hard.h"

/* Gives a new cache its quarantine; false without memory. The second undoes it. */
bool slab_hard_prepare(struct kmem_cache *s);
void slab_hard_release(struct kmem_cache *s);

/* An object; NULL: there is none at hand (the first), or no memory (the second). */
void *slab_hard_pop(struct kmem_cache *s, unsigned int node);
void *slab_hard_alloc(struct kmem_cache *s, unsigned int node, gfp_t flags);
/* Frees an object of @s, or reports why it is none. @func: the name for the report. */
void slab_hard_free(struct kmem_cache *s, void *obj, const char *func);
/* Whether an object of @s begins at @obj and is in use; reports it if not. */
bool slab_hard_in_use(struct kmem_cache *s, const void *obj, const char *func);

/* The cache whose class mark the page of @p has; NULL: none. */
static inline struct kmem_cache *slab_hard_cache(const void *p)
{
	size_t offset = (uintptr_t)p - page_window.base;

	if (unlikely(!page_window_readable(offset)))
		return NULL;
	return slab_hard()
		->by_mark[page_place_mark(page_place(offset >> page_window.page_shift))];
}

#endif
