/* SPDX-License-Identifier: MIT */
/*
 * The buddy allocator of a zone: free blocks of 2^order pages, aligned to their
 * size; a request splits the smallest block that fits, a free merges a block
 * with its buddy as far up as it goes (D. Knuth, TAOCP 2.5; K. Knowlton 1965).
 *
 * Dirty blocks (their memory may be resident) are at the front of their lists, roughly by
 * address, the lowest first; so pages in use gather at low addresses, and large blocks form
 * above them. Clean blocks are at the end. Dirty memory is reused first (zone_take.c), so large
 * buddies of the two kinds do not merge.
 */
#include "page/buddy.h"

#include <errno.h>

#include "base/assert.h"
#include "base/bits.h"
#include "os/os.h"
#include "page/window.h"

enum {
	SORT_TRIES = 4,	    /* blocks that insert_dirty() compares with */
	STEPS_MOST = 16,    /* that a zone grows by at once */
	STEPS_TOGETHER = 4, /* at least, while requests wait for each other: least_steps() */
};

static void insert_dirty(struct list_head *list, struct page *page)
{
	struct list_head *before = list->next;

	for (unsigned int i = 0; i < SORT_TRIES && before != list; i++) {
		struct page *other = list_entry(before, struct page, free_list);

		if (other->zero != PAGE_DIRTY || other > page)
			break;
		before = before->next;
	}
	list_add_tail(&page->free_list, before);
}

static void insert_block(struct zone *z, struct page *page, unsigned int order,
			 enum page_zero zero)
{
	lock_assert_held(&z->lock);
	debug_assert(order <= MAX_ORDER &&
		     page_to_pfn(page) + ((size_t)1 << order) <= zone_frontier(z));
	debug_assert(!((page_to_pfn(page) - z->start) & (((size_t)1 << order) - 1)));
	debug_assert(page_type(page) != PAGE_FREE);
	page_set_type(page, PAGE_FREE);
	page->order = (uint8_t)order;
	page->zero = (uint8_t)zero;
	z->nr_free += (size_t)1 << order;
	if (zero != PAGE_DIRTY) {
		list_add_tail(&page->free_list, &z->free[order]);
	} else {
		z->nr_dirty += (size_t)1 << order;
		insert_dirty(&z->free[order], page);
	}
}

void __zone_remove_block(struct zone *z, struct page *page)
{
	size_t n = (size_t)1 << page->order;

	lock_assert_held(&z->lock);
	debug_assert(page_type(page) == PAGE_FREE && z->nr_free >= n);
	debug_assert(page->order <= MAX_ORDER && (page->zero || z->nr_dirty >= n));
	list_del(&page->free_list);
	page_set_type(page, PAGE_NONE);
	z->nr_free -= n;
	if (page->zero == PAGE_DIRTY)
		z->nr_dirty -= n;
}

static void free_block(struct zone *z, size_t pfn, unsigned int order, enum page_zero zero)
{
	struct page *pages = page_window.pages;

	while (order < MAX_ORDER) {
		size_t buddy = z->start + ((pfn - z->start) ^ ((size_t)1 << order));

		if (buddy + ((size_t)1 << order) > zone_frontier(z) ||
		    page_type(&pages[buddy]) != PAGE_FREE || pages[buddy].order != order ||
		    !zone_may_merge(z, order + 1, zero, pages[buddy].zero))
			break;
		zero = page_zero_merged(zero, pages[buddy].zero);
		__zone_remove_block(z, &pages[buddy]);
		if (buddy < pfn)
			pfn = buddy;
		order++;
	}
	insert_block(z, &pages[pfn], order, zero);
}

void __zone_free_run(struct zone *z, size_t pfn, size_t npages, enum page_zero zero)
{
	size_t offset = pfn - z->start;

	lock_assert_held(&z->lock);
	debug_assert(npages && pfn >= z->start && pfn + npages <= zone_frontier(z));
	debug_assert(page_type(&page_window.pages[pfn]) != PAGE_FREE);
	page_set_type(&page_window.pages[pfn], PAGE_NONE);
	while (npages) {
		unsigned int order = offset ? (unsigned int)__builtin_ctzll(offset) : MAX_ORDER;

		if (order > ilog2(npages))
			order = ilog2(npages);
		if (order > MAX_ORDER)
			order = MAX_ORDER;
		free_block(z, z->start + offset, order, zero);
		offset += (size_t)1 << order;
		npages -= (size_t)1 << order;
	}
}

/*
 * Extends the zone to *@end. If the system refuses that, extends it to @least. If the system
 * refuses that, too, and steps are small already, extends it to @wanted, rounded up to 64 KiB.
 * Sets *@end to the frontier it asked for last. If the system refused the last time, asks for
 * the least alone: near a limit of addresses each request comes here several times.
 */
static int extend_as_far(struct zone *z, size_t *end, size_t least, size_t wanted)
{
	size_t piece = max_size(((size_t)64 << 10) >> page_window.page_shift, 1);
	int err;

	debug_assert(least <= *end && wanted <= *end);
	wanted = z->start + align_up(wanted - z->start, piece);
	if (unlikely(z->at_end)) {
		*end = window_has_small_steps() ? min_size(wanted, least) : least;
		return window_extend(z, *end);
	}
	err = window_extend(z, *end);
	if (err && *end > least) {
		*end = least;
		err = window_extend(z, least);
	}
	if (err && err != -EEXIST && *end > wanted && window_has_small_steps()) {
		*end = wanted;
		err = window_extend(z, wanted);
	}
	return err;
}

/*
 * The steps in which a zone with @pages grows: about four times what there is, from 256 KiB to
 * a growth block. Of a larger step, a process that does little would touch the entries of
 * blocks that it does not use. Programs that are linked to the library get a growth block at
 * once, since some of their requests may not extend the zone.
 */
static size_t step(size_t pages)
{
	size_t least = ((size_t)256 << 10) >> page_window.page_shift;

	if (!os_heap.is_ukmem)
		return window_block();
	return min_size((size_t)1 << ilog2(max_size(4 * pages, least)), window_block());
}

/* A step by which a zone grows: the frontier moves from @old to @end, or to @least if the
 * system refuses that, and the request is served from @first on. */
struct growth {
	size_t old, first, least, end;
	size_t block; /* step() */
};

/*
 * The steps that a zone grows by at least. To map a step takes ten system calls, during which
 * all other requests wait for the lock. Where requests have met a holder for long (spare.c), a
 * zone grows by several at once, unless addresses are scarce.
 */
static size_t least_steps(const struct zone *z)
{
	return spare_is_wanted(z) && !window_has_small_steps() ? STEPS_TOGETHER : 1;
}

/* Plans to grow by an eighth of the zone's pages, within least_steps() and STEPS_MOST, or by
 * what the request needs. False: the zone has no such addresses. */
static bool plan_growth(const struct zone *z, size_t align, size_t need, struct growth *g)
{
	size_t old = zone_frontier(z), block = step(old - z->start);
	size_t first = z->start + align_up(old - z->start, align), extra, least;

	if (need > z->end - z->start || first > z->end - need)
		return false;
	extra = align_down((old - z->start) / 8, block);
	extra = min_size(max_size(extra, least_steps(z) * block), STEPS_MOST * block);
	least = min_size(z->start + align_up(first + need - z->start, block), z->end);
	*g = (struct growth){
		.old = old,
		.first = first,
		.least = least,
		.end = min_size(max_size(least, old + extra), z->end),
		.block = block,
	};
	return true;
}

/* The frontier has moved: makes the new pages free, save the @need of the request. */
static void __add_new(struct zone *z, const struct growth *g, size_t need)
{
	size_t behind = g->first + need;

	debug_assert(g->first >= g->old && behind <= g->end && g->end <= z->end);
	z->present += g->end - g->old;
	if (g->first > g->old)
		__zone_free_run(z, g->old, g->first - g->old, PAGE_FRESH);
	if (g->end > behind)
		__zone_free_run(z, behind, g->end - behind, PAGE_FRESH);
}

/*
 * Moves the frontier so that [*@start, *@start + @need) below it is new. If the system refuses
 * what was planned, asks for @need alone, and then in smaller steps. Skips addresses that other
 * code has mapped, twice as many each time, because a program may have reserved terabytes
 * there.
 */
bool __zone_grow(struct zone *z, size_t align, size_t need, size_t *start)
{
	size_t skip = 0, usual = window_block();
	bool smaller = false;
	struct growth g;

	lock_assert_held(&z->lock);
	debug_assert(need && is_pow2(align));
	while (plan_growth(z, align, need, &g)) {
		int err = extend_as_far(z, &g.end, g.least, g.first + need);

		/* Also with -EAGAIN: the system refuses to lock. */
		z->at_end = err && err != -EEXIST;
		if (!err) {
			__add_new(z, &g, need);
			*start = g.first;
			return true;
		}
		if (err == -EEXIST) {
			skip = min_size(max_size(g.block, 2 * skip), z->end - g.old);
			if (skip < g.block || window_skip(z, g.old + skip))
				return false;
		} else if (!smaller && window_use_small_steps()) {
			smaller = true;
		} else {
			/* That a large request is refused says nothing of usual steps. */
			if (smaller && need > usual)
				window_use_usual_steps();
			return false;
		}
	}
	return false;
}

bool __zone_extend(struct zone *z, size_t npages)
{
	size_t start;

	if (!__zone_grow(z, 1, npages, &start))
		return false;
	__zone_free_run(z, start, npages, PAGE_FRESH);
	return true;
}

struct page *__zone_take_block(struct zone *z, unsigned int order)
{
	lock_assert_held(&z->lock);
	debug_assert(order <= MAX_ORDER);
	for (unsigned int o = order; o <= MAX_ORDER; o++) {
		size_t need = (size_t)1 << order, n = (size_t)1 << o;
		enum page_zero zero;
		struct page *page;

		if (list_empty(&z->free[o]))
			continue;
		page = list_first_entry(&z->free[o], struct page, free_list);
		zero = page->zero;
		if (zero != PAGE_DIRTY && z->only_dirty) /* dirty ones are in front */
			continue;
		__zone_remove_block(z, page);
		if (n > need)
			__zone_free_run(z, page_to_pfn(page) + need, n - need, zero);
		__zone_note_dirty(z);
		return page;
	}
	return NULL;
}

static struct page *first_dirty(struct zone *z, unsigned int order)
{
	struct page *page;

	if (list_empty(&z->free[order]))
		return NULL;
	page = list_first_entry(&z->free[order], struct page, free_list);
	debug_assert(page->order == order);
	return page->zero == PAGE_DIRTY ? page : NULL; /* dirty ones are in front */
}

struct page *__zone_take_dirty(struct zone *z, unsigned int max_order)
{
	unsigned int piece = zone_piece_order();
	struct page *page = NULL;

	lock_assert_held(&z->lock);
	/* Take a piece of a larger block. After the purge it stays apart from the rest of the
	 * block. */
	for (unsigned int o = MAX_ORDER; o > piece && max_order >= piece && !page; o--)
		page = first_dirty(z, o);
	if (page) {
		size_t n = (size_t)1 << page->order, pfn = page_to_pfn(page);

		__zone_remove_block(z, page);
		page->order = (uint8_t)piece;
		n -= (size_t)1 << piece;
		__zone_free_run(z, pfn + ((size_t)1 << piece), n, PAGE_DIRTY);
		__zone_note_dirty(z);
		return page;
	}
	for (unsigned int o = min_uint(max_order, MAX_ORDER) + 1; o-- > 0 && !page;)
		page = first_dirty(z, o);
	if (page) {
		__zone_remove_block(z, page);
		__zone_note_dirty(z);
	}
	return page;
}

size_t __zone_count_clean(const struct zone *z, unsigned int order)
{
	const struct page *page;
	size_t n = 0;

	lock_assert_held(&z->lock);
	debug_assert(order <= MAX_ORDER);
	list_for_each_entry (page, &z->free[order], free_list)
		n += page->zero != PAGE_DIRTY;
	return n;
}

static bool is_dirty_block(const struct page *page, unsigned int order)
{
	return page_type(page) == PAGE_FREE && page->order == order && page->zero == PAGE_DIRTY;
}

struct page *__zone_take_clean(struct zone *z, unsigned int order, struct page **dirty)
{
	struct list_head *list = &z->free[order], *at = list->next;

	lock_assert_held(&z->lock);
	debug_assert(order <= MAX_ORDER);
	/* Other threads may have taken the block meanwhile, or merged it with another one. */
	if (*dirty && is_dirty_block(*dirty, order))
		at = (*dirty)->free_list.next;
	for (; at != list; at = at->next) {
		struct page *page = list_entry(at, struct page, free_list);

		if (page->zero != PAGE_DIRTY) {
			__zone_remove_block(z, page);
			return page;
		}
		*dirty = page;
	}
	return NULL;
}
