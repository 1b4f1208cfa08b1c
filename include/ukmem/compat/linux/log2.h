/* SPDX-License-Identifier: MIT */
/*
 * <linux/log2.h> - powers of two. No argument may be 0, save those of is_power_of_2 and
 * order_base_2. Results for constants are constant expressions.
 */
#ifndef UKMEM_COMPAT_LINUX_LOG2_H
#define UKMEM_COMPAT_LINUX_LOG2_H

#include <stdbool.h>

/* The largest k with 2^k <= n. */
#define ilog2(n)                                                                               \
	((int)(8 * sizeof(unsigned long long)) - 1 - __builtin_clzll((unsigned long long)(n)))
/* The smallest k with 2^k >= n. */
#define order_base_2(n)                                                                        \
	(__builtin_constant_p(n) ? UKMEM_ORDER_BASE_2(n) : ukmem_order_base_2(n))
#define UKMEM_ORDER_BASE_2(n) ((n) > 1 ? ilog2((n)-1) + 1 : 0)
#define roundup_pow_of_two(n) (1ul << order_base_2((unsigned long)(n)))
#define rounddown_pow_of_two(n) (1ul << ilog2(n))

/* @n evaluated once. */
static inline int ukmem_order_base_2(unsigned long n)
{
	return UKMEM_ORDER_BASE_2(n);
}

#ifdef __cplusplus
extern "C++" constexpr bool is_power_of_2(unsigned long n)
{
	return n != 0 && (n & (n - 1)) == 0;
}
#else
#define is_power_of_2(n)                                                                       \
	(__builtin_constant_p(n) ? UKMEM_IS_POWER_OF_2((unsigned long)(n))                     \
				 : ukmem_is_power_of_2(n))
#define UKMEM_IS_POWER_OF_2(n) ((n) != 0 && ((n) & ((n)-1)) == 0)

/* @n evaluated once. */
static inline bool ukmem_is_power_of_2(unsigned long n)
{
	return UKMEM_IS_POWER_OF_2(n);
}
#endif

#endif
