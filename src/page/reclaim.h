/* SPDX-License-Identifier: MIT */
/* Gets pages back that others hold without need. May block and enter the kernel. */
#ifndef PAGE_RECLAIM_H
#define PAGE_RECLAIM_H

#include "page/zone_types.h"

struct shrinker;

void reclaim_fork_child(void);
/* As register_shrinker(), for a layer that is being initialised: waits for no reclaim, since
 * one under way may wait for the initialisation. The caller registers a shrinker once. */
void reclaim_add(struct shrinker *s, const char *name);
/* Whether this thread is in a scope of PF_MEMALLOC: it must not reclaim, and may use reserves.
 */
bool reclaim_is_forbidden(void);
/* Reclaims everywhere, for @rq. Result: whether there is more than before. */
bool direct_reclaim(const struct alloc_request *rq);
/* Reclaims from one zone's pagesets, and from shrinkers for its node. Result: pages. */
size_t zone_reclaim(struct zone *z, const struct alloc_request *rq);

#endif
