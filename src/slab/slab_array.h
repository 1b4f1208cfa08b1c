/* SPDX-License-Identifier: MIT */
/* This CPU's array of free objects: the fast paths; see slab_array.c. */
#ifndef SLAB_SLAB_ARRAY_H
#define SLAB_SLAB_ARRAY_H

#include "page/mempolicy.h"
#include "percpu/percpu_alloc.h"
#include "slab/slab_types.h"

/* pcpu_first_unit(), where the array map's entries count from. */
extern char *slab_arrays;

/* @node: of which node; @caller: of the program's function, for records. */
void *slab_alloc_slow(struct kmem_cache *s, unsigned int node, gfp_t flags, const void *caller);
void slab_free_slow(struct kmem_cache *s, void *obj, const void *caller);
/* @n objects into the program's hands. Result: how many it got. */
size_t slab_alloc_bulk(struct kmem_cache *s, unsigned int node, gfp_t flags, size_t n, void **p,
		       const void *caller);
/* @n objects of one cache. */
void slab_free_bulk(struct kmem_cache *s, size_t n, void **p, const void *caller);

/* Both fail, and take the slow path, in fallback mode too. */
static always_inline void *slab_alloc(struct kmem_cache *s, gfp_t flags, const void *caller)
{
	void *obj;

	return likely(pcpu_array_pop_rseq(&pcpu, s->fast_array, &obj))
		       ? obj
		       : slab_alloc_slow(s, page_policy_node(), flags, caller);
}

/* Objects of one cache and node have one entry in the array map. */
static always_inline unsigned int slab_entry(const void *obj)
{
	size_t offset = (uintptr_t)obj - page_window.base;

	return likely(page_window_readable(offset))
		       ? page_window.array_map[offset >> ARRAY_MAP_SHIFT]
		       : PCPU_ENTRY_NONE;
}

/* Whether an object whose page has @entry lies in a slab of @s. False also where no entry says
 * so; then slab_cache_of() does. */
static always_inline bool slab_has(const struct kmem_cache *s, unsigned int entry)
{
	return entry - s->entry_first <= s->entry_last - s->entry_first;
}

/* To the array of the cache whose object it is; with a token that fails. */
static always_inline bool slab_push(unsigned int entry, void *obj)
{
	return pcpu_array_push_rseq(&pcpu, slab_arrays, entry, obj);
}

/* The fast path of a free to a cache. False: the caller finds out why. */
static always_inline bool slab_push_to(const struct kmem_cache *s, unsigned int entry,
				       void *obj)
{
	return likely(slab_has(s, entry)) &&
	       pcpu_array_push_rseq(&pcpu, s->free_base, entry, obj);
}

/* slab_api.c: kmem_cache_free() without the fast path; @func: the name misuse is reported
 * under. */
void slab_free_any(struct kmem_cache *s, void *obj, const char *func, const void *caller);

#endif
