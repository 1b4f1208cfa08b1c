/* SPDX-License-Identifier: MIT */
/*
 * kmalloc's fast paths, for kmalloc() itself and for the malloc drop-in.
 *
 *   allocate: size -> table -> this CPU's array: pop
 *   free:     address -> array map -> this CPU's array: push
 *
 * Table and map hold ready-made handles of arrays: what a free has to do between
 * the address and the array's header is one load and one shift, because the next
 * allocation of that class waits for that header. Before initialisation, and in
 * fallback mode always, the limits are zero and everything takes the slow path,
 * so that no test of "is it initialised" is on the way.
 */
#ifndef KMALLOC_KMALLOC_H
#define KMALLOC_KMALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "kmalloc/size_class.h"
#include "percpu/array.h"
#include "slab/slab.h"

/*
 * Synchronization: written by kmalloc_init(), the limits last; read-only after.
 * K1: the release of each limit pairs with K2, the acquire of it here.
 */
struct kmalloc_fast {
	_Atomic size_t small_end;   /* sizes below it: the small table */
	_Atomic size_t large_end;   /* sizes below it: the large table */
	_Atomic size_t window_size; /* addresses below base + it: the array map */
	uintptr_t window_base;
	uintptr_t array_map; /* where the entry of address 0 would be */
	char *arrays;	     /* pcpu_first_unit() */
};

extern struct kmalloc_fast kmalloc_fast cacheline_aligned;

static always_inline void *kmalloc_pop(size_t size)
{
	if (likely(size < atomic_load_explicit(&kmalloc_fast.small_end,
					       memory_order_acquire))) /* K2 */
		return pcpu_array_pop_rseq(size_class_small[size_class_small_index(size)]);
	if (likely(size < atomic_load_explicit(&kmalloc_fast.large_end,
					       memory_order_acquire))) /* K2 */
		return pcpu_array_pop_rseq(size_class_large[size_class_large_index(size)]);
	return NULL;
}

static always_inline bool kmalloc_push(void *p)
{
	uintptr_t addr = (uintptr_t)p;
	size_t entry;

	if (unlikely(addr - kmalloc_fast.window_base >=
		     atomic_load_explicit(&kmalloc_fast.window_size,
					  memory_order_acquire))) /* K2 */
		return false;
	entry = ((const uint16_t *)kmalloc_fast.array_map)[addr >> ARRAY_MAP_SHIFT];
	return pcpu_array_push_rseq(kmalloc_fast.arrays + entry * PCPU_ENTRY_SIZE, p);
}

/* Idempotent; false: no memory for a beginning. */
bool kmalloc_init(void);

/* All requests the fast paths did not serve. @size may be anything; NULL: no memory. */
void *kmalloc_slow(size_t size, gfp_t flags);
/* As kmalloc, and zeroed. */
void *kmalloc_zeroed(size_t size, gfp_t flags);
/* Aligned to @align, a power of two. */
void *kmalloc_aligned(size_t size, size_t align, gfp_t flags);
/* @func: the name to report misuse under. */
void kfree_slow(void *p, const char *func);
/* Usable bytes; 0 and reported if @p is no allocated object. */
size_t kmalloc_usable(const void *p, const char *func);
/* As realloc; @p is not NULL, @size not 0. */
void *kmalloc_resize(void *p, size_t size, gfp_t flags, const char *func);

/* large.c: blocks of whole pages. */
void *large_alloc(size_t size, unsigned int align_order, gfp_t flags);
/* @page is of type PAGE_LARGE. */
void large_free(struct page *page);
size_t large_size(const struct page *page);
bool large_init(void);
/* Give back the end of a block in place. */
void large_shrink(struct page *page, size_t size);

#endif
