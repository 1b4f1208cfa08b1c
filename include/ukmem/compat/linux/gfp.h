/* SPDX-License-Identifier: MIT */
/*
 * <linux/gfp.h> - pages, and the flags of requests: <ukmem/page_alloc.h>.
 */
#ifndef UKMEM_COMPAT_LINUX_GFP_H
#define UKMEM_COMPAT_LINUX_GFP_H

#include <linux/cleanup.h>
#include <linux/gfp_types.h>
#include <linux/mmzone.h>
#include <linux/nodemask.h>
#include <linux/page_frag_cache.h>
#include <linux/topology.h>
#include <ukmem/page_alloc.h>

/* Whether the request may block. */
static inline bool gfpflags_allow_blocking(const gfp_t flags)
{
	return (flags & __GFP_DIRECT_RECLAIM) != 0;
}

/* Whether the request may wait for other allocations to be freed. */
static inline bool gfpflags_allow_spinning(const gfp_t flags)
{
	return (flags & __GFP_RECLAIM) != 0;
}

/* Its name before 6.14. */
#define alloc_pages_bulk_array(gfp, n, pages) alloc_pages_bulk(gfp, n, pages)

DEFINE_FREE(free_page, void *, free_page((unsigned long)_T))

#endif
