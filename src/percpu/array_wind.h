/* SPDX-License-Identifier: MIT */
/* Winds the countdowns of arrays, and counts all pops; see array_wind.c. */
#ifndef PERCPU_ARRAY_WIND_H
#define PERCPU_ARRAY_WIND_H

#include "percpu/array.h"

#define PCPU_LAPS_SHIFT 8 /* in struct pcpu_array.laps */
#define PCPU_LAP_SHIFT 30 /* pops of a lap, as a power of two */

/* The header of this CPU's array if its countdown has run out; else 0. */
uint64_t pcpu_array_due(void *array);
/*
 * Winds the countdown of an array: its users may pop @left objects (PCPU_ARRAY_TICKS at most)
 * until a pop fails. @mark: kept with it. @header: the array's now, which may change no more.
 * False: it has changed, or the array is stopped.
 */
bool pcpu_array_wind_cpu(void *array, unsigned int cpu, uint64_t header, unsigned int left,
			 bool mark);
/* The same for this CPU's array. */
bool pcpu_array_wind(void *array, uint64_t header, unsigned int left, bool mark);

/* Winds up the countdown of this CPU's array if it has run out. Result: whether it did. */
bool pcpu_array_wind_up(void *array);

/* Pops as counted pops do, from arrays whose countdowns nobody waits for. */
static inline void *pcpu_array_pop_winding(void *array)
{
	void *object = pcpu_array_pop(array);

	if (unlikely(!object) && pcpu_array_wind_up(array))
		object = pcpu_array_pop(array);
	return object;
}

unsigned int pcpu_array_pop_bulk_winding(void *array, void **out, unsigned int n);

/* All objects popped and counted. The array's CPU may use it meanwhile. */
uint64_t pcpu_array_pops(const struct pcpu_array *a);
/* Whether objects were popped since the last call. It may err: of 128 arrays that were used, it
 * takes one for unused. */
bool pcpu_array_was_used(struct pcpu_array *a);

#endif
