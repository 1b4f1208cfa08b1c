/* SPDX-License-Identifier: MIT */
/*
 * The functions that jemalloc has beside libc's (jemalloc(3)). Programs have jemalloc's own
 * header; this one declares them for the library, and for its tests.
 */
#ifndef MALLOC_JEMALLOC_H
#define MALLOC_JEMALLOC_H

#include <stddef.h>

#include "ukmem/compiler.h"

/* Of the flags, the alignment's logarithm and this one; arenas and thread caches, by which
 * other bits choose, there are none of. */
#define MALLOCX_LG_ALIGN_MASK 63
#ifndef MALLOCX_ZERO
#define MALLOCX_ZERO 0x40
#endif

void *mallocx(size_t size, int flags);
void *rallocx(void *p, size_t size, int flags);
size_t xallocx(void *p, size_t size, size_t extra, int flags);
size_t sallocx(const void *p, int flags);
void dallocx(void *p, int flags);
void sdallocx(void *p, size_t size, int flags);
size_t nallocx(size_t size, int flags);

int mallctl(const char *name, void *old, size_t *old_len, void *value, size_t len);
int mallctlnametomib(const char *name, size_t *mib, size_t *mib_len);
int mallctlbymib(const size_t *mib, size_t mib_len, void *old, size_t *old_len, void *value,
		 size_t len);
void malloc_stats_print(void (*write)(void *, const char *), void *to, const char *options);

#endif
