/* SPDX-License-Identifier: MIT */
/*
 * The window of addresses that pages lie in, the low one below 4 GiB, and their growth.
 *
 * Each zone's pages, and the entries that describe them, become accessible step by step at the
 * zone's frontier, so that the system charges nothing for pages that are not used, even with
 * vm.overcommit_memory=2. window_place.c decides where they lie, and whether a step is mapped
 * or is part of a reservation.
 */
#include "page/window.h"

#include <errno.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/log.h"
#include "os/os.h"
#include "page/node.h"
#include "page/window_place.h"
#include "percpu/percpu.h"

/* Synchronization: relaxed; a hint. */
static atomic_bool small_steps;

/* Page granules of the array map below page_window.readable. Synchronization: the lock of
 * zones[0]. */
static size_t *follower;

bool window_has_small_steps(void)
{
	return atomic_load_explicit(&small_steps, memory_order_relaxed);
}

size_t window_block(void)
{
	size_t bytes = window_has_small_steps() ? (size_t)256 << 10 : (size_t)4 << 20;

	return bytes >> page_window.page_shift;
}

bool window_use_small_steps(void)
{
	return !atomic_exchange_explicit(&small_steps, true, memory_order_relaxed);
}

void window_use_usual_steps(void)
{
	atomic_store_explicit(&small_steps, false, memory_order_relaxed);
}

/* Whether the zone's part of the low window reaches to page number @end. */
static bool low_window_has(const struct zone *z, size_t end)
{
	return window_place_low() && (end - z->start) << page_window.page_shift <=
					     (size_t)1 << page_window.low_part_shift;
}

static void advise(struct zone *z, void *addr, size_t len)
{
	if (config.thp == THP_NEVER)
		os_advise_huge(addr, len, false);
	else if (config.thp == THP_ALWAYS || z->type == ZONE_DMA)
		os_advise_huge(addr, len, true);
	if (os_topology()->nr_nodes > 1 && !nodes_are_interleaved)
		os_prefer_node(addr, len, node_real_id(z->node));
}

/* The copy must be set before an object of the new pages is handed out. */
static void set_readable(size_t limit)
{
	debug_assert(limit >= page_window.readable);
	__atomic_store_n(&page_window.readable, limit, __ATOMIC_RELEASE);
	if (follower)
		__atomic_store_n(follower, limit >> ARRAY_MAP_SHIFT, __ATOMIC_RELEASE);
}

void page_window_follow(size_t *entries)
{
	lock(&zones[0].lock);
	follower = entries;
	set_readable(page_window.readable);
	unlock(&zones[0].lock);
}

/* Publishes the frontier: pages below @end have entries, and are mapped or a hole. */
static void set_frontier(struct zone *z, size_t end)
{
	lock_assert_held(&z->lock);
	debug_assert(end <= z->end &&
		     end > atomic_load_explicit(&z->frontier, memory_order_relaxed));
	/* Pairs with the acquire in page_lookup(): entries below are accessible. */
	atomic_store_explicit(&z->frontier, end, memory_order_release);
	/* Addresses between this zone and the next have no entries, so readable ends here. */
	if (z == zones && page_window.nr_nodes == 1 && !page_window.reserved)
		set_readable(end << page_window.page_shift);
}

/* Maps pages from the frontier to @end, or makes those of a reservation accessible. */
static int map_pages(struct zone *z, size_t end)
{
	size_t from = max_size(zone_frontier(z), z->mapped);
	size_t len = (end - min_size(from, end)) << page_window.page_shift;
	int err;

	if (!len)
		return 0;
	err = window_is_reserved(z) ? os_commit(pfn_to_virt(from), len)
				    : os_map_at(pfn_to_virt(from), len);
	if (!err)
		z->mapped = end;
	return err;
}

/* Unmaps those behind the frontier. What the system does not take back serves later, and so do
 * pages of a reservation, which would lose its addresses. */
static void unmap_pages(struct zone *z)
{
	size_t from = zone_frontier(z);

	if (!window_is_reserved(z) &&
	    !os_release(pfn_to_virt(from), (z->mapped - from) << page_window.page_shift))
		z->mapped = from;
}

int window_extend(struct zone *z, size_t end)
{
	size_t from = zone_frontier(z);
	int err;

	lock_assert_held(&z->lock);
	debug_assert(end > from && end <= z->end);
	if (z->type == ZONE_DMA32 && !low_window_has(z, end))
		return -ENOMEM;
	/* The pages first: most refusals are of these, and of a request that cannot be served
	 * there are many. Nobody uses them before the frontier moves. */
	err = map_pages(z, end);
	if (err)
		return err;
	/* Whole growth blocks are described at once, also where the first steps are smaller. */
	err = window_describe(
		z, min_size(z->start + align_up(end - z->start, window_block()), z->end));
	if (err) {
		unmap_pages(z);
		return err;
	}
	advise(z, pfn_to_virt(from), (end - from) << page_window.page_shift);
	set_frontier(z, end);
	return 0;
}

int window_renew(struct zone *z, size_t pfn, size_t npages)
{
	void *addr = pfn_to_virt(pfn);
	size_t len = npages << page_window.page_shift;
	int err = os_renew(addr, len);

	if (!err)
		advise(z, addr, len);
	return err;
}

int window_skip(struct zone *z, size_t end)
{
	int err = window_describe(z, end);

	if (!err)
		set_frontier(z, end);
	return err;
}

/* Bytes of the array map that describe @bytes of pages. */
static size_t array_map_bytes(size_t bytes)
{
	return (bytes >> ARRAY_MAP_SHIFT) * sizeof(*page_window.array_map);
}

/* Give back whole pages of [@from, @to), which lies inside a flat array. */
static void purge_array(void *from, void *to)
{
	uintptr_t start = align_up((uintptr_t)from, page_size());
	uintptr_t end = align_down((uintptr_t)to, page_size());

	if (end > start)
		os_purge((void *)start, end - start);
}

/*
 * Inside a free run all three arrays are zero: page entries say PAGE_NONE, and there is no
 * slab. So they may be given back even if other threads read them, since they read zeros either
 * way.
 */
void window_purge_metadata(size_t pfn, size_t npages)
{
	unsigned int shift = page_window.page_shift;
	char *map = (char *)page_window.array_map;

	debug_assert(npages > 1);
	purge_array(&page_window.pages[pfn + 1], &page_window.pages[pfn + npages]);
	purge_array(&page_window.places[pfn], &page_window.places[pfn + npages]);
	if (pfn < page_window.low_pfn)
		purge_array(map + array_map_bytes(pfn << shift),
			    map + array_map_bytes((pfn + npages) << shift));
}

bool window_init(void)
{
	unsigned int nodes = nodes_count();
	static void *mem; /* stays after a failure, for the next call */
	size_t len;

	page_window.page_shift = ilog2(os_page_size());
	len = (size_t)nodes * MAX_NR_ZONES * sizeof(struct zone);
	page_window.nr_nodes = nodes;
	if ((!mem && os_map_permanent(len, &mem)) || !window_place(nodes))
		return false;
	zones = mem;
	if (pcpu_address_space_is_scarce())
		window_use_small_steps();
	if (config.verbose)
		log_warn("pages: %u node%s of %zu MiB at %p, %s", nodes, nodes == 1 ? "" : "s",
			 ((size_t)1 << page_window.zone_shift) >> 20, (void *)page_window.base,
			 page_window.reserved ? "reserved" : "mapped as needed");
	return true;
}
