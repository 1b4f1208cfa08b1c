/* SPDX-License-Identifier: MIT */
/* How the programs of these tests allocate: from the library if they are linked with it, else
 * by malloc(), which the drop-in serves. */
#ifndef LIVE_ALLOCATE_H
#define LIVE_ALLOCATE_H

#ifdef LINKED
#include <ukmem/kmalloc.h>

#define allocate(size) kmalloc((size), GFP_KERNEL)
#define release(p) kfree(p)
#define usable_size(p) ksize(p)
#else
#include <malloc.h>

#define allocate(size) malloc(size)
#define release(p) free(p)
#define usable_size(p) malloc_usable_size(p)
#endif

#include <stdlib.h>
#include <string.h>

/* An object of @size bytes in KFENCE's pool, where it has the size that was asked for. @size is
 * none that a class has. NULL: after millions of requests there was none. */
static inline __attribute__((always_inline)) void *allocate_guarded(size_t size)
{
	for (long i = 0; i < 50000000; i++) {
		char *p = (char *)allocate(size);

		if (!p)
			abort();
		memset(p, 0x11, size);
		if (usable_size(p) == size)
			return p;
		release(p);
	}
	return NULL;
}

#endif
