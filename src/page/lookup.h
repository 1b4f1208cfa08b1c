/* SPDX-License-Identifier: MIT */
/* From any address to its page, and what the array map and the places say of slabs. */
#ifndef PAGE_LOOKUP_H
#define PAGE_LOOKUP_H

#include "page/page.h"

/* The entry of any address; NULL if no page of ours is there. */
struct page *page_lookup(const void *addr);

/* The run becomes a slab, whose objects are freed to the array of @entry. @mark: what the
 * slab's cache wants to know of it by an address alone; 0: nothing. */
void page_set_slab(const struct page *page, size_t npages, uint32_t entry, uint8_t mark);
void page_clear_slab(const struct page *page, size_t npages);

#endif
