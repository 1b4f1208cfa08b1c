/* SPDX-License-Identifier: MIT */
/* What the files of this layer share. */
#ifndef PERCPU_PERCPU_INTERNAL_H
#define PERCPU_PERCPU_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "percpu/percpu.h"

/*
 * At the start of each unit of the first chunk: first the arrays that entries
 * PCPU_ENTRY_NONE and PCPU_ENTRY_ELSEWHERE lead to, for ever empty and full.
 */
struct pcpu_unit {
	char no_array[2][PCPU_ENTRY_SIZE];
	_Atomic uint32_t slot_lock; /* fallback mode: holds the unit's arrays */
};

/* Map the first chunk; pcpu.stride and pcpu.nr_ids are set. */
bool pcpu_alloc_init(void);
/* Make remote stops take part in fork. */
void pcpu_stop_init(void);
struct pcpu_unit *pcpu_unit(unsigned int index);

/* Fallback mode: exclusive use of one unit; blocks (yields) until it is free. */
void pcpu_slot_lock(unsigned int index);
void pcpu_slot_unlock(unsigned int index);

#endif
