/* SPDX-License-Identifier: MIT */
/* A zone's lock, deferred frees and published counts; see zone.c. */
#ifndef PAGE_ZONE_H
#define PAGE_ZONE_H

#include "page/zone_types.h"

void zone_init(struct zone *z, unsigned int node, enum zone_type type);
void zone_lock(struct zone *z);
bool zone_trylock(struct zone *z);
/* Waits, but for a fork not for ever: false. */
bool zone_lock_unless_fork(struct zone *z);
/* Tries for a little longer than locks are held. */
bool zone_lock_soon(struct zone *z);
/* @may_block: false makes no system call. */
void zone_unlock(struct zone *z, bool may_block);
/* Lists the runs that frees left to the holder of the lock, if nobody has it: a fork, which has
 * let it go, lists none. */
void zone_list_deferred(struct zone *z);
/*
 * Isolates a block of 2^k pages that the caller has taken off the lists, so that it may do
 * something with its memory without the zone's lock; and ends that. A child that is forked
 * meanwhile puts the block back as dirty, unless this thread forks. The lock is held.
 */
void __zone_isolate(struct zone *z, struct page *page, size_t npages);
void __zone_unisolate(struct zone *z, struct page *page);
/* Whether this thread has isolated a block. */
bool zone_isolated_here(const struct page *page);
/* A block that this thread has isolated, and purged as a whole, comes back as soon as somebody
 * has the lock. */
void zone_return_purged(struct zone *z, struct page *page);
/* Puts a run into the free lists, or leaves that to the next holder of the lock. */
void zone_free_run(struct zone *z, struct page *page, size_t npages, enum page_zero zero);
/* As zone_free_run(), for @n blocks and other runs that come from a pageset. */
void zone_free_batch(struct zone *z, struct page **batch, unsigned int n);

static inline size_t page_cached_pages(const struct page *page)
{
	return page->order == PAGE_NO_ORDER ? page->npages : (size_t)1 << page->order;
}

#endif
