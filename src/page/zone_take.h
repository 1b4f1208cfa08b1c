/* SPDX-License-Identifier: MIT */
/* A run of a zone, within limits and watermarks. */
#ifndef PAGE_ZONE_TAKE_H
#define PAGE_ZONE_TAKE_H

#include "page/zone_types.h"

/* Whether the zone, the node and the process have room above the watermark @mark. A hint: it
 * does not take the lock. */
bool zone_watermark_ok(const struct zone *z, const struct alloc_request *rq, size_t npages,
		       enum zone_watermarks mark);
/* A run for @rq; page->zero says what it holds. NULL: none. The lock is held. */
struct page *__zone_take(struct zone *z, const struct alloc_request *rq);
/* Up to @n more of the same, of 2^@order pages, while there is plenty mapped. */
unsigned int __zone_take_more(struct zone *z, const struct alloc_request *rq,
			      unsigned int order, struct page **out, unsigned int n);

#endif
