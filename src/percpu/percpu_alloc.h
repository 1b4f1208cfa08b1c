/* SPDX-License-Identifier: MIT */
/* Per-CPU memory for the layers above, by the address of its first copy. */
#ifndef PERCPU_PERCPU_ALLOC_H
#define PERCPU_PERCPU_ALLOC_H

#include "percpu/percpu.h"

/* Map the first chunk; pcpu.stride, nr_ids and base are set. */
bool pcpu_alloc_init(void);

/*
 * @size bytes per CPU, zeroed, aligned to @align (a power of two up to 4096): the
 * address of the first copy. NULL without memory or with @size above the unit's.
 */
void *pcpu_alloc(size_t size, size_t align);
void pcpu_free(void *first);
/* As the two, but not @may_block: only of the chunks there are. False: no such memory. */
void *pcpu_alloc_for(size_t size, size_t align, bool may_block);
bool pcpu_try_free(void *first);

/*
 * Addresses of first copies of arrays in four bytes, for the page layer's array
 * map: their offset from pcpu_first_unit(). No two arrays have the same one. Entry
 * PCPU_ENTRY_NONE leads to an array that is always full: no array at all.
 */
enum {
	PCPU_ENTRY_SIZE = 64, /* alignment of arrays, so that their headers share no line */
	PCPU_ENTRY_NONE = 0,
};

char *pcpu_first_unit(void);
/* The entry of an array; PCPU_ENTRY_NONE: it lies beyond what four bytes reach. */
uint32_t pcpu_entry(const void *first);
/*
 * A token: @n arrays without slots, one behind the other, for ever empty and full, where
 * entries reach. It stands in the map for arrays that lie beyond. pcpu_free() takes it back.
 * NULL: the first chunk's place for tokens is used up.
 */
enum { PCPU_TOKEN_SIZE = 16 }; /* from one array to the next */
void *pcpu_alloc_token(unsigned int n);

enum { PCPU_UNIT_HEAD = 128 }; /* of the first chunk's units, whole cache lines: unit.h */

/* Bytes of physical memory behind all areas, and how much of what there is: for
 * percpu_mode(). */
size_t pcpu_resident(void);
void pcpu_alloc_info(struct ukmem_percpu_info *info);
/* The allocator's invariants. Takes its lock. */
struct verify;
void pcpu_verify(struct verify *v);

#endif
