/* SPDX-License-Identifier: MIT */
/* Caches for callers that may not wait; see slab_reserve.c. */
#ifndef SLAB_SLAB_RESERVE_H
#define SLAB_SLAB_RESERVE_H

#include "slab/slab_types.h"

enum { SLAB_RESERVE = 16 }; /* caches */
bool slab_reserve_init(void);
/* Makes a cache out of the reserve, without waiting or memory; NULL: none is left. */
struct kmem_cache *slab_cache_new_nowait(const struct slab_params *p);
/* The caller uses the new cache: statistics and trim know it from now on. */
void slab_reserve_use(struct kmem_cache *s);
/* The caller does not need the new cache. */
void slab_reserve_put(struct kmem_cache *s);
/* Caches of the reserve that are taken; *@exhausted: requests that found none. */
unsigned int slab_reserve_used(uint64_t *exhausted);

#endif
