/* SPDX-License-Identifier: MIT */
/* Counts what a cache holds and did; see slab_count.c. */
#ifndef SLAB_SLAB_COUNT_H
#define SLAB_SLAB_COUNT_H

#include "slab/slab_types.h"

struct slab_counts {
	uint64_t allocs, frees;		  /* objects given to and taken from the program */
	uint64_t allocs_fast, frees_fast; /* those by the arrays alone */
	uint64_t inuse;			  /* objects in use by the program */
	uint64_t guarded; /* those in KFENCE's pool, in no slab and of no node */
	uint64_t cached;  /* free objects in CPUs' arrays and shared queues */
	uint64_t shared;  /* those in shared queues */
	uint64_t slabs, partial,
		objects;      /* objects: of all slabs, and guarded; partial: nodes' */
	uint64_t pages;	      /* of all slabs */
	uint64_t cpu_partial; /* slabs on CPUs' lists */
	uint64_t events[SLAB_NR_EVENTS];
};
/* Counts the cache and its twin together. */
void slab_count(struct kmem_cache *s, struct slab_counts *c);
/* As slab_count(), and only what slabs, arrays and queues tell: without events, what they sum
 * up to, and objects in KFENCE's pool, which take far longer to count. */
void slab_count_held(struct kmem_cache *s, struct slab_counts *c);
/* As slab_count(), for one node, and only what is counted per node: inuse, slabs, objects,
 * partial. */
void slab_count_node(struct kmem_cache *s, unsigned int node, struct slab_counts *c);

#endif
