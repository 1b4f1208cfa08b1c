/* SPDX-License-Identifier: MIT */
/*
 * kmalloc's fast paths, for kmalloc() itself and for the malloc drop-in.
 *
 *   allocate: size -> table -> this CPU's array: pop
 *   free:     address -> array map -> this CPU's array: push
 *
 * The table holds the addresses of arrays' first copies, and the map their offsets from the
 * first unit. So the way from the address that is freed to the array's header is a shift, the
 * load of the map's entry and additions. The way is that short because the next allocation of
 * the class waits for the header. Before initialisation, and in fallback mode always, the
 * limits are zero and everything takes the slow path, so that no test of "is it initialised" is
 * on the way.
 */
#ifndef KMALLOC_KMALLOC_H
#define KMALLOC_KMALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "kmalloc/size_class.h"
#include "percpu/array.h"
#include "slab/slab_array.h"

/*
 * All that the fast paths load, in one structure, so that one address leads to all of it.
 *
 * Synchronization: kmalloc_init() writes it, the limits last; it is read-only afterwards,
 * except window_size, which the window raises. K1, the release store of each limit, pairs with
 * K2, its acquire load in is_below().
 */
struct kmalloc_fast {
	size_t small_end;   /* sizes below it: the small table */
	size_t large_end;   /* sizes below it: the large table */
	size_t window_size; /* addresses below base + it: the array map */
	uintptr_t window_base;
	uintptr_t array_map; /* the address where the entry of address 0 would lie */
	char *arrays;	     /* pcpu_first_unit() */
	struct ukmem_percpu_state pcpu cacheline_aligned; /* a copy */
	struct size_tables tables;
};

extern struct kmalloc_fast kmalloc_fast cacheline_aligned;

/* Pops an object for @size bytes. False: failed, and *@p is NULL. */
static always_inline bool kmalloc_pop(size_t size, void **p)
{
	const struct kmalloc_fast *f = &kmalloc_fast;

	if (likely(is_below(size, &f->small_end)))
		return pcpu_array_pop_rseq(&f->pcpu, f->tables.small[size_small_index(size)],
					   p);
	if (likely(is_below(size, &f->large_end)))
		return pcpu_array_pop_rseq(&f->pcpu, f->tables.large[size_large_index(size)],
					   p);
	*p = NULL;
	return false;
}

/* Pushes @p onto the array that the array map names. False: the slow path must free it. */
static always_inline bool kmalloc_push(void *p)
{
	const struct kmalloc_fast *f = &kmalloc_fast;
	uintptr_t addr = (uintptr_t)p;
	pcpu_entry_t entry;

	if (unlikely(!is_below(addr - f->window_base, &f->window_size)))
		return false;
	entry = ((const pcpu_entry_t *)f->array_map)[addr >> ARRAY_MAP_SHIFT];
	return pcpu_array_push_rseq(&f->pcpu, f->arrays, entry, p);
}

/*
 * The usable bytes of an object of a size class, found by its address alone. It does not touch
 * the page's entry and the cache, which the next free does not need either. 0: @p may be
 * anything else.
 */
static always_inline size_t kmalloc_class_usable(const void *p)
{
	size_t offset = (uintptr_t)p - page_window.base, pfn, in_slab;
	const struct size_class_shape *shape;
	unsigned int place, index;

	if (unlikely(!page_window_readable(offset)))
		return 0;
	pfn = offset >> page_window.page_shift;
	place = page_place(pfn);
	shape = &kmalloc_fast.tables.shapes[page_place_mark(place)];
	in_slab = offset - ((pfn - page_place_to_head(place)) << page_window.page_shift);
	index = reciprocal_divide((uint32_t)in_slab, shape->reciprocal);
	return likely((size_t)index * shape->size == in_slab && in_slab < shape->end)
		       ? shape->size
		       : 0;
}

/*
 * Whether whole pages serve a request. They serve all that are larger than the last size class.
 * Of the others above SIZE_CLASS_ALWAYS_MAX they serve requests with __GFP_ZERO, because pages
 * that were never used are zero and need not be touched, and requests that name a zone, whose
 * memory is too scarce for slabs.
 */
static inline bool kmalloc_wants_pages(size_t size, gfp_t flags)
{
	return size > SIZE_CLASS_ALWAYS_MAX &&
	       (size > SIZE_CLASS_LARGE_MAX ||
		(flags & (__GFP_ZERO | __GFP_DMA | __GFP_DMA32)));
}

/* As kmalloc_pop(), with zeroed memory. Fails above SIZE_CLASS_ALWAYS_MAX: pages are better. */
static always_inline bool kmalloc_pop_zeroed(size_t size, void **p)
{
	*p = NULL;
	if (unlikely(size > SIZE_CLASS_ALWAYS_MAX || !kmalloc_pop(size, p)))
		return false;
	__builtin_memset(*p, 0, size);
	return true;
}

/* Initialises the layer, once. False: no memory. */
bool kmalloc_init(void);
/* Whether the layer is initialised; initialises it if @flags allow. */
bool kmalloc_ready(gfp_t flags);
/* Serves all requests that the fast paths did not. @size may be anything. NULL: no memory.
 * @caller, here and below: the address from which the program called. */
void *kmalloc_slow(size_t size, gfp_t flags, const void *caller);
/* kmalloc() of zeroed memory. */
void *kmalloc_zeroed(size_t size, gfp_t flags, const void *caller);
/* A block aligned to @align, a power of two. */
void *kmalloc_aligned(size_t size, size_t align, gfp_t flags, const void *caller);
/* Frees what kmalloc_push() did not. @func: the name under which misuse is reported. */
void kfree_slow(void *p, const char *func, const void *caller);
/* The usable bytes of @p; 0, after a report, if it is no allocated object. */
size_t kmalloc_usable(const void *p, const char *func);
/*
 * As realloc; @p is not NULL, @size not 0. With __GFP_ZERO everything between the bytes
 * that are kept and the end of the new block is zero.
 */
void *kmalloc_resize(void *p, size_t size, gfp_t flags, const char *func, const void *caller);

#endif
