/* SPDX-License-Identifier: MIT */
/* What the page layer counts and reports. */
#ifndef PAGE_PAGE_STATS_H
#define PAGE_PAGE_STATS_H

struct page_counters {
	void *alloc, *free; /* per-CPU counters: pages */
};

extern struct page_counters page_counters;

/* Register this layer's part of the gauges. */
void page_stats_init(void);

#endif
