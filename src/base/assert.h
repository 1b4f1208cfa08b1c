/* SPDX-License-Identifier: MIT */
/*
 * Assertions check invariants that are cheap to check on the spot, in debug builds only
 * (UKMEM_DEBUG: presets dev, asan, tsan, ubsan). An assertion that fails logs its place and
 * aborts. Invariants that need a walk over structures are verified instead: base/verify.h.
 */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

#include "base/compiler.h"

#if UKMEM_DEBUG
__attribute__((__noreturn__)) void assert_failed(const char *what, const char *file, int line);
#define debug_assert(condition)                                                                \
	(likely(condition) ? (void)0 : assert_failed(#condition, __FILE__, __LINE__))
#else
/* The condition is compiled, so that it does not rot, and never evaluated. */
#define debug_assert(condition) ((void)sizeof((condition) ? 1 : 0))
#endif

#endif
