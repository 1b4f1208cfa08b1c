/* SPDX-License-Identifier: MIT */
/*
 * malloc and its family, with glibc's semantics.
 *
 * errno becomes ENOMEM (or EINVAL) with a failure and keeps its value otherwise: the slow paths
 * save and restore it, the fast paths do nothing that could change it. Each fast path is one
 * section and calls no function (calloc's: only memset; realloc's is two sections and memcpy).
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "kmalloc/kmalloc.h"
#include "malloc/malloc_internal.h"
#include "os/os.h"
#include "page/background.h"

/* libc has these functions, but not all of its headers declare them. */
void cfree(void *p);
void *pvalloc(size_t size);
size_t malloc_object_size(const void *p);
void free_sized(void *p, size_t size);
void free_aligned_sized(void *p, size_t align, size_t size);

void *malloc_failed(void)
{
	errno = ENOMEM;
	return NULL;
}

/*
 * Ends every request that the fast paths did not serve, whichever function received it. Lets
 * free memory decay, starts the background thread if it is wanted, and sets errno back to
 * @saved. The thread is started here, and not where it is found to be wanted, because the
 * caller is known only here.
 */
static void finish(int saved, const void *caller)
{
	page_decay();
	if (unlikely(page_background_is_wanted()) && !caller_is_libc(caller))
		page_background_start();
	errno = saved;
}

/* Ends a request for memory that got @p. */
static void *finish_with(void *p, int saved, const void *caller)
{
	finish(saved, caller);
	return likely(p) ? p : malloc_failed();
}

/* Serves a request that the fast paths did not. serve_shut() does the same for a process whose
 * fast paths are shut, by the short ways of such processes first. */
static noinline void *serve(size_t size, gfp_t flags, const void *caller)
{
	int saved = errno;

	return finish_with(kmalloc_slow(size, flags, caller), saved, caller);
}

static noinline void *serve_init(size_t size, gfp_t flags, const void *caller)
{
	void *p = kmalloc_pop_init(size);

	return likely(p) ? p : serve(size, flags, caller);
}

/* A large object of a hardened process is not zero as a whole. */
static void *zero_hard(const struct slab_hard_class *c, void *p, size_t size, gfp_t flags)
{
	return unlikely(flags & __GFP_ZERO) && c->lines ? memset(p, 0, size) : p;
}

/* The process is hardened, and the fast path of class @c did not serve. */
static noinline void *serve_hard_slow(const struct slab_hard_class *c, size_t size, gfp_t flags,
				      const void *caller)
{
	void *p = c ? slab_hard_pop(c, page_policy_node()) : NULL;

	return p ? zero_hard(c, p, size, flags) : serve(size, flags, caller);
}

/* It is too large to be looked at in the fast path, or was written to. */
static noinline void *serve_hard_zeroed(const struct slab_hard_class *c, void *p, size_t size,
					gfp_t flags)
{
	return zero_hard(c, slab_hard_hand_out(c, p), size, flags);
}

static noinline void *serve_hard(size_t size, gfp_t flags, const void *caller)
{
	const struct slab_hard_class *c = kmalloc_hard_class(size);
	void *p;

	if (unlikely(!c) || unlikely(page_window.nr_nodes > 1) ||
	    unlikely(!pcpu_array_pop_rseq(&pcpu, c->ready, &p)))
		return serve_hard_slow(c, size, flags, caller);
	if (unlikely(!slab_hard_is_near_zero(p, c->size)))
		return likely(!(flags & __GFP_ZERO)) ? slab_hard_hand_out(c, p)
						     : serve_hard_zeroed(c, p, size, flags);
	slab_canary_set(p, c->size);
	return p;
}

static always_inline void *serve_shut(size_t size, gfp_t flags, const void *caller)
{
	unsigned int shut = kmalloc_is_shut();

	if (shut == KMALLOC_HARD)
		return serve_hard(size, flags, caller);
	return unlikely(shut) ? serve_init(size, flags, caller) : serve(size, flags, caller);
}

noinline void *malloc_slow(size_t size, const void *caller)
{
	return serve_shut(size, GFP_KERNEL, caller);
}

/* The short ways of processes whose fast paths are shut return zeroed memory. */
static noinline void *calloc_slow(size_t size, const void *caller)
{
	return serve_shut(size, GFP_KERNEL | __GFP_ZERO, caller);
}

UKMEM_EXPORT void *malloc(size_t size)
{
	void *p;

	return likely(kmalloc_pop(size, &p)) ? p : malloc_slow(size, CALLER_ADDRESS);
}

static noinline void take_back(void *p, const char *func, const void *caller)
{
	int saved = errno;

	kfree_slow(p, func, caller);
	finish(saved, caller);
}

static noinline void take_back_init(void *p, const char *func, const void *caller)
{
	if (!kmalloc_push_init(p))
		take_back(p, func, caller);
}

/* The process is hardened, and the fast path found no object. */
static noinline void take_back_hard_slow(void *p, const char *func, const void *caller)
{
	if (!slab_hard_free(p, func))
		take_back(p, func, caller);
}

static noinline void take_back_hard(void *p, const char *func, const void *caller)
{
	const struct slab_hard_class *c;

	if (unlikely(!slab_canary_take(p, &c))) {
		take_back_hard_slow(p, func, caller);
		return;
	}
	if (likely(c->size <= SLAB_HARD_NEAR)) {
		slab_hard_zero_near(p, c->size);
		if (likely(pcpu_array_push_rseq(&pcpu, c->waiting, 0, p)))
			return;
	}
	slab_hard_put(c, p);
}

noinline void free_slow(void *p, const char *func, const void *caller)
{
	unsigned int shut;

	/* Programs free NULL as often as they free objects. No window has it, so that it comes
	 * here, but there is nothing to do, and no reason to look at the clock. */
	if (!p)
		return;
	shut = kmalloc_is_shut();
	if (shut == KMALLOC_HARD)
		take_back_hard(p, func, caller);
	else if (unlikely(shut))
		take_back_init(p, func, caller);
	else
		take_back(p, func, caller);
}

noinline void free_sized_slow(void *p, size_t size, size_t align, const char *func,
			      const void *caller)
{
	if (kmalloc_has_size(p, size, align, func, caller))
		free_slow(p, func, caller);
}

UKMEM_EXPORT void free(void *p)
{
	free_for(p, "free()", CALLER_ADDRESS);
}

UKMEM_EXPORT void cfree(void *p)
{
	free_for(p, "cfree()", CALLER_ADDRESS);
}

UKMEM_EXPORT void free_sized(void *p, size_t size)
{
	free_sized_for(p, size, 0, "free_sized()", CALLER_ADDRESS);
}

UKMEM_EXPORT void free_aligned_sized(void *p, size_t align, size_t size)
{
	free_sized_for(p, size, align, "free_aligned_sized()", CALLER_ADDRESS);
}

UKMEM_EXPORT void *calloc(size_t n, size_t size)
{
	size_t bytes;
	void *p;

	if (unlikely(__builtin_mul_overflow(n, size, &bytes)))
		return malloc_failed();
	return likely(kmalloc_pop_zeroed(bytes, &p)) ? p : calloc_slow(bytes, CALLER_ADDRESS);
}

static noinline void *resize_slow(void *p, size_t size, const void *caller)
{
	int saved = errno;

	if (!size) {
		free_for(p, "realloc()", caller);
		return NULL;
	}
	return finish_with(kmalloc_resize(p, size, GFP_KERNEL, "realloc()", caller), saved,
			   caller);
}

/* Resizes without a slow path where arrays serve both blocks. */
static noinline void *resize(void *p, size_t size, const void *caller)
{
	size_t old = kmalloc_class_usable(p);
	void *q;

	if (unlikely(!old || kmalloc_is_shut() || size - 1 >= SIZE_CLASS_ALWAYS_MAX))
		return resize_slow(p, size, caller);
	if (kmalloc_stays(size, old))
		return p;
	if (unlikely(!kmalloc_pop(size, &q)))
		return resize_slow(p, size, caller);
	memcpy(q, p, min_size(old, size));
	free_for(p, "realloc()", caller);
	return q;
}

UKMEM_EXPORT void *realloc(void *p, size_t size)
{
	return p ? resize(p, size, CALLER_ADDRESS) : malloc_for(size, CALLER_ADDRESS);
}

UKMEM_EXPORT void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (unlikely(__builtin_mul_overflow(n, size, &bytes)))
		return malloc_failed();
	return p ? resize(p, bytes, CALLER_ADDRESS) : malloc_for(bytes, CALLER_ADDRESS);
}

void *malloc_aligned(size_t align, size_t size, const void *caller)
{
	int saved = errno;

	return finish_with(kmalloc_aligned(size, align, GFP_KERNEL, caller), saved, caller);
}

UKMEM_EXPORT int posix_memalign(void **out, size_t align, size_t size)
{
	void *p;

	if (!is_pow2(align) || align % sizeof(void *))
		return EINVAL;
	p = malloc_aligned(align, size, CALLER_ADDRESS);
	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}

/* As glibc: an alignment that is no power of two is rounded up to one. */
static void *align_rounded(size_t align, size_t size, const void *caller)
{
	if (align > SIZE_MAX / 2 + 1) {
		errno = EINVAL;
		return NULL;
	}
	return malloc_aligned(align ? (size_t)1 << ilog2_up(align) : 1, size, caller);
}

UKMEM_EXPORT void *memalign(size_t align, size_t size)
{
	return align_rounded(align, size, CALLER_ADDRESS);
}

/* As glibc up to 2.37; later versions refuse alignments that C does not allow. */
UKMEM_EXPORT void *aligned_alloc(size_t align, size_t size)
{
	return align_rounded(align, size, CALLER_ADDRESS);
}

UKMEM_EXPORT void *valloc(size_t size)
{
	return malloc_aligned(os_page_size(), size, CALLER_ADDRESS);
}

UKMEM_EXPORT void *pvalloc(size_t size)
{
	size_t page = os_page_size();

	if (size > SIZE_MAX - page)
		return malloc_failed();
	return malloc_aligned(page, align_up(size ? size : 1, page), CALLER_ADDRESS);
}

/* As hardened_malloc's: bytes from @p, which may lie inside a small block, to the block's end.
 */
UKMEM_EXPORT size_t malloc_object_size(const void *p)
{
	return kmalloc_room(p);
}

UKMEM_EXPORT size_t malloc_usable_size(void *p)
{
	return kmalloc_usable(p, "malloc_usable_size()");
}
