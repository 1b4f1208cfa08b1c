/* SPDX-License-Identifier: MIT */
#include "page/page.h"

#include "base/assert.h"

struct page_window page_window cacheline_aligned;
struct zone *zones;
const char *const zone_names[MAX_NR_ZONES] = {
	[ZONE_DMA] = "DMA", [ZONE_DMA32] = "DMA32", [ZONE_NORMAL] = "Normal"
};

/* Each node has page numbers for its share of 1 GiB; the first that fit its part are used. */
static size_t low_node_pages(void)
{
	return (size_t)1 << (page_window.low_shift - page_window.page_shift);
}

void *window_low_virt(size_t pfn)
{
	size_t i = pfn - page_window.low_pfn, node = i / low_node_pages();

	debug_assert(pfn >= page_window.low_pfn && node < page_window.nr_nodes);
	return (void *)(page_window.low_base + (node << page_window.low_part_shift) +
			((i % low_node_pages()) << page_window.page_shift));
}

size_t window_low_pfn(const void *addr)
{
	size_t offset = (uintptr_t)addr - page_window.low_base;
	size_t in_part = offset & (((size_t)1 << page_window.low_part_shift) - 1);

	return page_window.low_pfn + (offset >> page_window.low_part_shift) * low_node_pages() +
	       (in_part >> page_window.page_shift);
}
