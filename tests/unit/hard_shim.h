/* SPDX-License-Identifier: MIT */
/* Functions of hardened caches, for tests in C++. */
#ifndef TESTS_UNIT_HARD_SHIM_H
#define TESTS_UNIT_HARD_SHIM_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

bool shim_hard_is_zero(const void *slot, size_t size);
bool shim_hard_is_near_zero(const void *slot, size_t size);
void shim_hard_zero_near(void *slot, size_t size);

#ifdef __cplusplus
}
#endif

#endif
