/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU arrays emptied from outside: some of one owner, of several, or of all layers.
 *
 *	struct pcpu_drain d = { .cpu = cpu };
 *
 *	pcpu_drain_add(&d, handle, put, whose);		for each array
 *	pcpu_drain_end(&d);
 *
 * Stops interrupt CPUs, so there are few: one for up to PCPU_DRAIN_ARRAYS arrays, whoever
 * they belong to. It is over when what these arrays held has been put; meanwhile their users
 * fail and take their slow paths. So does a put function, which may use any array, but must
 * have another way.
 *
 * Order: arrays are emptied in the order in which they were added. What a put function pushes
 * into an array that is added later is put with that; into one that was added before it must
 * push nothing. So, highest layer first: elements of pools, which go to caches; objects, which
 * go to slabs; CPUs' slabs, which go to nodes and, as pages, to pagesets; pagesets.
 */
#ifndef PERCPU_DRAIN_H
#define PERCPU_DRAIN_H

#include "percpu/array_slow.h"

enum { PCPU_DRAIN_ARRAYS = 24 }; /* reclaim has them on a stack of unknown size */

/* Synchronization: its caller's. */
struct pcpu_drain {
	unsigned int cpu;  /* an index, or PCPU_ALL_CPUS */
	unsigned int keep; /* objects that each array is left with */
	unsigned int n;	   /* arrays listed */
	bool refused;	   /* CPUs could not be stopped, and arrays may still hold something */
	void *arrays[PCPU_DRAIN_ARRAYS];
	struct {
		pcpu_put_function *put;
		void *whose;
	} of[PCPU_DRAIN_ARRAYS];
};

/* Puts what the arrays added until now held, if there are too many. */
void pcpu_drain_add(struct pcpu_drain *d, void *handle, pcpu_put_function *put, void *whose);
/* Where CPUs cannot be stopped, of all CPUs' arrays those of this CPU are emptied, as their
 * users do it. */
void pcpu_drain_end(struct pcpu_drain *d);

/*
 * *@bound, which pcpu_array_open() goes by, becomes @capacity; arrays that have a capacity
 * follow, and what they hold above it is put; where CPUs cannot be stopped, what this CPU's
 * array holds, and the others keep what they have until it is taken out.
 */
void pcpu_arrays_set_bound(void *handle, _Atomic uint16_t *bound, uint16_t capacity,
			   pcpu_put_function *put, void *whose);

/* The arrays of all layers (struct layer's drain). */
void pcpu_drain_layers(unsigned int cpu);

#endif
