/* SPDX-License-Identifier: MIT */
#ifndef SLAB_SHOW_OOM_H
#define SLAB_SHOW_OOM_H

/* Logs the caches that have the most memory, for a report of a request that failed. */
void slab_report_largest(void);

#endif
