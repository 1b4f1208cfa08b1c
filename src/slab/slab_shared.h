/* SPDX-License-Identifier: MIT */
/* The nodes' shared queues; see slab_shared.c. */
#ifndef SLAB_SLAB_SHARED_H
#define SLAB_SLAB_SHARED_H

#include "slab/slab_types.h"

/* The cache that queues come from; slab_cache.c sets it up. */
extern struct kmem_cache slab_queues;

/* Sets the size of the queues of @s, before @s is used. */
void slab_shared_describe(struct kmem_cache *s);
/* Takes up to @n objects out of the queue of @node. Waits for nothing. Result: how many. */
unsigned int slab_shared_get(struct kmem_cache *s, unsigned int node, void **out,
			     unsigned int n);
/* Puts objects of @node into its queue. Result: how many there was room for. Waits for
 * nothing. */
unsigned int slab_shared_put(struct kmem_cache *s, unsigned int node, void **objs,
			     unsigned int n);
/* Claims the queue of @node for the caller to make, if a CPU missed it: charges the budget of
 * *@cpu, this CPU, and the caller calls slab_shared_give() next. False: no CPU missed it since
 * the last call, or there is no room for it now. */
bool slab_shared_claim(struct kmem_cache *s, unsigned int node, unsigned int *cpu);
/* Makes the queue in @mem, of queue_bytes(SLAB_QUEUE_SLOTS) or NULL. False: @mem is still the
 * caller's. */
bool slab_shared_give(struct kmem_cache *s, unsigned int node, unsigned int cpu, void *mem);
/* Puts the objects of all queues back into their slabs. False: a CPU that cannot be stopped
 * holds a side, and @idle is false (slab_drain()); or other threads go on filling a queue. */
bool slab_shared_drain(struct kmem_cache *s, bool idle);
/* Verifies the queues' invariants. */
struct verify;
void slab_shared_verify(const struct kmem_cache *s, struct verify *v);
unsigned int slab_shared_count(const struct kmem_cache *s, unsigned int node);
/* Takes the queue from a node of an empty cache. Result: its memory, or NULL. */
void *slab_shared_detach(struct kmem_cache *s, unsigned int node);

#endif
