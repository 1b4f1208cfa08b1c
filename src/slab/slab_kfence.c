/* SPDX-License-Identifier: MIT */
/*
 * Which requests KFENCE's pool may serve, and what their caches count.
 *
 * An object in the pool is one of its cache by name, size, alignment and constructor, and is
 * counted among the cache's. It lies in no slab, so caches whose objects must lie in slabs, and
 * checked caches, have none there.
 */
#include "slab/slab_kfence.h"

#include "base/bits.h"
#include "page/mempolicy.h"

/* The cache's alignment, and the kernel's promise for kmalloc: a multiple of 2^n bytes is
 * aligned to 2^n. */
static size_t least_align(const struct kmem_cache *s, size_t size)
{
	size_t least = size < 16 ? 8 : 16;

	return s->budgeted ? max_size(least, size & -size) : max_size(s->align, 1);
}

/* Whether the cache counts all its objects, wants them in slabs, or is checked. */
static bool is_excluded(struct kmem_cache *s)
{
	return slab_is_checked(s) || s->gfp || s->flags & SLAB_TYPESAFE_BY_RCU ||
	       atomic_load_explicit(&s->max_slabs, memory_order_relaxed);
}

cold void *slab_kfence_take(struct kmem_cache *s, unsigned int node, size_t size, gfp_t flags,
			    const void *caller)
{
	struct kfence_request r = {
		.cache = s,
		.name = s->name,
		.size = size,
		.align = least_align(s, size),
		.caller = caller,
	};
	void *obj;

	if (!caller || !(flags & __GFP_DIRECT_RECLAIM) || flags & (__GFP_DMA | __GFP_DMA32) ||
	    !kfence_gate_is_open_to(max_size(size, r.align)) || is_excluded(s) ||
	    node != page_policy_node() || !lock_none_held())
		return NULL;
	obj = kfence_take(&r);
	if (!obj)
		return NULL;
	slab_event(s, SLAB_ALLOC_SLOWPATH);
	if (s->ctor)
		s->ctor(obj);
	return obj;
}

cold void slab_kfence_free(const struct kmem_cache *s, void *obj, const char *func,
			   const void *caller)
{
	struct kmem_cache *of = (struct kmem_cache *)(uintptr_t)kfence_cache_of(obj);

	if (s && of != s)
		kfence_refuse(obj, func, caller);
	else if (kfence_free(obj, func, caller, of && of->init & SLAB_INIT_FREE) && of)
		slab_event(of, SLAB_FREE_SLOWPATH);
}
