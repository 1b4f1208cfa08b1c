/* SPDX-License-Identifier: MIT */
/*
 * <linux/gfp.h> - pages, and the flags of requests: <ukmem/page_alloc.h>.
 */
#ifndef UKMEM_COMPAT_LINUX_GFP_H
#define UKMEM_COMPAT_LINUX_GFP_H

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

#endif
