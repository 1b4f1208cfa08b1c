/* SPDX-License-Identifier: MIT */
/*
 * How many pages there may be: of the process, by configuration, cgroup or machine; of
 * each zone, by its node's memory; and watermarks below that.
 *
 * The process's limit holds for what may be resident: pages in use and free ones that
 * are dirty. Who is above it gives back what is free before taking more.
 */
#ifndef PAGE_LIMITS_H
#define PAGE_LIMITS_H

#include "page/zone.h"

/* Synchronization: used and dirty: sums over zones, added to at each unlock; the rest
 * read-only after init. */
struct page_limits {
	size_t limit; /* pages */
	size_t wmark[NR_WMARK];
	_Atomic size_t used cacheline_aligned;
	_Atomic size_t dirty;
};

extern struct page_limits page_limits;

/* Limit and watermarks of the process and of all zones. */
void limits_init(void);
/* Watermarks of @managed pages, as the kernel derives them. */
void limits_watermarks(size_t managed, size_t *wmark);

#endif
