/* SPDX-License-Identifier: MIT */
/* Blocks of whole pages between guards, and the quarantine of freed ones; see large_guard.c. */
#ifndef KMALLOC_LARGE_GUARD_H
#define KMALLOC_LARGE_GUARD_H

#include "page/page.h"

/* Whether blocks have guards: the process is hardened, or debugs blocks. Synchronization:
 * large_guard_init() writes it; relaxed. */
extern atomic_bool large_guarded;

static inline bool large_is_guarded(void)
{
	return unlikely(atomic_load_explicit(&large_guarded, memory_order_relaxed));
}

void large_guard_init(void);
/* Takes a run for a block of @npages between guards. @order: the block is aligned to 2^@order
 * pages; @node: the index of a node, only with @order 0. Result: the block's first page, of
 * type PAGE_ALLOCATED; NULL: no memory. */
struct page *large_guard_alloc(unsigned int node, unsigned int order, gfp_t flags,
			       size_t npages, bool *zeroed);
/* Makes a block this thread's, to free it. Result: the pages of its first guard; 0: another
 * thread frees it. */
size_t large_guard_take(struct page *page);
/* Frees a block that was taken. */
void large_guard_put(struct page *page, size_t lead, const void *caller);
/* Frees what waits in quarantine. Result: bytes. */
size_t large_guard_trim(void);
/* Counts what waits in quarantine. */
void large_guard_count(size_t *blocks, size_t *bytes);
void large_guard_fork_child(void);

/* Takes the run of guards and freed block that begins at @first out of quarantine, for a look.
 * Result: the block; NULL: no such run waits. large_guard_unclaim() puts the run back. */
struct page *large_guard_claim(struct page *first);
void large_guard_unclaim(struct page *first);

#endif
