/* SPDX-License-Identifier: MIT */
/*
 * <linux/compiler.h> - hints, and accesses that the compiler leaves as they are.
 */
#ifndef UKMEM_COMPAT_LINUX_COMPILER_H
#define UKMEM_COMPAT_LINUX_COMPILER_H

#include <linux/compiler_types.h>

#ifndef __cplusplus
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define barrier() __asm__ volatile("" ::: "memory")
#endif
#define unreachable() __builtin_unreachable()
#define OPTIMIZER_HIDE_VAR(var) __asm__("" : "+r"(var))

/* One access each, also beside other threads: atomic for up to a machine word. */
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value)                                                                   \
	do {                                                                                   \
		*(volatile __typeof__(x) *)&(x) = (value);                                     \
	} while (0)
#define data_race(x) (x)

#endif
