/* SPDX-License-Identifier: MIT */
/*
 * The limit of the process, by configuration, cgroup or machine; the limit of each node, by its
 * memory; and watermarks below these limits.
 *
 * The process's limit bounds the pages that may be resident: pages in use, and free ones that
 * are dirty. A request that would exceed it makes free pages go back to the system first.
 *
 * A limit that is not configured may be exceeded, because the system promises more than it has,
 * and programs ask for more than they touch. Above it, the system's overcommit policy says how
 * much a request may ask for, and a look at resident memory, from time to time, says whether
 * there is memory for it (limits_above()).
 */
#ifndef PAGE_LIMITS_H
#define PAGE_LIMITS_H

#include "page/zone_types.h"

/* Synchronization: used and dirty are sums over zones, to which each unlock adds; the rest is
 * read-only after init. */
struct page_limits {
	/* Synchronization: relaxed; written by the thread that follows the group's limit
	 * (follow.c). A reader may see a new limit and watermarks of the old one. */
	_Atomic size_t limit; /* pages */
	_Atomic size_t wmark[NR_WMARK];
	size_t most_at_once; /* above the limit, in one request; 0: it is never exceeded */
	_Atomic size_t used cacheline_aligned;
	_Atomic size_t dirty;
	/* Synchronization: relaxed. Pages above the limit that need no look. */
	_Atomic size_t allowance;
};

extern struct page_limits page_limits;

static inline size_t limits_now(void)
{
	return atomic_load_explicit(&page_limits.limit, memory_order_relaxed);
}

static inline size_t limits_wmark(enum zone_watermarks mark)
{
	return atomic_load_explicit(&page_limits.wmark[mark], memory_order_relaxed);
}

/* Pages that may be resident: in use, or free and dirty. */
static inline size_t limits_resident(void)
{
	return atomic_load_explicit(&page_limits.used, memory_order_relaxed) +
	       atomic_load_explicit(&page_limits.dirty, memory_order_relaxed);
}

/*
 * How far a request may go above the limit that has refused it. May enter the kernel if the
 * request may. *@reclaim: memory is short, so the caller should reclaim.
 */
enum limits_above limits_above(const struct alloc_request *rq, bool *reclaim);

/* Takes @npages out of the allowance above the limit. False: it is too small. */
bool limits_allow(size_t npages);

/* Sets limit and watermarks of the process and of all zones. */
void limits_init(void);
/* Sets them anew if the group's limit (os_share_memory()) has changed. One thread at a time.
 * Result: whether the process's limit is lower than before. */
bool limits_update(void);
/* Memory is short when less than this is left of @all bytes. */
uint64_t limits_margin(uint64_t all);
/* Watermarks of @managed pages, as the kernel derives them. */
void limits_watermarks(size_t managed, size_t *wmark);

#endif
