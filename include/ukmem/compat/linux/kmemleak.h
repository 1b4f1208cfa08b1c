/* SPDX-License-Identifier: MIT */
/*
 * <linux/kmemleak.h> - empty macros: the library has no search for leaks.
 */
#ifndef UKMEM_COMPAT_LINUX_KMEMLEAK_H
#define UKMEM_COMPAT_LINUX_KMEMLEAK_H

#define kmemleak_alloc(p, size, min_count, flags) ((void)(p))
#define kmemleak_free(p) ((void)(p))
#define kmemleak_free_part(p, size) ((void)(p))
#define kmemleak_alloc_recursive(p, size, min_count, flags, gfp) ((void)(p))
#define kmemleak_free_recursive(p, flags) ((void)(p))
#define kmemleak_alloc_percpu(p, size, gfp) ((void)(p))
#define kmemleak_free_percpu(p) ((void)(p))
#define kmemleak_update_trace(p) ((void)(p))
#define kmemleak_transient_leak(p) ((void)(p))
#define kmemleak_erase(p) (*(p) = NULL)
#define kmemleak_not_leak(p) ((void)(p))
#define kmemleak_ignore(p) ((void)(p))
#define kmemleak_scan_area(p, size, flags) ((void)(p))
#define kmemleak_no_scan(p) ((void)(p))

#endif
