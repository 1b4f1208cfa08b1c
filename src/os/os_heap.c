/* SPDX-License-Identifier: MIT */
/* libc's malloc by its own names. The malloc drop-in replaces this table by its own. */
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
