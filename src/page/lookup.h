/* SPDX-License-Identifier: MIT */
/* Finds the page of any address; writes the array map and the places of slabs. */
#ifndef PAGE_LOOKUP_H
#define PAGE_LOOKUP_H

#include "page/page.h"

/* The page entry of any address; NULL: the library has no page there. */
struct page *page_lookup(const void *addr);

/* The same, without a call for most pages: on one node the array map ends at the frontier, so
 * that each page below its end has an entry; unless the window is reserved. */
static always_inline struct page *page_lookup_near(const void *addr)
{
	size_t offset = (uintptr_t)addr - page_window.base;

	return likely(page_window.nr_nodes == 1 && !page_window.reserved) &&
			       likely(page_window_readable(offset))
		       ? page_window.pages + (offset >> page_window.page_shift)
		       : page_lookup(addr);
}

/* Makes the run a slab, whose objects are freed to the array of @entry. @mark: its class mark,
 * which an address alone leads to; 0: none. */
void page_set_slab(const struct page *page, size_t npages, pcpu_entry_t entry, uint8_t mark);
void page_clear_slab(const struct page *page, size_t npages);

#endif
