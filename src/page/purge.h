/* SPDX-License-Identifier: MIT */
/* Gives memory back to the system. May block. */
#ifndef PAGE_PURGE_H
#define PAGE_PURGE_H

#include "page/zone_types.h"

/*
 * Isolates a block of 2^k pages that the caller has taken off the lists, so that it may do
 * something with its memory without the zone's lock; and ends that. A child that is forked
 * meanwhile puts the block back as dirty, unless this thread forks. The lock is held.
 */
void __zone_isolate(struct zone *z, struct page *page, size_t npages);
void __zone_unisolate(struct zone *z, struct page *page);
/*
 * Purges until at most @target dirty pages are left, but no more than about @max: a
 * block is purged as a whole, so it may be up to a 32nd more. Blocks of less than @least
 * pages stay; @least is 0 or 2^k. Result: pages purged.
 */
size_t zone_purge_to(struct zone *z, size_t target, size_t max, size_t least);
/* The same, where nobody has the zone's lock. Result: as above, or ZONE_BUSY. */
#define ZONE_BUSY SIZE_MAX
size_t zone_try_purge_to(struct zone *z, size_t target, size_t max, size_t least);
/* Whether a purge in this period met blocks that the system refuses, and no others. */
bool zone_refuses(const struct zone *z);
/* Purges all of a zone's free pages. Result: pages purged. */
size_t zone_purge(struct zone *z);
/* Purges free pages; with @all also those in the CPUs' pagesets. Result: bytes purged. */
size_t page_trim(bool all);
/* In the child: frees the blocks that other threads of the parent were purging or populating.
 */
void purge_fork_child(void);

#endif
