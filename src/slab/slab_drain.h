/* SPDX-License-Identifier: MIT */
/* Empties arrays, lists and queues; see slab_drain.c. */
#ifndef SLAB_SLAB_DRAIN_H
#define SLAB_SLAB_DRAIN_H

#include "slab/slab_types.h"

/* Puts the objects and slabs of all CPUs, and of shared queues, back to the nodes. False: CPUs
 * cannot be stopped, and some are left. @idle: no thread uses the cache any more, and the
 * caller holds the caches lock; then it goes on where CPUs cannot be stopped. */
bool slab_drain(struct kmem_cache *s, bool idle);
/* As slab_drain(), and stops no CPU if none holds anything. Requests that fail again and again
 * end here. */
void slab_drain_held(struct kmem_cache *s);
/* Adds the arrays of all caches to @d, of a trim only those that keep memory. Leaves the caches
 * lock held, for slab_caches_unlock() (layer.h, drained). */
struct pcpu_drain;
void slab_arrays_list(struct pcpu_drain *d);
/* Sets the attribute cpu_partial, in objects; at most SLAB_CPU_PARTIAL_MAX slabs. */
void slab_set_cpu_partial(struct kmem_cache *s, unsigned int objects);
/* Drains all, and frees all empty slabs. Result: whether slabs remain. */
bool slab_shrink(struct kmem_cache *s);
/* As slab_shrink(), without the drain, which stops CPUs. */
bool slab_shrink_drained(struct kmem_cache *s);

#endif
