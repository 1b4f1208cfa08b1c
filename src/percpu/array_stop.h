/* SPDX-License-Identifier: MIT */
/* Stops arrays of other CPUs, to take objects out of them; see array_stop.c. */
#ifndef PERCPU_ARRAY_STOP_H
#define PERCPU_ARRAY_STOP_H

#include "percpu/array.h"

void pcpu_stop_init(void);

/*
 * Stops the users of @n arrays on one CPU (by index) or all, until pcpu_arrays_start().
 * Operations on a stopped array fail, and their callers take slow paths. An array that its
 * CPU's owner is using (array_owner.h) is not stopped, nor taken from. The process makes one
 * stop at a time. False: it cannot stop CPUs now, and nothing was done. May block and enter
 * the kernel.
 *
 * @idle: no thread is in an operation on the arrays, nor begins one. So the result is true even
 * if the system refuses to interrupt CPUs.
 */
bool pcpu_arrays_stop(void *const *arrays, unsigned int n, unsigned int cpu, bool idle);
void pcpu_arrays_start(void *const *arrays, unsigned int n, unsigned int cpu);
/* Between the two: takes up to @max objects of CPU @index's array into @out. */
unsigned int pcpu_array_take(void *array, unsigned int index, void **out, unsigned int max);
/* Between the two: users of CPU @index's array go on, before those of the others. Without
 * restartable sequences they wait until pcpu_arrays_start(). */
void pcpu_array_let_go(void *array, unsigned int index);

#endif
