/* SPDX-License-Identifier: MIT */
/*
 * <kunit/test.h>: the part of KUnit's interface that the tests use, on a program of its own
 * (kunit.c is its main function): suites of cases, expectations, assertions that end a case,
 * memory that is freed at the end of a case.
 */
#ifndef KERNEL_SHIM_KUNIT_TEST_H
#define KERNEL_SHIM_KUNIT_TEST_H

#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

struct kunit {
	void *priv;
	const char *name;
	bool failed;
	const char *skipped; /* why */
	void *blocks;	     /* kunit_kmalloc */
};

struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
};

struct kunit_suite {
	const char *name;
	int (*suite_init)(struct kunit_suite *suite);
	void (*suite_exit)(struct kunit_suite *suite);
	int (*init)(struct kunit *test);
	void (*exit)(struct kunit *test);
	struct kunit_case *test_cases; /* the last one has no name */
};

#define KUNIT_CASE(function)                                                                   \
	{                                                                                      \
		.run_case = (function), .name = #function                                      \
	}

void kunit_register(struct kunit_suite *const *suites, size_t n);
#define kunit_test_suites(...)                                                                 \
	static __attribute__((__constructor__)) void kunit_register_suites(void)               \
	{                                                                                      \
		struct kunit_suite *suites[] = { __VA_ARGS__ };                                \
                                                                                               \
		kunit_register(suites, ARRAY_SIZE(suites));                                    \
	}
#define kunit_test_suite(suite) kunit_test_suites(&(suite))

/* A finding; with @fatal the case ends. */
void kunit_fail(struct kunit *test, bool fatal, const char *file, int line, const char *text,
		const char *fmt, ...) __attribute__((__format__(__printf__, 6, 7)));
void kunit_end_case(struct kunit *test) __attribute__((__noreturn__));
void kunit_say(struct kunit *test, const char *fmt, ...)
	__attribute__((__format__(__printf__, 2, 3)));

#define kunit_info(test, ...) kunit_say((test), __VA_ARGS__)
#define kunit_warn(test, ...) kunit_say((test), __VA_ARGS__)
#define kunit_err(test, ...) kunit_say((test), __VA_ARGS__)
#define kunit_mark_skipped(test, ...) ((void)((test)->skipped = "" __VA_ARGS__))
#define kunit_skip(test, ...) ((test)->skipped = "" __VA_ARGS__, kunit_end_case(test))

void *kunit_kmalloc_array(struct kunit *test, size_t n, size_t size, gfp_t gfp);
void kunit_kfree(struct kunit *test, const void *block);
#define kunit_kmalloc(test, size, gfp) kunit_kmalloc_array((test), 1, (size), (gfp))
#define kunit_kzalloc(test, size, gfp) kunit_kmalloc((test), (size), (gfp) | __GFP_ZERO)
#define kunit_kcalloc(test, n, size, gfp)                                                      \
	kunit_kmalloc_array((test), (n), (size), (gfp) | __GFP_ZERO)

/* Resources by name: one at a time. */
struct kunit_resource {
	void *data;
	const char *name;
};
int kunit_add_named_resource(struct kunit *test, int (*init)(struct kunit_resource *, void *),
			     void (*free)(struct kunit_resource *), struct kunit_resource *r,
			     const char *name, void *data);
struct kunit_resource *kunit_find_named_resource(struct kunit *test, const char *name);

#define KUNIT_CHECK(test, fatal, condition, text, ...)                                         \
	do {                                                                                   \
		if (!(condition))                                                              \
			kunit_fail((test), (fatal), __FILE__, __LINE__, text, "" __VA_ARGS__); \
	} while (0)
/* Both sides are evaluated once, and shown. */
#define KUNIT_COMPARE(test, fatal, a, op, b, ...)                                              \
	do {                                                                                   \
		__typeof__(a) kunit_a = (a);                                                   \
		__typeof__(b) kunit_b = (b);                                                   \
		if (!(kunit_a op kunit_b)) {                                                   \
			kunit_say((test), "%lld (0x%llx) and %lld (0x%llx)\n",                 \
				  (long long)kunit_a, (long long)kunit_a, (long long)kunit_b,  \
				  (long long)kunit_b);                                         \
			kunit_fail((test), (fatal), __FILE__, __LINE__, #a " " #op " " #b,     \
				   "" __VA_ARGS__);                                            \
		}                                                                              \
	} while (0)
#define KUNIT_COMPARE_POINTERS(test, fatal, a, op, b, ...)                                     \
	KUNIT_COMPARE(test, fatal, (unsigned long)(a), op, (unsigned long)(b), ##__VA_ARGS__)

#define KUNIT_FAIL(test, ...) KUNIT_CHECK(test, false, false, "failure", __VA_ARGS__)
#define KUNIT_SUCCEED(test) ((void)(test))

#define KUNIT_EXPECT_TRUE(test, a) KUNIT_CHECK(test, false, (a), #a)
#define KUNIT_EXPECT_TRUE_MSG(test, a, ...) KUNIT_CHECK(test, false, (a), #a, __VA_ARGS__)
#define KUNIT_EXPECT_FALSE(test, a) KUNIT_CHECK(test, false, !(a), "!" #a)
#define KUNIT_EXPECT_FALSE_MSG(test, a, ...) KUNIT_CHECK(test, false, !(a), "!" #a, __VA_ARGS__)
#define KUNIT_EXPECT_EQ(test, a, b) KUNIT_COMPARE(test, false, a, ==, b)
#define KUNIT_EXPECT_EQ_MSG(test, a, b, ...) KUNIT_COMPARE(test, false, a, ==, b, __VA_ARGS__)
#define KUNIT_EXPECT_NE(test, a, b) KUNIT_COMPARE(test, false, a, !=, b)
#define KUNIT_EXPECT_LT(test, a, b) KUNIT_COMPARE(test, false, a, <, b)
#define KUNIT_EXPECT_LT_MSG(test, a, b, ...) KUNIT_COMPARE(test, false, a, <, b, __VA_ARGS__)
#define KUNIT_EXPECT_LE(test, a, b) KUNIT_COMPARE(test, false, a, <=, b)
#define KUNIT_EXPECT_GT(test, a, b) KUNIT_COMPARE(test, false, a, >, b)
#define KUNIT_EXPECT_GE(test, a, b) KUNIT_COMPARE(test, false, a, >=, b)
#define KUNIT_EXPECT_PTR_EQ(test, a, b) KUNIT_COMPARE_POINTERS(test, false, a, ==, b)
#define KUNIT_EXPECT_PTR_EQ_MSG(test, a, b, ...)                                               \
	KUNIT_COMPARE_POINTERS(test, false, a, ==, b, __VA_ARGS__)
#define KUNIT_EXPECT_PTR_NE(test, a, b) KUNIT_COMPARE_POINTERS(test, false, a, !=, b)
#define KUNIT_EXPECT_NOT_ERR_OR_NULL(test, p) KUNIT_CHECK(test, false, !IS_ERR_OR_NULL(p), #p)
#define KUNIT_EXPECT_NULL(test, p) KUNIT_CHECK(test, false, !(p), #p)
#define KUNIT_EXPECT_NOT_NULL(test, p) KUNIT_CHECK(test, false, (p), #p)

#define KUNIT_ASSERT_TRUE(test, a) KUNIT_CHECK(test, true, (a), #a)
#define KUNIT_ASSERT_FALSE(test, a) KUNIT_CHECK(test, true, !(a), "!" #a)
#define KUNIT_ASSERT_FALSE_MSG(test, a, ...) KUNIT_CHECK(test, true, !(a), "!" #a, __VA_ARGS__)
#define KUNIT_ASSERT_EQ(test, a, b) KUNIT_COMPARE(test, true, a, ==, b)
#define KUNIT_ASSERT_EQ_MSG(test, a, b, ...) KUNIT_COMPARE(test, true, a, ==, b, __VA_ARGS__)
#define KUNIT_ASSERT_LE(test, a, b) KUNIT_COMPARE(test, true, a, <=, b)
#define KUNIT_ASSERT_LE_MSG(test, a, b, ...) KUNIT_COMPARE(test, true, a, <=, b, __VA_ARGS__)
#define KUNIT_ASSERT_PTR_EQ_MSG(test, a, b, ...)                                               \
	KUNIT_COMPARE_POINTERS(test, true, a, ==, b, __VA_ARGS__)
#define KUNIT_ASSERT_NOT_ERR_OR_NULL(test, p) KUNIT_CHECK(test, true, !IS_ERR_OR_NULL(p), #p)
#define KUNIT_ASSERT_NOT_ERR_OR_NULL_MSG(test, p, ...)                                         \
	KUNIT_CHECK(test, true, !IS_ERR_OR_NULL(p), #p, __VA_ARGS__)

#endif
