/* SPDX-License-Identifier: MIT */
/* What the page layer counts and reports. */
#ifndef PAGE_PAGE_STATS_H
#define PAGE_PAGE_STATS_H

#include <stdint.h>

struct page_counters {
	uint64_t *alloc, *free; /* per CPU: pages */
};

extern struct page_counters page_counters;

/* Register this layer's part of the gauges. */
void page_stats_init(void);

#endif
