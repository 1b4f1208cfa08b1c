/* SPDX-License-Identifier: MIT */
/* A zone: one node's pages, free blocks by order, and per-CPU pagesets. */
#ifndef PAGE_ZONE_H
#define PAGE_ZONE_H

#include "base/lock.h"
#include "page/page.h"

enum {
	MAX_ORDER = 30, /* no free block is larger than 2^30 pages */
	PCP_ORDERS = 5, /* pagesets hold runs of orders 0 .. 4 */
	PCP_BATCH_MAX = 16,
};

/*
 * Invariants: every page below the frontier is in exactly one place: a free
 * block, a pageset, the carving space, a run handed out, or (window not reserved) a hole
 * somebody else mapped. No free block's buddy is a free block of the same order. nr_free = sum
 * over orders of blocks << order; nr_dirty of these may not be zero.
 */
struct zone {
	struct lock lock;
	unsigned int index;
	size_t start, end;	 /* page numbers; read-only after init */
	_Atomic size_t frontier; /* pages below it are mapped. Written under lock */
	struct list_head free[MAX_ORDER + 1]; /* Synchronization (and below): lock */
	size_t nr_free;
	_Atomic size_t nr_dirty;      /* also read without */
	size_t dirty_low;	      /* smallest nr_dirty since dirty_since */
	_Atomic uint64_t dirty_since; /* ms; also read without */
	size_t nr_purged;	      /* pages ever purged */
	/* Taken from the buddy allocator, not yet handed out: odd runs are carved here. */
	size_t carve_start, carve_end;
	bool carve_zero;
	void *pageset[PCP_ORDERS]; /* per-CPU arrays of struct page *; read-only after init */
};

extern struct zone *zones; /* [page_window.nr_zones] */

/* window.c: make [frontier, end) of the zone usable; negative errno. Lock held. */
int window_extend(struct zone *z, size_t end);
/* Move the frontier over addresses that somebody else has mapped. Lock held. */
int window_skip(struct zone *z, size_t end);
bool window_init(void);
size_t window_metadata_resident(void);

/* Pages per step in which the frontier moves. */
size_t window_block(void);

/* buddy.c. The lock is held. */
void __zone_init(struct zone *z, unsigned int index);
struct page *__zone_alloc(struct zone *z, unsigned int order, bool may_grow);
void __zone_free_run(struct zone *z, size_t pfn, size_t npages, bool zero);
/* The smallest free block that holds 2^order pages, the rest put back; or NULL. */
struct page *__zone_take_block(struct zone *z, unsigned int order);
void __zone_remove_block(struct zone *z, struct page *page);
/* Map @need new pages from *@start on, a multiple of @align. */
bool __zone_grow(struct zone *z, size_t align, size_t need, size_t *start);
/* The largest dirty free block of at most @max_order, taken out; NULL if there is none. */
struct page *__zone_take_dirty(struct zone *z, unsigned int max_order);

/* runs.c. The lock is held. */
/* Any number of pages; aligned to their size if that is 2^k pages up to a growth block. */
struct page *__zone_alloc_run(struct zone *z, size_t npages, bool may_grow);
/* Put what is left for carving back into the free lists. */
void __zone_carve_release(struct zone *z);

/* pageset.c */
bool pageset_init(struct zone *z);
struct page *pageset_alloc(struct zone *z, unsigned int order, gfp_t flags);
void pageset_free(struct zone *z, struct page *page, unsigned int order);
/* What CPU index @cpu, or PCPU_ALL_CPUS, holds, back into the zone. */
void pageset_drain(struct zone *z, unsigned int cpu);
size_t pageset_pages(const struct zone *z);

/* purge.c: give back what was free and dirty for the whole decay time. May block. */
void zone_limit_dirty(struct zone *z);

/* After pages were taken, and what was too many put back. Lock held. */
static inline void __zone_note_dirty(struct zone *z)
{
	if (z->nr_dirty < z->dirty_low)
		z->dirty_low = z->nr_dirty;
}

static inline struct zone *zone_of(const struct page *page)
{
	return &zones[page_zone_index(page)];
}

#endif
