/* SPDX-License-Identifier: MIT */
/*
 * Checks the invariants that stand beside struct zone: free blocks, their sums, and pagesets.
 * Runs do not overlap. The pages handed out are the pages that count as used. The zones'
 * numbers add up to those of the nodes and of the process.
 *
 * Lock: the zone's, while its lists are walked. Pagesets are read while CPUs may use them; see
 * base/verify.h.
 */
#include "page/verify.h"

#include "base/bits.h"
#include "page/aside.h"
#include "page/limits.h"
#include "page/node.h"
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

static size_t sum_of(const struct list_head *isolated)
{
	const struct page *page;
	size_t n = 0;

	list_for_each_entry (page, isolated, isolated.blocks)
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
	verify_that(v, sum_of(&z->isolated_blocks) == zone_isolated(z),
		    "zone %u: %zu isolated pages, the list has %zu", z->index, zone_isolated(z),
		    sum_of(&z->isolated_blocks));
	verify_that(v, z->present <= span, "zone %u: %zu pages present, %zu below the frontier",
		    z->index, z->present, span);
	verify_that(v, __zone_used(z) <= z->present, "zone %u: %zu pages in use of %zu",
		    z->index, __zone_used(z), z->present);
	for (unsigned int i = FLAT_PAGES; i <= FLAT_PLACES; i++)
		verify_that(v, z->described[i] >= z->start + span,
			    "zone %u: pages are mapped that have no entries", z->index);
	verify_that(v, z->carve_start <= z->carve_end,
		    "zone %u: space for carving from %zu to %zu", z->index, z->carve_start,
		    z->carve_end);
	verify_that(v, z->ahead_start <= z->ahead_end && z->ahead_end <= zone_frontier(z),
		    "zone %u: space ahead from %zu to %zu", z->index, z->ahead_start,
		    z->ahead_end);
}

static void __verify_lists(struct zone *z, struct verify *v)
{
	size_t nr_free = 0, nr_dirty = 0;

	for (unsigned int o = 0; o <= MAX_ORDER; o++)
		if (!verify_list(z, o, &nr_free, &nr_dirty, v))
			return;
	__verify_sums(z, nr_free, nr_dirty, v);
}

/* The type and the length of the run that begins at a page. */
struct head {
	enum page_type type;
	size_t npages;
};

/*
 * Reads the entry of a page that other threads may be changing, by words that they write whole.
 */
static noinline no_sanitize_thread struct head head_of(const struct page *page)
{
	uint32_t word =
		page_head_order(atomic_load_explicit(&page->head, memory_order_relaxed));
	unsigned int order = word >> 8 & 0xff;
	struct head h = { .type = (enum page_type)(word & 0xff), .npages = 1 };

	if (h.type == PAGE_SLAB)
		h.npages = word >> 16;
	else if (h.type == PAGE_FREE || (h.type == PAGE_CACHED && order < PCP_ORDERS))
		h.npages = (size_t)1 << min_uint(order, MAX_ORDER + 1);
	else if (h.type != PAGE_NONE)
		h.npages = __atomic_load_n(&page->npages, __ATOMIC_RELAXED);
	return h;
}

static bool is_held(enum page_type type)
{
	return type == PAGE_ALLOCATED || type == PAGE_SLAB || type == PAGE_LARGE;
}

/* Verifies that no other run begins inside a run in use. */
static void verify_inside(const struct zone *z, size_t pfn, size_t npages, struct verify *v)
{
	for (size_t i = 1; i < npages; i++)
		verify_that(
			v, head_of(&page_window.pages[pfn + i]).type == PAGE_NONE,
			"zone %u, run of %zu pages at %p: another one begins at its page %zu",
			z->index, npages, pfn_to_virt(pfn), i);
}

/* Verifies all runs, one after the other, by their heads. Other threads take and free some
 * meanwhile. */
static void verify_runs(const struct zone *z, struct verify *v)
{
	size_t end = atomic_load_explicit(&z->frontier, memory_order_acquire), held = 0, cached;
	struct head h;

	for (size_t pfn = z->start; pfn < end; pfn += h.npages) {
		h = head_of(&page_window.pages[pfn]);
		if (!h.npages || h.npages > end - pfn) {
			verify_found(v, "zone %u, run at %p: has %zu pages", z->index,
				     pfn_to_virt(pfn), h.npages);
			return;
		}
		verify_that(v, h.type == PAGE_SLAB || !page_place(pfn),
			    "zone %u, page %p: has its place in a slab, but is of none",
			    z->index, pfn_to_virt(pfn));
		if (!is_held(h.type))
			continue;
		held += h.npages;
		verify_inside(z, pfn, h.npages, v);
	}
	cached = pageset_pages(z);
	verify_that(v, held + cached == atomic_load_explicit(&z->used, memory_order_relaxed),
		    "zone %u: %zu pages are handed out and %zu in pagesets, used is %zu",
		    z->index, held, cached,
		    atomic_load_explicit(&z->used, memory_order_relaxed));
}

void zone_verify(struct zone *z, struct verify *v)
{
	zone_lock(z);
	__verify_lists(z, v);
	zone_unlock(z, true);
	pageset_verify(z, v);
	verify_runs(z, v);
}

/*
 * Verifies that the numbers that zones publish add up to those of the nodes and of the process.
 */
static void verify_limits(struct verify *v)
{
	size_t used = aside_in_use(), dirty = 0, of_node[UKMEM_MAX_NODES] = { 0 };

	for_each_zone (z) {
		size_t n = atomic_load_explicit(&z->used, memory_order_relaxed);

		used += n;
		of_node[z->node] += n;
		dirty += atomic_load_explicit(&z->dirty, memory_order_relaxed);
	}
	verify_that(v, atomic_load_explicit(&page_limits.used, memory_order_relaxed) == used,
		    "pages: the process uses %zu, its zones %zu",
		    atomic_load_explicit(&page_limits.used, memory_order_relaxed), used);
	verify_that(v, atomic_load_explicit(&page_limits.dirty, memory_order_relaxed) == dirty,
		    "pages: %zu are dirty, of the zones %zu",
		    atomic_load_explicit(&page_limits.dirty, memory_order_relaxed), dirty);
	for (unsigned int i = 0; page_window.nr_nodes > 1 && i < page_window.nr_nodes; i++)
		verify_that(v,
			    atomic_load_explicit(&node_data[i].used, memory_order_relaxed) ==
				    of_node[i],
			    "node %u: uses %zu pages, its zones %zu", i,
			    atomic_load_explicit(&node_data[i].used, memory_order_relaxed),
			    of_node[i]);
}

void page_verify(struct verify *v)
{
	for_each_zone (z)
		zone_verify(z, v);
	verify_limits(v);
}
