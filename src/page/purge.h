/* SPDX-License-Identifier: MIT */
/* Gives memory back to the system. May block. */
#ifndef PAGE_PURGE_H
#define PAGE_PURGE_H

#include "page/zone_types.h"

/*
 * Purges until at most @target dirty pages are left, but no more than about @max: a
 * block is purged as a whole, so it may be up to a 32nd more. Blocks of less than @least
 * pages stay. Result: pages purged.
 */
size_t zone_purge_to(struct zone *z, size_t target, size_t max, size_t least);
/* Purges all of a zone's free pages. Result: pages purged. */
size_t zone_purge(struct zone *z);
/* Purges free pages; with @all also those in the CPUs' pagesets. Result: bytes purged. */
size_t page_trim(bool all);
/* In the child: frees the blocks that other threads of the parent were purging. */
void purge_fork_child(void);

#endif
