/* SPDX-License-Identifier: MIT */
/*
 * Operations on per-CPU arrays off the fast paths, for the arrays' owners: caches (of objects,
 * and of slabs), pagesets, qmempools. An owner decides the capacity of its arrays, and has a
 * function that takes objects back which come out of them. drain.h empties arrays from outside.
 *
 * Functions without a CPU parameter are for this CPU's array, and use it by its operations.
 */
#ifndef PERCPU_ARRAY_SLOW_H
#define PERCPU_ARRAY_SLOW_H

#include "percpu/array.h"

enum { PCPU_PUT_MAX = 24 }; /* objects that are put at once */

/* Takes back @n objects that were in an array of @whose. */
typedef void pcpu_put_function(void *whose, void **objects, unsigned int n);

/*
 * Gives this CPU's array the capacity *@bound, if it has another one: when it is first used, or
 * after the bound has changed (pcpu_arrays_set_bound). Result: whether the capacity changed.
 */
bool pcpu_array_open(void *array, const _Atomic uint16_t *bound);

/* Pushes @objects in reverse, so that they come out of the stack in order. Result: how many
 * were pushed; the others are in objects[result..n). */
unsigned int pcpu_array_fill(void *array, void **objects, unsigned int n);

/*
 * Puts the objects that the array of @cpu has above @keep, by the array's operations, as long
 * as this thread is on the CPU. Result: the objects left; more than @keep if sections fail
 * again and again, as in a storm of signals; UINT_MAX if the thread has moved to another CPU.
 */
unsigned int pcpu_array_reduce(void *array, unsigned int cpu, unsigned int keep,
			       pcpu_put_function *put, void *whose);

/* The numbers of objects in arrays, and of objects popped as allocations. CPUs may use the
 * arrays meanwhile. */
struct pcpu_array_sums {
	uint64_t count, pops;
};
struct pcpu_array_sums pcpu_array_sums(void *array, unsigned int cpu);
/* Whether no CPU's array holds an object. */
bool pcpu_array_is_empty(void *array);
/* The sum of @of over all objects in arrays; some may have left a moment ago. */
size_t pcpu_array_sum_of(void *array, unsigned int cpu,
			 size_t (*of)(void *object, const void *arg), const void *arg);

/*
 * Verifies all CPUs' arrays of @slots slots. @what: their name in findings. @wrong: tells why
 * an object must not be in the array, or NULL.
 */
struct verify;
void pcpu_array_verify(void *array, unsigned int slots, const char *what,
		       const char *(*wrong)(void *object, void *arg), void *arg,
		       struct verify *v);

#endif
