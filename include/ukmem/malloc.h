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
 * In code that is not position-independent (-fno-pie, linked with -no-pie) clang's weak names
 * are NULL for ever, on the drop-in, too: compile with -fPIE, or use dlsym(). With gcc they
 * work in such code.
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

/*
 * __noplt__ lets code that is not position-independent take the address from the global offset
 * table, where the dynamic linker writes it. Without it the static linker writes 0 into the
 * code.
 */
#if defined(__GNUC__) && !defined(__clang__)
#define UKMEM_ASKED __attribute__((__weak__, __noplt__))
#else
#define UKMEM_ASKED __attribute__((__weak__))
#endif

UKMEM_BEGIN_DECLS

/** ukmem_malloc_stats_print - as ukmem_stats_print(), of the drop-in. */
int ukmem_malloc_stats_print(int fd, enum ukmem_stats_format format) UKMEM_ASKED;

/** ukmem_malloc_gauges_read - as ukmem_gauges_read(), of the drop-in. */
void ukmem_malloc_gauges_read(struct ukmem_gauges *g) UKMEM_ASKED;

/** ukmem_malloc_trim - as ukmem_trim(), of the drop-in: malloc_trim() that says how much. */
size_t ukmem_malloc_trim(void) UKMEM_ASKED;

UKMEM_END_DECLS

#endif
