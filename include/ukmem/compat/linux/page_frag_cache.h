/* SPDX-License-Identifier: MIT */
/*
 * <linux/page_frag_cache.h> - short-lived buffers of any size, cut one behind the other out of
 * a block of pages, as drivers of network cards use them for packets.
 *
 * A block begins with the count of references to it: one for each fragment that is in use, and
 * many for the cache while it cuts the block. The cache gives one of its own to each fragment,
 * so cutting takes no atomic operation. The thread that drops the last reference frees the
 * block; a cache that finds itself alone begins the block again.
 *
 * One thread at a time uses a cache. Any thread frees a fragment. The block stays as long as
 * one of its fragments does.
 */
#ifndef UKMEM_COMPAT_LINUX_PAGE_FRAG_CACHE_H
#define UKMEM_COMPAT_LINUX_PAGE_FRAG_CACHE_H

#include <linux/gfp_types.h>
#include <linux/types.h>
#include <ukmem/page_alloc.h>

/* All zeros: an empty cache. */
struct page_frag_cache {
	char *block;	 /* pages that are aligned to their size; NULL: none */
	size_t offset;	 /* where the next fragment may begin */
	unsigned int nr; /* the references that are the cache's */
};

enum {
	UKMEM_FRAG_ORDER = 3,
	UKMEM_FRAG_BEGIN = 64,	      /* of the first fragment, behind the count */
	UKMEM_FRAG_REFS = 0x40000000, /* more than a block has bytes */
};

static inline size_t ukmem_frag_block(void)
{
	return ukmem_page_size() << UKMEM_FRAG_ORDER;
}

/* Drops @n references. Result: whether they were the last ones. Release and acquire: who finds
 * itself the last sees all that the others wrote. */
static inline bool ukmem_frag_put(char *block, unsigned int n)
{
	return !__atomic_sub_fetch((unsigned int *)(void *)block, n, __ATOMIC_ACQ_REL);
}

static inline void ukmem_frag_free_block(char *block)
{
	free_pages((unsigned long)block, UKMEM_FRAG_ORDER);
}

static inline void page_frag_cache_init(struct page_frag_cache *nc)
{
	nc->block = NULL;
	nc->offset = 0;
	nc->nr = 0;
}

/* Gives up the block that the cache cuts. Fragments in use stay as they are. */
static inline void page_frag_cache_drain(struct page_frag_cache *nc)
{
	if (nc->block && ukmem_frag_put(nc->block, nc->nr))
		ukmem_frag_free_block(nc->block);
	page_frag_cache_init(nc);
}

/* Begins a block: the one that is there if no fragment of it is in use, else a new one. */
static inline bool ukmem_frag_refill(struct page_frag_cache *nc, gfp_t gfp)
{
	char *block = nc->block;

	if (block && !ukmem_frag_put(block, nc->nr))
		block = NULL;
	page_frag_cache_init(nc);
	if (!block)
		block = (char *)__get_free_pages(gfp & ~(gfp_t)__GFP_ZERO, UKMEM_FRAG_ORDER);
	if (!block)
		return false;
	__atomic_store_n((unsigned int *)(void *)block, UKMEM_FRAG_REFS, __ATOMIC_RELAXED);
	nc->block = block;
	nc->offset = UKMEM_FRAG_BEGIN;
	nc->nr = UKMEM_FRAG_REFS;
	return true;
}

/* @align_mask: -align, of a power of two up to a page. Result: @fragsz bytes, not zeroed; NULL:
 * no memory, or more bytes than a block of eight pages has behind its count. */
static inline void *__page_frag_alloc_align(struct page_frag_cache *nc, unsigned int fragsz,
					    gfp_t gfp, unsigned int align_mask)
{
	size_t align = -(size_t)(int)align_mask;
	size_t begin = (nc->offset + align - 1) & ~(align - 1);

	if (!nc->block || begin + fragsz > ukmem_frag_block()) {
		begin = (UKMEM_FRAG_BEGIN + align - 1) & ~(align - 1);
		if (begin + fragsz > ukmem_frag_block() || !ukmem_frag_refill(nc, gfp))
			return NULL;
	}
	/* Fragments without bytes have places of their own, too. */
	nc->offset = begin + (fragsz ? fragsz : 1);
	nc->nr--;
	return nc->block + begin;
}

static inline void *page_frag_alloc_align(struct page_frag_cache *nc, unsigned int fragsz,
					  gfp_t gfp, unsigned int align)
{
	return __page_frag_alloc_align(nc, fragsz, gfp, -align);
}

static inline void *page_frag_alloc(struct page_frag_cache *nc, unsigned int fragsz, gfp_t gfp)
{
	return __page_frag_alloc_align(nc, fragsz, gfp, ~0u);
}

/* @addr: what one of the functions above returned. */
static inline void page_frag_free(void *addr)
{
	char *block = (char *)((unsigned long)addr & ~(ukmem_frag_block() - 1));

	if (ukmem_frag_put(block, 1))
		ukmem_frag_free_block(block);
}

#endif
