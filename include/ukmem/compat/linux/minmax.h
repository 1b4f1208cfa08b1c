/* SPDX-License-Identifier: MIT */
/*
 * <linux/minmax.h> - the smaller and the larger, each argument evaluated once.
 *
 * Not for C++, which has its own.
 */
#ifndef UKMEM_COMPAT_LINUX_MINMAX_H
#define UKMEM_COMPAT_LINUX_MINMAX_H

#ifndef __cplusplus

/* As C compares: -Wsign-compare warns of a mixture that the kernel's do not compile. */
#define min(a, b) ukmem_choose(a, b, <)
#define max(a, b) ukmem_choose(a, b, >)
#define min3(a, b, c) min(min(a, b), c)
#define max3(a, b, c) max(max(a, b), c)
#define min_t(type, a, b) ukmem_choose((type)(a), (type)(b), <)
#define max_t(type, a, b) ukmem_choose((type)(a), (type)(b), >)
#define clamp(value, low, high) min(max(value, low), high)
#define clamp_t(type, value, low, high) min_t(type, max_t(type, value, low), high)
#define clamp_val(value, low, high) clamp_t(__typeof__(value), value, low, high)
#define min_not_zero(a, b)                                                                     \
	__extension__({                                                                        \
		__typeof__(a) ukmem_x = (a);                                                   \
		__typeof__(b) ukmem_y = (b);                                                   \
		ukmem_x == 0			    ? ukmem_y                                  \
		: ukmem_y == 0 || ukmem_x < ukmem_y ? ukmem_x                                  \
						    : ukmem_y;                                 \
	})
#define swap(a, b)                                                                             \
	do {                                                                                   \
		__typeof__(a) ukmem_swap = (a);                                                \
		(a) = (b);                                                                     \
		(b) = ukmem_swap;                                                              \
	} while (0)

#define ukmem_choose(a, b, op)                                                                 \
	__extension__({                                                                        \
		__typeof__(a) ukmem_a = (a);                                                   \
		__typeof__(b) ukmem_b = (b);                                                   \
		ukmem_a op ukmem_b ? ukmem_a : ukmem_b;                                        \
	})

#endif

#endif
