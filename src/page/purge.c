/* SPDX-License-Identifier: MIT */
/*
 * Memory back to the system: free blocks that may be resident are purged, the
 * largest first, on demand or when they are not needed. Needed is what was in use
 * again within the decay time (tunable dirty_decay_ms): of the free dirty pages
 * above dirty_max, the smallest number of the last period was never touched in it
 * and goes. What a program frees and takes again all the time is never purged:
 * refaulting it costs more than everything else here.
 *
 * A block is off the free lists while it is purged, without the zone's lock. If
 * the system refuses (mlock), it goes back as dirty as it was.
 */
#include "base/bits.h"
#include "base/config.h"
#include "os/os.h"
#include "page/zone.h"
#include "percpu/percpu.h"

/*
 * Purge until at most @target dirty pages are left, but no more than about @max: a
 * block is purged as a whole, and so it may be larger than that by a 32nd.
 * Result: pages purged.
 */
static size_t purge_to(struct zone *z, size_t target, size_t max)
{
	size_t purged = 0;

	lock(&z->lock);
	__zone_carve_release(z);
	/* Frees that go on meanwhile must not keep this going for ever. */
	max = min_size(max, 2 * z->nr_dirty);
	while (z->nr_dirty > target && purged < max) {
		size_t left = max - purged, n, pfn;
		struct page *page = __zone_take_dirty(z, ilog2(left + left / 31));
		bool ok;

		if (!page)
			break;
		n = (size_t)1 << page->order;
		pfn = page_to_pfn(page);
		unlock(&z->lock);
		ok = os_purge(page_to_virt(page), n << page_window.page_shift) == 0;
		lock(&z->lock);
		__zone_free_run(z, pfn, n, ok);
		if (!ok)
			break;
		purged += n;
		z->nr_purged += n;
	}
	unlock(&z->lock);
	return purged;
}

/* Pages that the period now ended had no use for, and a new one begins; else 0. */
static size_t decayed(struct zone *z, size_t limit)
{
	uint64_t now = os_calls.now_ms();
	size_t unused = 0, dirty;

	if (now - atomic_load_explicit(&z->dirty_since, memory_order_relaxed) <
	    config.dirty_decay_ms)
		return 0;
	lock(&z->lock);
	dirty = atomic_load_explicit(&z->nr_dirty, memory_order_relaxed);
	if (now - atomic_load_explicit(&z->dirty_since, memory_order_relaxed) >=
		    config.dirty_decay_ms &&
	    dirty > limit) {
		unused = z->dirty_low;
		z->dirty_low = dirty;
		atomic_store_explicit(&z->dirty_since, now, memory_order_relaxed);
	}
	unlock(&z->lock);
	return unused;
}

void zone_limit_dirty(struct zone *z)
{
	size_t limit = config.dirty_max >> page_window.page_shift;
	size_t unused;

	if (likely(atomic_load_explicit(&z->nr_dirty, memory_order_relaxed) <= limit))
		return;
	unused = decayed(z, limit);
	if (unused)
		purge_to(z, limit, unused);
}

size_t page_trim(bool all)
{
	size_t purged = 0;

	if (!page_init())
		return 0;
	for (unsigned int i = 0; i < page_window.nr_zones; i++) {
		if (all)
			pageset_drain(&zones[i], PCPU_ALL_CPUS);
		purged += purge_to(&zones[i], 0, SIZE_MAX);
	}
	return purged << page_window.page_shift;
}
