/* SPDX-License-Identifier: MIT */
/*
 * <linux/refcount.h> - counts of references. A count that would leave 1 .. INT_MAX is reported,
 * and stays where nothing is freed.
 */
#ifndef UKMEM_COMPAT_LINUX_REFCOUNT_H
#define UKMEM_COMPAT_LINUX_REFCOUNT_H

#include <limits.h>

#include <linux/atomic.h>
#include <linux/bug.h>

typedef struct refcount_struct {
	atomic_t refs;
} refcount_t;

#define REFCOUNT_INIT(n)                                                                       \
	{                                                                                      \
		ATOMIC_INIT(n)                                                                 \
	}
#define REFCOUNT_SATURATED (INT_MIN / 2)

static inline void refcount_set(refcount_t *r, int n)
{
	atomic_set(&r->refs, n);
}

static inline unsigned int refcount_read(const refcount_t *r)
{
	return (unsigned int)atomic_read(&r->refs);
}

static inline __must_check bool refcount_inc_not_zero(refcount_t *r)
{
	int old = atomic_fetch_add_unless(&r->refs, 1, 0);

	if (WARN_ON_ONCE(old < 0 || old == INT_MAX))
		atomic_set(&r->refs, REFCOUNT_SATURATED);
	return old != 0;
}

static inline void refcount_inc(refcount_t *r)
{
	if (WARN_ON_ONCE(!refcount_inc_not_zero(r)))
		atomic_set(&r->refs, REFCOUNT_SATURATED);
}

static inline __must_check bool refcount_sub_and_test(int i, refcount_t *r)
{
	int left = atomic_sub_return(i, &r->refs);

	if (WARN_ON_ONCE(left < 0))
		atomic_set(&r->refs, REFCOUNT_SATURATED);
	return left == 0;
}

static inline __must_check bool refcount_dec_and_test(refcount_t *r)
{
	return refcount_sub_and_test(1, r);
}

/* From 1 to 0; false: the count was not 1, and stays. */
static inline __must_check bool refcount_dec_if_one(refcount_t *r)
{
	return atomic_cmpxchg(&r->refs, 1, 0) == 1;
}

static inline void refcount_dec(refcount_t *r)
{
	if (WARN_ON_ONCE(refcount_dec_and_test(r)))
		atomic_set(&r->refs, REFCOUNT_SATURATED);
}

#endif
