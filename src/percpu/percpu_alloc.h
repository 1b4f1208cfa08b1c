/* SPDX-License-Identifier: MIT */
/* Per-CPU memory for the layers above, by the address of its first copy. */
#ifndef PERCPU_PERCPU_ALLOC_H
#define PERCPU_PERCPU_ALLOC_H

#include "percpu/percpu.h"

/*
 * No run of @n free granules starts below @from at a multiple of @step. So the search for each
 * of the many arrays at start-up need not walk the holes that alignment leaves. All zeroes:
 * nothing is known.
 */
struct pcpu_hint {
	size_t n, step, from;
};
/* A chunk, in one mapping with its bitmaps. */
struct pcpu_chunk {
	struct pcpu_chunk *next;
	char *base;	/* unit 0 */
	size_t nr_used; /* granules */
	uint64_t *used; /* bitmaps over one unit's granules */
	uint64_t *last;
	size_t first_free; /* no free granule below this one */
	struct pcpu_hint hint;
};

/* Synchronization: percpu_lock; set once, as are the chunks' `next` and `base`. */
extern struct pcpu_chunk *pcpu_first_chunk;

/* Maps the first chunk. Called when pcpu.stride, nr_ids and base are set. */
bool pcpu_alloc_init(void);

/*
 * @size bytes per CPU, zeroed, aligned to @align (a power of two up to 4096): the
 * address of the first copy. NULL without memory or with @size above the unit's.
 */
void *pcpu_alloc(size_t size, size_t align);
void pcpu_free(void *first);
/* As pcpu_alloc(); without @may_block only out of chunks that are mapped. */
void *pcpu_alloc_for(size_t size, size_t align, bool may_block);
/* As pcpu_free(). False: no allocation begins at @first. */
bool pcpu_try_free(void *first);

/*
 * An entry is the address of an array's first copy in four bytes, for the page layer's array
 * map: its offset from pcpu_first_unit(). Each array has an entry of its own. Entry
 * PCPU_ENTRY_NONE stands for no array: it leads to one that is always full.
 */
enum {
	PCPU_ENTRY_SIZE = 64, /* alignment of arrays, so that their headers share no line */
	PCPU_ENTRY_NONE = 0,
};

char *pcpu_first_unit(void);
/* The entry of an array; PCPU_ENTRY_NONE: it lies beyond what four bytes reach. */
uint32_t pcpu_entry(const void *first);
/*
 * A token: @n arrays without slots, one behind the other, always empty and full, within reach
 * of entries. In the map it stands for arrays that lie beyond. Free with pcpu_free(). NULL: the
 * first chunk's room for tokens is used up.
 */
enum { PCPU_TOKEN_SIZE = 16 }; /* from one array to the next */
void *pcpu_alloc_token(unsigned int n);

enum { PCPU_UNIT_HEAD = 128 }; /* of the first chunk's units, whole cache lines: unit.h */

/* Bytes of physical memory behind all areas. */
size_t pcpu_resident(void);
void pcpu_alloc_info(struct ukmem_percpu_info *info);
/* Verifies the allocator's invariants. Takes its lock. */
struct verify;
void pcpu_verify(struct verify *v);

#endif
