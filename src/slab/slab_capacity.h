/* SPDX-License-Identifier: MIT */
/* How large a CPU's array is; see slab_capacity.c. */
#ifndef SLAB_SLAB_CAPACITY_H
#define SLAB_SLAB_CAPACITY_H

#include "slab/slab_types.h"

enum slab_move { SLAB_MOVED_NONE, SLAB_MOVED_REFILL, SLAB_MOVED_FLUSH };

/* The capacity of this CPU's @array, opened on first use, and grown if what the program does
 * asks for it. Any value up to capacity_max is safe at any time: sections read it afresh. */
unsigned int slab_tune(struct kmem_cache *s, void *array, enum slab_move move);
/* An array's capacity to nothing, what it was charged with back to the budget. */
void slab_close_array(struct kmem_cache *s, struct pcpu_array *a, unsigned int cpu);
/* Objects that may be moved at once, or slots that come to an array at once. */
unsigned int slab_step(const struct kmem_cache *s);

#endif
