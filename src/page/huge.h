/* SPDX-License-Identifier: MIT */
/* Huge pages for what a zone grows by; see huge.c. */
#ifndef PAGE_HUGE_H
#define PAGE_HUGE_H

#include "page/zone_types.h"

/* Notes that a small run took @npages clean pages. The zone's lock is held. */
void __huge_note_growth(struct zone *z, size_t npages);
/* Populates a huge page's worth of the zone, if it is worth while. May block. */
void zone_ask_huge(struct zone *z);
/* This process has forked, or is the child. */
void huge_note_fork(void);
/* Pages of a huge page; 0: the zone asks for none. */
size_t huge_pages(const struct zone *z);

static inline bool zone_wants_huge(const struct zone *z)
{
	return unlikely(atomic_load_explicit(&z->huge_wanted, memory_order_relaxed));
}

#endif
