/* SPDX-License-Identifier: MIT */
/* The table of libc's malloc. The malloc drop-in replaces it, because there these names are its
 * own (malloc/libc_heap.c). */
#include <malloc.h>
#include <stdlib.h>

#include "os/os.h"

static void *heap_alloc(size_t align, size_t size)
{
	void *p;

	if (align <= _Alignof(max_align_t))
		return malloc(size);
	return posix_memalign(&p, align, size) ? NULL : p;
}

static size_t heap_usable(const void *p)
{
	return malloc_usable_size((void *)(uintptr_t)p);
}

/* Weak, so that the drop-in's table takes its place where it is linked. */
__attribute__((weak)) struct os_heap os_heap = {
	.alloc = heap_alloc,
	.resize = realloc,
	.free = free,
	.usable = heap_usable,
};
