/* SPDX-License-Identifier: MIT */
/*
 * Gives memory back to the system: purges dirty free blocks, the largest first, on demand or
 * when they are not needed (decay.c).
 *
 * A block is off the free lists while a thread purges it (or populates it: huge.c), without the
 * zone's lock. The system refuses to purge memory that the program has locked (mlock), even if
 * the program has freed it since. So of a block that is refused as a whole the parts that are
 * not locked are purged, and the rest goes back as dirty as it was.
 */
#include "page/purge.h"

#include <errno.h>
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
#include "page/recent.h"
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
	CLEAN_MS = 1000, /* and at all if the last look was so long ago, */
	CLEAN_PART = 32, /* and takes no more than such a part of the time. */
	/* Parts of a block that stay dirty; more of them end the search for parts. */
	REFUSED_PARTS = 8,
	/* So many refused blocks of one order end the purge of this order. While nothing was
	 * purged, only so many are looked at for parts: perhaps all memory is locked. */
	REFUSED_OF_ORDER = 16,
	REFUSED_LOOKS = 3,
	/* The smallest parts, in pages. Smaller ones would merge with the locked page again. */
	PART_LEAST = 1 << ZONE_MIXED_ORDER,
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

static int purge_run(const struct zone *z, struct page *page, size_t npages)
{
	size_t len = npages << page_window.page_shift;
	void *addr = page_to_virt(page);
	int err = z->type == ZONE_DMA ? purge_pinned(addr, len) : os_purge(addr, len);

	PROBE(purge, addr, npages, z->node, -err);
	if (!err)
		purge_metadata(page, npages);
	return err;
}

/* The parts of a block that stay dirty, by address. */
struct refused {
	unsigned int nr;
	struct {
		size_t from, npages;
	} parts[REFUSED_PARTS];
};

/* Adds a part behind all others. */
static void add_refused(struct refused *refused, size_t from, size_t npages)
{
	unsigned int n = refused->nr;

	debug_assert(n < REFUSED_PARTS && npages);
	if (n && refused->parts[n - 1].from + refused->parts[n - 1].npages == from) {
		refused->parts[n - 1].npages += npages;
		return;
	}
	refused->parts[n].from = from;
	refused->parts[n].npages = npages;
	refused->nr++;
}

/*
 * Purges what the system lets go of a block that it refused as a whole, in parts of @least
 * pages or more. After a refusal the next part is a quarter as long, after a purge twice as
 * long. Where even the least is refused, it is passed over, then twice as much each time; what
 * was passed over without need comes again as blocks of its own. So if all of 2^13 pages are
 * locked the system is asked 17 times. Result: pages purged.
 */
static size_t purge_parts(const struct zone *z, struct page *page, size_t npages, size_t least,
			  struct refused *refused)
{
	size_t part = npages / 2, skip = least, at = 0, purged = 0;

	debug_assert(is_pow2(npages) && is_pow2(least) && least < npages);
	while (at < npages && refused->nr < REFUSED_PARTS) {
		size_t n = min_size(part, npages - at);

		if (!purge_run(z, page + at, n)) {
			purged += n;
			at += n;
			part = 2 * n;
			skip = least;
		} else if (n > least) {
			part = max_size(align_down(n / 4, least), least);
		} else {
			n = min_size(skip, npages - at);
			add_refused(refused, at, n);
			at += n;
			skip *= 2;
		}
	}
	if (at < npages)
		refused->parts[REFUSED_PARTS - 1].npages += npages - at;
	return purged;
}

/* As purge_parts(), of any block. @parts: whether to look for parts. */
static size_t purge_block(const struct zone *z, struct page *page, size_t npages, size_t least,
			  bool parts, struct refused *refused)
{
	int err = purge_run(z, page, npages);

	refused->nr = 0;
	if (!err)
		return npages;
	if (err == -EINVAL && parts && z->type != ZONE_DMA && least < npages)
		return purge_parts(z, page, npages, least, refused);
	return 0;
}

static void __free_purged(struct zone *z, size_t pfn, size_t npages,
			  const struct refused *refused)
{
	size_t at = 0;

	for (unsigned int i = 0; i < refused->nr; i++) {
		size_t from = refused->parts[i].from, n = refused->parts[i].npages;

		debug_assert(at <= from && from + n <= npages);
		if (from > at)
			__zone_free_run(z, pfn + at, from - at, PAGE_PURGED);
		__zone_free_run(z, pfn + from, n, PAGE_DIRTY);
		at = from + n;
	}
	if (npages > at)
		__zone_free_run(z, pfn + at, npages - at, PAGE_PURGED);
}

/* An isolated block that was refused stays isolated; it still counts as dirty. */
static void __refuse(struct zone *z, struct page *page)
{
	lock_assert_held(&z->lock);
	page->isolated.refused = true;
	z->refused += (size_t)1 << page->order;
}

static void __put_back(struct zone *z, struct page *page)
{
	__zone_unisolate(z, page);
	__zone_free_run(z, page_to_pfn(page), (size_t)1 << page->order, PAGE_DIRTY);
}

/* Puts back the blocks that were refused to this thread. Result: their pages. */
static size_t __put_refused(struct zone *z)
{
	struct page *page, *next;
	size_t npages = 0;

	lock_assert_held(&z->lock);
	if (!z->refused)
		return 0;
	list_for_each_entry_safe (page, next, &z->isolated_blocks, isolated.blocks)
		if (zone_isolated_here(page) && page->isolated.refused) {
			npages += (size_t)1 << page->order;
			__put_back(z, page);
		}
	return npages;
}

/* Whether the parts that were purged of a block would merge with the others again. */
static bool would_merge(const struct zone *z, const struct refused *refused)
{
	return z->at_end && refused->nr;
}

/* Notes that a purge met nothing but refusals, in this period; or not. */
static void __note_refusals(struct zone *z, bool alone)
{
	unsigned int period = atomic_load_explicit(&page_recent.period, memory_order_relaxed);

	lock_assert_held(&z->lock);
	atomic_store_explicit(&z->refused_in, alone ? period + 1 : 0, memory_order_relaxed);
}

bool zone_refuses(const struct zone *z)
{
	return atomic_load_explicit(&z->refused_in, memory_order_relaxed) ==
	       atomic_load_explicit(&page_recent.period, memory_order_relaxed) + 1;
}

/*
 * One purge of a zone. Blocks that are refused stay isolated until its end: the next ones are
 * purged, and these are not tried twice.
 */
struct purge {
	struct zone *z;
	size_t target, max, least; /* zone_purge_to()'s */
	size_t blocks, largest;	   /* struct purge_part's; no more than so many remain */
	bool may_wait;		   /* for the zone's lock; else it is a request's */
	size_t purged, clean;	   /* pages; those of blocks that went back clean */
	unsigned int order;	   /* of the largest block that may be taken */
	unsigned int refused, refused_of_order;
};

/*
 * Leaves p->largest pages of a block that was taken off the lists, and puts back the others.
 * Not where they would merge again. Result: the pages left.
 */
static size_t __divide(const struct purge *p, struct page *page, size_t npages)
{
	struct zone *z = p->z;

	if (npages <= p->largest || z->at_end || ilog2(p->largest) <= ZONE_MIXED_ORDER)
		return npages;
	debug_assert(is_pow2(p->largest));
	__zone_free_run(z, page_to_pfn(page) + p->largest, npages - p->largest, PAGE_DIRTY);
	__zone_note_dirty(z);
	return p->largest;
}

/* Isolates the next block. NULL: the purge has reached its end. */
static struct page *__isolate_next(struct purge *p)
{
	struct zone *z = p->z;
	size_t left = p->max - min_size(p->purged, p->max), npages;
	struct page *page;

	if (z->nr_dirty <= p->target || !left || !p->blocks)
		return NULL;
	page = __zone_take_dirty(z, min_uint(p->order, ilog2(left + left / 31)));
	if (!page)
		return NULL;
	debug_assert(page_type(page) == PAGE_NONE && page->order <= MAX_ORDER);
	npages = (size_t)1 << page->order;
	if (npages < p->least) {
		__zone_free_run(z, page_to_pfn(page), npages, PAGE_DIRTY);
		return NULL;
	}
	__zone_isolate(z, page, __divide(p, page, npages));
	return page;
}

/* Passes by a block that was refused, and after REFUSED_OF_ORDER of an order the rest of that.
 * False: the purge has reached its end. */
static bool __pass_by(struct purge *p, struct page *page)
{
	__refuse(p->z, page);
	p->refused++;
	p->refused_of_order = page->order < p->order ? 1 : p->refused_of_order + 1;
	p->order = page->order;
	if (p->refused_of_order < REFUSED_OF_ORDER)
		return true;
	if (!p->order)
		return false;
	p->order--;
	p->refused_of_order = 0;
	return true;
}

/*
 * Purges blocks until the purge has reached its end. The zone's lock is held before, and after.
 * False: it is not; a request does not wait for a holder that has lost its CPU.
 */
static bool __purge_blocks(struct purge *p)
{
	struct zone *z = p->z;
	struct page *page;

	while ((page = __isolate_next(p))) {
		size_t npages = (size_t)1 << page->order, done;
		struct refused refused;

		zone_unlock(z, true);
		done = purge_block(z, page, npages, max_size(p->least, PART_LEAST),
				   p->purged || p->refused < REFUSED_LOOKS, &refused);
		p->purged += done;
		if (p->may_wait || p->refused || done < npages) {
			zone_lock(z);
		} else if (!zone_lock_soon(z)) {
			zone_return_purged(z, page);
			return false;
		}
		z->nr_purged += done;
		z->grown -= min_size(z->grown, done);
		if (!done || would_merge(z, &refused)) {
			if (!__pass_by(p, page))
				break;
			continue;
		}
		p->blocks--;
		p->clean += done;
		__zone_unisolate(z, page);
		__free_purged(z, page_to_pfn(page), npages, &refused);
	}
	return true;
}

/* Notes what a purge met. @wide: it was to be of all dirty pages, or of many. */
static void __conclude(const struct purge *p, bool wide)
{
	struct zone *z = p->z;

	/* Parts that merged with a locked page again are as dirty as they were: to purge them
	 * over and over would be in vain. */
	if (p->clean || (p->refused && wide))
		atomic_store_explicit(&z->refused_at, p->clean ? 0 : z->nr_dirty,
				      memory_order_relaxed);
	if (p->refused || p->clean)
		__note_refusals(z, !p->clean);
}

/* The zone's lock is held before, and not after. Result: pages purged. */
static size_t __purge_to(struct purge *p)
{
	struct zone *z = p->z;
	uint64_t since = atomic_load_explicit(&z->dirty_since, memory_order_relaxed);
	size_t low;
	bool wide;

	lock_assert_held(&z->lock);
	__zone_spaces_release(z);
	low = z->dirty_low;
	wide = p->max >= z->nr_dirty || p->max >> zone_piece_order();
	/* Other threads' frees must not keep the purge going for ever. */
	p->max = min_size(p->max, 2 * z->nr_dirty);
	p->order = MAX_ORDER;
	if (__purge_blocks(p)) {
		/* Blocks that were refused were free and dirty while they were off the lists,
		 * too. */
		z->dirty_low += __put_refused(z);
		if (since == atomic_load_explicit(&z->dirty_since, memory_order_relaxed))
			z->dirty_low = min_size(low, z->dirty_low);
		__conclude(p, wide);
		zone_unlock(z, true);
	}
	if (p->purged)
		limits_shrunk();
	return p->purged;
}

size_t zone_purge_to(struct zone *z, size_t target, size_t max, size_t least)
{
	struct purge purge = {
		.z = z,
		.target = target,
		.max = max,
		.least = least,
		.blocks = SIZE_MAX,
		.largest = SIZE_MAX,
		.may_wait = true,
	};

	zone_lock(z);
	return __purge_to(&purge);
}

size_t zone_purge_part(struct zone *z, size_t target, size_t max, size_t least,
		       const struct purge_part *part)
{
	struct purge purge = {
		.z = z,
		.target = target,
		.max = max,
		.least = least,
		.blocks = part->blocks,
		.largest = max_size(part->largest, least),
	};

	return zone_trylock(z) ? __purge_to(&purge) : ZONE_BUSY;
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
		list_for_each_entry_safe (page, next, &z->isolated_blocks, isolated.blocks)
			if (!zone_isolated_here(page))
				__put_back(z, page);
		z->huge_asking = false;
		/* A child does not inherit locks on memory. So the system takes back what it
		 * refused, and free pages are not pinned now. */
		atomic_store_explicit(&z->refused_at, 0, memory_order_relaxed);
		atomic_store_explicit(&z->refused_in, 0, memory_order_relaxed);
		zone_unlock(z, true);
		/* Pages that were pinned go back to the system, unless this thread has locks,
		 * perhaps that of the stop which a drain needs. */
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
	uint64_t pause = max_size(CLEAN_PART * z->clean_took_ms, CLEAN_MS);

	lock_assert_held(&z->lock);
	if (z->clean_blocks > CLEAN_FEW)
		least = (uint64_t)CLEAN_MOVED * z->clean_blocks;
	if (!always && moved - z->clean_moved < least && now - z->clean_ms < pause)
		return false;
	z->clean_blocks = 0;
	z->clean_ms = now;
	z->clean_moved = moved;
	return true;
}

/* The look has ended. It takes seconds for a million blocks, and then the next one comes later.
 */
static void __clean_is_done(struct zone *z)
{
	uint64_t now = os_calls.now_ms();

	lock_assert_held(&z->lock);
	z->clean_took_ms = now - z->clean_ms;
	z->clean_ms = now;
}

static void purge_clean_block(const struct page *page, size_t npages)
{
	if (config.thp != THP_NEVER)
		os_purge(page_to_virt(page), npages << page_window.page_shift);
	purge_metadata(page, npages);
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
	for (; order <= MAX_ORDER; order++) {
		struct page *dirty = NULL;

		for (size_t n = __zone_count_clean(z, order); n; n--) {
			struct page *page = __zone_take_clean(z, order, &dirty);

			if (!page)
				break;
			z->clean_blocks++;
			__zone_isolate(z, page, (size_t)1 << order);
			zone_unlock(z, true);
			purge_clean_block(page, (size_t)1 << order);
			zone_lock(z);
			__zone_unisolate(z, page);
			__zone_free_run(z, page_to_pfn(page), (size_t)1 << order, page->zero);
		}
	}
	__clean_is_done(z);
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
