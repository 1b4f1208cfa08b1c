/* SPDX-License-Identifier: MIT */
/* How many pages the program had in use lately; see recent.c. */
#ifndef PAGE_RECENT_H
#define PAGE_RECENT_H

#include "base/bits.h"
#include "page/limits.h"

/* Synchronization: relaxed. Any thread notes; the thread that sets `since` ends a period. */
struct page_recent {
	_Atomic uint64_t since cacheline_aligned; /* ms; when this period began */
	atomic_uint period;			  /* counts periods */
	_Atomic size_t most, most_before;	  /* pages, in this period and the last one */
};

extern struct page_recent page_recent;

/* Notes the pages in use, and begins a new period if it is time. Reads the clock, so it is for
 * requests that may enter the kernel. Result: the period's number. */
unsigned int page_recent_look(void);

/* The most pages that were in use at once, lately. */
static inline size_t page_recent_used(void)
{
	size_t used = atomic_load_explicit(&page_limits.used, memory_order_relaxed);
	size_t most = atomic_load_explicit(&page_recent.most, memory_order_relaxed);
	size_t before = atomic_load_explicit(&page_recent.most_before, memory_order_relaxed);

	return max_size(used, max_size(most, before));
}

#endif
