/* SPDX-License-Identifier: MIT */
/* Return addresses on this thread's stack; see stack.c. */
#ifndef PROFILE_STACK_H
#define PROFILE_STACK_H

#include <stdint.h>

enum { STACK_DEPTH = 48 };

/* Chooses how stacks are read. Not in an allocation: it may load a library. */
void stack_init(void);
/* Writes the program's return addresses to @pc, the innermost first. @caller: the address from
 * which the program called the library, or NULL. Result: how many, at most STACK_DEPTH. */
unsigned int stack_read(uintptr_t *pc, const void *caller);

#endif
