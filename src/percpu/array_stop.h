/* SPDX-License-Identifier: MIT */
/* Others' arrays are stopped, and objects taken out of them. */
#ifndef PERCPU_ARRAY_STOP_H
#define PERCPU_ARRAY_STOP_H

#include "percpu/array.h"

void pcpu_stop_init(void);

/*
 * Stop the users of @n arrays on one CPU (by index) or all, then take objects out,
 * then go on. Users of a stopped array fail and take their slow paths meanwhile. An array
 * that its CPU's owner is in the middle of (array_owner.h) is not stopped, nor taken from.
 * One stop at a time; false: this process cannot stop CPUs now, nothing was done.
 * May block and enter the kernel.
 */
bool pcpu_arrays_stop(void *const *handles, unsigned int n, unsigned int cpu);
void pcpu_arrays_start(void *const *handles, unsigned int n, unsigned int cpu);
/* Between the two: up to @max objects of CPU @index's array into @out. */
unsigned int pcpu_array_take(void *handle, unsigned int index, void **out, unsigned int max);

#endif
