/* SPDX-License-Identifier: MIT */
/* Closes runs that nobody may touch; see closed.h. */
#include "page/closed.h"

#include "base/assert.h"
#include "os/os.h"
#include "page/window.h"
#include "page/zone.h"

bool page_closed_may(page_closed_count *count)
{
	return atomic_load_explicit(count, memory_order_relaxed) < PAGE_CLOSED_MAX;
}

void page_closed_uncount(page_closed_count *count)
{
	size_t before = atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);

	debug_assert(before);
	(void)before;
}

bool page_close_by_mapping(struct page *page, size_t npages, page_closed_count *count)
{
	if (atomic_fetch_add_explicit(count, 1, memory_order_relaxed) < PAGE_CLOSED_MAX &&
	    !os_withdraw(page_to_virt(page), page_bytes(npages)))
		return true;
	page_closed_uncount(count);
	return false;
}

/* For guard regions the kernel makes page tables, 2 MiB for each GiB of addresses; a mapping
 * has none. */
static const size_t REGION_MAX = (size_t)64 << 20;

enum page_closed page_close(struct page *page, size_t npages, page_closed_count *count)
{
	debug_assert(npages);
	if (unlikely(page_bytes(npages) > REGION_MAX) &&
	    page_close_by_mapping(page, npages, count))
		return PAGE_MAPPING;
	if (!os_guard(page_to_virt(page), page_bytes(npages)))
		return PAGE_REGION;
	return page_close_by_mapping(page, npages, count) ? PAGE_MAPPING : PAGE_OPEN;
}

/* Without a mapping more, where the process has as many as it may have (vm.max_map_count): the
 * range becomes a part of the mapping around it again. */
static bool reopen_in_place(void *addr, size_t len)
{
	return !os_unguard(addr, len) && !os_commit(addr, len) && !os_purge(addr, len);
}

bool page_reopen(struct page *page, size_t npages, enum page_closed closed,
		 page_closed_count *count)
{
	debug_assert(npages && closed != PAGE_OPEN);
	if (closed == PAGE_REGION && !os_unguard(page_to_virt(page), page_bytes(npages)))
		return true;
	if (window_renew(zone_of(page), page_to_pfn(page), npages) &&
	    !reopen_in_place(page_to_virt(page), page_bytes(npages)))
		return false;
	if (closed == PAGE_MAPPING)
		page_closed_uncount(count);
	return true;
}
