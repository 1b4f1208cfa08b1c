/* SPDX-License-Identifier: MIT */
/*
 * Caches that somebody wants looked after, for one reason or several (enum slab_check): their
 * arrays stay closed, so that every request and every free comes by here.
 *
 * Switching, while others use the cache: first s->checked is set, then every array's capacity
 * is taken away, and what the arrays hold goes back to the slabs. Who opens an array at that
 * moment looks at s->checked again afterwards (slab_cpu.c): C1, the flag and then the
 * capacity, against C2, the capacity and then the flag, all seq_cst; one of the two sees the
 * other. Switching off is clearing the flag: arrays are opened when they are used.
 *
 * Lock: the caches lock, for who changes the flags.
 */
#include <errno.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "base/report.h"
#include "os/os.h"
#include "slab/slab_debug.h"

static void close_arrays(struct kmem_cache *s)
{
	for (unsigned int node = 0; node < page_window.nr_nodes; node++)
		for_each_cpu_unit (cpu)
			slab_close_array(s, pcpu_ptr(slab_array(s, node), cpu), cpu);
	slab_drain(s, PCPU_ALL_CPUS);
}

/* After this, requests that begin come by here. */
static void begin(struct kmem_cache *s, enum slab_check why)
{
	if (!atomic_fetch_or_explicit(&s->checked, why, memory_order_seq_cst)) /* C1 */
		close_arrays(s);
}

static void end(struct kmem_cache *s, enum slab_check why)
{
	atomic_fetch_and_explicit(&s->checked, ~(unsigned int)why, memory_order_seq_cst);
}

int kmem_cache_debug(struct kmem_cache *s, slab_flags_t flags)
{
	if (flags & ~SLAB_DEBUG_FLAGS)
		return -EINVAL;
	if (flags && !slab_debug_twin(s, s->budgeted))
		return -ENOMEM;
	slab_caches_lock();
	atomic_store_explicit(&s->debug, flags, memory_order_relaxed);
	if (flags)
		begin(s, SLAB_CHECK_DEBUG);
	else
		end(s, SLAB_CHECK_DEBUG);
	slab_caches_unlock();
	return 0;
}

void kmem_cache_fail(struct kmem_cache *s, long after, unsigned long times)
{
	slab_caches_lock();
	end(s, SLAB_CHECK_FAIL);
	atomic_store_explicit(&s->fail_calls, 0, memory_order_relaxed);
	atomic_store_explicit(&s->fail_times, times, memory_order_relaxed);
	atomic_store_explicit(&s->fail_after, (uint64_t)after, memory_order_relaxed);
	if (after >= 0)
		begin(s, SLAB_CHECK_FAIL);
	slab_caches_unlock();
}

bool slab_check_created(struct kmem_cache *s, const struct slab_params *p)
{
	slab_flags_t flags = (p->flags & SLAB_DEBUG_FLAGS) | slab_debug_of_name(p->name);
	unsigned int why = flags ? SLAB_CHECK_DEBUG : 0;

	if (config.passthrough && !s->keeps_slabs && !s->gfp)
		why |= SLAB_CHECK_PASSTHROUGH;
	else if (slab_annotate_wanted())
		why |= SLAB_CHECK_ANNOTATE;
	if (why & (SLAB_CHECK_DEBUG | SLAB_CHECK_ANNOTATE) && !slab_debug_twin(s, p->budgeted))
		return false;
	atomic_store_explicit(&s->debug, flags, memory_order_relaxed);
	atomic_store_explicit(&s->checked, why, memory_order_relaxed);
	return true;
}

/* Whether this allocation, the next one, is one of those that are to fail. */
static bool must_fail(struct kmem_cache *s, unsigned int why, gfp_t flags)
{
	uint64_t call, after, times;

	if (!(why & SLAB_CHECK_FAIL) || flags & __GFP_NOFAIL)
		return false;
	call = atomic_fetch_add_explicit(&s->fail_calls, 1, memory_order_relaxed);
	after = atomic_load_explicit(&s->fail_after, memory_order_relaxed);
	times = atomic_load_explicit(&s->fail_times, memory_order_relaxed);
	if (call < after || (times && call - after >= times))
		return false;
	slab_event(s, SLAB_ALLOC_FAIL);
	return true;
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

static void *alloc_one(struct kmem_cache *s, unsigned int why, unsigned int node, gfp_t flags,
		       const void *caller)
{
	if (why & SLAB_CHECK_PASSTHROUGH)
		return alloc_libc(s);
	if (why & (SLAB_CHECK_DEBUG | SLAB_CHECK_ANNOTATE))
		return slab_debug_alloc(s, node, flags, caller);
	return alloc_plain(s, node, flags);
}

void *slab_checked_alloc(struct kmem_cache *s, unsigned int node, gfp_t flags,
			 const void *caller)
{
	unsigned int why = atomic_load_explicit(&s->checked, memory_order_relaxed);

	if (must_fail(s, why, flags))
		return NULL;
	return alloc_one(s, why, node, flags, caller);
}

size_t slab_checked_alloc_bulk(struct kmem_cache *s, unsigned int node, gfp_t flags, size_t n,
			       void **p, const void *caller)
{
	unsigned int why = atomic_load_explicit(&s->checked, memory_order_relaxed);
	size_t got = 0;

	if (must_fail(s, why, flags))
		return 0;
	while (got < n && (p[got] = alloc_one(s, why, node, flags, caller)))
		got++;
	return got;
}

void slab_checked_free(struct kmem_cache *s, void *obj, const void *caller)
{
	if (s->home != s) {
		slab_debug_free(s, obj, caller);
		return;
	}
	if (slab_passes_through(obj)) {
		os_heap.free(obj);
		return;
	}
	/* From before it was looked after: the bitmap knows double frees and wrong pointers. */
	slab_event(s, SLAB_FREE_SLOWPATH);
	slab_put(s, &obj, 1, SLAB_PUT_CPU);
}

bool slab_checked_in_use(struct kmem_cache *s, void *obj, const void *caller)
{
	return s->home == s || slab_debug_in_use(s, obj, caller);
}
