/* SPDX-License-Identifier: MIT */
/* Decides how large a CPU's array is; see slab_capacity.c. */
#ifndef SLAB_SLAB_CAPACITY_H
#define SLAB_SLAB_CAPACITY_H

#include "slab/slab_types.h"

enum slab_move { SLAB_MOVED_NONE, SLAB_MOVED_REFILL, SLAB_MOVED_FLUSH };

/* The capacity of this CPU's @array, after it was opened on first use or has grown by use. Any
 * value up to capacity_max is safe at any time, because each section loads it. */
unsigned int slab_tune(struct kmem_cache *s, void *array, enum slab_move move);
/* Closes an array, and uncharges its capacity. */
void slab_close_array(struct kmem_cache *s, struct pcpu_array *a, unsigned int cpu);
/* The most objects that move at once, and the most slots that an array grows by. */
unsigned int slab_step(const struct kmem_cache *s);

#endif
