/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/page_alloc.h> - whole pages, in runs of 2^order.
 *
 * The kernel's page allocator: each NUMA node has a buddy allocator per zone, with
 * per-CPU lists (pagesets) in front. A request looks at its preferred node's zones, then
 * at those of other nodes by distance (the zonelist), skipping nodes the process may
 * not use and zones below their watermarks. Page size is the system's, known at run time.
 *
 * Zones: ZONE_NORMAL; ZONE_DMA32, at addresses below 4 GiB; ZONE_DMA, pinned memory.
 * The flags choose (<ukmem/gfp.h>).
 *
 * Limits: the tunable limit is for the process as a whole, node_limit for each node; a
 * request above either returns NULL. Where neither is set, the library hands out, without
 * further checks, as many pages as the machine, its nodes and the cgroup have memory for
 * (less 1/8 and 8 MiB for all else). Beyond that it looks at how much is resident, and hands
 * out more as long as the cgroup is not near its limit and the system promises more
 * (vm.overcommit_memory; 0: not more than it has in one request; 1: anything; 2: the system
 * itself counts).
 *
 * Thread safety: all functions, any thread. Signal safety: allocation with GFP_NOWAIT or
 * GFP_ATOMIC; freeing; after the first allocation, all functions that only read. Freeing
 * waits for nothing. It makes no system call, but for pages that a request with GFP_KERNEL
 * took aside in a handler or during a fork (docs/contexts.md): it unmaps them.
 *
 * Algorithms: D. Knuth, TAOCP 2.5 (buddy system); zonelists, their cache and pagesets as
 * discussed for Linux 2.6.20 and after.
 */
#ifndef UKMEM_PAGE_ALLOC_H
#define UKMEM_PAGE_ALLOC_H

#include <ukmem/compiler.h>

#include <stdbool.h>
#include <stddef.h>

#include <ukmem/gfp.h>
#include <ukmem/nodemask.h>

UKMEM_BEGIN_DECLS

/** Metadata of one page. */
struct page;
/** A node's memory of one kind. */
struct zone;

/** In place of a node id: the node of the calling CPU, or the nearest with memory. */
#define NUMA_NO_NODE (-1)

/** Largest order of a request. */
#define MAX_PAGE_ORDER 30u

enum zone_type {
	ZONE_DMA,
	ZONE_DMA32,
	ZONE_NORMAL,
	MAX_NR_ZONES,
};

/** ukmem_page_size - bytes in a page: 4096, 16384 or 65536. */
UKMEM_EXPORT size_t ukmem_page_size(void);

/**
 * alloc_pages - allocate 2^@order virtually contiguous pages, aligned to their size
 *
 * The pages come from the nodes that the thread's memory policy says (<ukmem/mempolicy.h>); by
 * default from the node of the calling CPU or the nearest with memory.
 *
 * Result: the first page's metadata; NULL: no memory within the limits, or @order is above
 * MAX_PAGE_ORDER. errno keeps its value. Free with __free_pages().
 */
UKMEM_EXPORT struct page *alloc_pages(gfp_t flags, unsigned int order)
	UKMEM_SYMBOL(alloc_pages);
/** alloc_page - alloc_pages of one page. */
static UKMEM_INLINE struct page *alloc_page(gfp_t flags)
{
	return alloc_pages(flags, 0);
}

/**
 * alloc_pages_node - as alloc_pages, preferring node @nid; policies do not apply
 *
 * @nid: a node id, or NUMA_NO_NODE. Result: also NULL if there is no such node.
 */
UKMEM_EXPORT struct page *alloc_pages_node(int nid, gfp_t flags, unsigned int order)
	UKMEM_SYMBOL(alloc_pages_node);

/**
 * __alloc_pages - as alloc_pages_node, only from the nodes in @nodemask
 *
 * @nodemask: NULL: all nodes. The library does not keep the pointer.
 */
UKMEM_EXPORT struct page *__alloc_pages(gfp_t flags, unsigned int order, int preferred_nid,
					const struct nodemask *nodemask)
	UKMEM_SYMBOL(__alloc_pages);

/**
 * alloc_pages_bulk - fill the NULL entries of @page_array[0..@nr_pages) with single pages
 *
 * Result: the number of entries, from the first on, that are filled now. If that is less than
 * @nr_pages, the pages that were allocated stay.
 */
UKMEM_EXPORT unsigned long alloc_pages_bulk(gfp_t flags, unsigned long nr_pages,
					    struct page **page_array)
	UKMEM_SYMBOL(alloc_pages_bulk);

/** __free_pages - free pages of alloc_pages; @order must be the same. NULL is ignored. */
UKMEM_EXPORT void __free_pages(struct page *page, unsigned int order)
	UKMEM_SYMBOL(__free_pages);
/** __free_page - free a page of alloc_page. NULL is ignored. */
static UKMEM_INLINE void __free_page(struct page *page)
{
	__free_pages(page, 0);
}

/** __get_free_pages - alloc_pages that returns an address; 0: no memory. */
UKMEM_EXPORT unsigned long __get_free_pages(gfp_t flags, unsigned int order)
	UKMEM_SYMBOL(__get_free_pages);
/** __get_free_page - __get_free_pages of one page. */
static UKMEM_INLINE unsigned long __get_free_page(gfp_t flags)
{
	return __get_free_pages(flags, 0);
}
/** get_zeroed_page - allocate a page of zeros. Result: its address; 0: no memory. */
UKMEM_EXPORT unsigned long get_zeroed_page(gfp_t flags) UKMEM_SYMBOL(get_zeroed_page);

/** free_pages - free pages of __get_free_pages; @order must be the same. 0 is ignored. */
UKMEM_EXPORT void free_pages(unsigned long addr, unsigned int order) UKMEM_SYMBOL(free_pages);
/** free_page - free a page of __get_free_page. 0 is ignored. */
static UKMEM_INLINE void free_page(unsigned long addr)
{
	free_pages(addr, 0);
}

/**
 * alloc_pages_exact - allocate @size bytes, rounded up to whole pages, not to a power of two
 *
 * Result: an address aligned to a page; NULL: no memory, or @size is 0.
 */
UKMEM_EXPORT void *alloc_pages_exact(size_t size, gfp_t flags) UKMEM_SYMBOL(alloc_pages_exact);
/** free_pages_exact - free memory of alloc_pages_exact; @size must be the same. */
UKMEM_EXPORT void free_pages_exact(void *virt, size_t size) UKMEM_SYMBOL(free_pages_exact);

/** page_address - the memory @page describes. */
UKMEM_EXPORT void *page_address(const struct page *page) UKMEM_SYMBOL(page_address);
/** virt_to_page - the metadata of the page at @addr; NULL if the library has no page there. */
UKMEM_EXPORT struct page *virt_to_page(const void *addr) UKMEM_SYMBOL(virt_to_page);
/** compound_head - the first page of the run of __GFP_COMP that @page lies in, else @page. */
UKMEM_EXPORT struct page *compound_head(const struct page *page) UKMEM_SYMBOL(compound_head);
/** compound_order - the order of the run of __GFP_COMP that @page is the first of, else 0. */
UKMEM_EXPORT unsigned int compound_order(const struct page *page) UKMEM_SYMBOL(compound_order);
/** page_to_nid - the NUMA node the page belongs to; NUMA_NO_NODE for NULL. */
UKMEM_EXPORT int page_to_nid(const struct page *page) UKMEM_SYMBOL(page_to_nid);
/** page_zone - the zone the page belongs to. */
UKMEM_EXPORT struct zone *page_zone(const struct page *page) UKMEM_SYMBOL(page_zone);
/** page_zonenum - the kind of the page's zone. */
UKMEM_EXPORT enum zone_type page_zonenum(const struct page *page) UKMEM_SYMBOL(page_zonenum);

/** zone_managed_pages - the most pages that the zone may have. */
UKMEM_EXPORT unsigned long zone_managed_pages(const struct zone *zone)
	UKMEM_SYMBOL(zone_managed_pages);
/** zone_free_pages - how many of these are not in use. Pages in pagesets count as used. */
UKMEM_EXPORT unsigned long zone_free_pages(const struct zone *zone)
	UKMEM_SYMBOL(zone_free_pages);
/** The zone's watermarks: numbers of free pages. <ukmem/gfp.h> says who may go below min. */
UKMEM_EXPORT unsigned long min_wmark_pages(const struct zone *zone)
	UKMEM_SYMBOL(min_wmark_pages);
UKMEM_EXPORT unsigned long low_wmark_pages(const struct zone *zone)
	UKMEM_SYMBOL(low_wmark_pages);
UKMEM_EXPORT unsigned long high_wmark_pages(const struct zone *zone)
	UKMEM_SYMBOL(high_wmark_pages);

/*
 * Nodes. Results are as of the last look at the system. The library reads the nodes that the
 * process may use once a second while zones are short of memory (zonelist_cache:0: not then),
 * and in ukmem_trim(); it reads the CPUs in percpu_cpus_update().
 */
enum node_states {
	N_POSSIBLE, /**< all nodes that the library knows */
	N_MEMORY,   /**< nodes with memory that the process may use now */
	N_CPU,	    /**< nodes with CPUs online */
	NR_NODE_STATES,
};

/** node_state - whether node @nid is in @state. */
UKMEM_EXPORT bool node_state(int nid, enum node_states state) UKMEM_SYMBOL(node_state);
/** num_node_state - how many nodes are in @state. */
UKMEM_EXPORT unsigned int num_node_state(enum node_states state) UKMEM_SYMBOL(num_node_state);
/** numa_node_id - the node of the calling CPU, or the nearest to it with memory. */
UKMEM_EXPORT int numa_node_id(void) UKMEM_SYMBOL(numa_node_id);
/** node_distance - the firmware's figure; usually 10 for the same node. 255: no such node. */
UKMEM_EXPORT int node_distance(int from, int to) UKMEM_SYMBOL(node_distance);

UKMEM_END_DECLS

#endif
