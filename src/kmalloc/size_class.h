/* SPDX-License-Identifier: MIT */
/*
 * Size classes and the two tables from sizes to them: a fine one for small sizes
 * (steps of 8 bytes up to 1 KiB) and a coarse one above (steps of 256 up to
 * 64 KiB), 1.5 KiB together, of which a program's sizes touch a few lines.
 */
#ifndef KMALLOC_SIZE_CLASS_H
#define KMALLOC_SIZE_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "percpu/percpu.h"
#include "slab/slab_hard.h"

#include "ukmem/gfp.h"

struct kmem_cache;

enum {
	SIZE_CLASS_SMALL_MAX = 1024,
	SIZE_CLASS_LARGE_MAX = 65536,
	/* Whole pages serve some requests above this size: kmalloc_wants_pages(). */
	SIZE_CLASS_ALWAYS_MAX = 16384,
	SIZE_CLASS_COUNT = 54,
	/* The classes of 4, 8 and 16 KiB may be coloured; then there are as many more, whose
	 * objects are aligned to their size: size_class.c. */
	SIZE_CLASS_COLOURED_MIN = 4096,
	SIZE_CLASS_COLOURED = 3,
	/* So many bytes lie between coloured objects. Up to this alignment the class for a
	 * multiple of an alignment has aligned objects. */
	SIZE_CLASS_COLOUR = 64,
	SIZE_CLASS_ALL = SIZE_CLASS_COUNT + SIZE_CLASS_COLOURED,
};
_Static_assert(SIZE_CLASS_COLOURED_MIN << (SIZE_CLASS_COLOURED - 1) == SIZE_CLASS_ALWAYS_MAX,
	       "a class for each power of two");

/* How the objects of a size class lie in its slabs. */
struct size_class_shape {
	uint32_t inverse, shift; /* of size: exact_divide_32() */
	uint32_t size;
	uint32_t objects; /* in a slab */
};

/* Synchronization: written by size_class_init(), before there is any slab. */
struct size_tables {
	/* By size: the entry of the class's array for objects of node 0. */
	pcpu_entry_t small[SIZE_CLASS_SMALL_MAX / 8 + 1];
	pcpu_entry_t large[SIZE_CLASS_LARGE_MAX / 256];
};

/*
 * The class marks of slabs' pages, by which the shapes are found: 0 is no class, and its shape
 * is all zero; class i has i + 1; the cache of nothing has the next one; behind it come those
 * of the classes' large slabs.
 */
enum {
	SIZE_MARK_NOTHING = SIZE_CLASS_ALL + 1,
	SIZE_MARK_LARGE,
	SIZE_MARKS = SIZE_MARK_LARGE + SIZE_CLASS_ALL,
};
_Static_assert(SIZE_MARKS <= 256, "a mark is a byte");

static inline size_t size_small_index(size_t size)
{
	return (size + 7) >> 3;
}

static inline size_t size_large_index(size_t size)
{
	return (size - 1) >> 8;
}

/*
 * The bytes of an object in the class for @size, up to SIZE_CLASS_LARGE_MAX. This function
 * defines the classes.
 *
 * Classes are 16 bytes apart up to 128; then there are four for each doubling, but from 256 to
 * 512 bytes they are 32 bytes apart, and from 8 to 14 KiB 1024. So at most a fifth is lost to
 * rounding. There are no classes of 24, 40 and 56 bytes, because every size from 16 on is
 * promised 16-byte alignment. Behind 2048 and 4096 there is one more class each, because the
 * most frequent block of many a program is a page with a header in front (SQLite, Python's
 * bytes).
 */
static inline size_t size_class_bytes(size_t size)
{
	unsigned int shift;

	if (size <= 8)
		return 8;
	if (unlikely(size - 2049 < 256))
		return 2304;
	if (unlikely(size - 4097 < 512))
		return 4608;
	shift = max_uint(ilog2(size - 1), 6) - 2;
	if (shift == 6)
		shift = 5;
	if (shift == 11 && size <= 14336)
		shift = 10;
	return align_up(size, (size_t)1 << shift);
}

/* The cache for @size <= SIZE_CLASS_LARGE_MAX; in rare moments that of a larger class, for a
 * class that is not made yet: size_class.c. */
struct kmem_cache *size_class_cache(size_t size);
/* The same without making or waiting; NULL: the class is not made yet, so it has no objects. */
struct kmem_cache *size_class_made_for(size_t size);
/*
 * The classes by number, below size_class_count(); those of SIZE_CLASS_COUNT and above are the
 * aligned ones. NULL: it is not made yet, so it has no objects. *@size: the bytes of an object.
 */
unsigned int size_class_count(void);
struct kmem_cache *size_class_made(unsigned int i, size_t *size);
/* Makes those that are not made, for callers that show all. */
void size_class_make_all(void);
void size_class_fork_child(void);
/* Hardened: the cache for requests of no bytes. */
struct kmem_cache *size_class_nothing(void);
/*
 * The size whose class serves a request of @size bytes: if the process is hardened, there must
 * be room for a canary. SIZE_MAX: no class does.
 */
static inline size_t size_class_need(size_t size)
{
	if (likely(!slab_hardened))
		return size;
	if (unlikely(size > SIZE_MAX - SLAB_CANARY_BYTES))
		return SIZE_MAX;
	return max_size(size + SLAB_CANARY_BYTES, SLAB_HARD_MIN);
}
/*
 * The cache for @size <= SIZE_CLASS_LARGE_MAX of the zone that __GFP_DMA or __GFP_DMA32 in
 * @flags names. NULL: no memory to make one; or @flags do not allow to wait, and the reserve of
 * caches is used up.
 */
struct kmem_cache *size_class_zone_cache(size_t size, gfp_t flags);
/* The smallest cache for @size whose objects are aligned to @align; NULL: none. */
struct kmem_cache *size_class_aligned(size_t size, size_t align);
/* The usable bytes of an object for @size bytes, aligned to @align (1: as malloc() does), also
 * of a class that is not made yet; 0: whole pages serve such requests. */
size_t size_class_usable(size_t size, size_t align);

/*
 * Creates the caches and fills the tables, and @shapes[SIZE_MARKS]. False: no memory.
 * *@node_stride: the way from the arrays of one node to those of the next one, the same in all
 * classes; 0: there is one node, or the units have no room for such an order.
 */
bool size_class_init(struct size_tables *tables, struct size_class_shape *shapes,
		     size_t *node_stride);
/* Verifies that the tables still have what size_class_init() wrote into them. */
struct verify;
void size_class_verify(const struct size_tables *tables, const struct size_class_shape *shapes,
		       struct verify *v);

/* size_class_table.c: writes the classes into JSON statistics; prints them as a table. */
struct emitter;
void size_class_table_emit(struct emitter *e);
int size_class_table_print(int fd);

#endif
