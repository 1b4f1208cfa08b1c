/* SPDX-License-Identifier: MIT */
/* Between the public functions (page_api.c) and the walk over zonelists. */
#ifndef PAGE_PAGE_ALLOC_H
#define PAGE_PAGE_ALLOC_H

#include "page/mempolicy.h"

/* Whether there is an allocator; makes one if @flags allow. */
bool page_ready(gfp_t flags);
/* The highest zone @flags allow. */
enum zone_type gfp_zone(gfp_t flags);
/*
 * @npages from where @p says, or of @nodes only, as page_alloc_run() and, with @align, as
 * page_alloc_aligned().
 */
struct page *page_alloc_at(const struct placement *p, const struct node_mask *nodes,
			   gfp_t flags, size_t npages, unsigned int align, bool *zeroed);
/* The same before it is anybody's. */
struct page *page_alloc(const struct placement *p, const struct node_mask *nodes,
			struct alloc_request *rq);

#endif
