/* SPDX-License-Identifier: MIT */
/*
 * The types of zones and of requests. A zone is one node's pages of one kind; it has free
 * blocks by order, and per-CPU pagesets.
 */
#ifndef PAGE_ZONE_TYPES_H
#define PAGE_ZONE_TYPES_H

#include "base/assert.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/lock.h"
#include "page/page.h"

enum {
	MAX_ORDER = 30, /* no free block is larger than 2^30 pages */
	PCP_ORDERS = 5, /* pagesets hold runs of orders 0 .. 4 */
	/* Runs moved at once: as many as a drain puts (PCPU_PUT_MAX), for the stack's sake. */
	PCP_BATCH_MAX = 24,
	/* Runs of other sizes: a list for each doubling, from 3..4 to 129..256 pages. */
	PCP_RUN_MIN = 3,
	PCP_RUN_MAX = 256,
	PCP_RUN_LISTS = 7,
	PCP_LISTS = PCP_ORDERS + PCP_RUN_LISTS,
};

/* A zone's spare runs (spare.c): so many at most, and the pages of those that requests add. */
enum { ZONE_SPARES = 64, SPARE_ORDER = 4 };

enum zone_watermarks {
	WMARK_NONE, /* use the reserves */
	WMARK_MIN,
	WMARK_LOW,
	WMARK_HIGH,
	NR_WMARK,
};

/* NUMA statistics that are counted; the others are computed from these and the allocations. */
enum numa_stat {
	NUMA_MISS,	     /* taken here, preferred elsewhere */
	NUMA_FOREIGN,	     /* preferred here, taken elsewhere */
	NUMA_OTHER,	     /* taken here by a CPU of another node */
	NUMA_INTERLEAVE_HIT, /* taken here as a policy of interleaving wanted */
	NR_NUMA_STATS,
	PCP_RUN_POPPED = NR_NUMA_STATS, /* pages out of the lists of runs, to be used */
	PCP_STOOD_IN, /* pages out of lists for CPUs whose own node was full */
	NR_PCP_COUNTERS,
};

/* The arrays that have an entry for each page of the window, flat in address space. */
enum { FLAT_PAGES, FLAT_PLACES, FLAT_ARRAY_MAP, NR_FLAT };

/*
 * Invariants: every page below the frontier is in exactly one place: a free block, a pageset,
 * a spare run, the carving space, the space ahead, the list of deferred frees, the list of
 * blocks isolated for purging, a run handed out, or (if the window is not reserved) a hole that
 * other code has mapped. No free block's buddy is a free block of the same order that it always
 * merges with. nr_free = sum over orders of blocks << order; nr_dirty of these may be resident.
 *
 * present = pages below the frontier without holes. For limits and watermarks, a page is in
 * use if it is neither free nor isolated nor in one of these two spaces; pages in pagesets and
 * spare runs are in use.
 *
 * A free that finds the lock taken pushes its run onto `deferred` and goes on, or makes it a
 * spare run; the next thread that takes the lock puts what was deferred into the free lists.
 */
struct zone {
	/* Read-only after init, except pageset, which is replaced once, and the limits
	 * (relaxed), which follow the process's (page/follow.c). The sizes of pagesets are set
	 * at the start, and once more when the limits become complete (page_know_limits()). */
	_Atomic(void *) pageset;     /* per-CPU, pageset.c */
	size_t start, end;	     /* page numbers */
	_Atomic size_t managed;	     /* pages that the zone may have in use */
	_Atomic size_t node_managed; /* pages that all zones of its node may have in use */
	/* Pages in use in all zones of the node; NULL: the process has only one node. */
	_Atomic size_t *node_used;
	_Atomic size_t wmark[NR_WMARK];
	_Atomic size_t lowmem_reserve; /* pages that requests for a higher zone must leave */
	unsigned int index;
	uint16_t node;				  /* index */
	uint8_t type;				  /* enum zone_type */
	_Atomic uint16_t pcp_high, pcp_batch;	  /* of order 0; relaxed */
	uint32_t pcp_offset[PCP_LISTS];		  /* of the arrays in a pageset */
	_Atomic uint16_t pcp_capacity[PCP_LISTS]; /* theirs on CPUs that use them */
	uint32_t pcp_counters;			  /* of the counters */
	atomic_uint pcp_users; /* CPUs that have used a pageset of it; relaxed, only grows */
	/* Synchronization: written under lock, read by anyone. */
	_Atomic size_t frontier cacheline_aligned; /* pages below it are mapped */
	_Atomic size_t used;			   /* as of the last unlock */
	_Atomic size_t dirty;			   /* free and dirty, as of the last unlock */
	_Atomic uint64_t dirty_since;		   /* ms; when this decay period began */
	_Atomic size_t decay_backlog; /* pages still to be purged of the last one */
	/* 0, or nr_dirty when the last purge found nothing that the system takes; relaxed */
	_Atomic size_t refused_at;
	/* The period of page/recent.c in which a purge met refusals alone, and 1; or 0; relaxed
	 */
	atomic_uint refused_in;
	_Atomic size_t isolated; /* pages of isolated_blocks; relaxed */
	atomic_uint isolations;	 /* how often blocks were; relaxed */
	/* Pages to be purged before a large run is used; relaxed, also without the lock. */
	_Atomic size_t decay_owed;
	_Atomic uint64_t early[NR_PCP_COUNTERS];    /* counts from before there were pagesets */
	_Atomic(struct page *) spare[ZONE_SPARES];  /* runs, or NULL: spare.c */
	_Atomic size_t spare_pages;		    /* theirs; relaxed */
	atomic_uint spares_wanted, spares_period;   /* how many, since when; relaxed */
	struct deferred deferred cacheline_aligned; /* freed runs */
	struct lock lock;
	/* Synchronization: lock, from here on. */
	size_t nr_free;
	size_t nr_dirty;
	size_t present;
	size_t described[NR_FLAT]; /* pages below it have entries; not below the frontier */
	size_t mapped;		   /* pages below it are mapped, with or without entries */
	size_t refused;		   /* those of them that the system refused to purge */
	struct list_head isolated_blocks;
	size_t dirty_low; /* smallest nr_dirty since dirty_since */
	/* The pages that large runs owed in a period of page/recent.c, and in which: decay.c.
	 */
	size_t owed_in_period;
	unsigned int owed_period;
	/* The carving space: pages taken from the buddy lists, from which odd runs are cut. */
	size_t carve_start, carve_end;
	uint8_t carve_zero;
	/* The space ahead: populated pages, for small runs only (huge.c). They count as dirty.
	 */
	size_t ahead_start, ahead_end;
	/* Clean pages that small runs took, less those that were purged, or came back clean. */
	size_t grown;
	size_t huge_wait;      /* growth before the next huge page is asked for */
	uint32_t huge_forks;   /* number of forks that the zone knows of */
	int8_t huge_slow;      /* two for each slow call in a row: huge.c */
	uint8_t huge_trusted;  /* calls since the comparison that are slow without it */
	bool huge_compared;    /* since the last slow call: with small pages */
	uint64_t huge_slow_us; /* calls that take longer are slow, if it is above the usual */
	bool huge_asking;      /* a thread is asking for one */
	/* Relaxed, read without the lock: there may be huge pages in this zone; a small run
	 * found nothing resident. */
	atomic_bool huge_asked, huge_wanted;
	bool only_dirty; /* the request being served may take only dirty pages */
	bool at_end;	 /* the system refused more when it was last asked */
	/* The last look of a trim at the clean blocks (purge.c): how many there were, when it
	 * ended, or began while it lasts, how long it took, and the pages that had been handed
	 * out or purged when it began. */
	size_t clean_blocks;
	uint64_t clean_ms, clean_took_ms, clean_moved;
	/* Counters, of pages. */
	uint64_t nr_direct; /* handed out past the pagesets */
	uint64_t nr_purged, nr_refault;
	struct list_head free[MAX_ORDER + 1];
};

static inline size_t zone_managed(const struct zone *z)
{
	return atomic_load_explicit(&z->managed, memory_order_relaxed);
}

/* Pages that it may hand out before it is at its limit. Pages in pagesets count as used. */
static inline size_t zone_left(const struct zone *z)
{
	size_t managed = zone_managed(z), used;

	used = atomic_load_explicit(&z->used, memory_order_relaxed);
	return managed - min_size(used, managed);
}

static inline size_t zone_wmark(const struct zone *z, enum zone_watermarks mark)
{
	return atomic_load_explicit(&z->wmark[mark], memory_order_relaxed);
}

static inline size_t zone_reserve(const struct zone *z)
{
	return atomic_load_explicit(&z->lowmem_reserve, memory_order_relaxed);
}

static inline unsigned int nr_zones(void)
{
	return page_window.nr_nodes * MAX_NR_ZONES;
}

static inline struct zone *zone_of(const struct page *page)
{
	debug_assert(page_zone_index(page) < nr_zones());
	return &zones[page_zone_index(page)];
}

static inline struct zone *node_zone(unsigned int node, enum zone_type type)
{
	static const uint8_t place[MAX_NR_ZONES] = {
		[ZONE_NORMAL] = 0, [ZONE_DMA] = 1, [ZONE_DMA32] = 2
	};

	debug_assert((unsigned int)type < MAX_NR_ZONES && node < page_window.nr_nodes);
	return &zones[place[type] * page_window.nr_nodes + node];
}

/* Whether requests of the zone have needed spare runs: they met a holder of its lock. */
static inline bool spare_is_wanted(const struct zone *z)
{
	return atomic_load_explicit(&z->spares_wanted, memory_order_relaxed);
}

/* Synchronization: relaxed, for holders of the lock; others must not read entries by it. */
static inline size_t zone_frontier(const struct zone *z)
{
	return atomic_load_explicit(&z->frontier, memory_order_relaxed);
}

/* Pages below the frontier; acquire: their entries can be read. */
static inline size_t zone_below(const struct zone *z)
{
	return atomic_load_explicit(&z->frontier, memory_order_acquire) - z->start;
}

#define for_each_zone(z) for (struct zone *z = zones; z < zones + nr_zones(); z++)

/* The pages that a request may take above the limits. */
enum limits_above {
	ABOVE_NEVER,  /* nothing */
	ABOVE_DIRTY,  /* dirty pages: they may be resident already */
	ABOVE_LIMITS, /* any pages */
};

/*
 * A request for pages. @mark: the watermark that must hold after it. Without @may_block it
 * neither makes system calls nor waits.
 */
struct alloc_request {
	size_t npages;
	unsigned int align; /* to 2^align pages; 0: as page_alloc_run() says */
	size_t at;	    /* 0, or the page number at which the run must begin */
	gfp_t flags;
	enum zone_watermarks mark;
	bool may_block;
	bool only_dirty; /* pages that may be resident already, or none */
	enum limits_above above;
	size_t granted;	     /* pages above the limit, until limits_taken() */
	uint32_t period;     /* of the look that granted them */
	enum zone_type type; /* the highest zone that the request may use */
	/* NULL, or: no run of a pageset; whether the fence behind the run is held (fence.c). */
	bool *fenced;
};

/* The order to which a run is aligned that comes from elsewhere than the free lists: a run of
 * 2^k pages, as far as pagesets have it, to its size. */
static inline unsigned int alloc_request_order(const struct alloc_request *rq)
{
	if (!is_pow2(rq->npages) || rq->npages > PCP_RUN_MAX)
		return rq->align;
	return max_uint(rq->align, ilog2(rq->npages));
}

/* Memory is given back in pieces of 32 MiB, so that other threads need not wait for long. */
static inline unsigned int zone_piece_order(void)
{
	debug_assert(page_window.page_shift < 25);
	return 25 - page_window.page_shift;
}

/* Runs of up to so many pages are surely used soon: slabs of objects of up to 2 KiB, and
 * programs' own small runs. */
enum { ZONE_SMALL_RUN = 8 };

enum { ZONE_MIXED_ORDER = 3 }; /* 8 pages */

/*
 * Whether two free buddies always become one block of @order. Dirty blocks do not merge with
 * clean ones, so that dirty memory, which may be resident, can be taken first or given back.
 * Small blocks do: otherwise requests would take the dirty remains of large runs page by page,
 * one here and one there, and no large run would ever be whole again. In ZONE_DMA dirty means
 * pinned, so there the kinds stay apart.
 */
static inline bool zone_always_merges(const struct zone *z, unsigned int order,
				      enum page_zero a, enum page_zero b)
{
	return (a == PAGE_DIRTY) == (b == PAGE_DIRTY) ||
	       (order <= ZONE_MIXED_ORDER && z->type != ZONE_DMA);
}

/*
 * Whether they merge now. Where the system grants no more memory, large free blocks matter
 * more, so all merge up to zone_piece_order(): a piece that was purged stays apart from the
 * rest of its block.
 */
static inline bool zone_may_merge(const struct zone *z, unsigned int order, enum page_zero a,
				  enum page_zero b)
{
	return zone_always_merges(z, order, a, b) ||
	       (z->at_end && order <= zone_piece_order() && z->type != ZONE_DMA);
}

/* The memory of two runs together. */
static inline enum page_zero page_zero_merged(enum page_zero a, enum page_zero b)
{
	if (a == PAGE_DIRTY || b == PAGE_DIRTY)
		return PAGE_DIRTY;
	return a == PAGE_PURGED || b == PAGE_PURGED ? PAGE_PURGED : PAGE_FRESH;
}

/* Pages of isolated_blocks, when the lock was last held. */
static inline size_t zone_isolated(const struct zone *z)
{
	return atomic_load_explicit(&z->isolated, memory_order_relaxed);
}

/* Called after pages were taken. Lock held. */
static inline void __zone_note_dirty(struct zone *z)
{
	lock_assert_held(&z->lock);
	if (z->nr_dirty < z->dirty_low)
		z->dirty_low = z->nr_dirty;
}

/* Pages in the carving space and in the space ahead. Lock held. */
static inline size_t __zone_set_apart(const struct zone *z)
{
	lock_assert_held(&z->lock);
	return z->carve_end - z->carve_start + z->ahead_end - z->ahead_start;
}

/* Free pages that may be resident. Lock held. */
static inline size_t __zone_dirty(const struct zone *z)
{
	lock_assert_held(&z->lock);
	return z->nr_dirty + z->refused + z->ahead_end - z->ahead_start +
	       (z->carve_zero == PAGE_DIRTY ? z->carve_end - z->carve_start : 0);
}

/* Pages in use, for limits and watermarks. Lock held. */
static inline size_t __zone_used(const struct zone *z)
{
	lock_assert_held(&z->lock);
	return z->present - z->nr_free - zone_isolated(z) - __zone_set_apart(z);
}

#endif
