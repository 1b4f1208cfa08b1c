/* SPDX-License-Identifier: MIT */
/* A fast walk over this thread's stack; see unwind.c. */
#ifndef BASE_UNWIND_H
#define BASE_UNWIND_H

#include <stdint.h>

/*
 * Writes return addresses to pc[0..@most), the innermost first, of the frames from that of the
 * function which @caller belongs to; without such a frame, all from the one of this function's
 * caller. Result: how many; 0: some frame is not of the simple kinds, and another unwinder has
 * to do it.
 */
unsigned int unwind_stack(uintptr_t *pc, unsigned int most, uintptr_t caller);

#endif
