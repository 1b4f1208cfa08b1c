/* SPDX-License-Identifier: MIT */
/*
 * <linux/build_bug.h> - conditions that are checked by the compiler.
 */
#ifndef UKMEM_COMPAT_LINUX_BUILD_BUG_H
#define UKMEM_COMPAT_LINUX_BUILD_BUG_H

/* A statement. */
#ifdef __cplusplus
#define BUILD_BUG_ON_MSG(condition, msg)                                                       \
	do {                                                                                   \
		static_assert(!(condition), msg);                                              \
	} while (0)
#else
#define BUILD_BUG_ON_MSG(condition, msg)                                                       \
	do {                                                                                   \
		_Static_assert(!(condition), msg);                                             \
	} while (0)
#ifndef static_assert
#define static_assert(expr, ...) ukmem_static_assert(expr, ##__VA_ARGS__, #expr)
#define ukmem_static_assert(expr, msg, ...) _Static_assert(expr, msg)
#endif
#endif
#define BUILD_BUG_ON(condition) BUILD_BUG_ON_MSG(condition, "BUILD_BUG_ON: " #condition)
#define BUILD_BUG_ON_ZERO(e) ((int)(sizeof(char[1 - 2 * !!(e)]) - 1))
#define BUILD_BUG_ON_NOT_POWER_OF_2(n) BUILD_BUG_ON((n) == 0 || ((n) & ((n)-1)) != 0)

#endif
