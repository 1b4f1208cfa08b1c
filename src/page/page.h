/* SPDX-License-Identifier: MIT */
/*
 * Page metadata, and from addresses to it and back: arithmetic only.
 *
 * One window of address space holds all pages, a zone_size part for each node:
 *
 *   window.base
 *   | zone 0: pages below its frontier | reserved | zone 1: ... | ... |
 *
 * Beside it lie two flat arrays: struct page, an entry per page, and the array
 * map, two bytes per 4 KiB granule: where the per-CPU array is that objects there
 * are freed to (pcpu_entry(); PCPU_ENTRY_NONE: no slab). It is all that a free
 * looks at. Entries exist below the frontier only, the array map everywhere.
 */
#ifndef PAGE_PAGE_H
#define PAGE_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "ukmem/page_alloc.h"

struct kmem_cache;

enum page_type {
	PAGE_NONE,	/* the inside of a run, or never handed out */
	PAGE_FREE,	/* head of a free block in a zone */
	PAGE_CACHED,	/* head of a free run in a CPU's pageset */
	PAGE_ALLOCATED, /* head of a run from alloc_pages */
	PAGE_SLAB,	/* head of a slab */
	PAGE_SLAB_TAIL, /* the rest of a slab */
	PAGE_LARGE,	/* head of a large kmalloc block */
};

/* Bits of one entry; a slab of n pages has n * 256 bits for its free state. */
enum { PAGE_BITMAP_WORDS = 4 };

/*
 * Synchronization: while free, the zone's lock; else the owner of the run. A
 * slab's list, inuse and bitmap: its node's lock.
 */
struct page {
	_Atomic uint8_t type; /* relaxed: a zone looks at neighbours it does not own */
	uint8_t order;	      /* FREE, CACHED, ALLOCATED */
	uint8_t zero;	      /* FREE, CACHED: reads as zeros */
	uint8_t unused;
	uint16_t span;	/* SLAB: pages in it; SLAB_TAIL: pages back to the head */
	uint16_t inuse; /* SLAB: objects outside the slab (in use, or in a CPU's array) */
	union {
		struct list_head lru; /* FREE */
		struct {
			struct kmem_cache *cache; /* SLAB */
			struct list_head list;	  /* SLAB: partial list, while on it */
		};
		struct {
			size_t npages; /* LARGE */
		};
	};
	uint64_t bitmap[PAGE_BITMAP_WORDS]; /* SLAB, SLAB_TAIL: a set bit is a free object */
};

static inline enum page_type page_type(const struct page *page)
{
	return atomic_load_explicit(&page->type, memory_order_relaxed);
}

static inline void page_set_type(struct page *page, enum page_type type)
{
	atomic_store_explicit(&page->type, (uint8_t)type, memory_order_relaxed);
}

_Static_assert(sizeof(struct page) == 64, "a page's metadata is one cache line");

enum { ARRAY_MAP_SHIFT = 12 };

/*
 * Synchronization: read-only after page_init(), but for the contents of the two
 * arrays. All zero before, so that no address is inside.
 */
struct page_window {
	uintptr_t base;
	size_t size;
	uint16_t *array_map;
	struct page *pages;
	unsigned int page_shift;
	unsigned int zone_shift;
	unsigned int nr_zones;
	bool reserved; /* the window's addresses are ours; else mapped piece by piece */
};

extern struct page_window page_window cacheline_aligned;

static inline size_t page_size(void)
{
	return (size_t)1 << page_window.page_shift;
}

static inline bool page_window_has(const void *addr)
{
	return (uintptr_t)addr - page_window.base < page_window.size;
}

static inline size_t page_to_pfn(const struct page *page)
{
	return (size_t)(page - page_window.pages);
}

static inline void *page_to_virt(const struct page *page)
{
	return (void *)(page_window.base + (page_to_pfn(page) << page_window.page_shift));
}

/* The entry of an address known to lie in a run of ours. */
static inline struct page *page_of(const void *addr)
{
	return page_window.pages +
	       (((uintptr_t)addr - page_window.base) >> page_window.page_shift);
}

static inline unsigned int page_zone_index(const struct page *page)
{
	return (unsigned int)((page_to_pfn(page) << page_window.page_shift) >>
			      page_window.zone_shift);
}

/* The entry of any address; NULL if no page of ours is there. */
struct page *page_lookup(const void *addr);

/* Set the array map's entry of every granule of a run. */
void page_set_array(const struct page *page, size_t npages, uint16_t entry);

/* Idempotent. False: not even address space for a minimal window. */
bool page_init(void);

/* The zone of the node the calling thread runs on. */
unsigned int page_local_zone(void);

/*
 * Runs of any number of pages, from @zone where possible (with __GFP_THISNODE: or
 * not at all), of type PAGE_ALLOCATED. A run of 2^k pages up to 256 KiB is aligned to its size,
 * any other to a page. *@zeroed tells whether the memory reads as zeros.
 */
struct page *page_alloc_run(unsigned int zone, gfp_t flags, size_t npages, bool *zeroed);
void page_free_run(struct page *page, size_t npages);
/* As page_alloc_run from the local zone, aligned to 2^@order pages. */
struct page *page_alloc_aligned(gfp_t flags, size_t npages, unsigned int order, bool *zeroed);

/* Purge free pages; with @all also those in the CPUs' pagesets. Bytes purged. */
size_t page_trim(bool all);

#endif
