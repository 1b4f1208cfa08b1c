/* SPDX-License-Identifier: MIT */
/*
 * Pages without a lock, for whoever must not wait for a zone's; see aside.c. They are of node
 * index 0: their page numbers are the last ones of its ZONE_NORMAL, which has none of them.
 */
#ifndef PAGE_ASIDE_H
#define PAGE_ASIDE_H

#include "page/zone_types.h"

/* How many of @span pages of that zone are set aside. */
size_t aside_pages(size_t span);
/* They are those from page number @start on. */
void aside_init(size_t start, size_t npages);

/* @npages, aligned to 2^@order pages, which read as zeros; NULL: there are none. What limits
 * say is the caller's to heed. Any context. */
struct page *aside_alloc(size_t npages, unsigned int order);
/* A run of them, or a part of one. Any context. */
void aside_free(struct page *page, size_t npages);

/* Whether a page number is of one of these. */
static always_inline bool is_aside(size_t pfn)
{
	return pfn - page_window.aside_pfn < page_window.aside_pages;
}

/* Pages handed out. */
size_t aside_in_use(void);
/* Whether such a page was ever handed out, so that it has an entry. */
bool aside_has(size_t pfn);

#endif
