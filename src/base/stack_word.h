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

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#ifndef RUNNING_ON_VALGRIND
#define RUNNING_ON_VALGRIND 0
#endif

/* Whether the word at @addr can be read. The kernel reads it, and then refuses the operation,
 * of which there is none with this number. valgrind would complain of that number for each
 * word, and its own reports have stacks. */
static inline bool is_readable(uintptr_t addr)
{
	return !RUNNING_ON_VALGRIND && !(addr % sizeof(addr)) &&
	       sys_call(SYS_rt_sigprocmask, -1, addr, NULL, 8) == -EINVAL;
}

static inline no_sanitize_thread __attribute__((__no_sanitize__("address"))) uintptr_t
word_at(uintptr_t addr)
{
	return *(const volatile uintptr_t *)addr;
}

#endif
