/* SPDX-License-Identifier: MIT */
/* A run of one zone for a request. */
#ifndef PAGE_ZONE_ALLOC_H
#define PAGE_ZONE_ALLOC_H

#include "page/zone_types.h"

/* Takes a run out of this CPU's pageset, or past it. *@full: the zone has not enough, and the
 * zonelist cache may skip it for a while. */
struct page *zone_alloc(struct zone *z, const struct alloc_request *rq, bool *full);
/* Takes a run past the pagesets, without testing the watermark before. */
struct page *zone_alloc_direct(struct zone *z, const struct alloc_request *rq);

#endif
