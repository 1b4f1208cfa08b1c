/* SPDX-License-Identifier: MIT */
/*
 * What the owners of per-CPU arrays do with them off the fast paths: caches (objects, and
 * slabs), pagesets, qmempools. An owner says which capacity its arrays are to have, and has a
 * function that takes back what comes out of them. From outside arrays are emptied by drain.h.
 *
 * Functions that name no CPU are for this CPU's array; they use it as any of its users does.
 */
#ifndef PERCPU_ARRAY_SLOW_H
#define PERCPU_ARRAY_SLOW_H

#include "percpu/array.h"

enum { PCPU_PUT_MAX = 24 }; /* objects that are put at once */

/* Takes @n objects that were in an array of @whose. */
typedef void pcpu_put_function(void *whose, void **objects, unsigned int n);

/*
 * This CPU's array gets capacity *@bound, if it has another one: when it is first used, or
 * after the bound has changed (pcpu_arrays_set_bound). Result: whether it had another one.
 */
bool pcpu_array_open(void *handle, const _Atomic uint16_t *bound);

/* The last of @objects first, since an array is a stack: they come out in order. Result: how
 * many of objects[0..n) there was room for; the others are behind these. */
unsigned int pcpu_array_fill(void *handle, void **objects, unsigned int n);

/*
 * Puts what the array of CPU @cpu has above @keep: of a CPU that is @stopped, or by its users'
 * operations as long as this thread is there. Result: what the array holds then: more than
 * @keep where sections fail again and again, as in a storm of signals; UINT_MAX for a thread
 * that has moved to another CPU.
 */
unsigned int pcpu_array_reduce(void *handle, unsigned int cpu, unsigned int keep, bool stopped,
			       pcpu_put_function *put, void *whose);

/* What arrays hold, and handed out as allocations. CPUs use them meanwhile. */
struct pcpu_array_sums {
	uint64_t count, pops;
};
struct pcpu_array_sums pcpu_array_sums(void *handle, unsigned int cpu);
/* The sum of @of over all objects in them, or over what was one a moment ago. */
size_t pcpu_array_sum_of(void *handle, unsigned int cpu,
			 size_t (*of)(void *object, const void *arg), const void *arg);

/*
 * The invariants of all CPUs' arrays of @slots slots, called @what in findings; @wrong says
 * what is wrong with an object in one, or NULL.
 */
struct verify;
void pcpu_array_verify(void *handle, unsigned int slots, const char *what,
		       const char *(*wrong)(void *object, void *arg), void *arg,
		       struct verify *v);

#endif
