/* SPDX-License-Identifier: MIT */
/*
 * <linux/compiler_types.h> - attributes. Attributes for the kernel's own checkers are empty.
 *
 * noinline and fallthrough are left out for C++, whose libraries use the words.
 */
#ifndef UKMEM_COMPAT_LINUX_COMPILER_TYPES_H
#define UKMEM_COMPAT_LINUX_COMPILER_TYPES_H

#include <linux/kconfig.h>

#include <sys/cdefs.h>

#ifndef __always_inline
#define __always_inline inline __attribute__((__always_inline__))
#endif
#define __maybe_unused __attribute__((__unused__))
#define __always_unused __attribute__((__unused__))
#define __must_check __attribute__((__warn_unused_result__))
#define __cold __attribute__((__cold__))
#define __packed __attribute__((__packed__))
#define __aligned(x) __attribute__((__aligned__(x)))
#define __printf(fmt, first) __attribute__((__format__(__printf__, fmt, first)))
#define __noreturn __attribute__((__noreturn__))
#define __weak __attribute__((__weak__))
#define __malloc __attribute__((__malloc__))
#ifndef __counted_by
#define __counted_by(m)
#endif
#ifndef __has_attribute
#define __has_attribute(x) 0
#endif

#define __user
#define __kernel
#define __percpu
#define __rcu
#define __iomem
#ifndef __cplusplus /* libstdc++ has parameters of this name */
#define __force
#endif
#define __bitwise
#define __private
#define __must_hold(x)
#define __acquires(x)
#define __releases(x)
#define __randomize_layout
#define __no_randomize_layout
#define __designated_init
#define __read_mostly
#define __ro_after_init

#ifndef __cplusplus
#if __has_attribute(__fallthrough__)
#define fallthrough __attribute__((__fallthrough__))
#else
#define fallthrough                                                                            \
	do {                                                                                   \
	} while (0)
#endif
#define noinline __attribute__((__noinline__))
#define noinline_for_stack noinline
#endif

#endif
