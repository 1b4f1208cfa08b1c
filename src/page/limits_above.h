/* SPDX-License-Identifier: MIT */
/* How far requests may go above a limit that is not configured: looks at what is resident. */
#ifndef PAGE_LIMITS_ABOVE_H
#define PAGE_LIMITS_ABOVE_H

#include "page/zone_types.h"

/*
 * How far a request may go above the limit that has refused it. May enter the kernel if the
 * request may. *@reclaim: memory is short, so the caller should reclaim. The caller calls
 * limits_taken() when it has tried to get the pages.
 */
enum limits_above limits_above(struct alloc_request *rq, bool *reclaim);

/* The caller has @got the pages, or not: what limits_above() granted for the request counts as
 * granted no longer. */
void limits_taken(struct alloc_request *rq, bool got);

/* Takes @npages out of the allowance above the limit. False: it is too small. */
bool limits_allow(size_t npages);

void limits_above_fork_child(void);

#endif
