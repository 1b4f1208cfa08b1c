/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/malloc.h> - what a program on the malloc drop-in may ask it.
 *
 * A program is not linked to the drop-in, so these names are weak: their addresses are NULL in
 * a program that runs on another malloc.
 *
 *	if (ukmem_malloc_trim)
 *		ukmem_malloc_trim();
 *
 * Other languages find them by dlsym(RTLD_DEFAULT, ...). The functions mean the same as those
 * of <ukmem/stats.h> whose names are theirs without _malloc, which are libukmem.so's: a program
 * that is linked to that library has both, each with caches of its own.
 *
 * Thread safety: all functions, any thread. Signal safety: none.
 */
#ifndef UKMEM_MALLOC_H
#define UKMEM_MALLOC_H

#include <stddef.h>

#include <ukmem/compiler.h>
#include <ukmem/stats.h>

UKMEM_BEGIN_DECLS

/** ukmem_malloc_stats_print - as ukmem_stats_print(), of the drop-in. */
int ukmem_malloc_stats_print(int fd, enum ukmem_stats_format format) __attribute__((__weak__));

/** ukmem_malloc_gauges_read - as ukmem_gauges_read(), of the drop-in. */
void ukmem_malloc_gauges_read(struct ukmem_gauges *g) __attribute__((__weak__));

/** ukmem_malloc_trim - as ukmem_trim(), of the drop-in: malloc_trim() that says how much. */
size_t ukmem_malloc_trim(void) __attribute__((__weak__));

UKMEM_END_DECLS

#endif
