/* SPDX-License-Identifier: MIT */
/* Zones, limits and counters for the fuzz programs, which are C++. */
#ifndef FUZZ_SHIM_H
#define FUZZ_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ukmem/page_alloc.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FUZZ_WMARKS = 4 }; /* none, min, low, high */

/* The numbers of one zone, read under its lock, that is with deferred frees put back. */
struct fuzz_zone {
	size_t start, end, frontier;
	size_t present, nr_free, nr_dirty, dirty, isolated, carve, pageset, used;
	size_t managed, node_managed, lowmem_reserve, wmark[FUZZ_WMARKS];
	size_t blocks; /* free blocks of all orders */
	uint64_t nr_alloc;
	unsigned int node; /* index */
	enum zone_type type;
};

struct fuzz_limits {
	size_t limit, used, dirty, wmark[FUZZ_WMARKS];
};

enum fuzz_event { FUZZ_ZLC_SKIP, FUZZ_ZLC_ZAP, FUZZ_ZLC_SECOND_SCAN, FUZZ_PGALLOC_FAIL };
enum fuzz_numa { FUZZ_MISS, FUZZ_FOREIGN, FUZZ_OTHER, FUZZ_INTERLEAVE_HIT };

void fuzz_zone_read(unsigned int index, struct fuzz_zone *out);
/* As published, without the lock. */
size_t fuzz_zone_used(unsigned int index);
void fuzz_limits_read(struct fuzz_limits *out);
unsigned int fuzz_zone_index(const struct page *page);
size_t fuzz_pfn(const struct page *page);
/* Page @i of the run that begins with @page. */
struct page *fuzz_page_of_run(struct page *page, size_t i);
/* One past the largest page frame number that can be. */
size_t fuzz_max_pfn(void);

/* Every CPU's pageset of a zone back into it. Pages. */
size_t fuzz_drain(unsigned int zone);
void fuzz_decay(void);

/* Holds a zone's lock as another thread would, without deferred frees looked at after. */
bool fuzz_zone_trylock(unsigned int index);
void fuzz_zone_unlock(unsigned int index);

uint64_t fuzz_event_sum(enum fuzz_event event);
/* Sum over all zones. */
uint64_t fuzz_numa_sum(enum fuzz_numa item);

#ifdef __cplusplus
}
#endif

#endif
