/* SPDX-License-Identifier: MIT */
/*
 * The forms of /proc/vmstat, /proc/zoneinfo and /proc/buddyinfo, for proc_text.c and for tools,
 * which read other processes. C and C++.
 */
#ifndef PAGE_PROC_TEXT_H
#define PAGE_PROC_TEXT_H

#include <stdint.h>

struct emitter;

/* The numbers of a zone in zoneinfo: pages, if nothing else is said. */
struct zone_text {
	int node_id;
	const char *zone; /* name */
	uint64_t managed, used, min, low, high, spanned, present, reserve;
	uint64_t free, dirty, purged, alloc;
	uint64_t numa_miss, numa_foreign, numa_interleave, numa_other;
	uint64_t pcp_high, pcp_batch, start_pfn;
};

void vmstat_emit_line(struct emitter *e, const char *name, uint64_t v);
/* @blocks: free blocks of @n orders. */
void buddyinfo_emit(struct emitter *e, int node_id, const char *zone, const uint64_t *blocks,
		    unsigned int n);
/* A zone: its numbers; then the pageset of each CPU; then the end. */
void zoneinfo_emit(struct emitter *e, const struct zone_text *z);
void zoneinfo_emit_pageset(struct emitter *e, const struct zone_text *z, unsigned int cpu,
			   uint64_t count);
void zoneinfo_emit_end(struct emitter *e, const struct zone_text *z);

#endif
