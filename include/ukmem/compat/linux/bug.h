/* SPDX-License-Identifier: MIT */
/*
 * <linux/bug.h> - reports of conditions that must not occur. BUG and BUG_ON write to stderr and
 * abort. WARN and its kind write and go on; their result is the condition.
 */
#ifndef UKMEM_COMPAT_LINUX_BUG_H
#define UKMEM_COMPAT_LINUX_BUG_H

#include <stdlib.h>

#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/printk.h>

#define BUG()                                                                                  \
	do {                                                                                   \
		printk(KERN_CRIT "kernel BUG at %s:%d!\n", __FILE__, __LINE__);                \
		abort();                                                                       \
	} while (0)
#define BUG_ON(condition)                                                                      \
	do {                                                                                   \
		if (__builtin_expect(!!(condition), 0))                                        \
			BUG();                                                                 \
	} while (0)

#define WARN(condition, ...)                                                                   \
	__extension__({                                                                        \
		int ukmem_warn = !!(condition);                                                \
		if (__builtin_expect(ukmem_warn, 0)) {                                         \
			printk(KERN_WARNING "WARNING: at %s:%d %s\n", __FILE__, __LINE__,      \
			       __func__);                                                      \
			printk(KERN_WARNING __VA_ARGS__);                                      \
		}                                                                              \
		__builtin_expect(ukmem_warn, 0);                                               \
	})
#define WARN_ON(condition)                                                                     \
	__extension__({                                                                        \
		int ukmem_warn = !!(condition);                                                \
		if (__builtin_expect(ukmem_warn, 0))                                           \
			printk(KERN_WARNING "WARNING: at %s:%d %s: %s\n", __FILE__, __LINE__,  \
			       __func__, #condition);                                          \
		__builtin_expect(ukmem_warn, 0);                                               \
	})
/* True the first time only, in whatever thread. */
#define ukmem_once()                                                                           \
	__extension__({                                                                        \
		static char ukmem_done;                                                        \
		!__atomic_exchange_n(&ukmem_done, 1, __ATOMIC_RELAXED);                        \
	})
#define WARN_ON_ONCE(condition)                                                                \
	__extension__({                                                                        \
		int ukmem_warn1 = !!(condition);                                               \
		if (__builtin_expect(ukmem_warn1, 0) && ukmem_once())                          \
			printk(KERN_WARNING "WARNING: at %s:%d %s: %s\n", __FILE__, __LINE__,  \
			       __func__, #condition);                                          \
		__builtin_expect(ukmem_warn1, 0);                                              \
	})
#define WARN_ONCE(condition, ...)                                                              \
	__extension__({                                                                        \
		int ukmem_warn1 = !!(condition);                                               \
		if (__builtin_expect(ukmem_warn1, 0) && ukmem_once())                          \
			WARN(1, __VA_ARGS__);                                                  \
		__builtin_expect(ukmem_warn1, 0);                                              \
	})
#define VM_BUG_ON(condition) BUG_ON(condition)
#define VM_WARN_ON(condition) WARN_ON(condition)
#define VM_WARN_ON_ONCE(condition) WARN_ON_ONCE(condition)

#endif
