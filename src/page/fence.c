/* SPDX-License-Identifier: MIT */
/*
 * Fences: closed pages at fixed places of a zone, so that an overflow out of a slab of a
 * hardened process ends before it has run far.
 *
 * A zone is divided into groups of pages. The last page of each group is a fence's place:
 *
 *   zone:  |..............F|..............F|..............F|..............F|...
 *           <--- group --->
 *
 * Groups are of 256 KiB in the first 512 MiB of a zone, of 512 KiB in the next 512 MiB, and of
 * a 1024th of their distance from the zone's start, rounded down to a power of two, wherever
 * they are. So a zone has 2048 of them in its first 512 MiB, and 1024 more each time that its
 * size doubles, which a process's number of mappings bears: each fence may cost two (closed.h).
 *
 * When a slab is made, the first fence at or behind its end is closed, and held until the slab
 * is freed. If that page is part of another run, the slab is made elsewhere. If addresses are
 * too scarce for that, the slab gets a page of its own behind it, which is closed (guard.c).
 * Hence the promise:
 *
 *   From the end of each slab of a hardened cache it is less than a group to a closed page.
 *
 * For from one fence's place to the next one it is a group at most, whatever lies between them;
 * and a page that is closed stays closed while any slab holds it. The promise is broken in
 * these cases only: the system refuses to close a page; there are as many mappings of fences
 * and guards as closed.h allows; the system grants no more addresses, and what is free has no
 * room for a page behind the slab. Pages aside (aside.c) have no closed pages at all.
 *
 * The number of holders is in the entry of the fence's page. It rises, and a fence begins to be
 * one, only under the zone's lock; it falls at any time. The thread that lets go last opens the
 * page and frees it. While it does so the number is 0, and nobody gets hold of the fence: slabs
 * that are made then get pages of their own.
 */
#include "page/fence.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "page/buddy.h"
#include "page/closed.h"
#include "page/runs.h"
#include "page/window.h"
#include "page/zone.h"
#include "page/zone_take.h"

enum {
	GROUP_SHIFT = 18,     /* bytes of the smallest group */
	GROUPS_SHIFT = 10,    /* groups for each doubling of the zone */
	FENCE_MARK = 1 << 16, /* of a fence's head: `fence` in struct page */
	TRIES = 4,	      /* runs that are looked at before a group's place is made free */
};

static page_closed_count fences;

/* The number of slabs that hold the fence. Synchronization: relaxed; who holds the fence
 * touches nothing of it. */
static _Atomic uint64_t *holders(struct page *fence)
{
	return &fence->bitmap[0];
}

/* How the fence is closed: enum page_closed. Synchronization: relaxed. A thread makes the fence
 * and holds it under the zone's lock, and whoever lets go of it has got the hold there, or with
 * a slab from the thread that has. */
static _Atomic uint64_t *how_closed(struct page *fence)
{
	return &fence->bitmap[1];
}

static uint32_t fence_head(void)
{
	return page_head(PAGE_ALLOCATED, PAGE_NO_ORDER, false) | page_head_order(FENCE_MARK);
}

/* The page may be anything, and its owner may be writing to its entry: a fence becomes one, and
 * ceases to be one, by stores of the whole head or of its type. */
static noinline no_sanitize_thread bool is_fence(const struct page *page)
{
	return atomic_load_explicit(&page->head, memory_order_relaxed) == fence_head();
}

/* The pages of the group that lies @offset pages behind a zone's start. */
static size_t group_pages(size_t offset)
{
	unsigned int least = GROUP_SHIFT - page_window.page_shift;
	unsigned int order = ilog2(offset | (size_t)1 << GROUPS_SHIFT) - GROUPS_SHIFT;

	return (size_t)1 << max_uint(least, order);
}

/* The number of the first page at or behind a run's end that is a fence's place. */
static size_t place_behind(const struct zone *z, const struct page *page, size_t npages)
{
	size_t end = page_to_pfn(page) + npages - z->start;

	return z->start + (end | (group_pages(end) - 1));
}

/* Moves the frontier beyond page number @pfn. */
static bool reach(struct zone *z, size_t pfn, bool may_grow)
{
	while (zone_frontier(z) <= pfn) {
		size_t need = pfn + 1 - zone_frontier(z), start;

		if (!may_grow || !__zone_grow(z, 1, need, &start))
			return false;
		__zone_free_run(z, start, need, PAGE_FRESH);
	}
	return true;
}

/* Makes a free page a fence that one slab holds. */
static bool make(struct zone *z, size_t pfn)
{
	struct page *page = __zone_take_page(z, pfn);
	enum page_closed closed;

	if (!page)
		return false;
	closed = page_close(page, 1, &fences);
	if (closed == PAGE_OPEN) {
		__zone_free_run(z, pfn, 1, page->zero);
		return false;
	}
	z->nr_direct++;
	page->npages = 1;
	atomic_store_explicit(how_closed(page), closed, memory_order_relaxed);
	atomic_store_explicit(holders(page), 1, memory_order_relaxed);
	page_set_head(page, fence_head());
	return true;
}

/* False: its last holder is about to open it. */
static bool join(struct page *fence)
{
	uint64_t n = atomic_load_explicit(holders(fence), memory_order_relaxed);

	while (n)
		if (atomic_compare_exchange_weak_explicit(holders(fence), &n, n + 1,
							  memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	return false;
}

/* Closes the fence behind a run that was just taken, unless it is closed already, and holds it.
 * False: something else is at its place, or the system refuses. */
static bool hold(struct zone *z, const struct page *page, size_t npages, bool may_grow)
{
	size_t pfn = place_behind(z, page, npages);

	lock_assert_held(&z->lock);
	if (pfn >= z->end || !reach(z, pfn, may_grow))
		return false;
	return is_fence(&page_window.pages[pfn]) ? join(&page_window.pages[pfn]) : make(z, pfn);
}

/* Whether a fence's place is in a run. */
static bool covers(const struct zone *z, const struct page *page, size_t npages)
{
	return place_behind(z, page, 0) - page_to_pfn(page) < npages;
}

/* A run that fits, one of the first that the zone has; or NULL. */
static struct page *take_first(struct zone *z, const struct alloc_request *rq)
{
	struct page *others[TRIES], *page;
	unsigned int n = 0;
	bool held = false;

	do {
		page = __zone_take(z, rq);
		if (!page)
			break;
		held = !covers(z, page, rq->npages) && hold(z, page, rq->npages, rq->may_block);
		if (!held)
			others[n++] = page;
	} while (!held && n < TRIES);
	while (n--)
		__zone_free_run(z, page_to_pfn(others[n]), rq->npages, others[n]->zero);
	return held ? page : NULL;
}

/*
 * A run that fits, out of one that is longer by a group, so that a fence's place is in it, and
 * free: the first @rq->npages of it, or, if there is a place among these, those that follow.
 */
static struct page *take_wide(struct zone *z, const struct alloc_request *rq)
{
	size_t n = rq->npages, group, first;
	struct alloc_request wide = *rq;
	struct page *page, *all;

	group = group_pages(zone_frontier(z) - z->start);
	wide.npages = group + n;
	wide.align = is_pow2(n) ? max_uint(rq->align, ilog2(n)) : rq->align;
	all = n <= group / 2 ? __zone_take(z, &wide) : NULL;
	if (!all)
		return NULL;
	first = covers(z, all, n) ? n : 0;
	page = all + first;
	page->zero = all->zero;
	if (first)
		__zone_free_run(z, page_to_pfn(all), first, page->zero);
	__zone_free_run(z, page_to_pfn(page) + n, group - first, page->zero);
	if (hold(z, page, n, false))
		return page;
	__zone_free_run(z, page_to_pfn(page), n, page->zero);
	return NULL;
}

struct page *__fence_take(struct zone *z, const struct alloc_request *rq)
{
	struct page *page = NULL;

	lock_assert_held(&z->lock);
	debug_assert(config.hardened && rq->npages && rq->fenced);
	if (z->type == ZONE_NORMAL && page_closed_may(&fences)) {
		page = take_first(z, rq);
		if (!page)
			page = take_wide(z, rq);
	}
	*rq->fenced = page;
	return page ? page : __zone_take(z, rq);
}

bool fence_is_held(const struct page *page, size_t npages)
{
	struct page *fence = &page_window.pages[place_behind(zone_of(page), page, npages)];

	return is_fence(fence) &&
	       atomic_load_explicit(holders(fence), memory_order_relaxed) > 0;
}

void fence_drop(const struct page *page, size_t npages)
{
	struct zone *z = zone_of(page);
	size_t pfn = place_behind(z, page, npages);
	struct page *fence = &page_window.pages[pfn];
	enum page_closed closed;

	debug_assert(is_fence(fence));
	if (atomic_fetch_sub_explicit(holders(fence), 1, memory_order_relaxed) != 1)
		return;
	closed =
		(enum page_closed)atomic_load_explicit(how_closed(fence), memory_order_relaxed);
	/* A page that the system does not open stays closed, and no slab holds it. */
	if (page_reopen(fence, 1, closed, &fences))
		zone_free_run(z, fence, 1, PAGE_FRESH);
}
