/* SPDX-License-Identifier: MIT */
/* Objects on their way from CPU to CPU; see slab_shared.c. */
#ifndef SLAB_SLAB_SHARED_H
#define SLAB_SLAB_SHARED_H

#include "slab/slab_types.h"

/* The cache that queues come from; slab_cache.c sets it up. */
extern struct kmem_cache slab_queues;

/* Sets the size of @s's queues, before it is used. */
void slab_shared_describe(struct kmem_cache *s);
/* Up to @n objects of @node that CPUs had too many of. Waits for nothing. */
unsigned int slab_shared_get(struct kmem_cache *s, unsigned int node, void **out,
			     unsigned int n);
/* Objects of @node that a CPU has too many of. Result: how many there was room for. Waits for
 * nothing. */
unsigned int slab_shared_put(struct kmem_cache *s, unsigned int node, void **objs,
			     unsigned int n);
/* Whether a CPU missed the queue of @node, and there is room in the budget: then it is charged,
 * and slab_shared_give() comes next. */
bool slab_shared_wanted(struct kmem_cache *s, unsigned int node, unsigned int *cpu);
/* Makes the queue in @mem, of queue_bytes(SLAB_QUEUE_SLOTS) or NULL. False: @mem is still the
 * caller's. */
bool slab_shared_give(struct kmem_cache *s, unsigned int node, unsigned int cpu, void *mem);
/* All objects back into their slabs. False: a side is held on a CPU that cannot be stopped, or
 * other threads go on filling it. */
bool slab_shared_drain(struct kmem_cache *s);
/* The queue's invariants. */
struct verify;
void slab_shared_verify(const struct kmem_cache *s, struct verify *v);
unsigned int slab_shared_count(const struct kmem_cache *s, unsigned int node);
/* The memory of the queue of an empty cache, the caller's from now on; or NULL. */
void *slab_shared_detach(struct kmem_cache *s, unsigned int node);

#endif
