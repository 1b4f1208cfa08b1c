/* SPDX-License-Identifier: MIT */
/* Tests whether this kernel restarts sections. */
#ifndef PERCPU_SELF_TEST_H
#define PERCPU_SELF_TEST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * @rseq: thread pointer -> struct rseq. @armed false: as on a kernel that does not
 * restart. Result: 1 sections are restarted, 0 they are not, negative errno: unknown.
 */
int pcpu_self_test(ptrdiff_t rseq, bool armed);

/* Whether kernel @release (uname -r) is one of those that must be tried. */
bool pcpu_self_test_needed(const char *release);

#endif
