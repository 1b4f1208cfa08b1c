/* SPDX-License-Identifier: MIT */
/*
 * The hard limit of a cache. It counts slabs, where they are made and freed, because the fast
 * paths do not count objects. Samples of the heap profile are no objects of the cache.
 *
 * The limit holds for all slabs of a cache and its twin together; a slab beyond it is not made.
 * Free objects in other CPUs' arrays keep slabs, too; so a request that may wait and meets the
 * limit empties these arrays, gives back empty slabs, and tries again (slab_array.c).
 */
#include "slab/slab_limit.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/log.h"
#include "os/os.h"

/*
 * The slabs that count towards the limit, in usual ones. All are charged as one each. Large
 * slabs, which a size class makes while it has no limit, and those of a twin, whose objects are
 * larger, count by their objects. Other threads may make slabs between the loads.
 */
static size_t counted(const struct kmem_cache *s, size_t charged)
{
	const struct kmem_cache *twin = slab_twin(s);
	size_t large = 0, debugged = 0, objects;

	if (likely(!s->large_mark && !twin))
		return charged;
	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		large += atomic_load_explicit(&s->nodes[i].nr_large, memory_order_relaxed);
		if (twin)
			debugged += atomic_load_explicit(&twin->nodes[i].nr_slabs,
							 memory_order_relaxed);
	}
	objects = large * s->large.objects + (twin ? debugged * twin->layout.objects : 0);
	return charged - min_size(charged, large + debugged) + objects / s->layout.objects;
}

bool slab_limit_charge(struct kmem_cache *s, gfp_t flags)
{
	size_t max = atomic_load_explicit(&s->max_slabs, memory_order_relaxed), n;

	debug_assert(s->home == s);
	if (likely(!max) || flags & __GFP_NOFAIL) {
		atomic_fetch_add_explicit(&s->all_slabs, 1, memory_order_relaxed);
		return true;
	}
	n = atomic_load_explicit(&s->all_slabs, memory_order_relaxed);
	do
		if (counted(s, n) >= max)
			return false;
	while (!atomic_compare_exchange_weak_explicit(
		&s->all_slabs, &n, n + 1, memory_order_relaxed, memory_order_relaxed));
	return true;
}

void slab_limit_uncharge(struct kmem_cache *s)
{
	size_t before = atomic_fetch_sub_explicit(&s->all_slabs, 1, memory_order_relaxed);

	debug_assert(before && s->home == s);
	(void)before;
}

bool slab_limit_reached(const struct kmem_cache *s)
{
	const struct kmem_cache *home = s->home;
	size_t max = atomic_load_explicit(&home->max_slabs, memory_order_relaxed);

	return max && counted(home, atomic_load_explicit(&home->all_slabs,
							 memory_order_relaxed)) >= max;
}

void slab_limit_tell(struct kmem_cache *s, gfp_t flags)
{
	struct kmem_cache *home = s->home;
	uint64_t now, then, interval;

	if (!(flags & __GFP_DIRECT_RECLAIM) || flags & __GFP_NOWARN)
		return;
	now = os_calls.now_ms();
	then = atomic_load_explicit(&home->limit_told, memory_order_relaxed);
	interval = 1000 *
		   (uint64_t)atomic_load_explicit(&home->limit_interval, memory_order_relaxed);
	if ((then && now - then < interval) ||
	    !atomic_compare_exchange_strong_explicit(
		    &home->limit_told, &then, now, memory_order_relaxed, memory_order_relaxed))
		return;
	log_warn("kmem_cache_alloc(%s): the cache is at its limit of %lu objects", home->name,
		 kmem_cache_limit(home));
}

int kmem_cache_set_limit(struct kmem_cache *s, unsigned long objects, unsigned int interval)
{
	atomic_store_explicit(&s->limit_interval, interval, memory_order_relaxed);
	atomic_store_explicit(&s->limit_told, 0, memory_order_relaxed);
	atomic_store_explicit(&s->max_slabs, slab_slabs_of(s, objects), memory_order_relaxed);
	return 0;
}

unsigned long kmem_cache_limit(const struct kmem_cache *s)
{
	size_t max = atomic_load_explicit(&s->max_slabs, memory_order_relaxed), objects;

	return __builtin_mul_overflow(max, s->layout.objects, &objects) ? SIZE_MAX : objects;
}
