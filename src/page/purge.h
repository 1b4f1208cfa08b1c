/* SPDX-License-Identifier: MIT */
/* Gives memory back to the system. May block. */
#ifndef PAGE_PURGE_H
#define PAGE_PURGE_H

#include "page/zone_types.h"

/*
 * Purges dirty free blocks, the largest first, until @target dirty pages stay, or about @max
 * pages are purged: a block is purged as a whole, so it may be up to a 32nd more. Blocks of
 * fewer pages than @least (0 or 2^k) stay. Result: pages purged.
 */
size_t zone_purge_to(struct zone *z, size_t target, size_t max, size_t least);
/* A part of that, for a request: so many blocks, which the system takes one by one, and each
 * that is larger than so many pages, 2^k, is divided. */
struct purge_part {
	size_t blocks, largest;
};
/* Result: as above, or ZONE_BUSY: another thread has the zone's lock. */
#define ZONE_BUSY SIZE_MAX
size_t zone_purge_part(struct zone *z, size_t target, size_t max, size_t least,
		       const struct purge_part *part);
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
