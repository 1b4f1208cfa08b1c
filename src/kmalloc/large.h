/* SPDX-License-Identifier: MIT */
/* Blocks of whole pages; see large.c. */
#ifndef KMALLOC_LARGE_H
#define KMALLOC_LARGE_H

#include "base/bits.h"
#include "kmalloc/large_guard.h"
#include "page/lookup.h"
#include "page/page.h"

/*
 * Per-CPU counters. large_in_use counts blocks (in units of 2^LARGE_BLOCK_SHIFT) and pages in
 * one word per CPU. The sum over all CPUs is right although one CPU allocates a block and
 * another one frees it. So many fit: 2^29 blocks, which are 2 TiB if each is a page of 4 KiB,
 * and 2^33 pages, 32 TiB.
 */
enum { LARGE_BLOCK_SHIFT = 34 };
extern uint64_t *large_allocs, *large_in_use;
static const uint64_t LARGE_BLOCK = (uint64_t)1 << LARGE_BLOCK_SHIFT;

/* The pages of a block of @size bytes. */
static inline size_t large_pages(size_t size)
{
	return max_size((size + page_size() - 1) >> page_window.page_shift, 1);
}

/*
 * The pages that a block of @size bytes should get: 4 sizes for each doubling up to a MiB, 8
 * beyond. Blocks of many sizes then fit into the holes that others left, which are resident,
 * and what they have too much is addresses alone, unless they get such a hole. Exact where
 * addresses are scarce or the process comes near its limit, and where a guard lies behind a
 * block.
 */
size_t large_pages_roomy(size_t size);
/* The same, however scarce memory and addresses are: of a size always the same. */
size_t large_pages_stepped(size_t size);

/* The usable bytes of a block that has no guards; 0: @p may be anything else. */
static always_inline size_t large_usable(const void *p)
{
	const struct page *page = page_lookup_near(p);

	if (unlikely(!page) || unlikely(page_type(page) != PAGE_LARGE) ||
	    unlikely((uintptr_t)p & (((size_t)1 << page_window.page_shift) - 1)) ||
	    large_is_guarded())
		return 0;
	return page->npages << page_window.page_shift;
}

/* The alignment that kmalloc() and its relatives promise: the largest power of two that
 * divides @size, up to a page. The size of a page is known once the library is ready. */
static inline size_t promised_align(size_t size)
{
	return min_size(size & -size, page_size());
}

/* @caller, here and below: the address from which the program called. */
void *large_alloc(size_t size, unsigned int align_order, gfp_t flags, const void *caller);
/* Allocates a block that takes the place of an object. The caller records the sample, if it is
 * one. */
void *large_alloc_unsampled(size_t size, unsigned int align_order, gfp_t flags,
			    const void *caller);
/* @node: an index, as for page_alloc_run(). */
void *large_alloc_node(size_t size, unsigned int node, gfp_t flags, const void *caller);
/*
 * The heap profile's part. @sample may make a new block one of its samples, or a block that has
 * grown by @more bytes (0: it shrank); @forget gets samples that are freed.
 * Synchronization: large_profile is written once, with release (I3); I4 is its load.
 */
struct large_profile {
	void (*sample)(struct page *page, size_t more, const void *caller);
	void (*forget)(struct page *page);
};
extern _Atomic(const struct large_profile *) large_profile;
/* Frees a block; @page is its first page, of type PAGE_LARGE. False: the block was freed
 * already; only a process whose blocks have guards can tell. */
bool large_free(struct page *page, const void *caller);
/* Whether a block has as many pages as a request of @size bytes gets. */
bool large_fits(const struct page *page, size_t size);
/* Of a block with guards: whether it has as many pages as @size bytes need; if so, it is one of
 * @size bytes from now on. */
bool large_stays(struct page *page, size_t size, const void *caller);
/* Frees what waits in quarantine. */
size_t large_trim(void);
/* The bytes that the program may use. */
size_t large_size(const struct page *page);
bool large_init(void);
struct ukmem_gauges;
/* Logs how many blocks there are, when a request failed. */
void large_report(void);
void large_gauges(struct ukmem_gauges *g);
struct emitter;
void large_emit(struct emitter *e);
/* Counts the blocks in use and their bytes. */
void large_count(uint64_t *blocks, size_t *bytes);
/* Gives back the pages of a block behind @size bytes. */
void large_shrink(struct page *page, size_t size);
/* Grows a block in place, if blocks have no guards. False: it cannot. */
bool large_extend(struct page *page, size_t size, gfp_t flags, const void *caller);
/* Moves or copies all bytes of a block to the beginning of block @q, and frees it. */
void large_replace(struct page *page, void *q, gfp_t flags, const void *caller);

#endif
