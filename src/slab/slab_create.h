/* SPDX-License-Identifier: MIT */
/* Creates caches; see slab_create.c. */
#ifndef SLAB_SLAB_CREATE_H
#define SLAB_SLAB_CREATE_H

#include "slab/slab_types.h"

/* Initialises the layer and those below. False: no memory; the caller may try again. */
bool slab_init(void);
/* Makes a cache and lists it for statistics, trim and fork; NULL: no memory. */
struct kmem_cache *slab_create(const struct slab_params *p);
/*
 * The same for a permanent, budgeted cache for which all memory is there (slab_params.place),
 * in two steps: neither fails, or takes a lock but that of the registry of locks. The caller
 * makes one at a time.
 */
struct kmem_cache *slab_create_prepared(const struct slab_params *p);
void slab_enlist_prepared(struct kmem_cache *s);

#endif
