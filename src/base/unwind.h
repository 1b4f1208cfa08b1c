/* SPDX-License-Identifier: MIT */
/* A fast walk over this thread's stack; see unwind.c. Any thread and any signal handler may
 * call these functions: they take no lock, allocate nothing and cannot fault. */
#ifndef BASE_UNWIND_H
#define BASE_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The walk needs so many bytes for what it keeps; 0: it has nothing to do here. */
size_t unwind_bytes(void);
/* Gives the walk @memory, of zeroes, for good. Until then the walk finds nothing. */
void unwind_begin(void *memory);

/*
 * Writes return addresses to pc[0..@most), the innermost first, of the frames from that of the
 * function which @caller belongs to; without such a frame, all from the one of this function's
 * caller. Result: how many. *@whole: false: some frame is not of the simple kinds, or the walk
 * has no memory: another unwinder has to do it. The result is how many frames from that of
 * @caller on are below that frame then; 0: the walk did not reach @caller.
 */
unsigned int unwind_stack(uintptr_t *pc, unsigned int most, uintptr_t caller, bool *whole);

#endif
