/* SPDX-License-Identifier: MIT */
/*
 * The C surface of malloc, as glibc documents it: results, errno, alignment,
 * usable sizes, contents kept by realloc, zeros from calloc, impossible requests,
 * and the reporting functions. glibc itself passes, but for what it has not got.
 *
 *	malloc_api_test
 *
 * To be compiled with -fno-builtin, or the compiler knows all the answers.
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "malloc_reports.h"
#include "preload_test.h"

#define UNTOUCHED 12345

/* Sizes from 1 to @max: every one up to 1024, then in steps of 1/64. */
#define for_each_size(size, max)                                                               \
	for (size_t size = 1; size <= (max); size += size < 1024 ? 1 : size / 64)

static size_t page_size;

static void fill(unsigned char *p, size_t from, size_t to, size_t key)
{
	for (size_t i = from; i < to; i++)
		p[i] = (unsigned char)(i * 7 + key);
}

static void check_filled(const unsigned char *p, size_t n, size_t key, const char *what)
{
	for (size_t i = 0; i < n; i++)
		CHECK(p[i] == (unsigned char)(i * 7 + key), "%s: byte %zu of %zu changed", what,
		      i, n);
}

static void check_zero(const unsigned char *p, size_t n, const char *what)
{
	for (size_t i = 0; i < n; i++)
		CHECK(p[i] == 0, "%s: byte %zu of %zu is %d", what, i, n, p[i]);
}

/* The documented minimum of every allocation: usable, writable, aligned, errno kept. */
static void check_block(void *p, size_t size, size_t alignment, const char *what)
{
	CHECK(p, "%s(%zu): no memory", what, size);
	CHECK(errno == UNTOUCHED, "%s(%zu) set errno to %d", what, size, errno);
	CHECK((uintptr_t)p % alignment == 0, "%s(%zu): %p not aligned to %zu", what, size, p,
	      alignment);
	size_t usable = malloc_usable_size(p);
	CHECK(usable >= size, "%s(%zu): only %zu usable", what, size, usable);
	memset(p, 0xee, usable < MIB ? usable : 64);
	((unsigned char *)p)[usable ? usable - 1 : 0] = 0xee;
	CHECK(malloc_usable_size(p) == usable, "%s(%zu): usable size changed", what, size);
}

static void test_small_and_large(void)
{
	for_each_size(size, 8 * MIB)
	{
		/* malloc's alignment: 16, or for smaller sizes what fits an object of that
		 * size. */
		size_t alignment = size >= 16 ? 16 : 8;
		errno = UNTOUCHED;
		void *p = malloc(size);
		check_block(p, size, alignment, "malloc");
		void *q = calloc(1, size);
		check_block(q, size, alignment, "calloc");
		void *r = realloc(NULL, size);
		check_block(r, size, alignment, "realloc(NULL)");
		void *s = reallocarray(NULL, 1, size);
		check_block(s, size, alignment, "reallocarray(NULL)");
		free(p);
		free(q);
		free(r);
		free(s);
		CHECK(errno == UNTOUCHED, "free set errno to %d", errno);
	}
}

static void test_zero_size(void)
{
	enum { COUNT = 1000 };
	void *p[COUNT];
	for (size_t i = 0; i < COUNT; i++) {
		switch (i % 3) {
		case 0:
			p[i] = malloc(0);
			break;
		case 1:
			p[i] = calloc(i % 2, 0);
			break;
		default:
			p[i] = realloc(NULL, 0);
			break;
		}
		CHECK(p[i], "NULL for a size of 0 in case %zu", i % 3);
		for (size_t j = 0; j < i; j++)
			CHECK(p[i] != p[j], "%p handed out twice for size 0", p[i]);
	}
	for (size_t i = 0; i < COUNT; i++) {
		if (i % 2)
			free(p[i]);
		else
			CHECK(realloc(p[i], 0) == NULL, "realloc(p, 0) is not NULL");
	}
	CHECK(malloc_usable_size(NULL) == 0, "usable size of NULL");
}

/* realloc(p, 0) frees: doing it for ever must not use up memory. */
static void test_realloc_to_zero(void)
{
	for (size_t i = 0; i < 200; i++) {
		void *p = malloc(256 * MIB);
		CHECK(p, "realloc(p, 0) does not free");
		memset(p, 1, 4096);
		errno = UNTOUCHED;
		CHECK(realloc(p, 0) == NULL, "realloc(p, 0) is not NULL");
		CHECK(errno == UNTOUCHED, "realloc(p, 0) set errno to %d", errno);
	}
}

static void test_free_keeps_errno(void)
{
	static const int values[] = { 0, ENOMEM, EINVAL, UNTOUCHED };
	for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
		void *p[40];
		size_t count = 0;
		for (size_t size = 1; size <= 512 * MIB; size *= 2)
			p[count++] = malloc(size);
		errno = values[v];
		free(NULL);
		for (size_t i = 0; i < count; i++)
			free(p[i]);
		CHECK(errno == values[v], "free changed errno from %d to %d", values[v], errno);
	}
}

static void expect_nomem(const void *p, const char *what, size_t a, size_t b)
{
	CHECK(!p, "%s(%zu, %zu) gave %p", what, a, b, p);
	CHECK(errno == ENOMEM, "%s(%zu, %zu): errno is %d", what, a, b, errno);
	errno = UNTOUCHED;
}

static void check_impossible(size_t size)
{
	errno = UNTOUCHED;
	expect_nomem(malloc(size), "malloc", size, 0);
	expect_nomem(calloc(1, size), "calloc", 1, size);
	expect_nomem(calloc(size, 1), "calloc", size, 1);
	expect_nomem(realloc(NULL, size), "realloc(NULL)", size, 0);
	expect_nomem(reallocarray(NULL, size, 1), "reallocarray(NULL)", size, 1);
	expect_nomem(aligned_alloc(64, size), "aligned_alloc", 64, size);
	expect_nomem(memalign(8192, size), "memalign", 8192, size);
	expect_nomem(valloc(size), "valloc", size, 0);
	expect_nomem(pvalloc(size), "pvalloc", size, 0);

	void *p = &page_size;
	int error = posix_memalign(&p, 64, size);
	CHECK(error == ENOMEM, "posix_memalign(%zu): %d", size, error);
	CHECK(p == &page_size, "posix_memalign(%zu) changed the pointer on error", size);
}

static void test_impossible_sizes(void)
{
	for (size_t i = 0; i < 500; i++) {
		check_impossible(SIZE_MAX - i);
		check_impossible((size_t)PTRDIFF_MAX + 1 + i);
		check_impossible((size_t)PTRDIFF_MAX - i);
	}
	for (size_t k = 1; k < 1000; k++)
		check_impossible(k << 50);
}

static void test_overflowing_products(void)
{
	static const size_t factors[][2] = {
		{ (size_t)1 << 32, (size_t)1 << 32 },
		{ (size_t)1 << 33, (size_t)1 << 31 },
		{ SIZE_MAX, 2 },
		{ SIZE_MAX / 2 + 1, 2 },
		{ SIZE_MAX / 3 + 1, 3 },
		{ SIZE_MAX / 16 + 2, 16 },
		{ SIZE_MAX, SIZE_MAX },
		{ ((size_t)1 << 32) + 1, ((size_t)1 << 32) - 1 },
	};
	unsigned char *p = malloc(100);
	CHECK(p, "no memory");
	fill(p, 0, 100, 1);
	/* The compiler holds p to be gone after reallocarray; it is not if that fails. */
	unsigned char *volatile kept = p;
	errno = UNTOUCHED;
	for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
		size_t a = factors[i][0], b = factors[i][1];
		expect_nomem(calloc(a, b), "calloc", a, b);
		expect_nomem(calloc(b, a), "calloc", b, a);
		expect_nomem(reallocarray(NULL, a, b), "reallocarray(NULL)", a, b);
		expect_nomem(reallocarray(kept, a, b), "reallocarray", a, b);
		expect_nomem(reallocarray(kept, b, a), "reallocarray", b, a);
	}
	check_filled(kept, 100, 1, "failed reallocarray");
	free(kept);
}

static void test_failed_realloc(void)
{
	for (size_t size = 1; size <= 8 * MIB; size = size * 3 + 1) {
		unsigned char *p = malloc(size);
		CHECK(p, "no memory");
		fill(p, 0, size, size);
		errno = UNTOUCHED;
		expect_nomem(realloc(p, SIZE_MAX / 2), "realloc", SIZE_MAX / 2, 0);
		expect_nomem(realloc(p, (size_t)1 << 50), "realloc", (size_t)1 << 50, 0);
		check_filled(p, size, size, "failed realloc");
		free(p);
	}
}

static void test_realloc_contents(void)
{
	for (size_t from = 1; from <= 8 * MIB; from = from * 5 / 3 + 1) {
		for (size_t to = 1; to <= 8 * MIB; to = to * 7 / 3 + 1) {
			size_t kept = from < to ? from : to;
			unsigned char *p = from % 3 ? malloc(from) : memalign(512, from);
			CHECK(p, "no memory");
			fill(p, 0, from, from ^ to);
			errno = UNTOUCHED;
			p = realloc(p, to);
			CHECK(p, "realloc from %zu to %zu", from, to);
			CHECK(errno == UNTOUCHED, "realloc set errno to %d", errno);
			CHECK(malloc_usable_size(p) >= to, "realloc to %zu: %zu usable", to,
			      malloc_usable_size(p));
			check_filled(p, kept, from ^ to, "realloc");
			fill(p, kept, to, from ^ to);
			p = reallocarray(p, from, 1);
			CHECK(p, "realloc from %zu back to %zu", to, from);
			check_filled(p, kept, from ^ to, "realloc back");
			free(p);
		}
	}
	/* Growing byte by byte, as a program that reads a line does. */
	unsigned char *p = NULL;
	for (size_t n = 1; n <= 40000; n++) {
		p = realloc(p, n);
		CHECK(p, "realloc to %zu", n);
		CHECK(malloc_usable_size(p) >= n, "realloc to %zu: %zu usable", n,
		      malloc_usable_size(p));
		p[n - 1] = (unsigned char)((n - 1) * 7 + 3);
	}
	check_filled(p, 40000, 3, "realloc by single bytes");
	free(p);
}

static void test_calloc_zeroes_reused(void)
{
	enum { COUNT = 8 };
	unsigned char *p[COUNT];
	for (size_t size = 1; size <= 8 * MIB; size = size * 4 / 3 + 1) {
		size_t usable = 0;
		for (int round = 0; round < 3; round++) {
			for (size_t i = 0; i < COUNT; i++) {
				p[i] = round % 2 ? calloc(size, 1) : malloc(size);
				CHECK(p[i], "no memory");
				if (round % 2)
					check_zero(p[i], size, "calloc");
				usable = malloc_usable_size(p[i]);
				memset(p[i], 0xff, usable);
			}
			for (size_t i = 0; i < COUNT; i++)
				free(p[i]);
		}
		malloc_trim(0);
		p[0] = calloc(1, size);
		CHECK(p[0], "no memory");
		check_zero(p[0], size, "calloc after malloc_trim");
		free(p[0]);
	}
}

static void test_alignments(void)
{
	for (size_t alignment = sizeof(void *); alignment <= MIB; alignment *= 2) {
		for_each_size(size, 100000)
		{
			void *p = &page_size;
			errno = UNTOUCHED;
			int error = posix_memalign(&p, alignment, size);
			CHECK(error == 0, "posix_memalign(%zu, %zu): %d", alignment, size,
			      error);
			check_block(p, size, alignment, "posix_memalign");
			void *q = memalign(alignment, size);
			check_block(q, size, alignment, "memalign");
			void *r = aligned_alloc(alignment, size);
			check_block(r, size, alignment, "aligned_alloc");
			free(p);
			free(q);
			free(r);
		}
	}
	for_each_size(size, 100000)
	{
		void *p = valloc(size), *q = pvalloc(size);
		check_block(p, size, page_size, "valloc");
		check_block(q, (size + page_size - 1) & -page_size, page_size, "pvalloc");
		free(p);
		free(q);
	}
}

static void check_after_shrinking(size_t alignment, size_t rest)
{
	enum { COUNT = 50, KEPT_PAGES = 5 };
	void *large[COUNT], *p[COUNT];

	malloc_trim(0); /* so that the blocks below do not come from caches only */
	for (size_t i = 0; i < COUNT; i++) {
		large[i] = malloc((KEPT_PAGES + rest) * page_size);
		CHECK(large[i], "no memory");
	}
	for (size_t i = 0; i < COUNT; i++) {
		large[i] = realloc(large[i], KEPT_PAGES * page_size);
		CHECK(large[i], "no memory");
	}
	for (size_t i = 0; i < COUNT; i++) {
		errno = UNTOUCHED;
		p[i] = memalign(alignment, alignment);
		check_block(p[i], alignment, alignment, "memalign after realloc");
	}
	for (size_t i = 0; i < COUNT; i++) {
		free(p[i]);
		free(large[i]);
	}
}

/*
 * The memory that realloc() cuts off may be reused, but not as if it were aligned to its size.
 */
static void test_alignment_after_shrinking(void)
{
	for (size_t alignment = 64; alignment <= 32 * page_size; alignment *= 2)
		for (size_t rest = 1; rest < 80; rest *= 2)
			check_after_shrinking(alignment, rest);
}

/* Either refused with EINVAL or, as older glibcs do, raised to a power of two. */
static void check_odd_alignment(void *p, size_t alignment, const char *what)
{
	if (p)
		CHECK((uintptr_t)p % (alignment > 8 ? 16 : 8) == 0, "%s(%zu): %p", what,
		      alignment, p);
	else
		CHECK(errno == EINVAL, "%s(%zu): errno is %d", what, alignment, errno);
	free(p);
}

static void test_bad_alignments(void)
{
	static const size_t bad[] = { 0, 1, 2, 3, 4, 5, 7, 9, 12, 15, 24, 100, 4095, SIZE_MAX };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		void *p = &page_size;
		int error = posix_memalign(&p, bad[i], 100);
		CHECK(error == EINVAL, "posix_memalign(%zu): %d", bad[i], error);
		CHECK(p == &page_size, "posix_memalign(%zu) changed the pointer", bad[i]);
		errno = UNTOUCHED;
		if (bad[i] < 4096) {
			check_odd_alignment(memalign(bad[i], 100), bad[i], "memalign");
			check_odd_alignment(aligned_alloc(bad[i], 100), bad[i],
					    "aligned_alloc");
		}
	}
	for (size_t alignment = (size_t)1 << 50; alignment; alignment <<= 1) {
		void *p = &page_size;
		int error = posix_memalign(&p, alignment, 100);
		CHECK(error == ENOMEM || error == EINVAL, "posix_memalign(%zu): %d", alignment,
		      error);
		CHECK(p == &page_size, "posix_memalign(%zu) changed the pointer", alignment);
		errno = UNTOUCHED;
		p = memalign(alignment, 100);
		CHECK(!p && errno != UNTOUCHED, "memalign(%zu): %p, errno %d", alignment, p,
		      errno);
	}
}

int main(void)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "small and large sizes", test_small_and_large },
		{ "size 0", test_zero_size },
		{ "realloc to 0", test_realloc_to_zero },
		{ "free keeps errno", test_free_keeps_errno },
		{ "impossible sizes", test_impossible_sizes },
		{ "overflowing products", test_overflowing_products },
		{ "failed realloc", test_failed_realloc },
		{ "contents after realloc", test_realloc_contents },
		{ "calloc on reused memory", test_calloc_zeroes_reused },
		{ "alignments", test_alignments },
		{ "alignment after shrinking", test_alignment_after_shrinking },
		{ "bad alignments", test_bad_alignments },
		{ "malloc_trim, mallinfo, mallopt", test_trim_and_mallinfo },
		{ "mallinfo adds up", test_mallinfo_adds_up },
		{ "mallinfo after malloc_trim", test_mallinfo_after_trim },
		{ "malloc_info, malloc_stats", test_reports },
		{ "mallopt", test_mallopt },
		{ "the trim threshold", test_trim_threshold },
	};
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	setvbuf(stdout, NULL, _IONBF, 0);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		tests[i].run();
		printf("ok: %s\n", tests[i].name);
	}
	return 0;
}
