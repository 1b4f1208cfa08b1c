/* SPDX-License-Identifier: MIT */
/* A look into zones and page entries, for C++. */
#ifndef UNIT_PAGE_SHIM_H
#define UNIT_PAGE_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ukmem/page_alloc.h"

#ifdef __cplusplus
extern "C" {
#endif

struct shim_zone {
	size_t start, end, frontier, nr_free, nr_dirty, nr_purged, pageset, carve;
	size_t nr_refault, present, used, managed, wmark_min, wmark_low, wmark_high;
	unsigned int orders; /* a bit per order that has free blocks */
	size_t blocks;	     /* free blocks of all orders */
	bool huge_wanted;
};

/* The process's limit and the pages that count for it. */
struct shim_limits {
	size_t limit, used, dirty, wmark_min;
};

void shim_limits_read(struct shim_limits *out);
/* Physical memory behind a zone's pages; behind their entries. Bytes. */
size_t shim_zone_resident(unsigned int index);
size_t shim_metadata_resident(void);
/* One opportunity for decay. */
void shim_page_decay(void);
/* The next @times that the library creates a thread it fails with @error. */
void shim_refuse_threads(int error, unsigned int times);
bool shim_background_is_running(void);

bool shim_page_init(void);
/* The number of zones of ZONE_NORMAL, one for each node; and of all zones: these, then DMA's,
 * then DMA32's. */
unsigned int shim_nr_zones(void);
unsigned int shim_all_zones(void);
void shim_zone_read(unsigned int index, struct shim_zone *out);
/* Try the zone's lock; for tests of callers that must not wait for it. */
bool shim_zone_trylock(unsigned int index);
void shim_zone_unlock(unsigned int index);

/* NULL, or which invariant of a zone does not hold. */
const char *shim_zone_wrong(unsigned int index);

/* How many runs were popped from the zone's lists of runs whose sizes are no powers of two. */
size_t shim_zone_run_pops(unsigned int index);

/* Pages of a zone that are a slab's, a block's or a program's, by their entries. */
size_t shim_zone_held(unsigned int index);

/* Bytes mapped step by step, of the zone's pages and of what describes them. */
size_t shim_zone_mapped(unsigned int index);

bool shim_window_reserved(void);
size_t shim_window_block(void);
void shim_window_use_small_steps(void);
size_t shim_page_to_pfn(const struct page *page);
size_t shim_trim(bool all);
struct page *shim_alloc_run(gfp_t flags, size_t npages, bool *zeroed);
void shim_free_run(struct page *page, size_t npages);
/* Whether the large block at @p could have @more pages, which it has then. */
bool shim_extend(void *p, size_t more);
struct page *shim_alloc_aligned(gfp_t flags, size_t npages, unsigned int order);

#ifdef __cplusplus
}
#endif

#endif
