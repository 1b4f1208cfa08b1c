/* SPDX-License-Identifier: MIT */
/* When caches give memory back; see slab_reclaim.c. */
#ifndef SLAB_SLAB_RECLAIM_H
#define SLAB_SLAB_RECLAIM_H

#include "slab/slab_types.h"

void slab_reclaim_init(void);
/* All arrays and lists are emptied, and empty slabs freed. Result: 0, the pages are the layer
 * below's to give back. */
size_t slab_trim(void);

#endif
