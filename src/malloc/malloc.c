/* SPDX-License-Identifier: MIT */
/*
 * The libc face: malloc and its family, with glibc's semantics.
 *
 * errno: ENOMEM (or EINVAL) with a failure, untouched otherwise; the slow paths
 * save and restore it, the fast paths do nothing that could change it.
 * The fast paths are one critical section each and call nothing.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "kmalloc/kmalloc.h"
#include "malloc/malloc_internal.h"
#include "os/os.h"

/* In libc, but not in all of its headers. */
void cfree(void *p);
void free_sized(void *p, size_t size);
void free_aligned_sized(void *p, size_t align, size_t size);

void *malloc_failed(void)
{
	errno = ENOMEM;
	return NULL;
}

/* Here and not where it turns out to be wanted: there nobody knows who called. */
static void offer_background(const void *caller)
{
	if (unlikely(page_background_is_wanted()) && !caller_is_libc(caller))
		page_background_start();
}

static noinline void *malloc_slow(size_t size, const void *caller)
{
	int saved = errno;
	void *p = kmalloc_slow(size, GFP_KERNEL, caller);

	offer_background(caller);
	errno = saved;
	return likely(p) ? p : malloc_failed();
}

UKMEM_EXPORT void *malloc(size_t size)
{
	void *p;

	return likely(kmalloc_pop(size, &p)) ? p : malloc_slow(size, CALLER_ADDRESS);
}

static noinline void free_slow(void *p, const void *caller)
{
	int saved = errno;

	kfree_slow(p, "free()", caller);
	page_decay();
	offer_background(caller);
	errno = saved;
}

UKMEM_EXPORT void free(void *p)
{
	if (unlikely(!kmalloc_push(p)))
		free_slow(p, CALLER_ADDRESS);
}

UKMEM_EXPORT void cfree(void *p)
{
	free(p);
}

UKMEM_EXPORT void free_sized(void *p, size_t size)
{
	(void)size;
	free(p);
}

UKMEM_EXPORT void free_aligned_sized(void *p, size_t align, size_t size)
{
	(void)align;
	(void)size;
	free(p);
}

UKMEM_EXPORT void *calloc(size_t n, size_t size)
{
	int saved = errno;
	size_t bytes;
	void *p;

	if (unlikely(__builtin_mul_overflow(n, size, &bytes)))
		return malloc_failed();
	p = kmalloc_zeroed(bytes, GFP_KERNEL, CALLER_ADDRESS);
	errno = saved;
	return likely(p) ? p : malloc_failed();
}

UKMEM_EXPORT void *realloc(void *p, size_t size)
{
	int saved = errno;
	void *q;

	if (!p)
		return malloc(size);
	if (!size) {
		free(p);
		return NULL;
	}
	q = kmalloc_resize(p, size, GFP_KERNEL, "realloc()", CALLER_ADDRESS);
	errno = saved;
	return likely(q) ? q : malloc_failed();
}

UKMEM_EXPORT void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (unlikely(__builtin_mul_overflow(n, size, &bytes)))
		return malloc_failed();
	return realloc(p, bytes);
}

void *malloc_aligned(size_t align, size_t size)
{
	int saved = errno;
	void *p = kmalloc_aligned(size, align, GFP_KERNEL, CALLER_ADDRESS);

	errno = saved;
	return p;
}

UKMEM_EXPORT int posix_memalign(void **out, size_t align, size_t size)
{
	void *p;

	if (!is_pow2(align) || align % sizeof(void *))
		return EINVAL;
	p = malloc_aligned(align, size);
	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}

/* As glibc: an alignment that is no power of two is rounded up to one. */
UKMEM_EXPORT void *memalign(size_t align, size_t size)
{
	void *p;

	if (align > SIZE_MAX / 2 + 1) {
		errno = EINVAL;
		return NULL;
	}
	align = align ? (size_t)1 << ilog2_up(align) : 1;
	p = malloc_aligned(align, size);
	return p ? p : malloc_failed();
}

UKMEM_EXPORT void *aligned_alloc(size_t align, size_t size)
{
	void *p;

	if (!is_pow2(align)) {
		errno = EINVAL;
		return NULL;
	}
	p = malloc_aligned(align, size);
	return p ? p : malloc_failed();
}

UKMEM_EXPORT void *valloc(size_t size)
{
	return memalign(os_page_size(), size);
}

UKMEM_EXPORT void *pvalloc(size_t size)
{
	size_t page = os_page_size();

	if (size > SIZE_MAX - page)
		return malloc_failed();
	return memalign(page, align_up(size ? size : 1, page));
}

UKMEM_EXPORT size_t malloc_usable_size(void *p)
{
	return kmalloc_usable(p, "malloc_usable_size()");
}
