/* SPDX-License-Identifier: MIT */
/* Closed pages at fixed places of a zone, between slabs; see fence.c. */
#ifndef PAGE_FENCE_H
#define PAGE_FENCE_H

#include "page/zone_types.h"

/* As __zone_take(). *@rq->fenced: whether the fence behind the run is closed, and held for it.
 */
struct page *__fence_take(struct zone *z, const struct alloc_request *rq);
/* Whether the fence behind a run is closed, for verification. */
bool fence_is_held(const struct page *page, size_t npages);
/* Lets go of the fence behind a run for which it was held. Waits for nothing. */
void fence_drop(const struct page *page, size_t npages);

#endif
