/* SPDX-License-Identifier: MIT */
/*
 * kmalloc's fast paths, for kmalloc() itself and for the malloc drop-in.
 *
 *   allocate: size -> table -> this CPU's array: pop
 *   free:     address -> array map -> this CPU's array: push
 *
 * Table and map have entries, and a table of units leads from the CPU id to this CPU's unit; an
 * array's address is the sum of both. Nothing else is on the way, since the next allocation of
 * the class waits for the header. Before initialisation, and in fallback mode always, the
 * limits are zero and everything takes the slow path, so that no test of "is it initialised" is
 * on the way. Where the index is mm_cid these limits stay zero, too, and others, which are
 * looked at next, lead to sections that go by it.
 */
#ifndef KMALLOC_KMALLOC_H
#define KMALLOC_KMALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "base/config.h"
#include "kmalloc/size_class.h"
#include "percpu/array.h"
#include "percpu/unit_table.h"
#include "slab/debug/hard.h"
#include "slab/slab_array.h"

/*
 * How far a fast path goes. Synchronization: kmalloc_init() writes them, last of all. `pages`
 * is raised by the window, and the ends become 0 when a memory policy is set. K1, the release
 * store of each limit, pairs with K2, its acquire load in is_below().
 */
struct kmalloc_limits {
	size_t small_end; /* sizes below it: the small table */
	size_t large_end; /* sizes below it: the large table */
	size_t pages;	  /* entries of the array map, from the window's base on */
};

#define page_aligned __attribute__((aligned(4096)))

/*
 * All that the fast paths load. A program that allocates little touches two pages of it: the
 * shapes begin another one, and the free table of units follows them. The members that each
 * request loads lie in the second lines of pairs (base/compiler.h).
 *
 * Synchronization: kmalloc_init() writes it; it is read-only afterwards, except where a member
 * says otherwise.
 */
struct kmalloc_fast {
	char unused[CACHE_LINE - sizeof(struct kmalloc_limits)];
	struct kmalloc_limits by_cid; /* where mm_cid is the index */
	/* The second line. */
	struct kmalloc_limits by_cpu; /* where cpu_id is */
	ptrdiff_t rseq;		      /* pcpu.rseq */
	uintptr_t window_base;
	const pcpu_entry_t *array_map; /* page_window.array_map */
	struct size_tables tables;
	char unused_then[CACHE_LINE - offsetof(struct pcpu_unit_table, of)] line_pair_aligned;
	/*
	 * The units; for allocations on several nodes, as far behind their beginning as the
	 * arrays of the CPU's own node lie behind those of node 0 (kmalloc.c). Then entries are
	 * written at any time, relaxed.
	 */
	struct pcpu_unit_table alloc_units;
	/* By the class mark of a slab's pages; for usable sizes. */
	struct size_class_shape shapes[SIZE_MARKS] page_aligned;
	char unused_too[CACHE_LINE - offsetof(struct pcpu_unit_table, of)] line_pair_aligned;
	struct pcpu_unit_table free_units;
};

_Static_assert(offsetof(struct kmalloc_fast, by_cpu) == CACHE_LINE, "in a second line");
_Static_assert(offsetof(struct kmalloc_fast, alloc_units.of) / CACHE_LINE % 2,
	       "in a second line");
_Static_assert(offsetof(struct kmalloc_fast, free_units.of) / CACHE_LINE % 2,
	       "in a second line");
_Static_assert(offsetof(struct kmalloc_fast, alloc_units.of) < 4096, "in the first page");
_Static_assert(offsetof(struct kmalloc_fast, free_units.of) -
			       offsetof(struct kmalloc_fast, shapes) <
		       4096,
	       "in one page");

extern struct kmalloc_fast kmalloc_fast page_aligned hidden;

/*
 * A table of units, by whose address a fast path names everything else that it loads. So one
 * instruction makes an address; a compiler that knew what is where would make several. In a
 * larger code model the table may be out of that instruction's reach.
 */
#if defined(__x86_64__) && defined(__code_model_small__)
#define kmalloc_units(table)                                                                   \
	({                                                                                     \
		const uintptr_t *units_;                                                       \
                                                                                               \
		__asm__("leaq %c1(%%rip), %0" : "=r"(units_) : "i"(&kmalloc_fast.table.of));   \
		units_;                                                                        \
	})
#else
#define kmalloc_units(table)                                                                   \
	({                                                                                     \
		const uintptr_t *units_ = kmalloc_fast.table.of;                               \
                                                                                               \
		__asm__("" : "+r"(units_));                                                    \
		units_;                                                                        \
	})
#endif
#define kmalloc_fast_of(units, table) container_of(units, struct kmalloc_fast, table.of)

/* A fast path's first comparison leads to a section, which serves or fails, or beyond it, to
 * the other comparisons. */
enum kmalloc_first { KMALLOC_SERVED, KMALLOC_FAILED, KMALLOC_BEYOND };

static always_inline enum kmalloc_first kmalloc_pop_first(size_t size, void **p)
{
	const uintptr_t *units = kmalloc_units(alloc_units);
	const struct kmalloc_fast *f = kmalloc_fast_of(units, alloc_units);

	*p = NULL;
	if (unlikely(!is_below(size, &f->by_cpu.small_end)))
		return KMALLOC_BEYOND;
	return likely(pcpu_array_pop_by_cpu(units, f->rseq,
					    &f->tables.small[size_small_index(size)], p))
		       ? KMALLOC_SERVED
		       : KMALLOC_FAILED;
}

static always_inline bool kmalloc_pop_beyond(size_t size, void **p)
{
	const uintptr_t *units = kmalloc_units(alloc_units);
	const struct kmalloc_fast *f = kmalloc_fast_of(units, alloc_units);

	if (likely(is_below(size, &f->by_cid.small_end)))
		return pcpu_array_pop_by_cid(units, f->rseq,
					     &f->tables.small[size_small_index(size)], p);
	if (likely(is_below(size, &f->by_cpu.large_end)))
		return pcpu_array_pop_by_cpu(units, f->rseq,
					     &f->tables.large[size_large_index(size)], p);
	if (likely(is_below(size, &f->by_cid.large_end)))
		return pcpu_array_pop_by_cid(units, f->rseq,
					     &f->tables.large[size_large_index(size)], p);
	*p = NULL;
	return false;
}

/* Pops an object for @size bytes. False: failed, and *@p is NULL. */
static always_inline bool kmalloc_pop(size_t size, void **p)
{
	enum kmalloc_first first = kmalloc_pop_first(size, p);

	return likely(first != KMALLOC_BEYOND) ? first == KMALLOC_SERVED
					       : kmalloc_pop_beyond(size, p);
}

/* As kmalloc_pop(), of an object aligned to @align, a power of two. Fails above
 * SIZE_CLASS_COLOUR: the slow path must choose a class. */
static always_inline bool kmalloc_pop_aligned(size_t size, size_t align, void **p)
{
	size_t need = align_up(max_size(size, 1), align);

	*p = NULL;
	if (unlikely(align > SIZE_CLASS_COLOUR) || unlikely(size > SIZE_CLASS_ALWAYS_MAX))
		return false;
	debug_assert(!(size_class_bytes(need) & (align - 1)));
	return kmalloc_pop(need, p);
}

/* Pushes @p onto the array that the array map names; in two parts, as above. */
static always_inline enum kmalloc_first kmalloc_push_first(void *p)
{
	const uintptr_t *units = kmalloc_units(free_units);
	const struct kmalloc_fast *f = kmalloc_fast_of(units, free_units);
	size_t page = ((uintptr_t)p - f->window_base) >> ARRAY_MAP_SHIFT;

	if (unlikely(!is_below(page, &f->by_cpu.pages)))
		return KMALLOC_BEYOND;
	return likely(pcpu_array_push_by_cpu(units, f->rseq, &f->array_map[page], p))
		       ? KMALLOC_SERVED
		       : KMALLOC_FAILED;
}

static always_inline bool kmalloc_push_beyond(void *p)
{
	const uintptr_t *units = kmalloc_units(free_units);
	const struct kmalloc_fast *f = kmalloc_fast_of(units, free_units);
	size_t page = ((uintptr_t)p - f->window_base) >> ARRAY_MAP_SHIFT;

	if (likely(is_below(page, &f->by_cid.pages)))
		return pcpu_array_push_by_cid(units, f->rseq, &f->array_map[page], p);
	return false;
}

/* Both. False: the slow path must free @p. */
static always_inline bool kmalloc_push(void *p)
{
	enum kmalloc_first first = kmalloc_push_first(p);

	return likely(first != KMALLOC_BEYOND) ? first == KMALLOC_SERVED
					       : kmalloc_push_beyond(p);
}

/*
 * The usable bytes of an object of a size class, found by its address alone. It does not touch
 * the page's entry and the cache, which the next free does not need either. 0: @p may be
 * anything else.
 */
static always_inline size_t kmalloc_class_usable(const void *p)
{
	size_t offset = (uintptr_t)p - page_window.base, pfn = offset >> page_window.page_shift;
	const struct size_class_shape *shape;
	unsigned int place;
	uint32_t in_slab;

	if (unlikely(!page_window_readable(offset)))
		return 0;
	place = page_place(pfn);
	shape = &kmalloc_fast.shapes[page_place_mark(place)];
	in_slab = (uint32_t)(offset -
			     ((pfn - page_place_to_head(place)) << page_window.page_shift));
	return likely(exact_divide_32(in_slab, shape->inverse, shape->shift) < shape->objects)
		       ? shape->size
		       : 0;
}

/* Whether a block of @old usable bytes stays where it is: if @size fits and uses more than half
 * of it. */
static always_inline bool kmalloc_stays(size_t size, size_t old)
{
	return size <= old && size > old / 2;
}

/* The same for a block of whole pages, which can give back its end in place. */
static always_inline bool kmalloc_large_stays(size_t size, size_t old)
{
	return size <= old && size > old - old / 8;
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

/*
 * Why the fast paths find no array: a slow path has to look at, or zero, what they would pass
 * on. Synchronization: kmalloc_init() writes it; a thread that sees no value yet takes a slow
 * path that waits for it. When a memory policy is set, KMALLOC_HARD takes the place of
 * KMALLOC_HARD_CPU. K3, its store, pairs with K4, its load: a thread that sees a value sees the
 * tables of that process.
 */
enum kmalloc_shut {
	KMALLOC_OPEN, /* they find one */
	KMALLOC_INIT, /* init_on_alloc or init_on_free: not each side does */
	KMALLOC_HARD, /* the process is hardened, without fast paths */
	/* The process is hardened, and its own fast paths go by cpu_id, or by mm_cid. */
	KMALLOC_HARD_CPU,
	KMALLOC_HARD_CID,
};
extern _Atomic unsigned char kmalloc_shut hidden;

static always_inline unsigned int kmalloc_is_shut(void)
{
	return atomic_load_explicit(&kmalloc_shut, memory_order_acquire); /* K4 */
}

/*
 * Short ways for such processes, past all that a request rarely needs. kmalloc_pop_init()
 * returns zeroed memory, or NULL; after NULL, or false, the request takes the slow path.
 */
static inline void *kmalloc_pop_init(size_t size)
{
	unsigned int node = likely(page_window.nr_nodes == 1) ? 0 : page_policy_node();
	struct kmem_cache *s;

	if (size > SIZE_CLASS_ALWAYS_MAX || !config.init_on_alloc)
		return NULL;
	s = size_class_cache(size);
	return likely(s->init & SLAB_INIT_ALLOC) ? slab_pop_zeroed(s, node) : NULL;
}

static inline bool kmalloc_push_init(void *p)
{
	size_t size = kmalloc_class_usable(p);
	struct kmem_cache *s;

	if (!size || !config.init_on_free)
		return false;
	s = size_class_cache(size);
	return s->init & SLAB_INIT_FREE && slab_push_zeroed(s, p);
}

/*
 * The sections of a hardened process's fast paths, for an object of class @c; @shut is
 * KMALLOC_HARD_CPU or KMALLOC_HARD_CID. On several nodes the units of allocations lead to the
 * array of the CPU's own node.
 */
static always_inline bool kmalloc_pop_hard(const struct slab_hard_class *c, unsigned int shut,
					   void **p)
{
	const uintptr_t *units = kmalloc_units(alloc_units);
	const struct kmalloc_fast *f = kmalloc_fast_of(units, alloc_units);

	return shut == KMALLOC_HARD_CPU ? pcpu_array_pop_by_cpu(units, f->rseq, &c->ready, p)
					: pcpu_array_pop_by_cid(units, f->rseq, &c->ready, p);
}

static always_inline bool kmalloc_push_hard(const struct slab_hard_class *c, unsigned int shut,
					    void *p)
{
	const uintptr_t *units = kmalloc_units(free_units);
	const struct kmalloc_fast *f = kmalloc_fast_of(units, free_units);

	return shut == KMALLOC_HARD_CPU
		       ? pcpu_array_push_by_cpu(units, f->rseq, &c->waiting, p)
		       : pcpu_array_push_by_cid(units, f->rseq, &c->waiting, p);
}

/* The class of a hardened process that serves a request; NULL: none. */
static always_inline const struct slab_hard_class *kmalloc_hard_class(size_t size)
{
	const struct slab_hard_tables *t = slab_hard();
	size_t need = size + SLAB_CANARY_BYTES;

	if (likely(size - 1 < SIZE_CLASS_SMALL_MAX - SLAB_CANARY_BYTES)) {
		const struct slab_hard_class *c = t->small[size_small_index(need)];

		if (!c)
			__builtin_unreachable();
		return c;
	}
	return size - 1 < SIZE_CLASS_LARGE_MAX - SLAB_CANARY_BYTES
		       ? t->large[size_large_index(need)]
		       : NULL;
}

/* Initialises the layer, once. False: no memory. */
bool kmalloc_init(void);
/* The same, and makes all size classes, for callers that show them or reach them by name. */
bool kmalloc_init_all(void);
/* Whether the layer is initialised; initialises it if @flags allow. */
bool kmalloc_ready(gfp_t flags);
/* Serves all requests that the fast paths did not. @size may be anything. NULL: no memory.
 * @caller, here and below: the address from which the program called. */
void *kmalloc_slow(size_t size, gfp_t flags, const void *caller);
/* The same for functions that promise an alignment that libc's malloc does not have. */
void *kmalloc_slow_aligned(size_t size, gfp_t flags, const void *caller);
/* A block aligned to @align, a power of two. */
void *kmalloc_aligned(size_t size, size_t align, gfp_t flags, const void *caller);
/* kmalloc_api.c: kmalloc() and kmemdup() for another function that the program called. */
void *kmalloc_for(size_t size, gfp_t flags, const void *caller);
void *kmemdup_for(const void *src, size_t len, gfp_t flags, const void *caller);
/* Requests that name a zone have caches of their own. */
static inline bool kmalloc_names_a_zone(gfp_t flags)
{
	return flags & (__GFP_DMA | __GFP_DMA32);
}

/*
 * The head of the slab or large block that @p is an object of; NULL: it was reported.
 * A thread that frees an object owns it, so the entries that this function reads do not
 * change. For a wild pointer they may change; then any value leads to a report.
 */
struct page *kmalloc_find(const void *p, const char *func, const void *caller);
/* Frees what kmalloc_push() did not. @func: the name under which misuse is reported. */
void kfree_slow(void *p, const char *func, const void *caller);

/* kmalloc_size.c */
/*
 * Whether @p can be a block that was asked for with @size bytes, aligned to @align (0: as
 * malloc() does); reports it if not. Always true, unless the process is hardened; a
 * wrong size of what is debugged is reported, too.
 */
bool kmalloc_has_size(const void *p, size_t size, size_t align, const char *func,
		      const void *caller);
/* Bytes from @p, which may lie inside an object, to the object's end; SIZE_MAX: that is not
 * known. In a hardened process what lies in no object is reported. */
size_t kmalloc_room(const void *p);
/* The usable bytes of @p; 0, after a report, if it is no allocated object. @func, @caller: for
 * the report, as in report_invalid(). */
size_t kmalloc_usable(const void *p, const char *func, const void *caller);
/*
 * As realloc; @p is not NULL, @size not 0. With __GFP_ZERO everything between the bytes
 * that are kept and the end of the new block is zero.
 */
void *kmalloc_resize(void *p, size_t size, gfp_t flags, const char *func, const void *caller);
/*
 * Resizes a block where it lies, to @size bytes and, if there is room, @extra more. @align: as
 * in kmalloc_has_size(), for frees that follow. With __GFP_ZERO what it grows by is zero.
 * Result: its usable bytes then; 0: it stays as it was, since it would have to move, or, after
 * a report, it is none.
 */
size_t kmalloc_resize_in_place(void *p, size_t size, size_t extra, size_t align, gfp_t flags,
			       const char *func, const void *caller);
/* The usable bytes that a request of @size bytes, aligned to @align (1: as malloc() does),
 * gets; 0: no request gets so many. Of a size always the same, also in handlers and while
 * memory is scarce. What is debugged may have fewer. */
size_t kmalloc_usable_of(size_t size, size_t align);

#endif
