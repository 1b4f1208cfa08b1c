/* SPDX-License-Identifier: MIT */
/* Return addresses on this thread's stack; see stack.c. stack_read() and stack_read_at(): any
 * thread, also in a signal handler. */
#ifndef BASE_STACK_H
#define BASE_STACK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Writes the program's return addresses to pc[0..@most), the innermost first. @caller: the
 * address from which the program called the library; NULL: no stack. @tables: ask the
 * compiler's unwinder, if the process has it. Result: how many.
 */
unsigned int stack_read(uintptr_t *pc, unsigned int most, const void *caller, bool tables);

/* Loads the unwinder, if the process has none, and makes its first call. One thread at a time
 * calls it; not within an allocation, and not in a signal handler. May block. */
void stack_load(void);

/* The same as stack_read() for code that a signal interrupted at @at, with this frame and stack
 * pointer. */
unsigned int stack_read_at(uintptr_t *pc, unsigned int most, uintptr_t at, uintptr_t frame,
			   uintptr_t stack);

#endif
