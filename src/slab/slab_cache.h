/* SPDX-License-Identifier: MIT */
/* A cache's descriptor and arrays; see slab_cache.c. */
#ifndef SLAB_SLAB_CACHE_H
#define SLAB_SLAB_CACHE_H

#include "slab/slab_types.h"

/* The caches of descriptors, and of their nodes. */
extern struct kmem_cache slab_boot_cache, slab_boot_node;
/* Makes the caches that descriptors come from. False: no memory; the caller may try again. */
bool slab_cache_boot(void);
/* Whether the objects of @s are the library's, not the program's. */
bool slab_is_own(const struct kmem_cache *s);
/* Bytes of one node's array, for a cache of which a CPU may hold @capacity_max objects. */
unsigned int slab_array_bytes(unsigned int capacity_max);
/* Bytes of a permanent cache beside its arrays: its descriptor with the nodes; per CPU, its
 * list of slabs and its events. */
size_t slab_descriptor_bytes(void);
size_t slab_cpu_bytes(void);
/* The array map's entry for objects of @array; SLAB_FAR_ENTRY: none. */
pcpu_entry_t slab_entry_to(const void *array);
/* A per-CPU array that is always closed; NULL: no memory. */
void *slab_closed_array(void);
/* A new descriptor with arrays and nodes, on no list; NULL: no memory. */
struct kmem_cache *slab_cache_new(const struct slab_params *p);
/* Two parts of slab_cache_new(): the first sets all members that follow from @p, the second the
 * nodes, which lie with their lists in zeroed memory of slab_nodes_bytes(). */
void slab_describe(struct kmem_cache *s, const struct slab_params *p);
void slab_set_nodes(struct kmem_cache *s, void *mem);
size_t slab_nodes_bytes(void);
/* Frees a cache without slabs, which is on no list, and its twin. */
void slab_cache_delete(struct kmem_cache *s);
/* Whether a pointer of the program's is to a cache that was made and not deleted. Where a cache
 * was, there may be another one. */
bool slab_cache_was_made(const struct kmem_cache *s);

#endif
