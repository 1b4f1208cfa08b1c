/* SPDX-License-Identifier: MIT */
/*
 * The caches as tables; see tables.c. The forms of the tables take plain numbers, so that
 * tools, which read other processes, print the same. C and C++.
 */
#ifndef SLAB_SHOW_TABLES_H
#define SLAB_SHOW_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emitter;

enum { SLAB_ROW_NAME = 32 };

/* The numbers of one cache in the tables; in objects, slabs, pages or bytes, as they are named.
 */
struct slab_row {
	char name[SLAB_ROW_NAME];
	bool used;			/* the program has used the cache */
	uint64_t size, objects, npages; /* of an object; of a slab */
	uint64_t page_size, pages;	/* pages: of all slabs */
	uint64_t slabs, all_objects, inuse, cached;
	uint64_t guarded; /* of all_objects and inuse, those in KFENCE's pool, in no slab */
	uint64_t allocs, frees, allocs_fast, frees_fast, fails;
	uint64_t slabs_made, slabs_freed, most_slabs;
	uint64_t idle, idle_min, idle_max; /* empty slabs; idle_max UINT64_MAX: no bound */
	uint64_t flags;
	uint64_t contended;		   /* times that a shard's lock was taken */
	uint64_t allocs_past, allocs_made; /* past the arrays; with new slabs */
	uint64_t largest, full, empty;	   /* the open arrays' capacity; such arrays */
};

/* Each emits a table of @n rows that lie @stride bytes apart. */
void slab_caches_emit(struct emitter *e, const struct slab_row *rows, size_t n, size_t stride);
void slab_pools_emit(struct emitter *e, const struct slab_row *rows, size_t n, size_t stride);
void slab_layers_emit(struct emitter *e, const struct slab_row *rows, size_t n, size_t stride);

void slab_tables_emit(struct emitter *e);

#endif
