/* SPDX-License-Identifier: MIT */
/*
 * Requests to checked caches. A cache is checked for one or several reasons (enum slab_check).
 * Its arrays stay closed (switch.c), so every allocation and every free comes to this file. A
 * cache that is only hardened is the exception: its arrays are open, and this file has the
 * requests that the fast paths of the hardened process did not serve.
 */
#include "slab/debug/check.h"

#include "base/assert.h"
#include "os/os.h"
#include "percpu/gate.h"
#include "slab/debug/hard.h"
#include "slab/debug/twin.h"
#include "slab/slab_objects.h"
#include "slab/slab_take.h"

bool slab_checked_fails(struct kmem_cache *s, gfp_t flags)
{
	unsigned int why = atomic_load_explicit(&s->checked, memory_order_relaxed);
	uint64_t call, after, times;

	if (unlikely(why & SLAB_CHECK_GONE))
		return true;
	if (!(why & SLAB_CHECK_FAIL) || flags & __GFP_NOFAIL)
		return false;
	call = atomic_fetch_add_explicit(&s->fail_calls, 1, memory_order_relaxed);
	after = atomic_load_explicit(&s->fail_after, memory_order_relaxed);
	times = atomic_load_explicit(&s->fail_times, memory_order_relaxed);
	return call >= after && (!times || call - after < times);
}

static void *alloc_libc(struct kmem_cache *s)
{
	void *obj = os_heap.alloc(s->align, s->object_size);

	if (obj && s->ctor)
		s->ctor(obj);
	return obj;
}

static void *alloc_plain(struct kmem_cache *s, unsigned int node, gfp_t flags)
{
	void *obj = NULL;

	if (slab_take(s, &node, &obj, 1, 1, flags))
		slab_event(s, SLAB_ALLOC_SLOWPATH);
	return obj;
}

static void *alloc_one(struct kmem_cache *s, unsigned int why, unsigned int node, size_t size,
		       gfp_t flags, const void *caller)
{
	if (why & SLAB_CHECK_PASSTHROUGH)
		return alloc_libc(s);
	if (why & (SLAB_CHECK_DEBUG | SLAB_CHECK_ANNOTATE))
		return slab_twin_alloc(s, node, size, flags, caller);
	if (why & SLAB_CHECK_HARD)
		return slab_hard_alloc(s, node, flags);
	return alloc_plain(s, node, flags);
}

void *slab_checked_alloc(struct kmem_cache *s, unsigned int node, size_t size, gfp_t flags,
			 const void *caller)
{
	unsigned int why = atomic_load_explicit(&s->checked, memory_order_acquire); /* C3 */

	debug_assert(s->home == s && node < page_window.nr_nodes);
	return alloc_one(s, why, node, size, flags, caller);
}

size_t slab_checked_alloc_bulk(struct kmem_cache *s, unsigned int node, gfp_t flags, size_t n,
			       void **p, const void *caller)
{
	unsigned int why = atomic_load_explicit(&s->checked, memory_order_acquire); /* C3 */
	size_t got = 0;

	debug_assert(s->home == s && node < page_window.nr_nodes);
	while (got < n && (p[got] = alloc_one(s, why, node, s->object_size, flags, caller))) {
		got++;
		pcpu_gate_let_fork_in(flags & __GFP_DIRECT_RECLAIM);
	}
	return got;
}

void slab_checked_free(struct kmem_cache *s, void *obj, const void *caller)
{
	if (s->home != s) {
		slab_twin_free(s, obj, caller);
		return;
	}
	if (slab_passes_through(obj)) {
		os_heap.free(obj);
		return;
	}
	if (s->hard) {
		slab_hard_free(obj, "free()", caller);
		return;
	}
	/* The object was allocated before the cache was checked. Its slab's bitmap shows double
	 * frees. */
	slab_event(s, SLAB_FREE_SLOWPATH);
	slab_put(s, &obj, 1, SLAB_PUT_CPU);
}

bool slab_checked_in_use(struct kmem_cache *s, void *obj, const char *func, const void *caller)
{
	if (s->hard)
		return slab_hard_in_use(s, obj, func, caller);
	return s->home == s || slab_twin_in_use(s, obj, caller);
}
