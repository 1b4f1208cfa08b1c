/* SPDX-License-Identifier: MIT */
/*
 * <linux/prefetch.h> - into the cache, before it is needed.
 */
#ifndef UKMEM_COMPAT_LINUX_PREFETCH_H
#define UKMEM_COMPAT_LINUX_PREFETCH_H

#define prefetch(p) __builtin_prefetch(p)
#define prefetchw(p) __builtin_prefetch((p), 1)

#endif
