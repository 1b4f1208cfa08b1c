/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/slab.h> - object caches (kmem_cache) and kmalloc.
 *
 * A cache hands out objects of one size. Each CPU keeps an array of free
 * objects per cache; allocating pops from it and freeing pushes onto it, one
 * restartable sequence each, with no lock and no atomic instruction. Behind the
 * arrays stand slabs (runs of pages cut into objects, their free state in a
 * bitmap outside the objects), a list of partly used slabs per NUMA node, and
 * the page allocator. kmalloc is a table of such caches by size.
 *
 * Flags: kmalloc and its relatives with __GFP_DMA or __GFP_DMA32 take whole pages of that
 * zone; caches take no notice of these two.
 *
 * Thread safety: every function may be called from any thread at any time,
 * except kmem_cache_destroy, during and after which nothing may use the cache.
 * Signal safety: with GFP_NOWAIT or GFP_ATOMIC, alloc may be called in a signal
 * handler. Free may not: it can wait for a lock.
 */
#ifndef UKMEM_SLAB_H
#define UKMEM_SLAB_H

#include <stdbool.h>
#include <stddef.h>

#include <ukmem/compiler.h>
#include <ukmem/gfp.h>

UKMEM_BEGIN_DECLS

typedef unsigned int slab_flags_t;

/** Align objects to a cache line (64 bytes). */
#define SLAB_HWCACHE_ALIGN 0x00002000u
/** kmem_cache_create logs and aborts instead of returning NULL. */
#define SLAB_PANIC 0x00040000u

struct kmem_cache;

/**
 * kmem_cache_create - make a cache of objects
 * @name:  shown in statistics and reports; copied, at most 31 bytes are kept
 * @size:  object size in bytes, 1 .. 16384
 * @align: alignment in bytes, 0 (8, or 16 from a size of 16 on) or a power of
 *         two up to 4096
 * @flags: SLAB_* or 0
 * @ctor:  must be NULL, or is run on each object when its slab is created; an
 *         object must be freed in its constructed state
 *
 * Result: the cache, or NULL: a bad parameter (logged) or no memory.
 */
UKMEM_EXPORT struct kmem_cache *kmem_cache_create(const char *name, unsigned int size,
						  unsigned int align, slab_flags_t flags,
						  void (*ctor)(void *))
	UKMEM_SYMBOL(kmem_cache_create);

/** KMEM_CACHE - a cache of struct @type, named and aligned after it. */
#define KMEM_CACHE(type, flags)                                                                \
	kmem_cache_create(#type, sizeof(struct type), __alignof__(struct type), (flags), NULL)

/**
 * kmem_cache_destroy - give back everything a cache holds
 *
 * NULL is ignored. If objects are still in use, their number is logged, the
 * cache and its slabs stay, and the objects stay valid.
 */
UKMEM_EXPORT void kmem_cache_destroy(struct kmem_cache *s) UKMEM_SYMBOL(kmem_cache_destroy);

/**
 * kmem_cache_shrink - return free objects and slabs to the page allocator
 *
 * Empties the arrays of every CPU, with each CPU's users stopped for the
 * moment, and frees all empty slabs. Result: 0, or 1 if partly used slabs
 * remain (as in the kernel).
 */
UKMEM_EXPORT int kmem_cache_shrink(struct kmem_cache *s) UKMEM_SYMBOL(kmem_cache_shrink);

/** kmem_cache_size - the object size given at creation, in bytes. */
UKMEM_EXPORT unsigned int kmem_cache_size(const struct kmem_cache *s)
	UKMEM_SYMBOL(kmem_cache_size);

/** kmem_cache_alloc - one object, or NULL without memory. */
UKMEM_EXPORT void *kmem_cache_alloc(struct kmem_cache *s, gfp_t flags)
	UKMEM_SYMBOL(kmem_cache_alloc) UKMEM_MALLOC;

/** kmem_cache_zalloc - one object filled with zeros, or NULL. */
UKMEM_EXPORT void *kmem_cache_zalloc(struct kmem_cache *s, gfp_t flags)
	UKMEM_SYMBOL(kmem_cache_zalloc) UKMEM_MALLOC;

/**
 * kmem_cache_free - give @obj back to @s, which it came from
 *
 * NULL is ignored. A pointer that is no object of @s is reported (see the
 * tunable invalid_free) and otherwise ignored.
 */
UKMEM_EXPORT void kmem_cache_free(struct kmem_cache *s, void *obj)
	UKMEM_SYMBOL(kmem_cache_free);

/**
 * kmem_cache_alloc_bulk - @n objects at once into @p[0..n-1]
 *
 * Result: n, or 0 and nothing allocated.
 */
UKMEM_EXPORT int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t n, void **p)
	UKMEM_SYMBOL(kmem_cache_alloc_bulk);

/**
 * kmem_cache_free_bulk - free @p[0..n-1]
 *
 * With @s NULL the objects may be of any caches, and of kmalloc.
 */
UKMEM_EXPORT void kmem_cache_free_bulk(struct kmem_cache *s, size_t n, void **p)
	UKMEM_SYMBOL(kmem_cache_free_bulk);

/** What kmalloc(0) returns: not NULL, not dereferencable, fit for kfree. */
#define ZERO_SIZE_PTR ((void *)16)
#define ZERO_OR_NULL_PTR(p) ((unsigned long)(p) <= (unsigned long)ZERO_SIZE_PTR)

/** Largest size served by a size class; above it, whole pages. */
#define KMALLOC_MAX_CACHE_SIZE 16384u

/**
 * kmalloc - @size bytes
 *
 * Aligned to @size if that is a power of two (up to a page), else to 16 bytes
 * from 16 bytes on, else to 8. Size 0 gives ZERO_SIZE_PTR. NULL without memory
 * or above PTRDIFF_MAX. Free with kfree.
 */
UKMEM_EXPORT void *kmalloc(size_t size, gfp_t flags) UKMEM_SYMBOL(kmalloc) UKMEM_MALLOC
	UKMEM_ALLOC_SIZE(1);
/** kzalloc - kmalloc of zeroed memory. */
UKMEM_EXPORT void *kzalloc(size_t size, gfp_t flags) UKMEM_SYMBOL(kzalloc) UKMEM_MALLOC
	UKMEM_ALLOC_SIZE(1);
/** kmalloc_array - @n elements of @size bytes; NULL if the product overflows. */
UKMEM_EXPORT void *kmalloc_array(size_t n, size_t size, gfp_t flags)
	UKMEM_SYMBOL(kmalloc_array) UKMEM_MALLOC UKMEM_ALLOC_SIZE(1, 2);
/** kcalloc - kmalloc_array of zeroed memory. */
UKMEM_EXPORT void *kcalloc(size_t n, size_t size, gfp_t flags)
	UKMEM_SYMBOL(kcalloc) UKMEM_MALLOC UKMEM_ALLOC_SIZE(1, 2);
/**
 * krealloc - resize, keeping min(old, new) bytes
 *
 * NULL @p allocates; @size 0 frees and returns ZERO_SIZE_PTR. On failure NULL,
 * and @p stays valid. __GFP_ZERO zeroes what lies beyond the old block's usable
 * size (ksize); within it, growth is in place and the bytes are what they were.
 */
UKMEM_EXPORT void *krealloc(const void *p, size_t size, gfp_t flags) UKMEM_SYMBOL(krealloc)
	__attribute__((__warn_unused_result__)) UKMEM_ALLOC_SIZE(2);
/** kfree - free what kmalloc and its relatives returned; NULL and ZERO_SIZE_PTR are ignored. */
UKMEM_EXPORT void kfree(const void *p) UKMEM_SYMBOL(kfree);
/** ksize - usable bytes behind @p (at least what was asked for); 0 for NULL and ZERO_SIZE_PTR.
 */
UKMEM_EXPORT size_t ksize(const void *p) UKMEM_SYMBOL(ksize);
/** kmemdup - a kmalloc'd copy of @len bytes at @src. */
UKMEM_EXPORT void *kmemdup(const void *src, size_t len, gfp_t flags)
	UKMEM_SYMBOL(kmemdup) UKMEM_MALLOC;
/** kstrdup - a kmalloc'd copy of string @s; NULL for NULL. */
UKMEM_EXPORT char *kstrdup(const char *s, gfp_t flags) UKMEM_SYMBOL(kstrdup) UKMEM_MALLOC;

UKMEM_END_DECLS

#endif
