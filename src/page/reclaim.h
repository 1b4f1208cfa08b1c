/* SPDX-License-Identifier: MIT */
/* Getting pages back that somebody holds without need. May block and enter the kernel. */
#ifndef PAGE_RECLAIM_H
#define PAGE_RECLAIM_H

#include "page/zone_types.h"

void reclaim_fork_child(void);
/* From everywhere, for @rq. Result: whether there is more than before. */
bool direct_reclaim(const struct alloc_request *rq);
/* From one zone's pagesets, and from shrinkers for its node. Pages. */
size_t zone_reclaim(struct zone *z, const struct alloc_request *rq);

#endif
