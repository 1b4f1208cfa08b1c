/* SPDX-License-Identifier: MIT */
/* Gauges and tables of all caches; see stats.c. */
#ifndef SLAB_SHOW_STATS_H
#define SLAB_SHOW_STATS_H

void slab_stats_init(void);

#endif
