/* SPDX-License-Identifier: MIT */
/*
 * <linux/math.h> - division that rounds.
 */
#ifndef UKMEM_COMPAT_LINUX_MATH_H
#define UKMEM_COMPAT_LINUX_MATH_H

#define DIV_ROUND_UP(n, d) (((n) + (d)-1) / (d))
#define DIV_ROUND_CLOSEST(n, d) (((n) + (d) / 2) / (d))
#define DIV_ROUND_UP_ULL(n, d) DIV_ROUND_UP((unsigned long long)(n), (d))
/* To a power of two. */
#define round_up(x, y) ((((x)-1) | ((__typeof__(x))(y)-1)) + 1)
#define round_down(x, y) ((x) & ~((__typeof__(x))(y)-1))
/* To any multiple. */
#define roundup(x, y) (DIV_ROUND_UP((x), (y)) * (y))
#define rounddown(x, y) ((x) - (x) % (y))

#endif
