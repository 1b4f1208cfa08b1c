/* SPDX-License-Identifier: MIT */
/*
 * malloc and its family, with glibc's semantics.
 *
 * errno becomes ENOMEM (or EINVAL) with a failure and keeps its value otherwise: the slow paths
 * save and restore it, the fast paths do nothing that could change it. Each fast path is one
 * section and calls no function (calloc's: only memset; realloc's has no section where the
 * block stays, else two and memcpy).
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "kmalloc/kmalloc.h"
#include "kmalloc/large.h"
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
 * Ends every request that the fast paths did not serve, whichever function received it; @size:
 * what it asked for, 0 for a free. Lets free memory decay, starts the background thread if it
 * is wanted, and sets errno back to @saved. The thread is started here, and not where it is
 * found to be wanted, because the caller is known only here.
 */
static void finish(size_t size, int saved, const void *caller)
{
	page_decay_end(size >> page_window.page_shift);
	if (unlikely(page_background_is_wanted()) && !caller_is_libc(caller))
		page_background_start();
	errno = saved;
}

/* Ends a request for memory that got @p. */
static void *finish_with(void *p, size_t size, int saved, const void *caller)
{
	finish(p ? size : 0, saved, caller);
	return likely(p) ? p : malloc_failed();
}

/* Serves a request that the fast paths did not. serve_shut() does the same for a process whose
 * fast paths are shut, by the short ways of such processes first. */
static noinline void *serve(size_t size, gfp_t flags, const void *caller)
{
	int saved = errno;

	return finish_with(kmalloc_slow(size, flags, caller), size, saved, caller);
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

/*
 * The process is hardened, and has no fast path, or that did not serve. On several nodes the
 * usual slow path comes next if there is one, and leads it to the CPU's own node.
 */
static noinline void *serve_hard_slow(size_t size, gfp_t flags, const void *caller)
{
	const struct slab_hard_class *c = kmalloc_hard_class(size);
	void *p = NULL;

	if (c && (page_window.nr_nodes == 1 || kmalloc_is_shut() == KMALLOC_HARD))
		p = slab_hard_pop(c, page_policy_node());
	return p ? zero_hard(c, p, size, flags) : serve(size, flags, caller);
}

/* It is too large to be looked at in the fast path, or was written to. */
static noinline void *serve_hard_zeroed(const struct slab_hard_class *c, void *p, size_t size,
					gfp_t flags)
{
	return zero_hard(c, slab_hard_hand_out(c, p), size, flags);
}

/* The fast path of a hardened process. @shut: how it finds this CPU's array; a constant. */
static always_inline void *serve_hard(size_t size, gfp_t flags, unsigned int shut,
				      const void *caller)
{
	const struct slab_hard_class *c = kmalloc_hard_class(size);
	void *p;

	if (unlikely(!c) || unlikely(!kmalloc_pop_hard(c, shut, &p)))
		return serve_hard_slow(size, flags, caller);
	if (unlikely(c->size > SLAB_HARD_HERE) || unlikely(!slab_hard_is_near_zero(p, c->size)))
		return likely(!(flags & __GFP_ZERO)) ? slab_hard_hand_out(c, p)
						     : serve_hard_zeroed(c, p, size, flags);
	slab_canary_set(p, c->size);
	return p;
}

static noinline void *malloc_hard_cpu(size_t size, const void *caller)
{
	return serve_hard(size, GFP_KERNEL, KMALLOC_HARD_CPU, caller);
}

static noinline void *malloc_hard_cid(size_t size, const void *caller)
{
	return serve_hard(size, GFP_KERNEL, KMALLOC_HARD_CID, caller);
}

static noinline void *calloc_hard_cpu(size_t size, const void *caller)
{
	return serve_hard(size, GFP_KERNEL | __GFP_ZERO, KMALLOC_HARD_CPU, caller);
}

static noinline void *calloc_hard_cid(size_t size, const void *caller)
{
	return serve_hard(size, GFP_KERNEL | __GFP_ZERO, KMALLOC_HARD_CID, caller);
}

/* The process has no hardened fast path. */
static always_inline void *serve_shut(unsigned int shut, size_t size, gfp_t flags,
				      const void *caller)
{
	if (shut == KMALLOC_OPEN)
		return serve(size, flags, caller);
	return shut == KMALLOC_INIT ? serve_init(size, flags, caller)
				    : serve_hard_slow(size, flags, caller);
}

noinline void *malloc_slow(size_t size, const void *caller)
{
	unsigned int shut = kmalloc_is_shut();

	if (shut == KMALLOC_HARD_CPU)
		return malloc_hard_cpu(size, caller);
	if (shut == KMALLOC_HARD_CID)
		return malloc_hard_cid(size, caller);
	return serve_shut(shut, size, GFP_KERNEL, caller);
}

/* The short ways of processes whose fast paths are shut return zeroed memory. */
static noinline void *calloc_slow(size_t size, const void *caller)
{
	unsigned int shut = kmalloc_is_shut();

	if (shut == KMALLOC_HARD_CPU)
		return calloc_hard_cpu(size, caller);
	if (shut == KMALLOC_HARD_CID)
		return calloc_hard_cid(size, caller);
	return serve_shut(shut, size, GFP_KERNEL | __GFP_ZERO, caller);
}

/* malloc() and free() begin at a line of the processor's cache, so that their fast paths lie in
 * two lines: a third one costs a pair 5 % (Zen 4). */
UKMEM_EXPORT cacheline_aligned void *malloc(size_t size)
{
	void *p;
	enum kmalloc_first first = kmalloc_pop_first(size, &p);

	if (likely(first == KMALLOC_SERVED))
		return p;
	if (first == KMALLOC_BEYOND) {
		if (kmalloc_is_shut() == KMALLOC_HARD_CPU)
			return serve_hard(size, GFP_KERNEL, KMALLOC_HARD_CPU, CALLER_ADDRESS);
		if (likely(kmalloc_pop_beyond(size, &p)))
			return p;
	}
	return malloc_slow(size, CALLER_ADDRESS);
}

static noinline void take_back(void *p, const char *func, const void *caller)
{
	int saved = errno;

	kfree_slow(p, func, caller);
	finish(0, saved, caller);
}

static noinline void take_back_init(void *p, const char *func, const void *caller)
{
	if (!kmalloc_push_init(p))
		take_back(p, func, caller);
}

/* The process is hardened, and the fast path found no object. */
static noinline void take_back_hard_slow(void *p, const char *func, const void *caller)
{
	if (p && !slab_hard_free(p, func, caller))
		take_back(p, func, caller);
}

/* Puts an object into the quarantine, which is zero as far as free ones are. */
static always_inline void put_wiped(const struct slab_hard_class *c, unsigned int shut, void *p)
{
	if (unlikely(!kmalloc_push_hard(c, shut, p)))
		slab_hard_put_wiped(c, p);
}

/* Objects of more than SLAB_HARD_HERE bytes that are zero as a whole while they are free. */
static noinline slab_wide void put_wide(const struct slab_hard_class *c, void *p)
{
	slab_hard_zero_wide(p, c->size);
	if (kmalloc_is_shut() == KMALLOC_HARD_CPU)
		put_wiped(c, KMALLOC_HARD_CPU, p);
	else
		slab_hard_put_wiped(c, p);
}

static noinline void put_whole(const struct slab_hard_class *c, void *p)
{
	if (slab_hard_is_wide(c)) {
		put_wide(c, p);
	} else if (c->size <= SLAB_HARD_NEAR) {
		slab_hard_zero_near(p, c->size);
		slab_hard_put_wiped(c, p);
	} else {
		slab_hard_put(c, p);
	}
}

/* Others of more than SLAB_HARD_HERE bytes. No call in them comes back, so that they need no
 * stack. */
static always_inline void put_large(const struct slab_hard_class *c, unsigned int shut, void *p)
{
	if (!c->lines) {
		put_whole(c, p);
		return;
	}
	slab_hard_wipe(c, p);
	put_wiped(c, shut, p);
}

static noinline void put_large_cpu(const struct slab_hard_class *c, void *p)
{
	put_large(c, KMALLOC_HARD_CPU, p);
}

static noinline void put_large_cid(const struct slab_hard_class *c, void *p)
{
	put_large(c, KMALLOC_HARD_CID, p);
}

/*
 * The fast path of a hardened process's frees: of any object, or of class @only, unless that is
 * NULL. False: the caller's slow path must free. @shut: as in serve_hard().
 */
static always_inline bool take_back_hard(void *p, const struct slab_hard_class *only,
					 unsigned int shut)
{
	const struct slab_hard_class *c;

	if (unlikely(!slab_canary_take(p, only, &c)))
		return false;
	if (likely(c->size <= SLAB_HARD_HERE)) {
		slab_hard_zero_near(p, c->size);
		put_wiped(c, shut, p);
	} else if (shut == KMALLOC_HARD_CPU) {
		put_large_cpu(c, p);
	} else {
		put_large_cid(c, p);
	}
	return true;
}

static noinline void free_hard_cpu(void *p, const char *func, const void *caller)
{
	if (unlikely(!take_back_hard(p, NULL, KMALLOC_HARD_CPU)))
		take_back_hard_slow(p, func, caller);
}

static noinline void free_hard_cid(void *p, const char *func, const void *caller)
{
	if (unlikely(!take_back_hard(p, NULL, KMALLOC_HARD_CID)))
		take_back_hard_slow(p, func, caller);
}

noinline void free_slow(void *p, const char *func, const void *caller)
{
	unsigned int shut = kmalloc_is_shut();

	if (shut == KMALLOC_HARD_CPU)
		free_hard_cpu(p, func, caller);
	else if (shut == KMALLOC_HARD_CID)
		free_hard_cid(p, func, caller);
	/* Programs free NULL as often as they free objects. No window has it, so that it comes
	 * here, but there is nothing to do, and no reason to look at the clock. */
	else if (!p)
		return;
	else if (shut == KMALLOC_OPEN)
		take_back(p, func, caller);
	else if (shut == KMALLOC_INIT)
		take_back_init(p, func, caller);
	else
		take_back_hard_slow(p, func, caller);
}

static noinline void free_any_size(void *p, size_t size, size_t align, const char *func,
				   const void *caller)
{
	if (kmalloc_has_size(p, size, align, func, caller))
		free_slow(p, func, caller);
}

/* The class that a block of this size and alignment is of; NULL: its page tells. */
static always_inline const struct slab_hard_class *class_of_size(size_t size, size_t align)
{
	return likely(align <= SLAB_HARD_MIN) ? kmalloc_hard_class(size) : NULL;
}

/* The sizes of most C++ objects are compared by their class, which the free looks at anyway.
 * False: the slow path must look, and free. */
static always_inline bool take_back_sized(void *p, size_t size, size_t align, unsigned int shut)
{
	const struct slab_hard_class *c = class_of_size(size, align);

	return likely(c) && take_back_hard(p, c, shut);
}

static noinline void free_sized_hard_cpu(void *p, size_t size, size_t align, const char *func,
					 const void *caller)
{
	if (unlikely(!take_back_sized(p, size, align, KMALLOC_HARD_CPU)))
		free_any_size(p, size, align, func, caller);
}

static noinline void free_sized_hard_cid(void *p, size_t size, size_t align, const char *func,
					 const void *caller)
{
	if (unlikely(!take_back_sized(p, size, align, KMALLOC_HARD_CID)))
		free_any_size(p, size, align, func, caller);
}

noinline void free_sized_slow(void *p, size_t size, size_t align, const char *func,
			      const void *caller)
{
	unsigned int shut = kmalloc_is_shut();

	if (shut == KMALLOC_HARD_CPU)
		free_sized_hard_cpu(p, size, align, func, caller);
	else if (shut == KMALLOC_HARD_CID)
		free_sized_hard_cid(p, size, align, func, caller);
	else
		free_any_size(p, size, align, func, caller);
}

UKMEM_EXPORT cacheline_aligned void free(void *p)
{
	enum kmalloc_first first = kmalloc_push_first(p);

	if (likely(first == KMALLOC_SERVED))
		return;
	if (first == KMALLOC_BEYOND) {
		if (kmalloc_is_shut() == KMALLOC_HARD_CPU) {
			if (unlikely(!take_back_hard(p, NULL, KMALLOC_HARD_CPU)))
				take_back_hard_slow(p, "free()", CALLER_ADDRESS);
			return;
		}
		if (likely(kmalloc_push_beyond(p)))
			return;
	}
	free_slow(p, "free()", CALLER_ADDRESS);
}

UKMEM_EXPORT void cfree(void *p)
{
	free_for(p, "cfree()", CALLER_ADDRESS);
}

UKMEM_EXPORT void free_sized(void *p, size_t size)
{
	free_sized_for(p, size, 0, "free_sized()", CALLER_ADDRESS);
}

static const size_t ALIGN_MAX = SIZE_MAX / 2 + 1;

/* As glibc: an alignment that is no power of two is rounded up to one. */
static size_t rounded(size_t align)
{
	return align ? (size_t)1 << ilog2_up(align) : 1;
}

UKMEM_EXPORT void free_aligned_sized(void *p, size_t align, size_t size)
{
	free_sized_for(p, size, rounded(min_size(align, ALIGN_MAX)), "free_aligned_sized()",
		       CALLER_ADDRESS);
}

UKMEM_EXPORT void *calloc(size_t n, size_t size)
{
	size_t bytes;
	void *p;

	if (unlikely(__builtin_mul_overflow(n, size, &bytes)))
		return malloc_failed();
	return likely(kmalloc_pop_zeroed(bytes, &p)) ? p : calloc_slow(bytes, CALLER_ADDRESS);
}

void *malloc_zeroed(size_t size, const void *caller)
{
	void *p;

	return likely(kmalloc_pop_zeroed(size, &p)) ? p : calloc_slow(size, caller);
}

void *malloc_resize(void *p, size_t size, gfp_t flags, const char *func, const void *caller)
{
	int saved = errno;

	return finish_with(kmalloc_resize(p, size, flags, func, caller), size, saved, caller);
}

static noinline void *resize_slow(void *p, size_t size, const void *caller)
{
	if (!size) {
		free_for(p, "realloc()", caller);
		return NULL;
	}
	return malloc_resize(p, size, GFP_KERNEL, "realloc()", caller);
}

/* Moves an object of @old usable bytes without a slow path, where arrays serve both. */
static noinline void *resize_moving(void *p, size_t old, size_t size, const void *caller)
{
	void *q;

	if (unlikely(size - 1 >= SIZE_CLASS_ALWAYS_MAX) || unlikely(!kmalloc_pop(size, &q)))
		return resize_slow(p, size, caller);
	memcpy(q, p, min_size(old, size));
	free_for(p, "realloc()", caller);
	return q;
}

/* Resizes what is no object of a class. */
static noinline void *resize_large(void *p, size_t size, const void *caller)
{
	return likely(kmalloc_large_stays(size, large_usable(p))) &&
			       likely(kmalloc_is_shut() == KMALLOC_OPEN)
		       ? p
		       : resize_slow(p, size, caller);
}

/* A block that has room enough, and uses it, stays (D5.8). No call here comes back, so that
 * this needs no stack. */
static always_inline void *resize(void *p, size_t size, const void *caller)
{
	size_t old = kmalloc_class_usable(p);

	if (unlikely(!old))
		return resize_large(p, size, caller);
	if (unlikely(kmalloc_is_shut()))
		return resize_slow(p, size, caller);
	return likely(kmalloc_stays(size, old)) ? p : resize_moving(p, old, size, caller);
}

UKMEM_EXPORT void *realloc(void *p, size_t size)
{
	return p ? resize(p, size, CALLER_ADDRESS) : malloc_for(size, CALLER_ADDRESS);
}

/* A second name of realloc, which always means the function here. (A test compiles this file
 * with other names.) */
#define NAME_OF(name) STRING_OF(name)
#define STRING_OF(name) #name
void *realloc_here(void *p, size_t size)
	__attribute__((alias(NAME_OF(realloc)), visibility("hidden"), nothrow, leaf,
		       alloc_size(2)));

/* As libc's, it goes by the name of realloc: a program may have that alone of its own. */
UKMEM_EXPORT void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (unlikely(__builtin_mul_overflow(n, size, &bytes)))
		return malloc_failed();
	if (unlikely(leads_elsewhere((const void *)realloc, (const void *)realloc_here)))
		return realloc(p, bytes);
	return p ? resize(p, bytes, CALLER_ADDRESS) : malloc_for(bytes, CALLER_ADDRESS);
}

/* An aligned request that the fast path did not serve. */
static noinline void *serve_aligned(size_t align, size_t size, gfp_t flags, const void *caller)
{
	int saved = errno;

	return finish_with(kmalloc_aligned(size, align, flags, caller), size, saved, caller);
}

void *malloc_aligned(size_t align, size_t size, const void *caller)
{
	void *p;

	return likely(kmalloc_pop_aligned(size, align, &p))
		       ? p
		       : serve_aligned(align, size, GFP_KERNEL, caller);
}

void *malloc_aligned_zeroed(size_t align, size_t size, const void *caller)
{
	return serve_aligned(align, size, GFP_KERNEL | __GFP_ZERO, caller);
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

static void *align_rounded(size_t align, size_t size, const void *caller)
{
	if (align > ALIGN_MAX) {
		errno = EINVAL;
		return NULL;
	}
	return malloc_aligned(rounded(align), size, caller);
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

/* As hardened_malloc's: bytes from @p, which may lie inside a block, to the block's end. */
UKMEM_EXPORT size_t malloc_object_size(const void *p)
{
	return kmalloc_room(p);
}

UKMEM_EXPORT size_t malloc_usable_size(void *p)
{
	return kmalloc_usable(p, "malloc_usable_size()", NULL);
}
