/* SPDX-License-Identifier: MIT */
/* A run of one zone for a request. */
#ifndef PAGE_ZONE_ALLOC_H
#define PAGE_ZONE_ALLOC_H

#include "page/zone_types.h"

/* From this CPU's pageset, or past it. *@full: the zone came up short, and may be skipped for
 * a while. */
struct page *zone_alloc(struct zone *z, const struct alloc_request *rq, bool *full);
/* Past the pagesets, without a look at the watermark before. */
struct page *zone_alloc_direct(struct zone *z, const struct alloc_request *rq);

#endif
