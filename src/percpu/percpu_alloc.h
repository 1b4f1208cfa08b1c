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
	size_t bytes;	   /* of this and of the bitmaps, in whole pages */
	size_t first_free; /* no free granule below this one */
	size_t end;	   /* of the granules for allocations; permanent ones follow */
	size_t permanent;  /* granules of these; alignment leaves gaps between them */
	size_t top;	   /* no allocation below @end reaches, or ever reached, this granule */
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
/* As pcpu_alloc(), for what is made when the process starts and is never freed. */
void *pcpu_alloc_permanent(size_t size, size_t align);
/* The same for arrays: they begin in the second line of a pair (base/compiler.h). */
void *pcpu_alloc_permanent_arrays(size_t size);
/* As pcpu_alloc(); without @may_block only out of chunks that are mapped. */
void *pcpu_alloc_for(size_t size, size_t align, bool may_block);
/* As pcpu_free(). False: no allocation begins at @first. */
bool pcpu_try_free(void *first);

char *pcpu_first_unit(void);
/* Addresses behind those of chunks with entries, where nothing is mapped, for other arrays of
 * the library; once. NULL: it is not known where these lie. */
char *pcpu_take_place(size_t size);
/* Faults in, with one call, what is allocated so far of this CPU's unit, except what is
 * permanent; 16 KiB at most. */
void pcpu_populate(void);
/* PCPU_ENTRY_NONE: the array lies too far from the first unit to have one. */
pcpu_entry_t pcpu_entry(const void *first);

enum { PCPU_UNIT_HEAD = 128 }; /* of the first chunk's units, whole cache lines: unit.h */

/* Bytes of physical memory behind all areas. */
size_t pcpu_resident(void);
void pcpu_alloc_info(struct ukmem_percpu_info *info);
/* Verifies the allocator's invariants. Takes its lock. */
struct verify;
void pcpu_verify(struct verify *v);

#endif
