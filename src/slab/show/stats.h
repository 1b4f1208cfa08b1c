/* SPDX-License-Identifier: MIT */
/* Gauges of all caches; see stats.c. */
#ifndef SLAB_SHOW_STATS_H
#define SLAB_SHOW_STATS_H

struct ukmem_gauges;
void slab_gauges(struct ukmem_gauges *g);

#endif
