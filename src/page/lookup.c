/* SPDX-License-Identifier: MIT */
#include "page/lookup.h"

#include "base/assert.h"
#include "page/aside.h"
#include "page/zone_types.h"
#include "percpu/percpu.h"

struct page *page_lookup(const void *addr)
{
	size_t low = atomic_load_explicit(&page_window.low_size, memory_order_acquire);
	struct page *page;

	if (!page_window_has(addr) && (uintptr_t)addr - page_window.low_base >= low)
		return NULL;
	page = page_of(addr);
	if (page_to_pfn(page) >=
		    atomic_load_explicit(&zone_of(page)->frontier, memory_order_acquire) &&
	    !aside_has(page_to_pfn(page)))
		return NULL;
	return page;
}

static void set_array(size_t pfn, size_t npages, pcpu_entry_t entry)
{
	unsigned int shift = page_window.page_shift;
	pcpu_entry_t *map = page_window.array_map + ((pfn << shift) >> ARRAY_MAP_SHIFT);
	size_t n = (npages << shift) >> ARRAY_MAP_SHIFT;

	if (pfn >= page_window.low_pfn)
		return; /* frees of objects in the low window take the slow path */
	for (size_t i = 0; i < n; i++)
		map[i] = entry;
}

static void set_place(size_t pfn, unsigned int place)
{
	__atomic_store_n(&page_window.places[pfn], (uint16_t)place, __ATOMIC_RELAXED);
}

void page_set_slab(const struct page *page, size_t npages, pcpu_entry_t entry, uint8_t mark)
{
	size_t pfn = page_to_pfn(page);

	debug_assert(npages && npages <= PAGE_SLAB_SPAN_MAX &&
		     page_type(page) == PAGE_ALLOCATED);
	set_array(pfn, npages, entry);
	for (unsigned int i = 0; i < npages; i++)
		set_place(pfn + i, i | (unsigned int)mark << 8);
}

void page_clear_slab(const struct page *page, size_t npages)
{
	size_t pfn = page_to_pfn(page);

	debug_assert(npages && !page_place_to_head(page_place(pfn)));
	set_array(pfn, npages, PCPU_ENTRY_NONE);
	for (size_t i = 0; i < npages; i++)
		set_place(pfn + i, 0);
}
