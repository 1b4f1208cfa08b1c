/* SPDX-License-Identifier: MIT */
/* Gives memory back to the system. May block. */
#ifndef PAGE_PURGE_H
#define PAGE_PURGE_H

#include "page/zone_types.h"

/* What a purge leaves, in pages; and what it is done with. */
struct purge_limits {
	size_t target; /* so many dirty pages may stay */
	/* It purges no more than about so many: a block is purged as a whole, so it may be up
	 * to a 32nd more. */
	size_t max;
	size_t least; /* smaller blocks stay; 0 or 2^k */
	/* For requests: the number of blocks, which the system takes one by one; and a larger
	 * block than this, 2^k, is divided. */
	size_t blocks, largest;
};
/* Result: pages purged. */
size_t zone_purge_to(struct zone *z, size_t target, size_t max, size_t least);
/* The same, where nobody has the zone's lock. Result: as above, or ZONE_BUSY. */
#define ZONE_BUSY SIZE_MAX
size_t zone_try_purge_to(struct zone *z, const struct purge_limits *limits);
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
