/* SPDX-License-Identifier: MIT */
/*
 * Pages without a lock, for requests that must not wait for a zone's; see aside.c. They are of
 * node index 0: they have the last page numbers of its ZONE_NORMAL, which does not use these.
 */
#ifndef PAGE_ASIDE_H
#define PAGE_ASIDE_H

#include "page/zone_types.h"

/* How many of @span pages of that zone are set aside. */
size_t aside_pages(size_t span);
/* Sets them aside: @npages from page number @start on. */
void aside_init(size_t start, size_t npages);

/* Takes @npages, aligned to 2^@order pages, which read as zeros; NULL: there are none. The
 * caller has tested the limits. Any context. */
struct page *aside_alloc(size_t npages, unsigned int order);
/* Frees such a run, or a part of one. Any context. */
void aside_free(struct page *page, size_t npages);

/* Whether a page number is one of those set aside. */
static always_inline bool is_aside(size_t pfn)
{
	return pfn - page_window.aside_pfn < page_window.aside_pages;
}

/* Numbers of pages: in use in the upper half, taken in the lower one (aside.c). */
enum { ASIDE_IN_USE_SHIFT = 32 };
extern _Atomic uint64_t aside_word;
/* The number of pages handed out. */
size_t aside_in_use(void);
/* Whether such a page has an entry: one at or behind it was handed out at some time. */
bool aside_has(size_t pfn);

#endif
