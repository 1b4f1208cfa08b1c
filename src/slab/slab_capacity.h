/* SPDX-License-Identifier: MIT */
/* Decides how large a CPU's array is; see slab_capacity.c. */
#ifndef SLAB_SLAB_CAPACITY_H
#define SLAB_SLAB_CAPACITY_H

#include "slab/slab_types.h"

enum slab_move { SLAB_MOVED_NONE, SLAB_MOVED_REFILL, SLAB_MOVED_FLUSH };

/* The capacity of this CPU's array for @node, after it was opened on first use or has changed
 * by use; 0 while it is stopped. Any value up to capacity_max is safe at any time, because each
 * section loads it. */
unsigned int slab_tune(struct kmem_cache *s, unsigned int node, enum slab_move move);
/* Notes from time to time how often this CPU moves objects. Reads the clock. */
void slab_look_at_pace(void);
/* How many of the objects that were freed one after the other lie far from each other. */
enum slab_order {
	SLAB_IN_ORDER, /* at most a quarter */
	SLAB_MIXED,
	SLAB_SCATTERED, /* three quarters, or more */
};
enum slab_order slab_order_of(const struct kmem_cache *s, void *const *objects, unsigned int n);
/* Whether this CPU's @array was flushed several times in a row. */
bool slab_only_frees(void *array);
/* Whether so often that it frees what other CPUs allocate. */
bool slab_frees_for_others(void *array);
/* Notes in which order @n objects leave this CPU's @array, and sets its capacity by that. An
 * array hands objects out in the reverse order of their frees. So while the program frees in
 * random order, the array keeps few. */
void slab_note_order(struct kmem_cache *s, void *array, enum slab_order order, unsigned int n);
/*
 * The slots that each CPU's array begins with: 32 KiB of objects, and at least four. With a
 * share of a CPU, or with little memory, they are fewer, so that the first arrays of all size
 * classes stay within the budget. Arrays of large objects begin with one slot.
 */
unsigned int slab_first_capacity(const struct kmem_cache *s);
/* Whether the arrays of a cache that is checked for these reasons stay closed. A hardened
 * cache's do not: its own slow paths use them. */
static inline bool slab_stays_closed(unsigned int checked)
{
	return checked & ~(unsigned int)SLAB_CHECK_HARD;
}
/* Closes an array, and uncharges its capacity. */
void slab_close_array(struct kmem_cache *s, struct pcpu_array *a, unsigned int cpu);
/* The most objects that move at once, and the most slots that an array grows by. */
unsigned int slab_step(const struct kmem_cache *s);

#endif
