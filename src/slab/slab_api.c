/* SPDX-License-Identifier: MIT */
/* The functions of <ukmem/slab.h> that hand out objects and take them back. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/report.h"
#include "os/os.h"
#include "slab/debug/check.h"
#include "slab/slab_array.h"
#include "slab/slab_kfence.h"
#include "slab/slab_page.h"
#include "slab/slab_profile.h"

static inline void *zeroed(struct kmem_cache *s, void *obj, gfp_t flags)
{
	if (unlikely(flags & __GFP_ZERO) && obj && !(s->init & SLAB_INIT_ALLOC))
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

	if (nid == NUMA_NO_NODE)
		return zeroed(s, slab_alloc(s, flags, CALLER_ADDRESS), flags);
	node = page_node_index(nid);
	if (node < 0)
		return NULL;
	return zeroed(
		s, slab_alloc_on(s, (unsigned int)node, s->object_size, flags, CALLER_ADDRESS),
		flags);
}

/* @of: the cache whose object @obj is; NULL: it is no object of a cache. The cache that the
 * program named may be gone, so its name is not looked at. */
static cold void report_foreign(const struct kmem_cache *of, const void *obj, const char *func,
				const void *caller)
{
	static const char wrong[] = "not an object of this cache";
	char why[sizeof(wrong) + sizeof(", but of ") + sizeof(of->name)];

	if (of)
		snprintf(why, sizeof(why), "%s, but of %s", wrong, of->home->name);
	report_invalid(func, obj, of ? why : wrong, caller);
}

void slab_free_any(struct kmem_cache *s, void *obj, const char *func, const void *caller)
{
	struct kmem_cache *of;

	if (!obj)
		return;
	if (kfence_has(obj)) {
		slab_kfence_free(s, obj, func, caller);
		return;
	}
	of = slab_cache_of(obj);
	if (of == s) /* the cache has no entry, or the array is full */
		slab_free_slow(s, obj, caller);
	else if (of && of->home == s)
		slab_checked_free(of, obj, caller);
	else if (!of && slab_passes_through(obj))
		os_heap.free(obj);
	else if (of || !slab_profile_free(s, obj))
		report_foreign(of, obj, func, caller);
}

void kmem_cache_free(struct kmem_cache *s, void *obj)
{
	if (unlikely(!slab_push_to(s, slab_entry(obj), obj)))
		slab_free_any(s, obj, "kmem_cache_free()", CALLER_ADDRESS);
}

int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t n, void **p)
{
	size_t got;

	if (n > INT32_MAX)
		return 0;
	if (n == 1) {
		*p = zeroed(s, slab_alloc(s, flags, CALLER_ADDRESS), flags);
		return *p != NULL;
	}
	got = slab_alloc_bulk(s, page_policy_node(), flags, n, p, CALLER_ADDRESS);
	debug_assert(got <= n);
	if (got < n) {
		while (got) /* one by one: each may be of the cache or of its twin */
			kmem_cache_free(s, p[--got]);
		return 0;
	}
	if (unlikely(flags & __GFP_ZERO) && !(s->init & SLAB_INIT_ALLOC))
		for (size_t i = 0; i < n; i++)
			memset(p[i], 0, s->object_size);
	return (int)n;
}
