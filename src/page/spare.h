/* SPDX-License-Identifier: MIT */
/*
 * Spare runs, of 2^SPARE_ORDER pages: for requests that find the zone's lock taken for long;
 * see spare.c. They count as in use, as the pages of pagesets do.
 */
#ifndef PAGE_SPARE_H
#define PAGE_SPARE_H

#include "page/zone_types.h"

/* Notes that a request could not have the lock. */
void spare_note_need(struct zone *z);
/* Whether requests of the zone have needed spare runs, */
static inline bool spare_is_wanted(const struct zone *z)
{
	return atomic_load_explicit(&z->spares_wanted, memory_order_relaxed);
}

/* and how many it should have more now. The zone's lock is held. */
unsigned int __spare_lacks(const struct zone *z);
/* Adds a run, which the caller has taken out of the zone. The zone's lock is held. False: there
 * is no place for it. */
bool __spare_put(struct zone *z, struct page *page);
/* Takes a run; NULL: there is none. Any context. */
struct page *spare_take(struct zone *z);
/* Frees all runs. */
void spare_drain(struct zone *z);
size_t spare_pages(const struct zone *z);

#endif
