/* SPDX-License-Identifier: MIT */
/* Caches are created and destroyed; see slab_create.c. */
#ifndef SLAB_SLAB_CREATE_H
#define SLAB_SLAB_CREATE_H

#include "slab/slab_types.h"

/* Initialises the layer and those below; false without memory, to be tried again. */
bool slab_init(void);
/* A new cache, known to statistics, trim and fork; NULL without memory. */
struct kmem_cache *slab_create(const struct slab_params *p);

#endif
