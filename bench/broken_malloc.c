/* SPDX-License-Identifier: MIT */
/*
 * A malloc that hands out the same memory twice now and then, for the test that the
 * workloads notice it. Preloaded over libc's; for one thread.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

enum { SMALLEST = 64, LARGEST = 512, EVERY = 1000 };

static void *latest; /* NULL when it was freed */
static size_t latest_size, count;

void *malloc(size_t size)
{
	static void *(*libc_malloc)(size_t);

	if (!libc_malloc)
		*(void **)&libc_malloc = dlsym(RTLD_NEXT, "malloc");
	if (size < SMALLEST || size > LARGEST)
		return libc_malloc(size);
	if (++count % EVERY == 0 && latest && latest_size >= size)
		return latest;
	latest_size = size;
	latest = libc_malloc(size);
	return latest;
}

void free(void *memory)
{
	static void (*libc_free)(void *);

	if (!libc_free)
		*(void **)&libc_free = dlsym(RTLD_NEXT, "free");
	if (memory == latest)
		latest = NULL;
	libc_free(memory);
}
