/* SPDX-License-Identifier: MIT */
/*
 * Allocates before any constructor has run, and after main has returned.
 *
 *	early_start_test
 *malloc|calloc|realloc|reallocarray|posix_memalign|aligned_alloc|free|usable
 *
 * The argument is the program's first call of the family, made ahead of the
 * constructors of all libraries; "free" and "usable" pass NULL. Then 5000 atexit
 * handlers are registered, for which libc itself allocates while it holds its
 * lock on the handlers; the last ones to run still allocate.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "preload_test.h"

enum { HANDLERS = 5000, BLOCKS = 300 };

static void *first;
static void *blocks[BLOCKS];
static int handlers_run;

static void *first_call(const char *kind)
{
	void *p = NULL;
	if (!strcmp(kind, "malloc"))
		p = malloc(100);
	else if (!strcmp(kind, "calloc"))
		p = calloc(10, 10);
	else if (!strcmp(kind, "realloc"))
		p = realloc(NULL, 100);
	else if (!strcmp(kind, "reallocarray"))
		p = reallocarray(NULL, 10, 10);
	else if (!strcmp(kind, "posix_memalign"))
		CHECK(posix_memalign(&p, 4096, 100) == 0, "posix_memalign");
	else if (!strcmp(kind, "aligned_alloc"))
		p = aligned_alloc(64, 128);
	else if (!strcmp(kind, "free"))
		free(NULL);
	else if (!strcmp(kind, "usable"))
		CHECK(malloc_usable_size(NULL) == 0, "usable size of NULL");
	else
		CHECK(0, "unknown kind of call: %s", kind);
	return p ? p : malloc(100);
}

static void handler(void)
{
	void *p = malloc((size_t)handlers_run + 1);
	CHECK(p, "malloc in atexit handler %d", handlers_run);
	memset(p, 1, (size_t)handlers_run + 1);
	free(p);
	handlers_run++;
}

static void last_handler(void)
{
	CHECK(handlers_run == HANDLERS, "only %d handlers ran", handlers_run);
	for (size_t i = 0; i < BLOCKS; i++) {
		CHECK(*(size_t *)blocks[i] == i, "block %zu was overwritten", i);
		free(blocks[i]);
	}
	printf("%d handlers ran\n", handlers_run);
}

static void start(int argc, char **argv)
{
	CHECK(argc == 2, "usage: early_start_test FIRST_CALL");
	errno = 99;
	first = first_call(argv[1]);
	CHECK(first, "no memory at %s", argv[1]);
	CHECK(errno == 99, "%s set errno to %d", argv[1], errno);
	memset(first, 0x77, 100);

	CHECK(atexit(last_handler) == 0, "atexit");
	for (int i = 0; i < HANDLERS; i++)
		CHECK(atexit(handler) == 0, "atexit %d", i);
}

/* Runs before the constructors of all shared libraries. */
__attribute__((section(".preinit_array"), used)) static void (*const early)(int,
									    char **) = start;

__attribute__((constructor)) static void construct(void)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(i * i + sizeof(i));
		CHECK(blocks[i], "malloc in a constructor");
		*(size_t *)blocks[i] = i;
	}
}

__attribute__((destructor)) static void destruct(void)
{
	void *p = calloc(3, 10000);
	CHECK(p, "calloc in a destructor");
	free(p);
}

int main(void)
{
	unsigned char *p = realloc(first, 100000);
	CHECK(p, "realloc of the first block");
	for (size_t i = 0; i < 100; i++)
		CHECK(p[i] == 0x77, "byte %zu of the first block is %d", i, p[i]);
	free(p);
	return 0;
}
