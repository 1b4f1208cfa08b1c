/* SPDX-License-Identifier: MIT */
/* Runs of pages for the layers above, and for the program's functions (page_api.c). */
#ifndef PAGE_PAGE_ALLOC_H
#define PAGE_PAGE_ALLOC_H

#include "page/mempolicy.h"

/* Initialises the layer, once. False: no address space even for a minimal window. */
bool page_init(void);
/* In place of a node's index: the nodes that the thread's memory policy says. */
#define PAGE_ANY_NODE UINT32_MAX
/* As in the kernel, GFP_ATOMIC may leave the allowed nodes when nothing else helps. */
static inline bool page_may_leave_nodes(gfp_t flags)
{
	return page_window.nr_nodes > 1 &&
	       (flags & (__GFP_HIGH | __GFP_DIRECT_RECLAIM | __GFP_THISNODE)) == __GFP_HIGH;
}

/*
 * Runs of any number of pages, from node index @node where possible (with __GFP_THISNODE: or
 * not at all) or PAGE_ANY_NODE, of type PAGE_ALLOCATED. A run of 2^k pages up to 256 KiB is
 * aligned to its size, any other to a page. *@zeroed tells whether the memory reads as zeros.
 */
struct page *page_alloc_run(unsigned int node, gfp_t flags, size_t npages, bool *zeroed);
/* As page_alloc_run(), past pagesets. *@fenced: whether the fence behind the run is closed and
 * held (fence.h). */
struct page *page_alloc_fenced(unsigned int node, gfp_t flags, size_t npages, bool *zeroed,
			       bool *fenced);
/*
 * Tries, without reclaim, to have such a run mapped in some zone, so that a request that may
 * not block finds it, on whatever CPU. Takes no run, and touches no memory. May block.
 */
void page_prepare_run(gfp_t flags, size_t npages);
/*
 * Takes @n runs of @npages each, one behind the other, from node index @node alone, out of free
 * pages that may be resident already, or that this CPU's pageset has: the process grows by no
 * more than a pageset holds. row[0] is the run at the highest address. Each is freed by itself.
 * False: there is no such row.
 */
bool page_alloc_row(unsigned int node, gfp_t flags, size_t npages, unsigned int n,
		    struct page **row);
/* Frees a run. Waits for nothing, makes no system call. */
void page_free_run(struct page *page, size_t npages);

/* As page_alloc_run from any node, aligned to 2^@order pages. */
struct page *page_alloc_aligned(gfp_t flags, size_t npages, unsigned int order, bool *zeroed);

/* Whether the layer is initialised; initialises it if @flags allow. */
bool page_ready(gfp_t flags);
/* The highest zone @flags allow. */
enum zone_type gfp_zone(gfp_t flags);
/*
 * Takes @npages by placement @p, with @nodes only from these, as page_alloc_run() or, with
 * @align, as page_alloc_aligned().
 */
struct page *page_alloc_at(const struct placement *p, const struct node_mask *nodes,
			   gfp_t flags, size_t npages, unsigned int align, bool *zeroed);

#endif
