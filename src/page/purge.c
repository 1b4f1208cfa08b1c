/* SPDX-License-Identifier: MIT */
/*
 * Memory back to the system: free blocks that may be resident are purged, the
 * largest first, on demand or when they are not needed. Needed is what was in use
 * again within the decay time (tunable dirty_decay_ms), looked at in periods of half of it:
 * of the free dirty pages above dirty_max, the smallest number of the last period was never
 * touched in it and goes, a piece at each opportunity. What a program frees and takes again all
 * the time is never purged: refaulting it costs more than everything else here. What cannot be
 * used again because its pieces are too small goes at once (zone.c: note_growth).
 *
 * Opportunities are requests that may enter the kernel and had to look beyond their
 * CPU's caches, and frees of the malloc drop-in that did; in a program that stands still
 * there are none, unless there is a background thread (background.c).
 *
 * A block is off the free lists while it is purged, without the zone's lock. If
 * the system refuses (mlock), it goes back as dirty as it was.
 */
#include "page/purge.h"

#include <string.h>

#include "base/bits.h"
#include "base/config.h"
#include "os/os.h"
#include "page/limits.h"
#include "page/node.h"
#include "percpu/gate.h"
#include "percpu/percpu.h"

enum {
	HUGE_PAGE = 2 << 20,	  /* the smallest piece with thp:always */
	METADATA_BYTES = 1 << 20, /* from this size of a block on its metadata goes, too */
};

/* Unpinned memory that cannot be purged either has to be pinned again, or zero. */
static int purge_pinned(void *addr, size_t len)
{
	int err;

	os_unpin(addr, len);
	err = os_purge(addr, len);
	if (!err || !os_pin(addr, len))
		return err;
	memset(addr, 0, len);
	return 0;
}

static int purge_block(const struct zone *z, size_t pfn, size_t npages)
{
	size_t len = npages << page_window.page_shift;
	void *addr = pfn_to_virt(pfn);
	int err = z->type == ZONE_DMA ? purge_pinned(addr, len) : os_purge(addr, len);

	if (!err && len >= METADATA_BYTES)
		window_purge_metadata(pfn, npages);
	return err;
}

/* The block this thread has off the lists: its own, if a handler that interrupts it forks. */
static _Thread_local struct page *purging __attribute__((tls_model("initial-exec")));

/*
 * Purge until at most @target dirty pages are left, but no more than about @max: a
 * block is purged as a whole, and so it may be larger than that by a 32nd. Blocks of
 * less than @least pages stay. Result: pages purged.
 */
static size_t purge_to(struct zone *z, size_t target, size_t max, size_t least)
{
	size_t purged = 0;

	zone_lock(z);
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
		if (n < least) {
			__zone_free_run(z, pfn, n, PAGE_DIRTY);
			break;
		}
		z->isolated += n;
		list_add(&page->lru, &z->isolated_blocks);
		purging = page;
		zone_unlock(z, true);
		ok = purge_block(z, pfn, n) == 0;
		zone_lock(z);
		purging = NULL;
		list_del(&page->lru);
		z->isolated -= n;
		__zone_free_run(z, pfn, n, ok ? PAGE_PURGED : PAGE_DIRTY);
		if (!ok)
			break;
		purged += n;
		z->nr_purged += n;
	}
	zone_unlock(z, true);
	return purged;
}

size_t zone_purge(struct zone *z)
{
	/* Unpinned it would have to be pinned again, which may be refused. */
	if (z->type == ZONE_DMA)
		return 0;
	return purge_to(z, 0, SIZE_MAX, 0);
}

/* If a period has ended, its backlog are the pages that it had no use for. */
static void end_period(struct zone *z, size_t limit)
{
	uint64_t now = os_calls.now_ms();
	size_t dirty;

	if ((int64_t)(now - atomic_load_explicit(&z->dirty_since, memory_order_relaxed)) <
	    (int64_t)config.dirty_decay_ms / 2)
		return;
	zone_lock(z);
	dirty = z->nr_dirty;
	if ((int64_t)(now - atomic_load_explicit(&z->dirty_since, memory_order_relaxed)) >=
		    (int64_t)config.dirty_decay_ms / 2 &&
	    dirty > limit) {
		atomic_store_explicit(&z->decay_backlog, z->dirty_low, memory_order_relaxed);
		z->dirty_low = dirty;
		atomic_store_explicit(&z->dirty_since, now, memory_order_relaxed);
	}
	zone_unlock(z, true);
}

/* Of one zone. Result: whether there is more to do at once. */
static bool decay(struct zone *z)
{
	size_t limit = config.dirty_max >> page_window.page_shift;
	size_t piece = (size_t)1 << zone_piece_order(), backlog, purged;

	if (likely(atomic_load_explicit(&z->dirty, memory_order_relaxed) <= limit) ||
	    z->type == ZONE_DMA)
		return false;
	end_period(z, limit);
	backlog = atomic_load_explicit(&z->decay_backlog, memory_order_relaxed);
	if (!backlog)
		return false;
	purged = purge_to(z, limit, min_size(backlog, piece),
			  config.thp == THP_ALWAYS ? HUGE_PAGE >> page_window.page_shift : 0);
	/* Whoever else purged meanwhile: too little is made up for in the next period. */
	backlog = purged ? backlog - min_size(purged, backlog) : 0;
	atomic_store_explicit(&z->decay_backlog, backlog, memory_order_relaxed);
	return backlog != 0;
}

bool decay_all(void)
{
	bool more = false;

	for_each_zone (z)
		more = decay(z) || more;
	return more;
}

bool decay_is_due(void)
{
	size_t limit = config.dirty_max >> page_window.page_shift;

	for_each_zone (z)
		if (z->type != ZONE_DMA &&
		    atomic_load_explicit(&z->dirty, memory_order_relaxed) > limit)
			return true;
	return false;
}

void purge_fork_child(void)
{
	struct page *page, *next;

	for_each_zone (z) {
		/* Held by what a handler interrupted and forked: that goes on here. */
		if (!zone_trylock(z))
			continue;
		list_for_each_entry_safe (page, next, &z->isolated_blocks, lru) {
			if (page == purging)
				continue;
			list_del(&page->lru);
			z->isolated -= (size_t)1 << page->order;
			__zone_free_run(z, page_to_pfn(page), (size_t)1 << page->order,
					PAGE_DIRTY);
		}
		zone_unlock(z, true);
		/* Locks on memory are not inherited: what is free is not pinned any more. */
		if (z->type == ZONE_DMA && z->present) {
			pageset_drain(z, PCPU_ALL_CPUS);
			purge_to(z, 0, SIZE_MAX, 0);
		}
	}
}

/* When all zones were last looked at, and whether there was more to do at once. */
static _Atomic uint64_t last_look;
static atomic_bool unfinished;

void page_decay(void)
{
	size_t dirty = atomic_load_explicit(&page_limits.dirty, memory_order_relaxed);

	/* A program that does not know of the library may allow it less (seccomp): in the
	 * drop-in the background thread alone looks. */
	if (!os_heap.is_ukmem)
		pcpu_look();
	if (likely(dirty <= config.dirty_max >> page_window.page_shift))
		return;
	/* Nothing that has to be now: neither for a handler that interrupted the holder of a
	 * lock, nor for who would have to wait for a fork. */
	if (!lock_none_held() || pcpu_gate_is_closed())
		return;
	background_poll(dirty);
	if ((atomic_load_explicit(&last_look, memory_order_relaxed) == os_calls.now_ms() &&
	     !atomic_load_explicit(&unfinished, memory_order_relaxed)))
		return;
	atomic_store_explicit(&last_look, os_calls.now_ms(), memory_order_relaxed);
	pcpu_gate_enter(true);
	atomic_store_explicit(&unfinished, decay_all(), memory_order_relaxed);
	pcpu_gate_leave();
}

/*
 * What was never touched, or was given back, may be resident all the same: a huge page covers
 * what lies beside memory in use, and the kernel makes some of small pages at any time
 * (khugepaged). It stays when that memory goes; and where it is, when the nodes change.
 */
static void purge_clean(struct zone *z)
{
	zone_lock(z);
	for (unsigned int order = 0; order <= MAX_ORDER; order++)
		for (size_t n = __zone_count_clean(z, order); n; n--) {
			struct page *page = __zone_next_clean(z, order);

			if (!page)
				break;
			os_purge(page_to_virt(page),
				 (size_t)1 << order << page_window.page_shift);
			/* Who waits gets on. */
			zone_unlock(z, true);
			zone_lock(z);
		}
	zone_unlock(z, true);
}

size_t page_trim(bool all)
{
	size_t purged = 0;

	if (!page_init())
		return 0;
	if (all)
		nodes_update_allowed();
	for_each_zone (z) {
		if (all)
			pageset_drain(z, PCPU_ALL_CPUS);
		purged += purge_to(z, 0, SIZE_MAX, 0);
		if (all && config.thp != THP_NEVER)
			purge_clean(z);
	}
	return purged << page_window.page_shift;
}
