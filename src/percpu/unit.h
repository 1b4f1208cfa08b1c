/* SPDX-License-Identifier: MIT */
/* The head of a unit: what this layer knows of a CPU. */
#ifndef PERCPU_UNIT_H
#define PERCPU_UNIT_H

#include <stdatomic.h>
#include <stdint.h>

#include "percpu/percpu_alloc.h"

/*
 * At the start of each unit of the first chunk: first the array that entry
 * PCPU_ENTRY_NONE leads to, for ever empty and full.
 */
struct pcpu_unit {
	char no_array[PCPU_ENTRY_SIZE];
	_Atomic uintptr_t slot_lock; /* fallback mode: thread pointer of who holds its arrays */
	_Atomic uint32_t owner;	     /* thread id of the CPU's owner, 0: none (owner.c) */
	uint32_t owner_depth;	     /* the owner's */
};

_Static_assert(sizeof(struct pcpu_unit) <= PCPU_UNIT_HEAD, "a unit's head fits its place");

static inline struct pcpu_unit *pcpu_unit(unsigned int index)
{
	return pcpu_ptr(pcpu_first_unit(), index);
}

#endif
