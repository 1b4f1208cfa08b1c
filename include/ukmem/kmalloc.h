/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/kmalloc.h> - memory of any size, by size class. Included by <ukmem/slab.h>.
 *
 * A class is a cache (<ukmem/slab.h>) for each of a table of sizes up to
 * KMALLOC_MAX_CACHE_SIZE; above it, whole pages. Flags are as in <ukmem/gfp.h>.
 *
 * Thread safety: every function may be called from any thread at any time.
 * Signal safety: as for caches.
 */
#ifndef UKMEM_KMALLOC_H
#define UKMEM_KMALLOC_H

#include <stddef.h>

#include <ukmem/compiler.h>
#include <ukmem/gfp.h>

UKMEM_BEGIN_DECLS

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
