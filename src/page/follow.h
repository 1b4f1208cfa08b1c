/* SPDX-License-Identifier: MIT */
/* Follows the control group's memory limit; see follow.c. */
#ifndef PAGE_FOLLOW_H
#define PAGE_FOLLOW_H

#include "page/limits.h"

/* Whether a request for @npages is one that looks. */
static inline bool page_follow_is_due(size_t npages)
{
	return limits_resident() + npages >
	       atomic_load_explicit(&limits_look_at, memory_order_relaxed);
}

/* Looks if the process has grown much, or if it is time. For requests that may enter the
 * kernel, and hold no lock. */
void page_follow_growth(size_t npages);
/* Looks if it is time; @ms: now. The first is for the background thread, the second for such
 * requests. */
void page_follow(uint64_t ms);
void page_follow_request(uint64_t ms);
/* Whether a look could give so much back that a process of @dirty free pages reads the clock
 * for it. */
bool page_follow_is_worth(size_t dirty);
/* Looks now. */
void page_follow_now(void);

void page_follow_init(void);
void page_follow_fork_child(void);

#endif
