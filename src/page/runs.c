/* SPDX-License-Identifier: MIT */
/*
 * Runs whose size is no power of two, and very large ones, on top of the buddy lists.
 *
 * To round a run up to a block and put the rest back would leave holes that the next run of
 * that size does not fit: 5 pages out of every 8. So this file looks for odd runs among
 * neighbouring free blocks, which together are a hole: at a few candidates of the orders that
 * small fitting holes contain, it takes the smallest that fits. If none fits, it carves runs
 * one behind the other out of a larger block and the blocks that follow it. A run above a
 * growth block (4 MiB) that fits no neighbouring blocks takes the free pages below the
 * frontier, and the frontier moves by the pages that are missing.
 */
#include "page/runs.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "page/buddy.h"
#include "page/window.h"

enum {
	/* Candidates looked at per order; for runs of so many pages, which take longer to fill.
	 */
	FIT_TRIES = 8,
	FIT_TRIES_LONG = 24,
	LONG_RUN = 64,
	FIT_ORDERS = 3, /* orders of candidates that are compared with each other */
	FIT_CLOSE = 16, /* a hole that is larger by less than this part fits */
	FIT_FAR = 64,	/* how far the start of a large hole is sought, in lengths of the run */
	CARVE_ORDERS = 3, /* a carved block holds at least 2^3 runs, where there is one */
};

static bool is_free_block(size_t pfn, unsigned int order)
{
	const struct page *p = &page_window.pages[pfn];

	return page_type(p) == PAGE_FREE && p->order == order;
}

/* Whether the request that is being served may take the block at @pfn. */
static bool may_take(const struct zone *z, size_t pfn)
{
	return !z->only_dirty || page_window.pages[pfn].zero == PAGE_DIRTY;
}

/* The first page of the free blocks that end at @pfn, up to @max pages before it. */
static size_t extend_back(const struct zone *z, size_t pfn, size_t max)
{
	size_t limit = pfn - min_size(max, pfn - z->start);

	debug_assert(pfn >= z->start);
	while (pfn > limit) {
		unsigned int align = (unsigned int)__builtin_ctzll(pfn - z->start), o = 0;

		while (o <= align && !is_free_block(pfn - ((size_t)1 << o), o))
			o++;
		if (o > align || !may_take(z, pfn - ((size_t)1 << o)))
			break;
		pfn -= (size_t)1 << o;
	}
	return pfn;
}

/* The end of the free blocks from @pfn on, or of the one that ends @max pages behind it, or
 * more. */
static size_t extend_on(const struct zone *z, size_t pfn, size_t max)
{
	size_t limit = min_size(pfn + max, zone_frontier(z));

	while (pfn < limit) {
		const struct page *p = &page_window.pages[pfn];

		if (page_type(p) != PAGE_FREE || !may_take(z, pfn))
			break;
		pfn += (size_t)1 << p->order;
	}
	return pfn;
}

/* Whether the free blocks from @pfn on have @npages together. */
static bool run_is_free(const struct zone *z, size_t pfn, size_t npages)
{
	return extend_on(z, pfn, npages) - pfn >= npages;
}

/* The free block that page @pfn lies in. */
static size_t block_of(const struct zone *z, size_t pfn)
{
	for (unsigned int o = 0; o <= MAX_ORDER; o++) {
		size_t head = z->start + align_down(pfn - z->start, (size_t)1 << o);

		if (is_free_block(head, o))
			return head;
	}
	return pfn;
}

/* Takes [@start, @start + @npages), which lies in neighbouring free blocks. */
static struct page *take_neighbours(struct zone *z, size_t start, size_t npages)
{
	size_t head = block_of(z, start), pfn = head, end = start + npages;
	enum page_zero zero = PAGE_FRESH, last = PAGE_FRESH,
		       first = page_window.pages[head].zero;
	struct page *run = &page_window.pages[start];

	lock_assert_held(&z->lock);
	debug_assert(npages && start >= z->start && end <= zone_frontier(z));
	while (pfn < end) {
		struct page *p = &page_window.pages[pfn];

		last = p->zero;
		zero = page_zero_merged(zero, last);
		__zone_remove_block(z, p);
		pfn += (size_t)1 << p->order;
	}
	if (pfn > end)
		__zone_free_run(z, end, pfn - end, last);
	if (start > head)
		__zone_free_run(z, head, start - head, first);
	run->zero = (uint8_t)zero;
	__zone_note_dirty(z);
	return run;
}

static unsigned int fit_tries(size_t npages)
{
	return npages >= LONG_RUN ? FIT_TRIES_LONG : FIT_TRIES;
}

/* Room for a run in a hole. */
struct room {
	size_t start; /* where the run begins */
	size_t size;  /* the hole's pages, as far as they were looked at; less than the run's:
			 none */
	bool is_open; /* the hole may begin before, and end behind */
};

/*
 * Looks at the hole that the free block at @pfn belongs to, up to @npages on either side of it.
 * The run begins where the hole begins, or ends where it ends, so that what is left is one hole
 * again.
 */
static struct room look_at_hole(const struct zone *z, size_t pfn, size_t npages)
{
	size_t start = extend_back(z, pfn, npages), end = extend_on(z, pfn, npages);
	struct room room = { start, end - start, false };

	if (pfn - start < npages || room.size < npages)
		return room;
	room.is_open = end - pfn >= npages;
	if (!room.is_open)
		room.start = end - npages;
	return room;
}

static struct page *take_room(struct zone *z, const struct room *room, size_t npages)
{
	size_t start = room->start;

	if (room->is_open)
		start = extend_back(z, start, FIT_FAR * npages);
	return take_neighbours(z, start, npages);
}

/*
 * A hole of n pages holds an aligned block of at least a quarter of n rounded up: of order
 * floor(log2 n) - 1, or more. The ends of larger holes are such blocks, too, so holes of
 * several orders are compared: a run that took a part of a larger hole, while another one fits,
 * would leave less room for larger runs. Of blocks that are larger still, any serves.
 */
static struct page *take_hole(struct zone *z, size_t npages, unsigned int max_order)
{
	unsigned int first = ilog2(npages) - 1, compared = first + FIT_ORDERS;
	struct room best = { .size = SIZE_MAX };

	debug_assert(npages > 1 && max_order <= MAX_ORDER);
	for (unsigned int o = first; o <= max_order; o++) {
		unsigned int tries = 0;
		struct page *page;

		if (o == compared && best.size < SIZE_MAX)
			break;
		list_for_each_entry (page, &z->free[o], free_list) {
			struct room room;

			if (!may_take(z, page_to_pfn(page))) /* dirty ones are in front */
				break;
			room = look_at_hole(z, page_to_pfn(page), npages);
			if (room.size >= npages && room.size < best.size)
				best = room;
			if (best.size < SIZE_MAX &&
			    (o >= compared || best.size - npages <= npages / FIT_CLOSE))
				return take_room(z, &best, npages);
			if (++tries == fit_tries(npages))
				break;
		}
	}
	return best.size < SIZE_MAX ? take_room(z, &best, npages) : NULL;
}

/* An aligned block of neighbours that do not merge, or NULL. */
static struct page *join(struct zone *z, unsigned int order)
{
	size_t npages = (size_t)1 << order;

	lock_assert_held(&z->lock);
	debug_assert(order && order <= MAX_ORDER);
	for (unsigned int o = order; o-- > 0 && o + 2 >= order;) {
		unsigned int tries = 0;
		struct page *page;

		list_for_each_entry (page, &z->free[o], free_list) {
			size_t offset = page_to_pfn(page) - z->start;
			size_t pfn = z->start + align_down(offset, npages);

			if (run_is_free(z, pfn, npages))
				return take_neighbours(z, pfn, npages);
			if (++tries == fit_tries(npages))
				break;
		}
	}
	return NULL;
}

struct page *__zone_alloc(struct zone *z, unsigned int order, bool may_grow)
{
	size_t need = (size_t)1 << order, start;
	struct page *page = __zone_take_block(z, order);

	/* Blocks of ZONE_DMA are not joined: pinned and unpinned ones stay apart. */
	if (!page && order && z->type != ZONE_DMA)
		page = join(z, order);
	if (page || !may_grow || !__zone_grow(z, need, need, &start))
		return page;
	page = &page_window.pages[start];
	page->zero = PAGE_FRESH;
	return page;
}

static void carve_release(struct zone *z)
{
	size_t n = z->carve_end - z->carve_start;

	lock_assert_held(&z->lock);
	debug_assert(z->carve_start <= z->carve_end && z->carve_end <= zone_frontier(z));
	if (n)
		__zone_free_run(z, z->carve_start, n, z->carve_zero);
	z->carve_start = z->carve_end = 0;
}

void __zone_ahead_release(struct zone *z)
{
	size_t n = z->ahead_end - z->ahead_start;

	lock_assert_held(&z->lock);
	debug_assert(z->ahead_start <= z->ahead_end && z->ahead_end <= zone_frontier(z));
	if (n)
		__zone_free_run(z, z->ahead_start, n, PAGE_DIRTY);
	z->ahead_start = z->ahead_end = 0;
}

void __zone_spaces_release(struct zone *z)
{
	carve_release(z);
	__zone_ahead_release(z);
}

void __zone_ahead_set(struct zone *z, size_t pfn, size_t npages)
{
	__zone_ahead_release(z);
	z->ahead_start = pfn;
	z->ahead_end = pfn + npages;
}

struct page *__zone_ahead_take(struct zone *z, size_t npages)
{
	size_t align = is_pow2(npages) ? npages : 1;
	size_t start = z->start + align_up(z->ahead_start - z->start, align);
	struct page *page = &page_window.pages[start];

	lock_assert_held(&z->lock);
	if (z->ahead_start == z->ahead_end || start + npages > z->ahead_end)
		return NULL;
	debug_assert(page_type(page) == PAGE_NONE);
	if (start > z->ahead_start)
		__zone_free_run(z, z->ahead_start, start - z->ahead_start, PAGE_DIRTY);
	z->ahead_start = start + npages;
	page->zero = PAGE_DIRTY;
	return page;
}

/*
 * Extends the carving space into the free blocks that follow, up to @most pages of each.
 * Otherwise the rest at the end of every block would be a hole that no run of that size fits.
 * False: there is no room for @npages.
 */
static bool carve_on(struct zone *z, size_t npages, size_t most)
{
	while (z->carve_end - z->carve_start < npages) {
		struct page *next = &page_window.pages[z->carve_end];
		size_t n, taken;

		if (!z->carve_end || z->carve_end == zone_frontier(z) ||
		    page_type(next) != PAGE_FREE)
			return false;
		if (z->carve_start == z->carve_end)
			z->carve_zero = next->zero;
		if ((next->zero == PAGE_DIRTY) != (z->carve_zero == PAGE_DIRTY))
			return false;
		n = (size_t)1 << next->order;
		taken = min_size(n, most);
		__zone_remove_block(z, next);
		if (n > taken)
			__zone_free_run(z, z->carve_end + taken, n - taken, next->zero);
		z->carve_zero = (uint8_t)page_zero_merged(z->carve_zero, next->zero);
		z->carve_end += taken;
	}
	__zone_note_dirty(z);
	return true;
}

/* Makes a block of 2^@order pages the carving space; if there is none, a smaller one, of at
 * least 2^@least. */
static bool carve_block(struct zone *z, unsigned int order, unsigned int least)
{
	struct page *page = NULL;
	size_t n = 0;

	debug_assert(least && least <= order);
	for (unsigned int o = order; o >= least && !page; o--) {
		page = __zone_take_block(z, o);
		n = (size_t)1 << o;
	}
	if (!page)
		return false;
	carve_release(z);
	z->carve_zero = page->zero;
	z->carve_start = page_to_pfn(page);
	z->carve_end = z->carve_start + n;
	return true;
}

/* Adds @n pages behind the frontier to the carving space. */
static bool carve_grow(struct zone *z, size_t n)
{
	size_t start;

	if (!__zone_grow(z, 1, n, &start))
		return false;
	if (z->carve_end != start || z->carve_zero == PAGE_DIRTY) {
		carve_release(z);
		z->carve_start = start;
		z->carve_zero = PAGE_FRESH;
	}
	z->carve_end = start + n;
	return true;
}

/* Makes a carving space with room for @npages. */
static bool carve_refill(struct zone *z, size_t npages, bool may_grow)
{
	unsigned int fits = ilog2_up(npages), largest = ilog2(window_block());
	/* When memory is short, take no more than needed: other requests need it. Where there
	 * are fences, take what is left between them first. */
	unsigned int order = z->at_end || config.hardened
				     ? fits
				     : max_uint(fits, min_uint(fits + CARVE_ORDERS, largest));
	size_t n = (size_t)1 << order;

	if (carve_on(z, npages, n))
		return true;
	/* A carving space that ends at the frontier can grow there. */
	if (z->carve_end != zone_frontier(z))
		carve_release(z);
	return carve_block(z, order, fits) ||
	       (may_grow && (carve_grow(z, n) || carve_grow(z, npages)));
}

static struct page *carve(struct zone *z, size_t npages, bool may_grow)
{
	struct page *page;

	if (z->carve_end - z->carve_start < npages && !carve_refill(z, npages, may_grow))
		return NULL;
	page = &page_window.pages[z->carve_start];
	page->zero = z->carve_zero;
	debug_assert(z->carve_start >= z->start && z->carve_start + npages <= z->carve_end);
	debug_assert(page_type(page) == PAGE_NONE);
	z->carve_start += npages;
	return page;
}

/* Takes the free pages just below the frontier, and moves it by those that are missing. */
static struct page *grow_run(struct zone *z, size_t npages)
{
	size_t end = zone_frontier(z), tail = end - extend_back(z, end, npages), start;

	if (tail < npages) {
		if (!__zone_grow(z, 1, npages - tail, &start))
			return NULL;
		__zone_free_run(z, start, npages - tail, PAGE_FRESH);
	}
	start = block_of(z, end - tail);
	if (run_is_free(z, start, npages))
		return take_neighbours(z, start, npages);
	/* Other code has addresses in between: take only pages behind them. */
	if (!__zone_grow(z, 1, npages, &start))
		return NULL;
	page_window.pages[start].zero = PAGE_FRESH;
	return &page_window.pages[start];
}

struct page *__zone_alloc_at(struct zone *z, size_t start, size_t npages, bool may_grow)
{
	size_t end = start + npages, tail, grown;

	lock_assert_held(&z->lock);
	debug_assert(npages && start >= z->start && start <= zone_frontier(z));
	if (z->carve_start < end && z->carve_end > start)
		carve_release(z);
	if (z->ahead_start < end && z->ahead_end > start)
		__zone_ahead_release(z);
	if (end > zone_frontier(z)) {
		tail = zone_frontier(z) - start;
		if (!may_grow || (tail && !run_is_free(z, start, tail)) ||
		    !__zone_grow(z, 1, npages - tail, &grown))
			return NULL;
		__zone_free_run(z, grown, npages - tail, PAGE_FRESH);
	}
	return run_is_free(z, start, npages) ? take_neighbours(z, start, npages) : NULL;
}

bool __zone_cached_in_way(const struct zone *z, size_t start, size_t npages)
{
	size_t end = extend_on(z, start, npages);

	lock_assert_held(&z->lock);
	return end < min_size(start + npages, zone_frontier(z)) &&
	       page_type(&page_window.pages[end]) == PAGE_CACHED;
}

struct page *__zone_take_page(struct zone *z, size_t pfn)
{
	struct page *block, *page = &page_window.pages[pfn];
	size_t head, behind;

	lock_assert_held(&z->lock);
	debug_assert(pfn >= z->start && pfn < zone_frontier(z));
	if (z->carve_start <= pfn && z->carve_end > pfn)
		carve_release(z);
	if (z->ahead_start <= pfn && z->ahead_end > pfn)
		__zone_ahead_release(z);
	head = block_of(z, pfn);
	block = &page_window.pages[head];
	if (page_type(block) != PAGE_FREE)
		return NULL;
	behind = head + ((size_t)1 << block->order) - pfn - 1;
	__zone_remove_block(z, block);
	page->zero = block->zero;
	if (pfn > head)
		__zone_free_run(z, head, pfn - head, page->zero);
	if (behind)
		__zone_free_run(z, pfn + 1, behind, page->zero);
	__zone_note_dirty(z);
	return page;
}

struct page *__zone_alloc_run(struct zone *z, size_t npages, bool may_grow)
{
	struct page *page;

	lock_assert_held(&z->lock);
	debug_assert(npages && z->type == ZONE_NORMAL);
	/* Runs of pagesets' orders are blocks, even where growth blocks are smaller. */
	if (is_pow2(npages) &&
	    npages <= max_size(window_block(), (size_t)1 << (PCP_ORDERS - 1)))
		return __zone_alloc(z, ilog2(npages), may_grow);
	if (npages <= window_block()) {
		page = take_hole(z, npages, z->only_dirty ? MAX_ORDER : ilog2(npages));
		return page || z->only_dirty ? page : carve(z, npages, may_grow);
	}
	page = take_hole(z, npages, MAX_ORDER);
	return page || !may_grow ? page : grow_run(z, npages);
}
