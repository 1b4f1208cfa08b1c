/* SPDX-License-Identifier: MIT */
/* The page layer's part of the gauges and statistics. */
#ifndef PAGE_VMSTAT_H
#define PAGE_VMSTAT_H

#include "page/zone_types.h"

struct ukmem_gauges;
struct emitter;

/* A zone's counts at one moment. */
struct zone_counts {
	size_t present, nr_free, nr_dirty, used, pageset;
	uint64_t alloc, freed, purged, refault;
	size_t blocks[MAX_ORDER + 1];
};

void zone_read(struct zone *z, struct zone_counts *c, bool with_blocks);
/* Calls @show for each counter: the one list of counters. */
void for_each_vmstat(void (*show)(struct emitter *, const char *, uint64_t), struct emitter *e);

void vmstat_gauges(struct ukmem_gauges *g);
void vmstat_resident(struct ukmem_gauges *g);
void vmstat_emit(struct emitter *e);

#endif
