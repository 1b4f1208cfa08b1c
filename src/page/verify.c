/* SPDX-License-Identifier: MIT */
/*
 * The invariants that stand beside struct zone, as code: free blocks, their sums, pagesets.
 *
 * Lock: the zone's, while its lists are walked. Pagesets are read while CPUs may use them:
 * base/verify.h.
 */
#include "page/verify.h"

#include "page/pageset.h"
#include "page/zone.h"

static const char *block_wrong(const struct zone *z, struct page *page, unsigned int order)
{
	size_t frontier = zone_frontier(z);
	size_t offset = page_to_pfn(page) - z->start, n = (size_t)1 << order;
	size_t buddy = z->start + (offset ^ n);
	const struct page *b = page_window.pages + buddy;

	if (page->type != PAGE_FREE)
		return "is on a list of free blocks, but not free";
	if (page->order != order)
		return "is on the list of another order";
	if (offset % n)
		return "is not aligned to its size";
	if (z->start + offset + n > frontier)
		return "reaches beyond the frontier";
	if (order < MAX_ORDER && buddy + n <= frontier && b->type == PAGE_FREE &&
	    b->order == order && zone_always_merges(z, order + 1, page->zero, b->zero))
		return "was not merged with its buddy";
	return NULL;
}

/* Verifies a free list: dirty blocks come first. Result: whether the walk reached its end. */
static bool verify_list(struct zone *z, unsigned int order, size_t *nr_free, size_t *nr_dirty,
			struct verify *v)
{
	bool seen_clean = false;
	struct page *page;

	list_for_each_entry (page, &z->free[order], free_list) {
		const char *wrong = block_wrong(z, page, order);

		if (wrong) {
			verify_found(v, "zone %u, block %p of order %u: %s", z->index,
				     page_to_virt(page), order, wrong);
			return false;
		}
		*nr_free += (size_t)1 << order;
		*nr_dirty += page->zero ? 0 : (size_t)1 << order;
		verify_that(v, page->zero || !seen_clean,
			    "zone %u, block %p of order %u: is dirty, but behind a clean one",
			    z->index, page_to_virt(page), order);
		seen_clean = seen_clean || page->zero;
	}
	return true;
}

static size_t sum_of(const struct list_head *blocks)
{
	const struct page *page;
	size_t n = 0;

	list_for_each_entry (page, blocks, free_list)
		n += (size_t)1 << page->order;
	return n;
}

static void __verify_sums(struct zone *z, size_t nr_free, size_t nr_dirty, struct verify *v)
{
	size_t span = zone_frontier(z) - z->start;

	verify_that(v, nr_free == z->nr_free, "zone %u: nr_free is %zu, the lists have %zu",
		    z->index, z->nr_free, nr_free);
	verify_that(v, nr_dirty == z->nr_dirty, "zone %u: nr_dirty is %zu, the lists have %zu",
		    z->index, z->nr_dirty, nr_dirty);
	verify_that(v, sum_of(&z->isolated_blocks) == z->isolated,
		    "zone %u: %zu isolated pages, the list has %zu", z->index, z->isolated,
		    sum_of(&z->isolated_blocks));
	verify_that(v, z->present <= span, "zone %u: %zu pages present, %zu below the frontier",
		    z->index, z->present, span);
	verify_that(v, __zone_used(z) <= z->present, "zone %u: %zu pages in use of %zu",
		    z->index, __zone_used(z), z->present);
	verify_that(v, z->carve_start <= z->carve_end,
		    "zone %u: space for carving from %zu to %zu", z->index, z->carve_start,
		    z->carve_end);
}

static void __verify_lists(struct zone *z, struct verify *v)
{
	size_t nr_free = 0, nr_dirty = 0;

	for (unsigned int o = 0; o <= MAX_ORDER; o++)
		if (!verify_list(z, o, &nr_free, &nr_dirty, v))
			return;
	__verify_sums(z, nr_free, nr_dirty, v);
}

void zone_verify(struct zone *z, struct verify *v)
{
	zone_lock(z);
	__verify_lists(z, v);
	zone_unlock(z, true);
	pageset_verify(z, v);
}

void page_verify(struct verify *v)
{
	for_each_zone (z)
		zone_verify(z, v);
}
