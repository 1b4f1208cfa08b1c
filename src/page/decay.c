/* SPDX-License-Identifier: MIT */
/*
 * Chooses the free pages that go back to the system: those that the program did not use again
 * within the decay time (tunable dirty_decay_ms). A period is half of this time. The zone notes
 * the smallest number of free dirty pages in each period. The program had no use for so many
 * pages in all of the period, so they are purged, down to dirty_max, a piece at each
 * opportunity (background.c). Pages that a program frees and takes again all the time are never
 * purged, because to fault them in again costs more than everything else here.
 *
 * Dirty pages in holes that are too small for the program's runs are purged without that delay.
 * There are such holes if the program takes clean pages although enough dirty pages are free.
 * Then as many dirty pages are purged as clean pages were taken, down to dirty_max, or in large
 * programs down to a quarter of the pages in use beyond 16 MiB. For runs of 64 KiB and more,
 * which find such holes most of the time, dirty pages are purged before the request returns,
 * down to a quarter of dirty_max, or of the pages in use beyond 64 MiB. So the peak of a small
 * program does not rise by its large blocks and the holes that they left. A run of an eighth of
 * all pages in use leaves a large program no more either: an array that doubles leaves holes as
 * large as itself.
 *
 * A program whose large blocks come and go in no order never finds holes that fit, however many
 * were purged: the next runs fault the same pages in again. So what large runs make the zone
 * purge in a period of page/recent.c is bounded by what was in use lately and 32 MiB: a program
 * that grows needs no more. The bound does not hold while more is free and dirty than half of
 * what was in use lately: a block that grows in place, is freed, and grows again at another
 * place would leave a hole of its size each time.
 *
 * dirty_max holds for programs that had 32 MiB in use lately. Smaller programs keep less, in
 * proportion.
 */
#include "page/decay.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "os/os.h"
#include "page/purge.h"
#include "page/recent.h"
#include "page/runs.h"
#include "page/zone.h"

enum {
	HUGE_PAGE = 2 << 20, /* the smallest piece with thp:always */
	/* A request purges so many blocks, which take about 20 us each, and one more for so
	 * many bytes that it has taken; of the backlog also (ms / IDLE_MS)^2 more, of the ms
	 * since a request last looked at it. These are no larger than 2^BLOCK_SHIFT bytes for
	 * each. */
	REQUEST_BLOCKS = 2,
	REQUEST_BYTES = 64 << 10,
	IDLE_MS = 8,
	IDLE_MOST = 10000, /* ms */
	BLOCK_SHIFT = 20,
	AT_ONCE = 1 << 30,    /* blocks; dirty_decay_ms:0 */
	WHOLE_SHIFT = 25,     /* from 2^25 bytes in use on, dirty_max pages stay */
	LARGE_RUN = 64 << 10, /* bytes */
	/* Bytes in use of programs that keep no holes when they grow; by large runs. */
	SMALL = 16 << 20,
	SMALL_OF_RUNS = 64 << 20,
	/* For a run of this part of what is in use, large programs keep none either. */
	LARGE_PART = 8,
	/* The part of what was in use lately that may be free and dirty when the bound on what
	 * large runs owe has been reached. */
	HOLES_PART = 2,
};

/* Whether the program itself has said how much is kept. Synchronization: relaxed. */
static atomic_bool told;

void decay_keep(uint64_t bytes)
{
	__atomic_store_n(&config.dirty_max, bytes, __ATOMIC_RELAXED);
	atomic_store_explicit(&told, true, memory_order_relaxed);
}

size_t decay_keeps(void)
{
	uint64_t bytes = __atomic_load_n(&config.dirty_max, __ATOMIC_RELAXED);
	size_t most = bytes >> page_window.page_shift, recent = page_recent_used();
	unsigned int shift = WHOLE_SHIFT - page_window.page_shift;

	debug_assert(page_window.page_shift < WHOLE_SHIFT);
	if (recent >> shift || atomic_load_explicit(&told, memory_order_relaxed))
		return most;
	return max_size(most / 16, most * recent >> shift);
}

/* Synchronization: relaxed; see decay_settle(). */
atomic_bool decay_is_owing;

/*
 * Whether large runs may owe more in this period. The bound holds while no more than half of
 * what was in use lately is free and dirty.
 */
static bool __may_owe(struct zone *z)
{
	size_t recent = page_recent_used();
	size_t most = recent + ((size_t)1 << WHOLE_SHIFT >> page_window.page_shift);
	unsigned int period = atomic_load_explicit(&page_recent.period, memory_order_relaxed);

	lock_assert_held(&z->lock);
	if (z->owed_period != period) {
		z->owed_period = period;
		z->owed_in_period = 0;
	}
	return z->owed_in_period < most ||
	       atomic_load_explicit(&page_limits.dirty, memory_order_relaxed) >
		       recent / HOLES_PART ||
	       !config.dirty_decay_ms || !decay_keeps();
}

/* Large runs owe @fresh pages more, but no more than @most together. */
static void __owe(struct zone *z, size_t fresh, size_t most)
{
	size_t before = atomic_load_explicit(&z->decay_owed, memory_order_relaxed), now;

	lock_assert_held(&z->lock);
	if (most && !__may_owe(z))
		return;
	now = min_size(before + fresh, most);
	/* If another thread settles meanwhile, some of this is owed once more, or forgotten. */
	atomic_store_explicit(&z->decay_owed, now, memory_order_relaxed);
	z->owed_in_period += now - min_size(before, now);
	if (now)
		atomic_store_explicit(&decay_is_owing, true, memory_order_relaxed);
}

void __decay_note_growth(struct zone *z, size_t npages, size_t fresh)
{
	unsigned int shift = page_window.page_shift;
	bool large = npages << shift >= LARGE_RUN;
	size_t small = (size_t)(large ? SMALL_OF_RUNS : SMALL) >> shift;
	size_t used = __zone_used(z), keep = large ? decay_keeps() / 4 : decay_keeps(), most;

	lock_assert_held(&z->lock);
	if (z->type == ZONE_DMA)
		return;
	if (npages < used / LARGE_PART)
		keep = max_size(keep, (used - min_size(used, small)) / 4);
	most = z->nr_dirty - min_size(keep, z->nr_dirty);
	if (large)
		__owe(z, fresh, most);
	else if (most)
		atomic_fetch_add_explicit(&z->decay_backlog, min_size(fresh, most),
					  memory_order_relaxed);
}

/* If a period has ended, sets the backlog to the number of pages that the program had no use
 * for in it. */
static void end_period(struct zone *z, size_t limit, bool may_wait)
{
	uint64_t now = os_calls.now_ms();

	if ((int64_t)(now - atomic_load_explicit(&z->dirty_since, memory_order_relaxed)) <
	    (int64_t)config.dirty_decay_ms / 2)
		return;
	if (may_wait)
		zone_lock(z);
	else if (!zone_trylock(z))
		return;
	now = os_calls.now_ms(); /* the lock may have taken long */
	if ((int64_t)(now - atomic_load_explicit(&z->dirty_since, memory_order_relaxed)) >=
		    (int64_t)config.dirty_decay_ms / 2 &&
	    __zone_dirty(z) > limit) {
		/* The space ahead decays, too: its rest goes back to the lists, from which
		 * small runs take it again. */
		__zone_ahead_release(z);
		atomic_store_explicit(&z->decay_backlog, z->dirty_low, memory_order_relaxed);
		z->dirty_low = z->nr_dirty;
		atomic_store_explicit(&z->dirty_since, now, memory_order_relaxed);
	}
	zone_unlock(z, true);
}

/*
 * Purges, or for a request (@part; else NULL) does a part of that. A request does not wait for
 * the zone's lock: it is of a thread of the program, in a free perhaps, and the thread that has
 * the lock may have lost its CPU for some milliseconds. The next request purges.
 */
static size_t purge_to(struct zone *z, size_t limit, size_t npages, size_t least,
		       const struct purge_part *part)
{
	return part ? zone_purge_part(z, limit, npages, least, part)
		    : zone_purge_to(z, limit, npages, least);
}

/* Purges up to @npages: whole huge pages, where there may be any. With thp:auto, parts of them
 * when no whole one is left. */
static size_t purge(struct zone *z, size_t limit, size_t npages, const struct purge_part *part)
{
	size_t whole = HUGE_PAGE >> page_window.page_shift, purged = 0;

	if (config.thp == THP_ALWAYS)
		return purge_to(z, limit, npages, whole, part);
	if (atomic_load_explicit(&z->huge_asked, memory_order_relaxed) && npages >= whole)
		purged = purge_to(z, limit, npages, whole, part);
	return purged ? purged : purge_to(z, limit, npages, 0, part);
}

static size_t request_blocks(size_t more)
{
	return config.dirty_decay_ms ? REQUEST_BLOCKS + more : AT_ONCE;
}

void decay_settle(size_t npages)
{
	const struct purge_part part = {
		.blocks = request_blocks((npages << page_window.page_shift) / REQUEST_BYTES),
		.largest = SIZE_MAX,
	};

	/* Relaxed: if another thread sees the flag before the pages, these wait for the next
	 * large run. The thread that added them calls this, too. */
	atomic_store_explicit(&decay_is_owing, false, memory_order_relaxed);
	for_each_zone (z) {
		size_t owed = atomic_exchange_explicit(&z->decay_owed, 0, memory_order_relaxed);
		size_t dirty = atomic_load_explicit(&z->dirty, memory_order_relaxed), purged;

		/* Something may be owed from long ago, if runs of another zone set the flag. */
		owed = min_size(owed, dirty - min_size(dirty, decay_keeps() / 4));
		if (!owed || zone_refuses(z))
			continue;
		purged = purge(z, 0, owed, &part);
		if (purged != ZONE_BUSY)
			owed -= min_size(owed, purged);
		if (!owed)
			continue;
		atomic_fetch_add_explicit(&z->decay_owed, owed, memory_order_relaxed);
		/* The next request goes on. But if nothing was purged, all blocks are larger
		 * than what is owed: they stay whole until so much is. */
		if (purged)
			atomic_store_explicit(&decay_is_owing, true, memory_order_relaxed);
	}
}

/* Purges a piece of one zone's backlog. Result: whether there is more to do at once. */
static bool decay(struct zone *z, const struct purge_part *part)
{
	size_t limit = decay_keeps();
	size_t piece = (size_t)1 << zone_piece_order(), backlog, purged;

	if (likely(atomic_load_explicit(&z->dirty, memory_order_relaxed) <= limit) ||
	    z->type == ZONE_DMA)
		return false;
	end_period(z, limit, !part);
	backlog = atomic_load_explicit(&z->decay_backlog, memory_order_relaxed);
	if (!backlog)
		return false;
	purged = purge(z, limit, min_size(backlog, piece), part);
	if (purged == ZONE_BUSY)
		return true;
	/* Another thread may have purged, too; the next period makes up for a wrong backlog. */
	backlog = purged ? backlog - min_size(purged, backlog) : 0;
	atomic_store_explicit(&z->decay_backlog, backlog, memory_order_relaxed);
	return backlog != 0;
}

static bool decay_zones(const struct purge_part *part)
{
	bool more = false;

	page_recent_look();
	for_each_zone (z)
		more = decay(z, part) || more;
	return more;
}

bool decay_all(void)
{
	return decay_zones(NULL);
}

bool decay_some(uint64_t ms)
{
	size_t idle = min_size(ms, IDLE_MOST);
	size_t blocks = request_blocks((idle / IDLE_MS) * (idle / IDLE_MS));
	size_t largest = (size_t)1 << ilog2(blocks) << BLOCK_SHIFT >> page_window.page_shift;
	const struct purge_part part = {
		.blocks = blocks,
		.largest = max_size(min_size(largest, (size_t)1 << zone_piece_order()), 1),
	};

	return decay_zones(&part);
}

static bool zone_is_due(struct zone *z, size_t limit)
{
	size_t at = atomic_load_explicit(&z->refused_at, memory_order_relaxed);

	return z->type != ZONE_DMA &&
	       atomic_load_explicit(&z->dirty, memory_order_relaxed) > limit + at;
}

bool decay_is_due(bool for_certain)
{
	size_t limit = decay_keeps();
	bool due = false;

	for_each_zone (z) {
		if (for_certain) {
			zone_lock(z);
			zone_unlock(z, true); /* lists what others have freed meanwhile */
		}
		due = due || zone_is_due(z, limit);
	}
	return due;
}
