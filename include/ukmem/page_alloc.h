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
 * Limits: by the tunable limit for the process as a whole, and node_limit for each node; a
 * request above returns NULL. Where neither is set, the memory of the machine, of its
 * nodes and of the cgroup (less 1/8 and 8 MiB for all else) is what is used before a look at
 * what is resident; then there is more as long as the system promises it (vm.overcommit_memory:
 * 0, no more than it has in one request; 1, anything; 2, it keeps count itself) and the cgroup
 * is not near its limit.
 *
 * Thread safety: all functions, any thread. Signal safety: allocation with GFP_NOWAIT or
 * GFP_ATOMIC; freeing; once there is a page, everything that only reads. Freeing makes no
 * system call and waits for nothing.
 *
 * Algorithms: D. Knuth, TAOCP 2.5 (buddy system); zonelists, their cache and pagesets as
 * discussed for Linux 2.6.20 and after.
 */
#ifndef UKMEM_PAGE_ALLOC_H
#define UKMEM_PAGE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include <ukmem/compiler.h>
#include <ukmem/gfp.h>
#include <ukmem/nodemask.h>

UKMEM_BEGIN_DECLS

/** Metadata of one page, and a node's memory of one kind. */
struct page;
struct zone;

/** In place of a node id: the node of the calling CPU. */
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
 * alloc_pages - 2^@order physically unrelated, virtually contiguous pages, aligned to
 * their size, where the thread's memory policy says (<ukmem/mempolicy.h>); by default
 * on the node of the calling CPU or the nearest with memory
 *
 * Result: the first page's metadata; NULL: no memory within the limits, or order above
 * MAX_PAGE_ORDER. errno is left alone.
 */
UKMEM_EXPORT struct page *alloc_pages(gfp_t flags, unsigned int order)
	UKMEM_SYMBOL(alloc_pages);
#define alloc_page(flags) alloc_pages(flags, 0)

/**
 * alloc_pages_node - as alloc_pages, preferring node @nid; policies do not apply
 *
 * @nid: a node id, or NUMA_NO_NODE. Result: also NULL if there is no such node.
 */
UKMEM_EXPORT struct page *alloc_pages_node(int nid, gfp_t flags, unsigned int order)
	UKMEM_SYMBOL(alloc_pages_node);

/**
 * __alloc_pages - as alloc_pages_node, from the nodes in @nodemask only
 *
 * @nodemask: NULL: all. It may be freed when the call has returned.
 */
UKMEM_EXPORT struct page *__alloc_pages(gfp_t flags, unsigned int order, int preferred_nid,
					const struct nodemask *nodemask)
	UKMEM_SYMBOL(__alloc_pages);

/**
 * alloc_pages_bulk - fill the NULL entries of @page_array[0..@nr_pages) with single pages
 *
 * Result: how many entries from the beginning on are filled now; what was allocated
 * stays even where that is less than @nr_pages.
 */
UKMEM_EXPORT unsigned long alloc_pages_bulk(gfp_t flags, unsigned long nr_pages,
					    struct page **page_array)
	UKMEM_SYMBOL(alloc_pages_bulk);

/** __free_pages - give back what alloc_pages returned, with the same order. NULL is ignored. */
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

/**
 * alloc_pages_exact - @size bytes rounded up to whole pages, not to a power of two
 *
 * Result: an address aligned to a page; NULL: no memory, or @size 0.
 */
UKMEM_EXPORT void *alloc_pages_exact(size_t size, gfp_t flags) UKMEM_SYMBOL(alloc_pages_exact);
/** free_pages_exact - give that back, with the same size. NULL is ignored. */
UKMEM_EXPORT void free_pages_exact(void *virt, size_t size) UKMEM_SYMBOL(free_pages_exact);

/** page_address - the memory @page describes. */
UKMEM_EXPORT void *page_address(const struct page *page) UKMEM_SYMBOL(page_address);
/** virt_to_page - the metadata of the page at @addr; NULL if the address is not ours. */
UKMEM_EXPORT struct page *virt_to_page(const void *addr) UKMEM_SYMBOL(virt_to_page);
/** compound_head - the first page of the run of __GFP_COMP that @page lies in, else @page. */
UKMEM_EXPORT struct page *compound_head(const struct page *page) UKMEM_SYMBOL(compound_head);
/** compound_order - the order of the run of __GFP_COMP that @page is the first of, else 0. */
UKMEM_EXPORT unsigned int compound_order(const struct page *page) UKMEM_SYMBOL(compound_order);
/** page_to_nid - the NUMA node the page belongs to. */
UKMEM_EXPORT int page_to_nid(const struct page *page) UKMEM_SYMBOL(page_to_nid);
/** page_zone - the zone the page belongs to. */
UKMEM_EXPORT struct zone *page_zone(const struct page *page) UKMEM_SYMBOL(page_zone);
/** page_zonenum - the kind of that zone. */
UKMEM_EXPORT enum zone_type page_zonenum(const struct page *page) UKMEM_SYMBOL(page_zonenum);

/** zone_managed_pages - how many pages the zone may have. */
UKMEM_EXPORT unsigned long zone_managed_pages(const struct zone *zone)
	UKMEM_SYMBOL(zone_managed_pages);
/** zone_free_pages - how many of these are not in use: pages in pagesets count as used. */
UKMEM_EXPORT unsigned long zone_free_pages(const struct zone *zone)
	UKMEM_SYMBOL(zone_free_pages);
UKMEM_EXPORT unsigned long min_wmark_pages(const struct zone *zone)
	UKMEM_SYMBOL(min_wmark_pages);
UKMEM_EXPORT unsigned long low_wmark_pages(const struct zone *zone)
	UKMEM_SYMBOL(low_wmark_pages);
UKMEM_EXPORT unsigned long high_wmark_pages(const struct zone *zone)
	UKMEM_SYMBOL(high_wmark_pages);

/*
 * Nodes. What is asked of them is as it was at the last look: the nodes the process may
 * use are read again once a second while zones are short of memory, and by
 * ukmem_trim(); CPUs as percpu_cpus_update() says.
 */
enum node_states {
	N_POSSIBLE, /**< all the library knows */
	N_MEMORY,   /**< those with memory that the process may use now */
	N_CPU,	    /**< those with CPUs online */
	NR_NODE_STATES,
};

/** node_state - whether node @nid is in @state. */
UKMEM_EXPORT bool node_state(int nid, enum node_states state) UKMEM_SYMBOL(node_state);
/** num_node_state - how many nodes are. */
UKMEM_EXPORT unsigned int num_node_state(enum node_states state) UKMEM_SYMBOL(num_node_state);
/** numa_node_id - the node of the calling CPU, or the nearest to it with memory. */
UKMEM_EXPORT int numa_node_id(void) UKMEM_SYMBOL(numa_node_id);
/** node_distance - as the firmware says: 10 for the same, usually; 255 for no such node. */
UKMEM_EXPORT int node_distance(int from, int to) UKMEM_SYMBOL(node_distance);

UKMEM_END_DECLS

#endif
