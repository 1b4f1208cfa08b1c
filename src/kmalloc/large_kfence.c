/* SPDX-License-Identifier: MIT */
/*
 * Blocks of whole pages in KFENCE's pool (slab_kfence.c has objects of caches). Such a block is
 * counted among the others, but it has no page entry, and its end is that of the bytes asked
 * for.
 */
#include "kmalloc/large_kfence.h"

#include <string.h>

#include "base/bits.h"
#include "base/config.h"
#include "base/lock.h"
#include "kmalloc/large.h"
#include "kmalloc/large_guard.h"
#include "page/page.h"
#include "percpu/percpu.h"
#include "slab/slab_kfence.h"
#include "slab/slab_profile.h"

/* While the heap profile runs, each block may be one of its samples. */
static void *take(size_t size, size_t align, gfp_t flags, const void *caller)
{
	struct kfence_request r = {
		.name = "kmalloc-large",
		.size = size,
		.align = max_size(align ? align : promised_align(size), 16),
		.caller = caller,
	};
	void *p;

	if (!caller || !(flags & __GFP_DIRECT_RECLAIM) || flags & (__GFP_DMA | __GFP_DMA32) ||
	    !kfence_gate_is_open_to(max_size(size, r.align)) || large_is_guarded() ||
	    slab_profile_on() || !lock_none_held())
		return NULL;
	p = kfence_take(&r);
	if (!p)
		return NULL;
	this_cpu_add(*large_allocs, 1);
	this_cpu_add(*large_in_use, LARGE_BLOCK + large_pages(size));
	if (flags & __GFP_ZERO || config.init_on_alloc)
		memset(p, 0, size);
	return p;
}

/* An alignment of @align bytes is one to so many pages, as a power of two. */
static unsigned int order_of(size_t align)
{
	return align <= page_size() ? 0 : ilog2(align) - page_window.page_shift;
}

cold void *large_kfence_alloc_slow(size_t size, size_t align, gfp_t flags, const void *caller)
{
	void *p = take(size, align, flags, caller);

	return p ? p : large_alloc(size, order_of(align), flags, caller);
}

static void free_block(void *p, size_t size, const char *func, const void *caller)
{
	if (kfence_free(p, func, caller, config.init_on_free))
		this_cpu_add(*large_in_use, -(LARGE_BLOCK + large_pages(size)));
}

cold void large_kfence_free(void *p, const char *func, const void *caller)
{
	size_t size = kfence_size(p);

	if (size && !kfence_cache_of(p))
		free_block(p, size, func, caller);
	else
		slab_kfence_free(NULL, p, func, caller);
}
