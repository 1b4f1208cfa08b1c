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
#ifndef unreachable /* <stddef.h> of C23 has it */
#define unreachable() __builtin_unreachable()
#endif
#else /* a function: C++23 has std::unreachable() */
[[noreturn]] static inline void unreachable()
{
	__builtin_unreachable();
}
#endif
#define OPTIMIZER_HIDE_VAR(var) __asm__("" : "+r"(var))

/* Each is exactly one access to a scalar of up to a machine word; no data race. */
#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, value) __atomic_store_n(&(x), (value), __ATOMIC_RELAXED)
#define data_race(x) (x)

/* A name that no other use of it gives. */
#define ___PASTE(a, b) a##b
#define __PASTE(a, b) ___PASTE(a, b)
#define __UNIQUE_ID(prefix) __PASTE(__PASTE(ukmem_##prefix, _), __COUNTER__)

#endif
