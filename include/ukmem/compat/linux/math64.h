/* SPDX-License-Identifier: MIT */
/*
 * <linux/math64.h> - division of 64-bit numbers.
 */
#ifndef UKMEM_COMPAT_LINUX_MATH64_H
#define UKMEM_COMPAT_LINUX_MATH64_H

#include <linux/types.h>

/* @n becomes the quotient. Result: the remainder. */
#define do_div(n, base)                                                                        \
	__extension__({                                                                        \
		u32 ukmem_div_base = (base);                                                   \
		u32 ukmem_div_rest = (u32)((u64)(n) % ukmem_div_base);                         \
		(n) = (u64)(n) / ukmem_div_base;                                               \
		ukmem_div_rest;                                                                \
	})

static inline u64 div_u64(u64 n, u32 d)
{
	return n / d;
}

static inline s64 div_s64(s64 n, s32 d)
{
	return n / d;
}

static inline u64 div64_u64(u64 n, u64 d)
{
	return n / d;
}

static inline s64 div64_s64(s64 n, s64 d)
{
	return n / d;
}

static inline u64 div_u64_rem(u64 n, u32 d, u32 *rest)
{
	*rest = (u32)(n % d);
	return n / d;
}

static inline s64 div_s64_rem(s64 n, s32 d, s32 *rest)
{
	*rest = (s32)(n % d);
	return n / d;
}

static inline u64 div64_u64_rem(u64 n, u64 d, u64 *rest)
{
	*rest = n % d;
	return n / d;
}

#endif
