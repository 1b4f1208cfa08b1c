/* SPDX-License-Identifier: MIT */
/*
 * <linux/math.h> - division that rounds.
 *
 * DIV_ROUND_UP, round_up and round_down of constants are constant expressions.
 */
#ifndef UKMEM_COMPAT_LINUX_MATH_H
#define UKMEM_COMPAT_LINUX_MATH_H

/* <sys/param.h> has a macro of this name. */
#undef roundup

#define DIV_ROUND_UP(n, d) (((n) + (d)-1) / (d))
/* Halves are rounded away from 0. A negative number with an unsigned one has no meaning. */
#define DIV_ROUND_CLOSEST(n, d)                                                                \
	__extension__({                                                                        \
		__typeof__(n) ukmem_n = (n);                                                   \
		__typeof__(d) ukmem_d = (d);                                                   \
		ukmem_is_negative(ukmem_n) == ukmem_is_negative(ukmem_d)                       \
			? (ukmem_n + ukmem_d / 2) / ukmem_d                                    \
			: (ukmem_n - ukmem_d / 2) / ukmem_d;                                   \
	})
/* Compilers warn of < 0 where the type has no sign. */
#define ukmem_is_negative(x) (!((x) > 0 || (x) == 0))
#define DIV_ROUND_UP_ULL(n, d) DIV_ROUND_UP((unsigned long long)(n), (d))

#ifndef __cplusplus
#include <stdlib.h>

/* Of the argument's type, where that is larger than int; libc's function takes an int. C++ has
 * functions for all types. */
#undef abs
/* clang-format off */
#define abs(x)                                                                                 \
	_Generic((x), long: labs, unsigned long: labs, long long: llabs,                       \
		 unsigned long long: llabs, default: abs)(x)
/* clang-format on */
/* Of two numbers of one type, which may be unsigned. */
#define abs_diff(a, b)                                                                         \
	__extension__({                                                                        \
		__typeof__(a) ukmem_a = (a);                                                   \
		__typeof__(a) ukmem_b = (b);                                                   \
		ukmem_a > ukmem_b ? ukmem_a - ukmem_b : ukmem_b - ukmem_a;                     \
	})
/* To a power of two. */
#define round_up(x, y) ((((x)-1) | ((__typeof__(x))((y)-1))) + 1)
#define round_down(x, y) ((x) & ~((__typeof__(x))((y)-1)))
/* To any multiple. */
#define roundup(x, y)                                                                          \
	__extension__({                                                                        \
		__typeof__(y) ukmem_y = (y);                                                   \
		DIV_ROUND_UP((x), ukmem_y) * ukmem_y;                                          \
	})
#define rounddown(x, y)                                                                        \
	__extension__({                                                                        \
		__typeof__(x) ukmem_x = (x);                                                   \
		ukmem_x - ukmem_x % (y);                                                       \
	})
#else
/* The same as functions, since other C++ code has functions of these names. */
extern "C++" {
template <typename T, typename U> constexpr auto round_up(T x, U y)
{
	return ((x - 1) | static_cast<T>(y - 1)) + 1;
}

template <typename T, typename U> constexpr auto round_down(T x, U y)
{
	return x & ~static_cast<T>(y - 1);
}

template <typename T, typename U> constexpr auto roundup(T x, U y)
{
	return DIV_ROUND_UP(x, y) * y;
}

template <typename T, typename U> constexpr auto rounddown(T x, U y)
{
	return x - x % y;
}
}
#endif

#endif
