/* SPDX-License-Identifier: MIT */
/* A cache's descriptor and arrays; see slab_cache.c. */
#ifndef SLAB_SLAB_CACHE_H
#define SLAB_SLAB_CACHE_H

#include "slab/slab_types.h"

/* The caches that descriptors come from; false without memory, to be tried again. */
bool slab_cache_boot(void);
/* Whether its objects are the library's, not the program's. */
bool slab_is_own(const struct kmem_cache *s);
/* A per-CPU array that is always closed; NULL without memory. */
void *slab_closed_array(void);

/* A new descriptor with arrays and nodes, on no list; NULL without memory. */
struct kmem_cache *slab_cache_new(const struct slab_params *p);
/* Its parts: what it is; where its slabs are listed. */
void slab_describe(struct kmem_cache *s, const struct slab_params *p);
void slab_set_nodes(struct kmem_cache *s, struct kmem_cache_node *nodes);
/* Everything of an unused cache but its slabs, and its twin; it is on no list. */
void slab_cache_delete(struct kmem_cache *s);

#endif
