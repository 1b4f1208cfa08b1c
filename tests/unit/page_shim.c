/* SPDX-License-Identifier: MIT */
#include "page_shim.h"

#include "os/os.h"
#include "page/limits.h"
#include "page/page.h"
#include "page/zone.h"

bool shim_page_init(void)
{
	return page_init();
}

unsigned int shim_nr_zones(void)
{
	return page_window.nr_nodes;
}

unsigned int shim_all_zones(void)
{
	return nr_zones();
}

void shim_zone_read(unsigned int index, struct shim_zone *out)
{
	struct zone *z = &zones[index];
	struct page *page;

	zone_lock(z);
	*out = (struct shim_zone){
		.start = z->start,
		.end = z->end,
		.frontier = atomic_load(&z->frontier),
		.nr_free = z->nr_free,
		.nr_dirty = z->nr_dirty,
		.nr_purged = z->nr_purged,
		.nr_refault = z->nr_refault,
		.present = z->present,
		.used = __zone_used(z),
		.managed = z->managed,
		.wmark_min = z->wmark[WMARK_MIN],
		.wmark_low = z->wmark[WMARK_LOW],
		.wmark_high = z->wmark[WMARK_HIGH],
		.carve = z->carve_end - z->carve_start,
	};
	for (unsigned int o = 0; o <= MAX_ORDER; o++) {
		if (!list_empty(&z->free[o]))
			out->orders |= 1u << o;
		list_for_each_entry (page, &z->free[o], lru)
			out->blocks++;
	}
	zone_unlock(z, true);
	out->pageset = pageset_pages(z);
}

bool shim_zone_trylock(unsigned int index)
{
	return trylock(&zones[index].lock);
}

void shim_zone_unlock(unsigned int index)
{
	unlock(&zones[index].lock);
}

static const char *block_wrong(const struct zone *z, struct page *page, unsigned int order)
{
	size_t offset = page_to_pfn(page) - z->start, n = (size_t)1 << order;
	size_t buddy = z->start + (offset ^ n);

	if (page->type != PAGE_FREE)
		return "a listed block is not of type FREE";
	if (page->order != order)
		return "a block is on the list of another order";
	if (offset % n)
		return "a block is not aligned to its size";
	if (z->start + offset + n > atomic_load(&z->frontier))
		return "a block reaches beyond the frontier";
	if (buddy + n <= atomic_load(&z->frontier) &&
	    page_window.pages[buddy].type == PAGE_FREE &&
	    page_window.pages[buddy].order == order && order < MAX_ORDER &&
	    zone_always_merges(z, order + 1, page->zero, page_window.pages[buddy].zero))
		return "two free buddies were not merged";
	return NULL;
}

const char *shim_zone_wrong(unsigned int index)
{
	struct zone *z = &zones[index];
	size_t nr_free = 0, nr_dirty = 0;
	const char *wrong = NULL;
	struct page *page;

	zone_lock(z);
	for (unsigned int o = 0; o <= MAX_ORDER; o++) {
		bool seen_zero = false;

		list_for_each_entry (page, &z->free[o], lru) {
			wrong = block_wrong(z, page, o);
			if (wrong)
				break;
			nr_free += (size_t)1 << o;
			nr_dirty += page->zero ? 0 : (size_t)1 << o;
			if (!page->zero && seen_zero)
				wrong = "a dirty block stands behind a zero one";
			seen_zero = seen_zero || page->zero;
		}
		if (wrong)
			break;
	}
	if (!wrong && nr_free != z->nr_free)
		wrong = "nr_free is not the sum of the free blocks";
	if (!wrong && nr_dirty != z->nr_dirty)
		wrong = "nr_dirty is not the sum of the dirty blocks";
	if (!wrong && z->isolated)
		wrong = "blocks are isolated although nobody purges";
	if (!wrong && z->present > atomic_load(&z->frontier) - z->start)
		wrong = "more pages present than there are below the frontier";
	if (!wrong && __zone_used(z) > z->present)
		wrong = "more pages in use than there are";
	zone_unlock(z, true);
	return wrong;
}

bool shim_window_reserved(void)
{
	return page_window.reserved;
}

size_t shim_window_block(void)
{
	return window_block();
}

size_t shim_page_to_pfn(const struct page *page)
{
	return page_to_pfn(page);
}

size_t shim_trim(bool all)
{
	return page_trim(all);
}

struct page *shim_alloc_run(gfp_t flags, size_t npages, bool *zeroed)
{
	return page_init() ? page_alloc_run(PAGE_ANY_NODE, flags, npages, zeroed) : NULL;
}

void shim_free_run(struct page *page, size_t npages)
{
	page_free_run(page, npages);
}

struct page *shim_alloc_aligned(gfp_t flags, size_t npages, unsigned int order)
{
	bool zeroed;

	return page_alloc_aligned(flags, npages, order, &zeroed);
}

void shim_limits_read(struct shim_limits *out)
{
	*out = (struct shim_limits){
		.limit = page_limits.limit,
		.used = atomic_load(&page_limits.used),
		.dirty = atomic_load(&page_limits.dirty),
		.wmark_min = page_limits.wmark[WMARK_MIN],
	};
}

size_t shim_zone_resident(unsigned int index)
{
	const struct zone *z = &zones[index];
	size_t pages = atomic_load(&z->frontier) - z->start;

	return pages ? os_resident(pfn_to_virt(z->start), pages * page_size()) : 0;
}

size_t shim_metadata_resident(void)
{
	return window_metadata_resident();
}

void shim_page_decay(void)
{
	page_decay();
}
