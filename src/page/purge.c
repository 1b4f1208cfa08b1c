/* SPDX-License-Identifier: MIT */
/*
 * Gives memory back to the system: purges dirty free blocks, the largest first, on demand or
 * when they are not needed (decay.c).
 *
 * A block is off the free lists while a thread purges it (or populates it: huge.c), without the
 * zone's lock. If the system refuses (mlock), the block goes back as dirty as it was.
 */
#include "page/purge.h"

#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/probe.h"
#include "os/os.h"
#include "page/buddy.h"
#include "page/limits.h"
#include "page/node.h"
#include "page/pageset.h"
#include "page/runs.h"
#include "page/window.h"
#include "page/zone.h"
#include "percpu/percpu.h"

enum {
	METADATA_BYTES = 1 << 20, /* of blocks from this size on, metadata is purged, too */
	/* A trim looks at so many clean blocks if any page was handed out or purged since the
	 * last look; */
	CLEAN_FEW = 64,
	/* at more of them if it was so many pages for each, whose cost is several times the
	 * look's; */
	CLEAN_MOVED = 8,
	CLEAN_MS = 1000, /* and at all if the last look was so long ago. */
};

/* Memory that was unpinned and cannot be purged must be pinned again, or be zero. */
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

/* The order of the smallest blocks whose metadata is purged, too. */
static unsigned int metadata_order(void)
{
	return max_uint(ilog2(METADATA_BYTES) - min_uint(page_window.page_shift, 20), 1);
}

static void purge_metadata(const struct page *page, size_t npages)
{
	if (npages >> metadata_order())
		window_purge_metadata(page_to_pfn(page), npages);
}

static int purge_block(const struct zone *z, struct page *page, size_t npages)
{
	size_t len = npages << page_window.page_shift;
	void *addr = page_to_virt(page);
	int err = z->type == ZONE_DMA ? purge_pinned(addr, len) : os_purge(addr, len);

	PROBE(purge, addr, npages, z->node, -err);
	if (!err)
		purge_metadata(page, npages);
	return err;
}

/*
 * The blocks that this thread has off the lists: several, if a handler interrupts a purge and
 * purges itself. If a handler forks, they stay the thread's in the child.
 */
struct purging {
	const struct page *page;
	const struct purging *outer;
};
static _Thread_local const struct purging *purging __attribute__((tls_model("initial-exec")));

static bool is_purging(const struct page *page)
{
	for (const struct purging *p = purging; p; p = p->outer)
		if (p->page == page)
			return true;
	return false;
}

int __zone_isolated(struct zone *z, struct page *page, size_t npages, isolated_work *work)
{
	struct purging mine = { page, purging };
	int err;

	lock_assert_held(&z->lock);
	debug_assert(page_type(page) == PAGE_NONE && is_pow2(npages));
	page->order = (uint8_t)ilog2(npages);
	z->isolated += npages;
	list_add(&page->free_list, &z->isolated_blocks);
	purging = &mine;
	zone_unlock(z, true);
	err = work(z, page, npages);
	zone_lock(z);
	purging = mine.outer;
	list_del(&page->free_list);
	debug_assert(z->isolated >= npages && page_type(page) == PAGE_NONE);
	z->isolated -= npages;
	return err;
}

/* As zone_purge_to(). The zone's lock is held before, and not after. */
static size_t __purge_to(struct zone *z, size_t target, size_t max, size_t least)
{
	size_t purged = 0;

	lock_assert_held(&z->lock);
	__zone_spaces_release(z);
	/* Other threads' frees must not keep this loop going for ever. */
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
		debug_assert(page_type(page) == PAGE_NONE && page->order <= MAX_ORDER);
		ok = __zone_isolated(z, page, n, purge_block) == 0;
		__zone_free_run(z, pfn, n, ok ? PAGE_PURGED : PAGE_DIRTY);
		if (!ok)
			break;
		purged += n;
		z->nr_purged += n;
		z->grown -= min_size(z->grown, n);
	}
	zone_unlock(z, true);
	if (purged)
		limits_shrunk();
	return purged;
}

size_t zone_purge_to(struct zone *z, size_t target, size_t max, size_t least)
{
	zone_lock(z);
	return __purge_to(z, target, max, least);
}

size_t zone_try_purge_to(struct zone *z, size_t target, size_t max, size_t least)
{
	return zone_trylock(z) ? __purge_to(z, target, max, least) : ZONE_BUSY;
}

size_t zone_purge(struct zone *z)
{
	/* Unpinned memory would have to be pinned again, which the system may refuse. */
	if (z->type == ZONE_DMA)
		return 0;
	return zone_purge_to(z, 0, SIZE_MAX, 0);
}

void purge_fork_child(void)
{
	struct page *page, *next;

	for_each_zone (z) {
		/* If this thread holds the lock, a handler forked, and the code that it
		 * interrupted goes on here. */
		if (!zone_trylock(z))
			continue;
		list_for_each_entry_safe (page, next, &z->isolated_blocks, free_list) {
			if (is_purging(page))
				continue;
			list_del(&page->free_list);
			debug_assert(z->isolated >= (size_t)1 << page->order);
			z->isolated -= (size_t)1 << page->order;
			__zone_free_run(z, page_to_pfn(page), (size_t)1 << page->order,
					PAGE_DIRTY);
		}
		z->huge_asking = false;
		zone_unlock(z, true);
		/* A child does not inherit locks on memory: free pages are not pinned now. They
		 * go back to the system, unless this thread has locks, perhaps that of the stop
		 * which a drain needs. */
		if (z->type == ZONE_DMA && z->present && lock_none_held()) {
			pageset_drain(z);
			zone_purge_to(z, 0, SIZE_MAX, 0);
		}
	}
}

/* Whether a trim looks at the clean blocks now: a process may have thousands of them, and trim
 * after every few frees, or again and again. If so, the look begins. */
static bool __clean_is_due(struct zone *z, bool always)
{
	uint64_t now = os_calls.now_ms(), moved = z->nr_direct + z->nr_purged, least = 1;

	lock_assert_held(&z->lock);
	if (z->clean_blocks > CLEAN_FEW)
		least = (uint64_t)CLEAN_MOVED * z->clean_blocks;
	if (!always && moved - z->clean_moved < least && now - z->clean_ms < CLEAN_MS)
		return false;
	z->clean_blocks = 0;
	z->clean_ms = now;
	z->clean_moved = moved;
	return true;
}

static int purge_clean_block(const struct zone *z, struct page *page, size_t npages)
{
	(void)z;
	if (config.thp != THP_NEVER)
		os_purge(page_to_virt(page), npages << page_window.page_shift);
	purge_metadata(page, npages);
	return 0;
}

/*
 * Clean memory may be resident all the same: a huge page covers memory beside pages in use, and
 * the kernel makes huge pages of small ones at any time (khugepaged). It stays resident when
 * the pages beside it are freed, and it stays on its node when the allowed nodes change.
 *
 * The metadata of a clean block is resident if the block was purged in small pieces, which
 * joined later.
 *
 * @always: the allowed nodes have changed.
 */
static void purge_clean(struct zone *z, bool always)
{
	unsigned int order = config.thp == THP_NEVER ? metadata_order() : 0;

	zone_lock(z);
	if (!__clean_is_due(z, always)) {
		zone_unlock(z, true);
		return;
	}
	for (; order <= MAX_ORDER; order++)
		for (size_t n = __zone_count_clean(z, order); n; n--) {
			struct page *page = __zone_take_clean(z, order);

			if (!page)
				break;
			z->clean_blocks++;
			__zone_isolated(z, page, (size_t)1 << order, purge_clean_block);
			__zone_free_run(z, page_to_pfn(page), (size_t)1 << order, page->zero);
		}
	zone_unlock(z, true);
}

size_t page_trim(bool all)
{
	bool moved = false;
	size_t purged = 0;

	if (all) {
		moved = nodes_update_allowed();
		pageset_drain(NULL);
	}
	for_each_zone (z) {
		purged += zone_purge_to(z, 0, SIZE_MAX, 0);
		if (all)
			purge_clean(z, moved);
	}
	return purged << page_window.page_shift;
}
