/* SPDX-License-Identifier: MIT */
/* Arrays, lists and queues are emptied; see slab_drain.c. */
#ifndef SLAB_SLAB_DRAIN_H
#define SLAB_SLAB_DRAIN_H

#include "slab/slab_types.h"

/* Objects and slabs of all CPUs' lists, and of queues, back to the nodes; false: CPUs cannot be
 * stopped, and something is left. */
bool slab_drain(struct kmem_cache *s);
/* Lists the arrays of all caches to be emptied. The caches lock is held from then on. */
struct pcpu_drain;
void slab_drain_all(struct pcpu_drain *d);
/* The attribute cpu_partial, in objects: of at most SLAB_CPU_PARTIAL_MAX slabs. */
void slab_set_cpu_partial(struct kmem_cache *s, unsigned int objects);
/* Drains all, and frees all empty slabs. Result: whether slabs remain. */
bool slab_shrink(struct kmem_cache *s);
/* The same without draining what stops CPUs. */
bool slab_shrink_drained(struct kmem_cache *s);

#endif
