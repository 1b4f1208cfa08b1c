/* SPDX-License-Identifier: MIT */
/*
 * Spare runs, for requests that find the zone's lock taken for long; see spare.c. They count as
 * in use, as the pages of pagesets do.
 */
#ifndef PAGE_SPARE_H
#define PAGE_SPARE_H

#include "page/zone_types.h"

/* Notes that a request could not have the lock. */
void spare_note_need(struct zone *z);
/* How many runs of 2^SPARE_ORDER pages the zone should have more. The zone's lock is held. */
unsigned int __spare_lacks(const struct zone *z);
/* Wants fewer, if a period of page/recent.c went by without a need. The zone's lock is held. */
void __spare_age(struct zone *z);
/* Puts the spare runs back into the free lists. The zone's lock is held. */
void __spare_drain(struct zone *z);
/* Adds a run that nobody else has, and that may hold anything, or is zero as page->zero says.
 * False: there is no place for it, or it is too small or too large. Any context. */
bool spare_put(struct zone *z, struct page *page, size_t npages);
/*
 * Takes a run of @npages or more, aligned to 2^@align; page->npages is its size. NULL: there is
 * none. If another thread exchanges runs at the same time, it may be a run that does not serve,
 * and the caller frees it. Any context.
 */
struct page *spare_take(struct zone *z, size_t npages, unsigned int align);
bool spare_serves(const struct zone *z, const struct page *page, size_t npages,
		  unsigned int align);
size_t spare_pages(const struct zone *z);

#endif
