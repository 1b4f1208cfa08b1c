/* SPDX-License-Identifier: MIT */
/* Memory back to the system. May block. */
#ifndef PAGE_PURGE_H
#define PAGE_PURGE_H

#include "page/zone_types.h"

/*
 * Purge until at most @target dirty pages are left, but no more than about @max: a
 * block is purged as a whole, and so it may be larger than that by a 32nd. Blocks of
 * less than @least pages stay. Result: pages purged.
 */
size_t zone_purge_to(struct zone *z, size_t target, size_t max, size_t least);
/* All of a zone's free pages; pages purged. */
size_t zone_purge(struct zone *z);
/* Purge free pages; with @all also those in the CPUs' pagesets. Bytes purged. */
size_t page_trim(bool all);
/* Blocks that another thread was purging in the parent are free here. */
void purge_fork_child(void);

#endif
