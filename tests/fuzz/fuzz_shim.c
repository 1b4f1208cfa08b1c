/* SPDX-License-Identifier: MIT */
#include "fuzz_shim.h"

#include "page/background.h"
#include "page/limits.h"
#include "page/pageset.h"
#include "page/vm_event.h"
#include "page/zone.h"

_Static_assert((int)FUZZ_WMARKS == (int)NR_WMARK, "all watermarks");

void fuzz_zone_read(unsigned int index, struct fuzz_zone *out)
{
	struct zone *z = &zones[index];
	struct page *page;

	zone_lock(z);
	*out = (struct fuzz_zone){
		.start = z->start,
		.end = z->end,
		.frontier = atomic_load(&z->frontier),
		.present = z->present,
		.nr_free = z->nr_free,
		.nr_dirty = z->nr_dirty,
		.dirty = __zone_dirty(z),
		.isolated = z->isolated,
		.carve = z->carve_end - z->carve_start,
		.used = __zone_used(z),
		.managed = z->managed,
		.node_managed = z->node_managed,
		.lowmem_reserve = z->lowmem_reserve,
		.node = z->node,
		.type = z->type,
		.nr_alloc = z->nr_direct,
	};
	for (unsigned int i = 0; i < FUZZ_WMARKS; i++)
		out->wmark[i] = z->wmark[i];
	for (unsigned int o = 0; o <= MAX_ORDER; o++)
		list_for_each_entry (page, &z->free[o], free_list)
			out->blocks++;
	zone_unlock(z, true);
	out->pageset = pageset_pages(z);
	out->nr_alloc += pageset_nr_alloc(z);
}

size_t fuzz_zone_used(unsigned int index)
{
	return atomic_load_explicit(&zones[index].used, memory_order_relaxed);
}

void fuzz_limits_read(struct fuzz_limits *out)
{
	out->limit = page_limits.limit;
	out->used = atomic_load_explicit(&page_limits.used, memory_order_relaxed);
	out->dirty = atomic_load_explicit(&page_limits.dirty, memory_order_relaxed);
	for (unsigned int i = 0; i < FUZZ_WMARKS; i++)
		out->wmark[i] = page_limits.wmark[i];
}

unsigned int fuzz_zone_index(const struct page *page)
{
	return page_zone_index(page);
}

size_t fuzz_pfn(const struct page *page)
{
	return page_to_pfn(page);
}

struct page *fuzz_page_of_run(struct page *page, size_t i)
{
	return page + i;
}

size_t fuzz_max_pfn(void)
{
	size_t max = 0;

	for_each_zone (z)
		max = z->end > max ? z->end : max;
	return max;
}

size_t fuzz_drain(unsigned int zone)
{
	return pageset_drain(&zones[zone]);
}

void fuzz_decay(void)
{
	page_decay(0);
}

bool fuzz_zone_trylock(unsigned int index)
{
	return trylock(&zones[index].lock);
}

void fuzz_zone_unlock(unsigned int index)
{
	unlock(&zones[index].lock);
}

uint64_t fuzz_event_sum(enum fuzz_event event)
{
	static const enum vm_event events[] = {
		[FUZZ_ZLC_SKIP] = ZLC_SKIP,
		[FUZZ_ZLC_ZAP] = ZLC_ZAP,
		[FUZZ_ZLC_SECOND_SCAN] = ZLC_SECOND_SCAN,
		[FUZZ_PGALLOC_FAIL] = PGALLOC_FAIL,
	};

	return vm_event_sum(events[event]);
}

uint64_t fuzz_numa_sum(enum fuzz_numa item)
{
	static const enum numa_stat items[] = {
		[FUZZ_MISS] = NUMA_MISS,
		[FUZZ_FOREIGN] = NUMA_FOREIGN,
		[FUZZ_OTHER] = NUMA_OTHER,
		[FUZZ_INTERLEAVE_HIT] = NUMA_INTERLEAVE_HIT,
	};
	uint64_t n = 0;

	for_each_zone (z)
		n += pageset_counted(z, items[item]);
	return n;
}
