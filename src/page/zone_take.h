/* SPDX-License-Identifier: MIT */
/* A run of a zone, within limits and watermarks. */
#ifndef PAGE_ZONE_TAKE_H
#define PAGE_ZONE_TAKE_H

#include "page/zone_types.h"

/* Whether the zone, the node and the process have room above the watermark @mark. A hint: it
 * does not take the lock. */
bool zone_watermark_ok(const struct zone *z, const struct alloc_request *rq, size_t npages,
		       enum zone_watermarks mark);
/* Takes a run for @rq; page->zero tells its contents. NULL: there is none. The lock is held. */
struct page *__zone_take(struct zone *z, const struct alloc_request *rq);
/* Takes up to @n more runs of 2^@order pages like @rq's, while plenty of pages are
 * mapped. The lock is held. */
unsigned int __zone_take_more(struct zone *z, const struct alloc_request *rq,
			      unsigned int order, struct page **out, unsigned int n);

#endif
