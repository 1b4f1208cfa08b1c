/* SPDX-License-Identifier: MIT */
/*
 * libc's malloc, for the tunable passthrough of the drop-in. glibc's own malloc has other names
 * besides malloc and free, which the drop-in takes. This table replaces that of os/os_heap.c.
 */
#include <dlfcn.h>
#include <stdatomic.h>

#include "base/compiler.h"
#include "base/log.h"
#include "malloc/malloc_internal.h"
#include "os/os.h"

extern void *__libc_memalign(size_t align, size_t size) __attribute__((weak));
extern void *__libc_malloc(size_t size) __attribute__((weak));
extern void *__libc_realloc(void *p, size_t size) __attribute__((weak));
extern void __libc_free(void *p) __attribute__((weak));

static void *heap_alloc(size_t align, size_t size)
{
	if (unlikely(!__libc_malloc || !__libc_memalign || !__libc_realloc || !__libc_free))
		log_fatal("passthrough: this libc does not name its own malloc");
	return align <= _Alignof(max_align_t) ? __libc_malloc(size)
					      : __libc_memalign(align, size);
}

static void *heap_resize(void *p, size_t size)
{
	return __libc_realloc(p, size);
}

static void heap_free(void *p)
{
	__libc_free(p);
}

/* This function has no other name in glibc: look for the next one after the drop-in's. */
static size_t heap_usable(const void *p)
{
	static _Atomic(void *) next;
	void *fn = atomic_load_explicit(&next, memory_order_relaxed);

	if (!fn) {
		fn = dlsym(RTLD_NEXT, "malloc_usable_size");
		atomic_store_explicit(&next, fn, memory_order_relaxed);
	}
	return fn ? ((size_t(*)(const void *))fn)(p) : 0;
}

struct os_heap os_heap = {
	.alloc = heap_alloc,
	.resize = heap_resize,
	.free = heap_free,
	.usable = heap_usable,
	.is_ukmem = true,
	.populate = malloc_populate,
};
