/* SPDX-License-Identifier: MIT */
/*
 * <linux/align.h> - rounding to powers of two.
 */
#ifndef UKMEM_COMPAT_LINUX_ALIGN_H
#define UKMEM_COMPAT_LINUX_ALIGN_H

#include <linux/types.h>

#define ALIGN(x, a) (((x) + ((__typeof__(x))(a)-1)) & ~((__typeof__(x))(a)-1))
#define ALIGN_DOWN(x, a) ((x) & ~((__typeof__(x))(a)-1))
#define PTR_ALIGN(p, a) ((__typeof__(p))ALIGN((unsigned long)(p), (a)))
#define PTR_ALIGN_DOWN(p, a) ((__typeof__(p))ALIGN_DOWN((unsigned long)(p), (a)))
#define IS_ALIGNED(x, a) (((x) & ((__typeof__(x))(a)-1)) == 0)

#endif
