/* SPDX-License-Identifier: MIT */
/*
 * A program that has malloc, free, calloc and realloc of its own, as allocators have that are
 * linked into a program, and no reallocarray. libc's calls realloc by its name.
 */
#include <stdlib.h>
#include <string.h>

#include "preload_test.h"

static char heap[1 << 20] __attribute__((aligned(16)));
/* volatile: the compiler holds that functions of libc do not come back here. */
static volatile size_t used;
static volatile int resized;

/* Blocks of fewer bytes than that are copied with what lies behind them. */
enum { COPIED = 64 };

void *malloc(size_t size)
{
	char *p = heap + used;

	used += COPIED + (size + 15) / 16 * 16;
	CHECK(used <= sizeof(heap), "%zu bytes", used);
	return p;
}

static int is_own(const void *p)
{
	return (const char *)p >= heap && (const char *)p < heap + sizeof(heap);
}

void free(void *p)
{
	CHECK(!p || is_own(p), "%p is another allocator's", p);
}

void *calloc(size_t n, size_t size)
{
	return malloc(n * size); /* never used before */
}

void *realloc(void *p, size_t size)
{
	void *q = malloc(size);

	resized++;
	CHECK(!p || is_own(p), "%p is another allocator's", p);
	for (size_t k = 0; p && k < COPIED; k++)
		((volatile char *)q)[k] = ((volatile char *)p)[k];
	return q;
}

int main(void)
{
	volatile size_t much = SIZE_MAX / 2;
	char *p = reallocarray(NULL, 10, 10);

	CHECK(p && is_own(p) && resized == 1, "%p", (void *)p);
	strcpy(p, "kept");
	p = reallocarray(p, 100, 10);
	CHECK(p && is_own(p) && resized == 2 && !strcmp(p, "kept"), "%p: %s, %d times",
	      (void *)p, p, resized);
	CHECK(!reallocarray(p, much, 3) && resized == 2, "too much");
	free(p);
	return 0;
}
