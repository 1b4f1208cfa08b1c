/* SPDX-License-Identifier: MIT */
/* A CPU's slot in fallback mode; its holder has the unit's arrays. Operations: array.h. */
#ifndef PERCPU_ARRAY_FALLBACK_H
#define PERCPU_ARRAY_FALLBACK_H

#include <stdbool.h>
#include <stdint.h>

struct pcpu_array;

/* Exclusive use of one unit; blocks (yields) until it is free. */
void pcpu_slot_lock(unsigned int index);
void pcpu_slot_unlock(unsigned int index);
/* Changes the header of the unit's array. False: it is not @from, or the slot is busy. */
bool pcpu_fallback_change(struct pcpu_array *a, unsigned int index, uint64_t from, uint64_t to);
/* In the child of fork(): no other thread holds a slot any more. Slots of this thread, which
 * forked in a signal handler, stay locked. */
void pcpu_slots_fork_child(void);

#endif
