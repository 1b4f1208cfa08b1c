/* SPDX-License-Identifier: MIT */
/* Words of a stack, which may be anything; see stack.c. */
#ifndef BASE_STACK_WORD_H
#define BASE_STACK_WORD_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/sys_call.h"
#include "base/valgrind.h"

/* Whether the word at @addr can be read. The kernel reads it, and then refuses the operation,
 * of which there is none with this number. valgrind would complain of that number for each
 * word, and its own reports have stacks. */
static inline bool is_readable(uintptr_t addr)
{
	return !valgrind_runs() && !(addr % sizeof(addr)) &&
	       sys_call(SYS_rt_sigprocmask, -1, addr, NULL, 8) == -EINVAL;
}

/* Whether the system tells what can be read: a filter of system calls, or an emulator, may
 * refuse the operation without a look at the word. */
bool tells_readable(void);

static inline no_sanitize_thread __attribute__((__no_sanitize__("address"))) uintptr_t
word_at(uintptr_t addr)
{
	return *(const volatile uintptr_t *)addr;
}

/* The return address at @addr. Code of aarch64 may have signed it (pointer authentication):
 * what removes that is a nop on older processors. */
static inline uintptr_t return_address_at(uintptr_t addr)
{
#if defined(__aarch64__)
	register uintptr_t pc __asm__("x30") = word_at(addr);

	__asm__("hint #7" : "+r"(pc)); /* xpaclri */
	return pc;
#else
	return word_at(addr);
#endif
}

#endif
