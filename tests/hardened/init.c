/* SPDX-License-Identifier: MIT */
/*
 * usage: init WHEN
 *
 * Allocates blocks of many sizes, fills and frees them, and looks at what blocks hold when they
 * are allocated (WHEN has an "a") and after they were freed (an "f"; the memory of objects
 * stays readable). Without the tunables it sees what was there before, so it fails then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200, LARGE = 200000 };

static const size_t sizes[] = { 1, 8, 24, 100, 512, 1000, 4096, 5000, 20000, 65000, LARGE };

static int is_zero(const volatile unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return 0;
	return 1;
}

static int fail(const char *what, size_t size)
{
	fprintf(stderr, "init: %s: %zu bytes\n", what, size);
	return 1;
}

/* The rest of a block that grows was not there before. */
static int grow(void)
{
	for (size_t size = 100; size < 3 * (size_t)LARGE; size += size / 2) {
		unsigned char *p = malloc(size);

		memset(p, 'x', size);
		p = realloc(p, 2 * size);
		if (!is_zero(p + size, size))
			return fail("what realloc() added is not zero", 2 * size);
		memset(p, 'x', 2 * size);
		free(p);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *when = argc > 1 ? argv[1] : "";
	int on_alloc = strchr(when, 'a') != NULL, on_free = strchr(when, 'f') != NULL;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (int n = 0; n < ROUNDS; n++) {
			unsigned char *p = malloc(sizes[i]);

			if (!p || (on_alloc && !is_zero(p, sizes[i])))
				return fail("malloc() gave what is not zero", sizes[i]);
			memset(p, 'x', sizes[i]);
			free(p);
			if (on_free && sizes[i] != LARGE && !is_zero(p, sizes[i]))
				return fail("free() left what was there", sizes[i]);
			p = calloc(1, sizes[i]);
			if (!is_zero(p, sizes[i]))
				return fail("calloc() gave what is not zero", sizes[i]);
			memset(p, 'x', sizes[i]);
			free(p);
		}
	return on_alloc ? grow() : 0;
}
