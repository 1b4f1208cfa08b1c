/* SPDX-License-Identifier: MIT */
/* The functions of <ukmem/slab.h> that hand out objects and take them back. */
#include <string.h>

#include "base/report.h"
#include "slab/slab.h"

/*
 * Whether @obj lies in a slab of @s, by the array map alone: cheap enough for every
 * free. (Caches with their array elsewhere look the same; that is found at a flush.)
 */
static always_inline bool is_object_of(const struct kmem_cache *s, const void *obj)
{
	size_t offset = (uintptr_t)obj - page_window.base;
	unsigned int entry;

	if (unlikely(offset >= page_window.size))
		return false;
	entry = page_window.array_map[offset >> ARRAY_MAP_SHIFT];
	return entry - s->entry_first <= (unsigned int)(s->entry_last - s->entry_first);
}

static inline void *zeroed(struct kmem_cache *s, void *obj, gfp_t flags)
{
	if (unlikely(flags & __GFP_ZERO) && obj)
		memset(obj, 0, s->object_size);
	return obj;
}

void *kmem_cache_alloc(struct kmem_cache *s, gfp_t flags)
{
	return zeroed(s, slab_alloc(s, flags, CALLER_ADDRESS), flags);
}

void *kmem_cache_zalloc(struct kmem_cache *s, gfp_t flags)
{
	return zeroed(s, slab_alloc(s, flags, CALLER_ADDRESS), flags | __GFP_ZERO);
}

void *kmem_cache_alloc_node(struct kmem_cache *s, gfp_t flags, int nid)
{
	int node;
	void *obj;

	if (nid == NUMA_NO_NODE)
		return zeroed(s, slab_alloc(s, flags, CALLER_ADDRESS), flags);
	node = page_node_index(nid);
	if (node < 0)
		return NULL;
	obj = pcpu_array_pop(slab_array(s, (unsigned int)node));
	if (unlikely(!obj))
		obj = slab_alloc_slow(s, (unsigned int)node, flags, CALLER_ADDRESS);
	return zeroed(s, obj, flags);
}

static noinline void free_slow(struct kmem_cache *s, void *obj, const void *caller)
{
	if (!obj)
		return;
	/* In the low window, or of a cache that is debugged. */
	if (slab_cache_of(obj) == s || atomic_load_explicit(&s->checked, memory_order_relaxed))
		slab_free(s, obj, caller);
	else
		report_invalid("kmem_cache_free()", obj, "not an object of this cache");
}

void kmem_cache_free(struct kmem_cache *s, void *obj)
{
	if (likely(is_object_of(s, obj)))
		slab_free(s, obj, CALLER_ADDRESS);
	else
		free_slow(s, obj, CALLER_ADDRESS);
}

int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t n, void **p)
{
	size_t got;

	if (n > INT32_MAX)
		return 0;
	got = slab_alloc_bulk(s, page_policy_node(), flags, n, p, CALLER_ADDRESS);
	if (got < n) {
		slab_free_bulk(s, got, p, CALLER_ADDRESS);
		return 0;
	}
	if (unlikely(flags & __GFP_ZERO))
		for (size_t i = 0; i < n; i++)
			memset(p[i], 0, s->object_size);
	return (int)n;
}
