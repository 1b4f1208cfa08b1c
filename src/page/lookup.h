/* SPDX-License-Identifier: MIT */
/* Finds the page of any address; writes the array map and the places of slabs. */
#ifndef PAGE_LOOKUP_H
#define PAGE_LOOKUP_H

#include "page/page.h"

/* The page entry of any address; NULL: the library has no page there. */
struct page *page_lookup(const void *addr);
/* Makes the run a slab, whose objects are freed to the array of @entry. @mark: its class mark,
 * which an address alone leads to; 0: none. */
void page_set_slab(const struct page *page, size_t npages, pcpu_entry_t entry, uint8_t mark);
void page_clear_slab(const struct page *page, size_t npages);

#endif
