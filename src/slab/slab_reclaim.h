/* SPDX-License-Identifier: MIT */
/* When caches give memory back; see slab_reclaim.c. */
#ifndef SLAB_SLAB_RECLAIM_H
#define SLAB_SLAB_RECLAIM_H

#include "slab/slab_types.h"

void slab_reclaim_init(void);

#endif
