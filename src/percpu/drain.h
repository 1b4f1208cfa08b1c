/* SPDX-License-Identifier: MIT */
/*
 * Empties per-CPU arrays from outside: arrays of one owner, of several, or of all layers.
 *
 *	struct pcpu_drain d = { .cpu = cpu };
 *
 *	pcpu_drain_add(&d, array, put, whose);		for each array
 *	pcpu_drain_end(&d);
 *
 * A stop interrupts CPUs, so a drain makes as few as possible: one for up to PCPU_DRAIN_ARRAYS
 * arrays, of whatever owners. While an array is stopped, operations on it fail, and their
 * callers take slow paths. The drain takes the objects out, lets the array's users go on, and
 * puts the objects then; it puts some before that only if there are too many. A put function
 * may try any array, but must have another way if that fails.
 *
 * Order: arrays are emptied, and their objects put, in the order in which they were added. A
 * put function may push onto an array of which the owner begins with pcpu_drain_end(), because
 * that is emptied afterwards. So the highest layer comes first: elements of pools go to caches;
 * objects go to slabs; CPUs' slabs go to nodes and, as pages, to pagesets; pagesets go to
 * zones.
 */
#ifndef PERCPU_DRAIN_H
#define PERCPU_DRAIN_H

#include "percpu/array_slow.h"

enum { PCPU_DRAIN_ARRAYS = 24 }; /* reclaim has them on a stack of unknown size */

/* Synchronization: one thread uses it. */
struct pcpu_drain {
	unsigned int cpu;  /* an index, or PCPU_ALL_CPUS */
	unsigned int keep; /* objects that each array is left with */
	unsigned int n;	   /* arrays listed */
	bool idle;	   /* no thread uses the arrays any more: as pcpu_arrays_stop() */
	bool refused;	   /* CPUs could not be stopped, so arrays may still hold objects */
	void *arrays[PCPU_DRAIN_ARRAYS];
	struct {
		pcpu_put_function *put;
		void *whose;
	} of[PCPU_DRAIN_ARRAYS];
};

/* Adds an array; if there are too many, it first empties those added until now. */
void pcpu_drain_add(struct pcpu_drain *d, void *array, pcpu_put_function *put, void *whose);
/* Empties the arrays. If CPUs cannot be stopped, and all CPUs are to be drained, it empties
 * this CPU's arrays, by the operations of their users. */
void pcpu_drain_end(struct pcpu_drain *d);

/*
 * Sets *@bound, which pcpu_array_open() reads, to @capacity. Arrays that have a capacity get
 * the new one, and their objects above it are put. If CPUs cannot be stopped, that is done for
 * this CPU's array; the others follow when they are opened again.
 */
void pcpu_arrays_set_bound(void *array, _Atomic uint16_t *bound, uint16_t capacity,
			   pcpu_put_function *put, void *whose);

/* Empties the arrays of all layers (struct layer's drain). */
void pcpu_drain_layers(unsigned int cpu);
void pcpu_drain_fork_child(void);

#endif
