/* SPDX-License-Identifier: MIT */
/*
 * libc's malloc, for the tunable passthrough of the drop-in. glibc's own malloc has other names
 * besides malloc and free, which the drop-in takes. musl's has none, so there it is the next
 * one after the drop-in's: musl's dlsym() allocates nothing, as glibc's may. This table
 * replaces that of os/os_heap.c.
 */
#include <dlfcn.h>
#include <stdatomic.h>

#ifdef __GLIBC__
#include <gnu/lib-names.h>
#endif

#include "base/compiler.h"
#include "base/log.h"
#include "malloc/malloc_internal.h"
#include "os/os.h"

extern void *__libc_memalign(size_t align, size_t size) __attribute__((weak));
extern void *__libc_malloc(size_t size) __attribute__((weak));
extern void *__libc_realloc(void *p, size_t size) __attribute__((weak));
extern void __libc_free(void *p) __attribute__((weak));

static void *libc_function(const char *name, _Atomic(void *) *kept)
{
	void *fn = next_function(name, kept);

	if (unlikely(!fn))
		log_fatal("passthrough: this libc has no %s", name);
	return fn;
}

/* libc's function with that name: by its other name, @function, if it has one. */
#define LIBC(function, name)                                                                   \
	({                                                                                     \
		static _Atomic(void *) kept;                                                   \
		likely(function) ? function                                                    \
				 : (__typeof__(&function))libc_function(name, &kept);          \
	})

static void *heap_alloc(size_t align, size_t size)
{
	return align <= _Alignof(max_align_t)
		       ? LIBC(__libc_malloc, "malloc")(size)
		       : LIBC(__libc_memalign, "aligned_alloc")(align, size);
}

static void *heap_resize(void *p, size_t size)
{
	return LIBC(__libc_realloc, "realloc")(p, size);
}

static void heap_free(void *p)
{
	LIBC(__libc_free, "free")(p);
}

/* This function has no other name in glibc, either, and the next one may be that of an
 * allocator which the program is linked to: libc's is libc's own. */
static size_t heap_usable(const void *p)
{
	static _Atomic(void *) kept;
#ifdef __GLIBC__
	void *libc;

	if (unlikely(!atomic_load_explicit(&kept, memory_order_relaxed)) &&
	    (libc = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD)))
		atomic_store_explicit(&kept, dlsym(libc, "malloc_usable_size"),
				      memory_order_relaxed);
#endif
	return ((size_t(*)(const void *))libc_function("malloc_usable_size", &kept))(p);
}

struct os_heap os_heap = {
	.alloc = heap_alloc,
	.resize = heap_resize,
	.free = heap_free,
	.usable = heap_usable,
	.is_ukmem = true,
	.populate = malloc_populate,
};
