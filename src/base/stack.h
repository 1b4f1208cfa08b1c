/* SPDX-License-Identifier: MIT */
/* Return addresses on this thread's stack; see stack.c. */
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

/* Loads the unwinder, if the process has none, and makes its first call. Not in an allocation,
 * and by one thread at a time. */
void stack_load(void);

/* The same as stack_read() for code that a signal interrupted at @at, with this frame and stack
 * pointer. */
unsigned int stack_read_at(uintptr_t *pc, unsigned int most, uintptr_t at, uintptr_t frame,
			   uintptr_t stack);

#endif
