/* SPDX-License-Identifier: MIT */
/*
 * <linux/cache.h> - cache lines.
 */
#ifndef UKMEM_COMPAT_LINUX_CACHE_H
#define UKMEM_COMPAT_LINUX_CACHE_H

#include <linux/compiler_types.h>

#define L1_CACHE_SHIFT 6
#define L1_CACHE_BYTES (1 << L1_CACHE_SHIFT)
#define SMP_CACHE_BYTES L1_CACHE_BYTES
#define L1_CACHE_ALIGN(x) (((x) + (L1_CACHE_BYTES - 1)) & ~(__typeof__(x))(L1_CACHE_BYTES - 1))
#define ____cacheline_aligned __attribute__((__aligned__(SMP_CACHE_BYTES)))
#define ____cacheline_aligned_in_smp ____cacheline_aligned
#define __cacheline_aligned ____cacheline_aligned
#define __cacheline_aligned_in_smp ____cacheline_aligned

#endif
