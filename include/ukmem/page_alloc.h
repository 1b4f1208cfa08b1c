/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/page_alloc.h> - whole pages, in runs of 2^order.
 *
 * The buddy allocator with per-CPU lists in front: one zone for each NUMA node
 * the process may use. Page size is the system's, known at run time.
 *
 * Thread safety: all functions, any thread. Signal safety: allocation with
 * GFP_NOWAIT or GFP_ATOMIC.
 */
#ifndef UKMEM_PAGE_ALLOC_H
#define UKMEM_PAGE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include <ukmem/compiler.h>
#include <ukmem/gfp.h>

UKMEM_BEGIN_DECLS

/** Metadata of one page. */
struct page;

/** ukmem_page_size - bytes in a page: 4096, 16384 or 65536. */
UKMEM_EXPORT size_t ukmem_page_size(void);

/**
 * alloc_pages - 2^@order physically unrelated, virtually contiguous pages,
 * aligned to their size, on the node of the calling CPU where possible
 *
 * Result: the first page's metadata, or NULL: no memory, or order too large.
 */
UKMEM_EXPORT struct page *alloc_pages(gfp_t flags, unsigned int order)
	UKMEM_SYMBOL(alloc_pages);
#define alloc_page(flags) alloc_pages(flags, 0)

/** __free_pages - give back what alloc_pages returned, with the same order. */
UKMEM_EXPORT void __free_pages(struct page *page, unsigned int order)
	UKMEM_SYMBOL(__free_pages);
#define __free_page(page) __free_pages(page, 0)

/** __get_free_pages - alloc_pages, as an address; 0 without memory. */
UKMEM_EXPORT unsigned long __get_free_pages(gfp_t flags, unsigned int order)
	UKMEM_SYMBOL(__get_free_pages);
#define __get_free_page(flags) __get_free_pages(flags, 0)
/** get_zeroed_page - one page of zeros, as an address; 0 without memory. */
UKMEM_EXPORT unsigned long get_zeroed_page(gfp_t flags) UKMEM_SYMBOL(get_zeroed_page);

/** free_pages - give back what __get_free_pages returned; 0 is ignored. */
UKMEM_EXPORT void free_pages(unsigned long addr, unsigned int order) UKMEM_SYMBOL(free_pages);
#define free_page(addr) free_pages(addr, 0)

/** page_address - the memory @page describes. */
UKMEM_EXPORT void *page_address(const struct page *page) UKMEM_SYMBOL(page_address);
/** virt_to_page - the metadata of the page at @addr; NULL if the address is not ours. */
UKMEM_EXPORT struct page *virt_to_page(const void *addr) UKMEM_SYMBOL(virt_to_page);
/** page_to_nid - the NUMA node the page belongs to. */
UKMEM_EXPORT int page_to_nid(const struct page *page) UKMEM_SYMBOL(page_to_nid);

UKMEM_END_DECLS

#endif
