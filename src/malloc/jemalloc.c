/* SPDX-License-Identifier: MIT */
/*
 * jemalloc's functions for blocks, with the semantics of jemalloc(3). A program that is linked
 * to jemalloc and calls them would otherwise have two allocators under the drop-in, and must
 * not pass a block of one to the other. What the manual calls undefined is defined here: no
 * bytes are one byte, and NULL may be freed.
 */
#include "malloc/jemalloc.h"

#include <stdint.h>
#include <string.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "malloc/malloc_internal.h"

/* The alignment that the flags ask for; 1: none. */
static size_t align_of(int flags)
{
	return (size_t)1 << (flags & MALLOCX_LG_ALIGN_MASK);
}

/* The same as functions take it for which 0 is malloc's. */
static size_t asked_align(int flags)
{
	size_t align = align_of(flags);

	return align == 1 ? 0 : align;
}

/*
 * The bytes that nallocx() promises for a request. The request is for so many, since the
 * program may use all of them, and have rallocx() zero what comes behind them. KFENCE, and
 * guards of debugged objects, begin at the end of what was asked for.
 */
static size_t real_size(size_t size, int flags)
{
	size_t align = align_of(flags), real = kmalloc_usable_of(max_size(size, 1), align),
	       next;

	/* A class may serve so many where whole pages served fewer. */
	while (real && (next = kmalloc_usable_of(real, align)) > real)
		real = next;
	return real;
}

static noinline void *alloc_with(size_t size, int flags, const void *caller)
{
	size_t align = align_of(flags), real = real_size(size, flags);

	if (!real)
		return malloc_failed();
	if (flags & MALLOCX_ZERO)
		return align == 1 ? malloc_zeroed(real, caller)
				  : malloc_aligned_zeroed(align, real, caller);
	return align == 1 ? malloc_slow(real, caller) : malloc_aligned(align, real, caller);
}

UKMEM_EXPORT void *mallocx(size_t size, int flags)
{
	void *p;

	return likely(!(flags & (MALLOCX_LG_ALIGN_MASK | MALLOCX_ZERO))) &&
			       likely(kmalloc_pop(size, &p))
		       ? p
		       : alloc_with(size, flags, CALLER_ADDRESS);
}

static gfp_t gfp_of(int flags)
{
	return flags & MALLOCX_ZERO ? GFP_KERNEL | __GFP_ZERO : GFP_KERNEL;
}

/* Resizes a block whose alignment counts to @real bytes: where it lies, if it is aligned so and
 * does not keep more than twice as much. */
static void *resize_aligned(void *p, size_t real, int flags, const void *caller)
{
	size_t old = kmalloc_usable(p, "rallocx()", caller), now;
	void *q;

	if (!old)
		return NULL;
	if (!((uintptr_t)p & (align_of(flags) - 1))) {
		now = kmalloc_resize_in_place(p, real, 0, align_of(flags), gfp_of(flags),
					      "rallocx()", caller);
		if (now >= real && now / 2 <= real)
			return p;
	}
	q = alloc_with(real, flags, caller);
	if (!q)
		return NULL;
	memcpy(q, p, min_size(old, real));
	free_for(p, "rallocx()", caller);
	return q;
}

UKMEM_EXPORT void *rallocx(void *p, size_t size, int flags)
{
	size_t real = real_size(size, flags);

	if (!real)
		return malloc_failed();
	return align_of(flags) == 1
		       ? malloc_resize(p, real, gfp_of(flags), "rallocx()", CALLER_ADDRESS)
		       : resize_aligned(p, real, flags, CALLER_ADDRESS);
}

UKMEM_EXPORT size_t xallocx(void *p, size_t size, size_t extra, int flags)
{
	size_t old = kmalloc_usable(p, "xallocx()", CALLER_ADDRESS), now;

	if (!old)
		return 0;
	now = kmalloc_resize_in_place(p, max_size(size, 1), extra, asked_align(flags),
				      gfp_of(flags), "xallocx()", CALLER_ADDRESS);
	return now ? now : old;
}

UKMEM_EXPORT size_t sallocx(const void *p, int flags)
{
	(void)flags;
	return kmalloc_usable(p, "sallocx()", NULL);
}

UKMEM_EXPORT void dallocx(void *p, int flags)
{
	(void)flags;
	free_for(p, "dallocx()", CALLER_ADDRESS);
}

UKMEM_EXPORT void sdallocx(void *p, size_t size, int flags)
{
	/* The size may be any from the one asked for to the real one. */
	if (unlikely(!kmalloc_push(p)))
		free_sized_slow(p, real_size(size, flags), asked_align(flags), "sdallocx()",
				CALLER_ADDRESS);
}

UKMEM_EXPORT size_t nallocx(size_t size, int flags)
{
	return real_size(size, flags);
}
