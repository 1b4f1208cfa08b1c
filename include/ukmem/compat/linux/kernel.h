/* SPDX-License-Identifier: MIT */
/*
 * <linux/kernel.h> - the system's header, and names that kernel code expects of this one:
 * container_of, ARRAY_SIZE, min, rounding, printing. <sys/sysinfo.h> includes it too, so in C++
 * it defines no macro that could disturb other code.
 */
#ifndef UKMEM_COMPAT_LINUX_KERNEL_H
#define UKMEM_COMPAT_LINUX_KERNEL_H

#pragma GCC system_header /* include_next is an extension */
#include_next <linux/kernel.h>

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include <linux/align.h>
#include <linux/array_size.h>
#include <linux/bitops.h>
#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/container_of.h>
#include <linux/err.h>
#include <linux/kstrtox.h>
#include <linux/limits.h>
#include <linux/log2.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/printk.h>
#include <linux/stddef.h>
#include <linux/types.h>

#define might_sleep() ((void)0)
#define might_sleep_if(condition) ((void)(condition))
#define upper_32_bits(n) ((u32)((u64)(n) >> 32))
#define lower_32_bits(n) ((u32)(n))

/* As snprintf, but the result is the number of characters that were written to @buf. */
static inline __printf(3, 4) int scnprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(buf, size, fmt, args);
	va_end(args);
	if (n < 0 || size == 0)
		return 0;
	return (size_t)n < size ? n : (int)size - 1;
}

#endif
