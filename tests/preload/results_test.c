/* SPDX-License-Identifier: MIT */
/*
 * Prints a line for each function of malloc's family and each request, possible or not: the
 * result, and errno. The lines are compared with those of glibc's own malloc.
 *
 *	results_test
 */
#include <errno.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "preload_test.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum { UNTOUCHED = 12345 };

static const size_t too_large[] = { SIZE_MAX, SIZE_MAX - 4096, (size_t)PTRDIFF_MAX + 1,
				    PTRDIFF_MAX, (size_t)1 << 50 };

static const char *errno_text(int error)
{
	static char text[32];

	if (error == UNTOUCHED)
		return "as it was";
	snprintf(text, sizeof(text), "%d", error);
	return text;
}

static void show_result(const char *what, size_t a, size_t b, long result)
{
	int error = errno;

	printf("%s(%#zx, %#zx): %ld, errno %s\n", what, a, b, result, errno_text(error));
	errno = UNTOUCHED;
}

/* Prints a result, and frees the block. Of a block it prints only that there is one. */
static void show(const char *what, size_t a, size_t b, void *p)
{
	int error = errno;

	printf("%s(%#zx, %#zx): %s, errno %s\n", what, a, b, p ? "memory" : "NULL",
	       errno_text(error));
	free(p);
	errno = UNTOUCHED;
}

static void show_posix_memalign(size_t align, size_t size)
{
	static char mark;
	void *p = &mark;
	long result = posix_memalign(&p, align, size);

	show_result("posix_memalign", align, size, result);
	CHECK((p == &mark) == (result != 0), "posix_memalign: %ld, %p", result, p);
	if (!result)
		free(p);
}

/* @q: what resizing the block @p gave. If it gave nothing, @p is as it was. */
static void show_resized(const char *what, size_t n, size_t size, char *volatile p, char *q)
{
	int error = errno;

	if (!q && n && size) {
		CHECK(*p == 'x', "%s: the block has changed", what);
		free(p);
	}
	errno = error;
	show(what, n, size, q);
}

static char *block(size_t size)
{
	char *p = malloc(size);

	CHECK(p, "no memory");
	*p = 'x';
	errno = UNTOUCHED;
	return p;
}

static void resize(size_t from, size_t n, size_t size)
{
	size_t bytes = n * size;
	char *volatile p = block(from);

	show_resized("reallocarray", n, size, p, reallocarray(p, n, size));
	p = block(from);
	show_resized("realloc", 1, bytes, p, realloc(p, bytes));
}

static void sizes(size_t size)
{
	show("malloc", size, 0, malloc(size));
	show("calloc", 1, size, calloc(1, size));
	show("calloc", size, 1, calloc(size, 1));
	show("realloc of NULL", size, 0, realloc(NULL, size));
	show("reallocarray of NULL", size, 1, reallocarray(NULL, size, 1));
	show("valloc", size, 0, valloc(size));
	show("pvalloc", size, 0, pvalloc(size));
	for (size_t align = 8; align <= 65536; align *= 8) {
		show("memalign", align, size, memalign(align, size));
		show("aligned_alloc", align, size, aligned_alloc(align, size));
		show_posix_memalign(align, size);
	}
	resize(10, 1, size);
	resize(1 << 20, 1, size);
}

static void products(void)
{
	static const size_t factors[][2] = {
		{ SIZE_MAX, 2 },
		{ 2, SIZE_MAX },
		{ (size_t)1 << 32, (size_t)1 << 32 },
		{ SIZE_MAX / 3 + 1, 3 },
		{ SIZE_MAX, SIZE_MAX },
		{ 0, SIZE_MAX },
		{ SIZE_MAX, 0 },
		{ 0, 0 },
		{ 10, 10 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(factors); i++) {
		size_t a = factors[i][0], b = factors[i][1];

		show("calloc", a, b, calloc(a, b));
		show("reallocarray of NULL", a, b, reallocarray(NULL, a, b));
		resize(100, a, b);
	}
}

/* glibc up to 2.37 serves alignments that are no power of two; later versions refuse them. */
static bool shows_aligned_alloc(size_t align)
{
	return (align && !(align & (align - 1))) ||
	       strverscmp(gnu_get_libc_version(), "2.38") < 0;
}

static void alignments(void)
{
	static const size_t aligns[] = { 0,
					 1,
					 2,
					 3,
					 4,
					 5,
					 7,
					 8,
					 9,
					 12,
					 24,
					 100,
					 4095,
					 4096,
					 (size_t)1 << 50,
					 (size_t)1 << 62,
					 ((size_t)1 << 62) + 1,
					 (size_t)1 << 63,
					 ((size_t)1 << 63) + 1,
					 SIZE_MAX };
	static const size_t some[] = { 0, 100, PTRDIFF_MAX, SIZE_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(aligns); i++)
		for (size_t j = 0; j < ARRAY_SIZE(some); j++) {
			show("memalign", aligns[i], some[j], memalign(aligns[i], some[j]));
			if (shows_aligned_alloc(aligns[i]))
				show("aligned_alloc", aligns[i], some[j],
				     aligned_alloc(aligns[i], some[j]));
			show_posix_memalign(aligns[i], some[j]);
		}
}

static void about_the_heap(void)
{
	FILE *null = fopen("/dev/null", "w"), *full = fopen("/dev/full", "w");

	CHECK(null && full, "/dev/null, /dev/full");
	setvbuf(full, NULL, _IONBF, 0);
	errno = UNTOUCHED;
	show_result("malloc_usable_size of NULL", 0, 0, (long)malloc_usable_size(NULL));
	malloc_trim(0);
	show_result("after malloc_trim", 0, 0, 0);
	show_result("mallinfo2, used", 0, 0, mallinfo2().uordblks > 0);
	show_result("malloc_info", 1, 0, malloc_info(1, null));
	show_result("malloc_info", SIZE_MAX, 0, malloc_info(-1, null));
	/* glibc's leaves in errno what stdio met with. */
	printf("malloc_info(0): %d, on a full device %d\n", malloc_info(0, null),
	       malloc_info(0, full));
	fclose(null);
	fclose(full);
	free(NULL);
	errno = UNTOUCHED;
	free(malloc(1 << 25));
	show_result("after free", 0, 0, 0);
}

/* In the end, since it changes how things go on. */
static void parameters(void)
{
	static const int values[] = { 0, 1, 64, 160, 161, 1 << 20, INT32_MAX, -1, INT32_MIN };
	enum { LARGEST_FAST = 160 };

	for (int param = -12; param <= 12; param++)
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			int result = mallopt(param, values[i]);

			/* glibc 2.43 takes no notice of the value any more. */
			if (param != M_MXFAST || (values[i] >= 0 && values[i] <= LARGEST_FAST))
				show_result("mallopt", (size_t)param, (size_t)values[i],
					    result);
		}
	show_result("mallopt", INT32_MAX, 0, mallopt(INT32_MAX, 0));
}

int main(void)
{
	static const size_t usual[] = { 0, 1, 100, 5000, 100000, 1 << 22 };

	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	errno = UNTOUCHED;
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		sizes(usual[i]);
	for (size_t i = 0; i < ARRAY_SIZE(too_large); i++)
		sizes(too_large[i]);
	products();
	alignments();
	about_the_heap();
	parameters();
	return 0;
}
