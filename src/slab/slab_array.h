/* SPDX-License-Identifier: MIT */
/* This CPU's array of free objects: the fast paths; see slab_array.c. */
#ifndef SLAB_SLAB_ARRAY_H
#define SLAB_SLAB_ARRAY_H

#include <string.h>

#include "page/mempolicy.h"
#include "percpu/percpu_alloc.h"
#include "slab/slab_types.h"

/* pcpu_first_unit(), the address of entry 0 of the array map. */
extern char *slab_arrays;

/* The slow paths. @node: the node to allocate from; @size: the bytes asked for; @caller: the
 * program's, for records. */
void *slab_alloc_slow(struct kmem_cache *s, unsigned int node, size_t size, gfp_t flags,
		      const void *caller);
void slab_free_slow(struct kmem_cache *s, void *obj, const void *caller);
/* Allocates @n objects into @p. Result: how many it got. */
size_t slab_alloc_bulk(struct kmem_cache *s, unsigned int node, gfp_t flags, size_t n, void **p,
		       const void *caller);
/* Frees @n objects of one cache. */
void slab_free_bulk(struct kmem_cache *s, size_t n, void **p, const void *caller);

/* Allocates an object of @node, out of this CPU's array if it has one. */
static inline void *slab_alloc_on(struct kmem_cache *s, unsigned int node, size_t size,
				  gfp_t flags, const void *caller)
{
	void *obj = NULL;

	if (likely(!slab_alloc_is_shut(s)))
		obj = pcpu_array_pop(slab_array(s, node));
	return likely(obj) ? obj : slab_alloc_slow(s, node, size, flags, caller);
}

/* The same for callers that name no node, where there are several. */
void *slab_alloc_near(struct kmem_cache *s, size_t size, gfp_t flags, const void *caller);

/* Zeroes all usable bytes of what served a request of @s for @size bytes: not each such block
 * is an object of the cache or of its twin. */
void slab_zero(const struct kmem_cache *s, void *obj, size_t size);

/* Allocates an object for @size bytes. In fallback mode the section fails, and this takes the
 * slow path. */
static always_inline void *slab_alloc_sized(struct kmem_cache *s, size_t size, gfp_t flags,
					    const void *caller)
{
	void *obj;

	if (likely(pcpu_array_pop_rseq(&pcpu, s->fast_array, &obj)))
		return obj;
	return likely(page_window.nr_nodes == 1) ? slab_alloc_slow(s, 0, size, flags, caller)
						 : slab_alloc_near(s, size, flags, caller);
}

static always_inline void *slab_alloc(struct kmem_cache *s, gfp_t flags, const void *caller)
{
	return slab_alloc_sized(s, s->object_size, flags, caller);
}

/* The array map's entry for an object; all objects of a cache and node have the same. */
static always_inline pcpu_entry_t slab_entry(const void *obj)
{
	size_t offset = (uintptr_t)obj - page_window.base;

	return likely(page_window_readable(offset))
		       ? page_window.array_map[offset >> ARRAY_MAP_SHIFT]
		       : PCPU_ENTRY_NONE;
}

/*
 * For caches whose objects are zeroed: out of this CPU's array, into which the fast paths do
 * not look, and onto it. NULL, or false: the slow path must do the rest.
 */
static inline void *slab_pop_zeroed(const struct kmem_cache *s, unsigned int node)
{
	void *obj = pcpu_array_pop(slab_array(s, node));

	return likely(obj) ? memset(obj, 0, s->object_size) : NULL;
}

/* Out of this CPU's array alone, also while a fork keeps slow paths waiting. NULL: it has none.
 */
static inline void *slab_pop(const struct kmem_cache *s, unsigned int node)
{
	return s->init & SLAB_INIT_ALLOC ? slab_pop_zeroed(s, node)
					 : pcpu_array_pop(slab_array(s, node));
}

static inline bool slab_push_zeroed(const struct kmem_cache *s, void *obj)
{
	memset(obj, 0, s->object_size);
	return pcpu_array_push(slab_array(s, page_node(page_of(obj))), obj);
}

/* Whether @entry is one of @s. False also for objects of @s without an entry; slab_cache_of()
 * finds their cache. */
static always_inline bool slab_has(const struct kmem_cache *s, pcpu_entry_t entry)
{
	return entry - s->entry_first <= s->entry_last - s->entry_first;
}

/* Pushes @obj onto the array that its entry leads to. */
static always_inline bool slab_push(pcpu_entry_t entry, void *obj)
{
	return pcpu_array_push_rseq(&pcpu, slab_arrays, entry, obj);
}

/* The fast path of a free to a cache. False: the slow path must find out why. */
static always_inline bool slab_push_to(const struct kmem_cache *s, pcpu_entry_t entry,
				       void *obj)
{
	return likely(slab_has(s, entry)) && slab_push(entry, obj);
}

/* slab_api.c: kmem_cache_free() without the fast path. @func: the name under which misuse is
 * reported. */
void slab_free_any(struct kmem_cache *s, void *obj, const char *func, const void *caller);

#endif
