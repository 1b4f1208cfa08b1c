/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU areas and how this CPU's copy is reached.
 *
 * An area is a set of chunks. A chunk holds one unit per CPU index, `stride`
 * bytes apart; a handle is the address in unit 0, and the copy of CPU i is at
 * handle + i * stride, whatever chunk it is in:
 *
 *   low                                                             high
 *   | unit 0            | unit 1            | ... | unit n (spill)   |
 *   | ..[handle]..      | ..[copy of 1]..   |     |                  |
 *     <---- stride ---->
 *
 * Units are untouched memory until their CPU uses them: an unused CPU costs
 * address space only. The last unit, the spill unit, serves threads that have
 * no CPU index (not registered for rseq), with atomic operations.
 *
 * Called from page, slab and kmalloc; calls os. Per-CPU operations themselves
 * are in array.h and counter.h.
 */
#ifndef PERCPU_PERCPU_H
#define PERCPU_PERCPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "ukmem/percpu.h"

/*
 * What the critical sections load, in one cache line.
 * Synchronization: read-only after pcpu_init().
 */
struct pcpu {
	ptrdiff_t rseq;	 /* thread pointer -> struct rseq */
	ptrdiff_t index; /* thread pointer -> the index field: cpu_id or mm_cid */
	size_t stride;
	uint32_t nr_ids; /* CPU indices 0 .. nr_ids - 1; the spill unit is nr_ids */
	bool use_rseq;	 /* else every operation takes the fallback */
	const char *reason, *index_kind;
};

extern struct pcpu pcpu cacheline_aligned;

/* Idempotent. False: no memory for the first chunk. */
bool pcpu_init(void);

/* Limits that follow from the stride, for whoever sizes arrays. */
bool pcpu_address_space_is_scarce(void);

static inline void *pcpu_ptr(const void *handle, unsigned int index)
{
	return (char *)(uintptr_t)handle + (size_t)index * pcpu.stride;
}

#define for_each_cpu_unit(i) for (unsigned int i = 0; i < pcpu.nr_ids; i++)

/* The index this thread runs on now; may be old by the time it returns. */
unsigned int pcpu_index(void);

/*
 * A handle to @size bytes per CPU, zeroed, aligned to @align (a power of two up
 * to 4096); NULL without memory or with @size above the unit's.
 */
void *pcpu_alloc(size_t size, size_t align);
void pcpu_free(void *handle);

/*
 * Handles of arrays in two bytes, for the page layer's array map: entry * 64 is
 * the offset from pcpu_first_unit(). Two entries lead to an array that is always
 * full: no array at all, and one too far off.
 */
enum {
	PCPU_ENTRY_SIZE = 64,
	PCPU_ENTRY_NONE = 0,
	PCPU_ENTRY_ELSEWHERE = 1,
};

char *pcpu_first_unit(void);
/* The entry of a handle that is aligned to PCPU_ENTRY_SIZE. */
uint16_t pcpu_entry(const void *handle);

/* Bytes of physical memory behind all areas. */
size_t pcpu_resident(void);

/* In the child of fork(): no other thread holds a slot any more. */
void pcpu_fork_child(void);

#endif
