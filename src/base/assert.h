/* SPDX-License-Identifier: MIT */
/*
 * Assertions: invariants that are cheap to look at where they matter, in debug builds alone
 * (UKMEM_DEBUG: presets dev, asan, tsan, ubsan). One that fails says so with its place, and
 * aborts. What has to be looked for by walking structures is verified instead: base/verify.h.
 */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

#include "base/compiler.h"

#if UKMEM_DEBUG
__attribute__((__noreturn__)) void assert_failed(const char *what, const char *file, int line);
#define debug_assert(condition)                                                                \
	(likely(condition) ? (void)0 : assert_failed(#condition, __FILE__, __LINE__))
#else
/* Compiled, so that it stays right, and never evaluated. */
#define debug_assert(condition) ((void)sizeof((condition) ? 1 : 0))
#endif

#endif
