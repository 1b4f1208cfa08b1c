/* SPDX-License-Identifier: MIT */
/*
 * How many pages there may be: of the process, by configuration, cgroup or machine; of
 * each node, by its memory; and watermarks below that.
 *
 * The process's limit holds for what may be resident: pages in use and free ones that
 * are dirty. Who is above it gives back what is free before taking more.
 *
 * Unless it is configured, it is not the last word, since the system promises more than it
 * has, and programs ask for more than they touch: above it the system's policy of overcommit
 * says what may be asked for, and what is resident, looked at from time to time, whether there
 * is memory for it (limits_above()).
 */
#ifndef PAGE_LIMITS_H
#define PAGE_LIMITS_H

#include "page/zone_types.h"

/* Synchronization: used and dirty: sums over zones, added to at each unlock; the rest
 * read-only after init. */
struct page_limits {
	size_t limit; /* pages */
	size_t wmark[NR_WMARK];
	size_t most_at_once; /* above the limit, in one request; 0: it is never exceeded */
	_Atomic size_t used cacheline_aligned;
	_Atomic size_t dirty;
	/* Synchronization: relaxed. Pages above the limit that need no look. */
	_Atomic size_t allowance;
};

extern struct page_limits page_limits;

/*
 * After a request was refused within the limit: how far it may go above it. May enter the
 * kernel if the request may. *@reclaim: memory is short, so the caller had better reclaim some.
 */
enum limits_above limits_above(const struct alloc_request *rq, bool *reclaim);

/* @npages of what the last look allows above the limit, for a request that is there. */
bool limits_allow(size_t npages);

/* Limit and watermarks of the process and of all zones. */
void limits_init(void);
/* Watermarks of @managed pages, as the kernel derives them. */
void limits_watermarks(size_t managed, size_t *wmark);

#endif
