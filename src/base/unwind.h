/* SPDX-License-Identifier: MIT */
/* A fast walk over this thread's stack; see unwind.c. Any thread and any signal handler may
 * call these functions: they take no lock, allocate nothing and cannot fault. */
#ifndef BASE_UNWIND_H
#define BASE_UNWIND_H

#include <stddef.h>
#include <stdint.h>

/* The walk needs so many bytes for what it keeps; 0: it has nothing to do here. */
size_t unwind_bytes(void);
/* Gives the walk @memory, of zeroes, for good. Until then the walk finds nothing. */
void unwind_begin(void *memory);

/* Where a walk ended. */
enum unwind_end {
	UNWIND_WHOLE,	/* at the outermost frame, or there is no more room */
	UNWIND_COMPLEX, /* some frame is not of the simple kinds, or the walk has no memory:
			 * another unwinder has to do it */
	/* The stack cannot be read there, or what should be a return address leads nowhere: a
	 * coroutine's outermost frame, perhaps. An unwinder that trusts its tables would fault.
	 */
	UNWIND_LOST,
};

/*
 * Writes return addresses to pc[0..@most), the innermost first, of the frames from that of the
 * function which @caller belongs to; without such a frame, all from the one of this function's
 * caller. Result: how many; if the walk is not whole, how many frames from that of @caller on
 * are below the one where it ended, and 0 if it did not reach @caller.
 */
unsigned int unwind_stack(uintptr_t *pc, unsigned int most, uintptr_t caller,
			  enum unwind_end *end);

#endif
