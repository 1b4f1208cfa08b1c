/* SPDX-License-Identifier: MIT */
/*
 * Page metadata, and the arithmetic from addresses to it and back.
 *
 * One window of addresses holds all pages, a part for each zone. Only pages below 4 GiB lie
 * elsewhere, in a low window, whose place is chosen when the first of them is needed:
 *
 *   base                                              low_base (below 4 GiB)
 *   | NORMAL of node 0 | of node 1 | ... | DMA of node 0 | ... |  | DMA32 of node 0 | ... |
 *     each: pages below its frontier, then addresses only
 *
 * Page frame numbers count through all parts in this order, whatever their addresses.
 * Three flat arrays describe the pages, 70 bytes for a page of 4 KiB:
 *
 *   pages	struct page, an entry per page
 *   array map	four bytes per 4 KiB: the per-CPU array that objects there are freed to
 *		(pcpu_entry(); PCPU_ENTRY_NONE: no slab). A free loads nothing else.
 *   places	two bytes per page: the way to its slab's head, and the class mark. The places
 *		of many pages share a cache line, where page entries take one each.
 *
 * All three exist only below the frontiers. With several nodes the array map and the places can
 * be read for the whole window.
 *
 * Every other file of this folder declares its functions in a header of its own name, and
 * includes only headers of files below it:
 *
 *   page_api.c        the program's functions: pages in, pages out
 *   node_api.c        the same for nodes and memory policies
 *   proc_text.c       the texts of /proc/vmstat, /proc/zoneinfo and /proc/buddyinfo
 *   move.c            runs that grow, for realloc
 *   guard.c           pages that nobody may touch
 *   page_alloc.c      requests for runs: zonelist, reclaim, pages aside; initialisation
 *   oom.c             reports requests that failed
 *   vmstat.c          gauges and counters
 *   verify.c          verifies the invariants
 *   mempolicy.c       from a memory policy to a zonelist
 *   zonelist.c        the zones that a request tries, in order
 *   zone_alloc.c      a run of one zone: out of this CPU's pageset, or past it
 *   reclaim.c         gets pages back that others hold without need
 *   fence.c           closed pages at fixed places, between slabs
 *   closed.c          closes and opens runs
 *   zone_take.c       a run within limits and watermarks
 *   huge.c            huge pages for what a zone grows by
 *   background.c      when decay happens: at requests, or in a thread of its own
 *   follow.c          follows the control group's limit
 *   decay.c           chooses the free pages that the program has no use for
 *   purge.c           gives the memory of free pages back to the system
 *   pageset.c         this CPU's free runs
 *   zone.c            a zone's lock: deferred frees, published counts
 *   spare.c           runs for requests that find a zone's lock taken for long
 *   runs.c            runs of any number of pages out of blocks
 *   buddy.c           free blocks of 2^order pages
 *   window.c          maps pages at a zone's frontier
 *   window_place.c    where the window and the flat arrays lie
 *   lookup.c          finds the page of any address; marks slabs in array map and places
 *   aside.c           pages without a lock
 *   recent.c          how many pages were in use lately
 *   limits_above.c    how far requests may go above the limit
 *   limits.c          limits and watermarks
 *   node.c            NUMA nodes
 *   vm_event.c        events, counted per CPU
 *   zone_types.h      a zone; a request
 *   page.c            this header's data
 *   percpu/           per-CPU memory
 *
 * tests/layers reads this order, and checks it.
 */
#ifndef PAGE_PAGE_H
#define PAGE_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "base/deferred.h"
#include "base/list.h"
#include "base/lock.h"
#include "percpu/percpu.h"
#include "ukmem/page_alloc.h"

struct kmem_cache;

enum page_type {
	PAGE_NONE,	/* the inside of a run or a slab, or never handed out */
	PAGE_FREE,	/* head of a free block in a zone */
	PAGE_CACHED,	/* head of a free run in a CPU's pageset */
	PAGE_ALLOCATED, /* head of a run from alloc_pages */
	PAGE_SLAB,	/* head of a slab */
	PAGE_LARGE,	/* head of a large kmalloc block */
};

/*
 * The memory of a free run. Runs that are not PAGE_DIRTY are resident only where a huge page
 * covers them together with their neighbours (purge.c). In ZONE_DMA only PAGE_DIRTY is pinned.
 */
enum page_zero {
	PAGE_DIRTY,  /* may be resident, may hold anything */
	PAGE_FRESH,  /* never touched: reads as zeros */
	PAGE_PURGED, /* given back: reads as zeros */
};

/* Bits of one entry; a slab of n pages has n * 256 bits for its free state. */
enum { PAGE_BITMAP_WORDS = 4 };

/*
 * Synchronization: while the page is free, the zone's lock; else the owner of the run writes
 * it. A slab's fields: slab/slab_page.c.
 */
struct page {
	union {
		struct {
			_Atomic uint8_t
				type;  /* relaxed: frees look at their run's neighbours */
			uint8_t order; /* FREE, CACHED, ALLOCATED; PAGE_NO_ORDER */
			union {
				uint8_t zero;	 /* FREE, CACHED: enum page_zero */
				uint8_t sampled; /* LARGE: in the heap profile; sample */
				uint8_t fence;	 /* ALLOCATED: fence.c */
			};
			union {
				uint8_t compound; /* ALLOCATED: with __GFP_COMP */
				uint8_t moves;	  /* LARGE: page/move.c */
			};
		};
		struct {
			uint8_t same_type; /* type */
			uint8_t guard;	   /* SLAB: enum page_guarded (guard.h) */
			uint16_t span;	   /* SLAB: pages in it */
		};
		_Atomic uint32_t head; /* the four in one store: page_head() */
	};
	_Atomic uint32_t state; /* SLAB: slab_page.h */
	union { /* no other member has the address of a cache where @cache is: slab_page.c */
		struct list_head free_list; /* FREE */
		struct {
			struct kmem_cache *cache;		/* SLAB */
			union {					/* SLAB */
				struct list_head list;		/* on the node's list */
				struct deferred_entry deferred; /* on its way */
			};
		};
		struct {
			size_t npages;		    /* LARGE, ALLOCATED; freed and deferred */
			struct deferred_entry next; /* freed, or purged, and deferred */
		};
	};
	union {
		/* SLAB, in all its pages: a set bit is a free object */
		_Atomic uint64_t bitmap[PAGE_BITMAP_WORDS];
		struct {
			struct list_head blocks; /* of the zone */
			const void *by;		 /* the thread's */
			bool refused;
		} isolated; /* isolated: zone.h */
		struct {
			/* LARGE, if sampled: profile/profile.c. The other two words are
			 * those of guarded blocks: kmalloc/large_debug.h. */
			uint32_t site;
			uint16_t weight, level; /* samples it stands for; its draw's */
			uint64_t bytes;
		} sample;
	};
};

static inline enum page_type page_type(const struct page *page)
{
	return atomic_load_explicit(&page->type, memory_order_relaxed);
}

enum { PAGE_NO_ORDER = 0xff }; /* ALLOCATED, but not by order */

/* The head as a word: type in its first byte, order in the second, and so on. */
static inline uint32_t page_head_order(uint32_t word)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? word : __builtin_bswap32(word);
}

/* A head whose memory may hold anything. */
static inline uint32_t page_head(enum page_type type, unsigned int order, bool compound)
{
	debug_assert(order <= PAGE_NO_ORDER);
	return page_head_order((unsigned int)type | order << 8 | (unsigned int)compound << 24);
}

/* Whether a compound run of at least 2^@order pages begins at @page. */
static inline bool page_heads_compound(const struct page *page, unsigned int order)
{
	uint32_t head =
		page_head_order(atomic_load_explicit(&page->head, memory_order_relaxed));

	return (head & 0xff) == PAGE_ALLOCATED && head >> 24 && (head >> 8 & 0xff) >= order;
}

static inline void page_set_head(struct page *page, uint32_t head)
{
	atomic_store_explicit(&page->head, head, memory_order_relaxed);
}

static inline void page_set_type(struct page *page, enum page_type type)
{
	atomic_store_explicit(&page->type, (uint8_t)type, memory_order_relaxed);
}

_Static_assert(sizeof(struct page) == 64, "a page's metadata is one cache line");

enum { ARRAY_MAP_SHIFT = 12 };

/*
 * Synchronization: read-only after page_init(), except the contents of the three arrays, and
 * where a member says otherwise. All zero before, so that no address is inside.
 */
struct page_window {
	uintptr_t base;
	size_t size;
	/* Offsets below it have an entry in the array map, and a place. window.c writes it with
	 * release, which pairs with the acquire in page_window_readable(). */
	size_t readable;
	pcpu_entry_t *array_map;
	struct page *pages;
	uint16_t *places; /* page_place() of slabs' pages; 0 for others */
	unsigned int page_shift;
	unsigned int zone_shift, dma_shift,
		low_shift; /* address space of a zone of each type */
	unsigned int nr_nodes;
	size_t dma_pfn, low_pfn;       /* where these types' page frame numbers begin */
	size_t aside_pfn, aside_pages; /* page/aside.c */
	unsigned int max_align;	       /* runs can be aligned to 2^max_align pages at most */
	bool reserved; /* the window's addresses are reserved; else mapped piece by piece */
	/* Synchronization: written once, low_size last with release. */
	uintptr_t low_base;
	unsigned int low_part_shift; /* address space that each node has in the low window */
	_Atomic size_t low_size;     /* 0: no place yet */
};

extern struct page_window page_window cacheline_aligned;
extern struct zone *zones;	       /* by page_zone_index() */
extern const char *const zone_names[]; /* by enum zone_type, as the kernel shows them */

static inline size_t page_size(void)
{
	return (size_t)1 << page_window.page_shift;
}

static inline size_t page_bytes(size_t npages)
{
	return npages << page_window.page_shift;
}

/* page_window.page_shift; a constant where the processor has pages of one size. */
static always_inline unsigned int page_shift(void)
{
#ifdef __x86_64__
	return 12;
#else
	return page_window.page_shift;
#endif
}

static inline bool page_window_has(const void *addr)
{
	return (uintptr_t)addr - page_window.base < page_window.size;
}

/* Whether an offset from the window's base has an entry in the array map, and a place. */
static always_inline bool page_window_readable(size_t offset)
{
	return is_below(offset, &page_window.readable);
}

static inline size_t page_to_pfn(const struct page *page)
{
	debug_assert(page >= page_window.pages);
	return (size_t)(page - page_window.pages);
}

/* As pfn_to_virt() and its inverse, for the low window. */
void *window_low_virt(size_t pfn);
size_t window_low_pfn(const void *addr);

static inline void *pfn_to_virt(size_t pfn)
{
	if (unlikely(pfn >= page_window.low_pfn))
		return window_low_virt(pfn);
	return (void *)(page_window.base + (pfn << page_window.page_shift));
}

static inline void *page_to_virt(const struct page *page)
{
	return pfn_to_virt(page_to_pfn(page));
}

/* The page entry of an address that is known to lie in a run. */
static inline struct page *page_of(const void *addr)
{
	size_t offset = (uintptr_t)addr - page_window.base;

	if (unlikely(offset >= page_window.size))
		return page_window.pages + window_low_pfn(addr);
	return page_window.pages + (offset >> page_window.page_shift);
}

/* Index into zones[]: those of ZONE_NORMAL by node, then ZONE_DMA's, then ZONE_DMA32's. */
static inline unsigned int page_zone_index(const struct page *page)
{
	size_t pfn = page_to_pfn(page);
	unsigned int shift = page_window.page_shift;

	if (likely(pfn < page_window.dma_pfn))
		return (unsigned int)(pfn >> (page_window.zone_shift - shift));
	if (pfn < page_window.low_pfn)
		return page_window.nr_nodes + (unsigned int)((pfn - page_window.dma_pfn) >>
							     (page_window.dma_shift - shift));
	return 2 * page_window.nr_nodes +
	       (unsigned int)((pfn - page_window.low_pfn) >> (page_window.low_shift - shift));
}

/* The index of the node a page belongs to, 0 .. nr_nodes-1. */
static inline unsigned int page_node(const struct page *page)
{
	unsigned int i = page_zone_index(page);

	while (unlikely(i >= page_window.nr_nodes))
		i -= page_window.nr_nodes;
	return i;
}

/* The most pages that a slab may have. */
enum { PAGE_SLAB_SPAN_MAX = 256 };

/* A page's place; relaxed: the caller owns an object of the slab, or has a wild pointer. */
static always_inline unsigned int page_place(size_t pfn)
{
	return __atomic_load_n(&page_window.places[pfn], __ATOMIC_RELAXED);
}

/* The number of pages from a slab's first page to this one. */
static inline unsigned int page_place_to_head(unsigned int place)
{
	return place & 0xff;
}

/* The class mark; 0: the slab is of no size class. */
static inline unsigned int page_place_mark(unsigned int place)
{
	return place >> 8;
}

/* A flag of requests inside the library: fail, and do not reclaim; the caller goes on. */
#define PAGE_NO_RECLAIM 0x80000000u
/* Another: neither the process's allowed nodes nor the thread's policy bind. */
#define PAGE_ANY_ALLOWED 0x40000000u

/* A request that may wait, but is made in a handler that interrupted the holder of a lock. */
#define PAGE_INTERRUPTED 0x20000000u
/* @flags as they apply now: a thread that may hold a lock must not wait for one. */
static always_inline gfp_t page_flags_now(gfp_t flags)
{
	if (likely(lock_none_held()) || !(flags & __GFP_DIRECT_RECLAIM))
		return flags;
	return (flags & ~__GFP_DIRECT_RECLAIM) | PAGE_INTERRUPTED;
}

#endif
