/* SPDX-License-Identifier: MIT */
#include "page_shim.h"

#include "base/bits.h"
#include "os/os.h"
#include "page/background.h"
#include "page/limits.h"
#include "page/lookup.h"
#include "page/move.h"
#include "page/page_alloc.h"
#include "page/pageset.h"
#include "page/purge.h"
#include "page/verify.h"
#include "page/window.h"
#include "page/window_place.h"
#include "page/zone.h"
#include "percpu/array_slow.h"

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
		.managed = zone_managed(z),
		.wmark_min = zone_wmark(z, WMARK_MIN),
		.wmark_low = zone_wmark(z, WMARK_LOW),
		.wmark_high = zone_wmark(z, WMARK_HIGH),
		.huge_wanted = atomic_load(&z->huge_wanted),
		.carve = z->carve_end - z->carve_start + z->ahead_end - z->ahead_start,
	};
	for (unsigned int o = 0; o <= MAX_ORDER; o++) {
		if (!list_empty(&z->free[o]))
			out->orders |= 1u << o;
		list_for_each_entry (page, &z->free[o], free_list)
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

const char *shim_zone_wrong(unsigned int index)
{
	static _Thread_local struct verify v;

	v.n = 0;
	zone_verify(&zones[index], &v);
	if (!v.n && zones[index].isolated)
		return "blocks are isolated although nobody purges";
	return v.n ? v.text[0] : NULL;
}

static size_t pages_held_at(const struct page *page)
{
	switch (page_type(page)) {
	case PAGE_SLAB:
		return page->span;
	case PAGE_ALLOCATED:
		return page->order == PAGE_NO_ORDER ? page->npages : (size_t)1 << page->order;
	case PAGE_LARGE:
		return page->npages;
	default:
		return 0;
	}
}

size_t shim_zone_held(unsigned int index)
{
	const struct zone *z = &zones[index];
	size_t held = 0, n;

	for (size_t pfn = z->start; pfn < atomic_load(&z->frontier); pfn += n ? n : 1) {
		n = pages_held_at(&page_window.pages[pfn]);
		held += n;
	}
	return held;
}

size_t shim_zone_mapped(unsigned int index)
{
	const size_t per_page[NR_FLAT] = {
		[FLAT_PAGES] = sizeof(*page_window.pages),
		[FLAT_PLACES] = sizeof(*page_window.places),
		[FLAT_ARRAY_MAP] = sizeof(*page_window.array_map)
				   << (page_window.page_shift - ARRAY_MAP_SHIFT),
	};
	const struct zone *z = &zones[index];
	size_t sum = z->present << page_window.page_shift;

	if (page_window.reserved)
		return 0;
	for (unsigned int i = 0; i < NR_FLAT; i++)
		/* With several nodes the others are there as a whole. */
		if (i == FLAT_PAGES || page_window.nr_nodes == 1)
			sum += align_up(z->described[i] * per_page[i], page_size()) -
			       align_up(z->start * per_page[i], page_size());
	return sum;
}

size_t shim_zone_run_pops(unsigned int index)
{
	const struct zone *z = &zones[index];
	size_t pops = 0;

	for (unsigned int list = PCP_ORDERS; list < PCP_LISTS; list++)
		pops += pcpu_array_sums((char *)atomic_load(&z->pageset) + z->pcp_offset[list],
					PCPU_ALL_CPUS)
				.pops;
	return pops;
}

bool shim_window_reserved(void)
{
	return page_window.reserved;
}

size_t shim_window_block(void)
{
	return window_block();
}

void shim_window_use_small_steps(void)
{
	window_use_small_steps();
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
		.limit = limits_now(),
		.used = atomic_load(&page_limits.used),
		.dirty = atomic_load(&page_limits.dirty),
		.wmark_min = limits_wmark(WMARK_MIN),
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

bool shim_extend(void *p, size_t more)
{
	struct page *page = virt_to_page(p);

	return page_extend_run(page, page->npages, more, GFP_KERNEL);
}

static int refused_with;
static unsigned int refuse_times;

static int refuse(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
		  void *arg)
{
	if (!refuse_times)
		return pthread_create(thread, attr, run, arg);
	refuse_times--;
	return refused_with;
}

void shim_refuse_threads(int error, unsigned int times)
{
	refused_with = error;
	refuse_times = times;
	os_pthread_create = refuse;
}

bool shim_background_is_running(void)
{
	return page_background_is_running();
}

void shim_page_decay(void)
{
	page_decay(0);
}
