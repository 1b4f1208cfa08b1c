/* SPDX-License-Identifier: MIT */
/* Functions of hardened caches, for tests in C++. */
#ifndef TESTS_UNIT_HARD_SHIM_H
#define TESTS_UNIT_HARD_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct page;

#ifdef __cplusplus
extern "C" {
#endif

bool shim_hard_is_zero(const void *slot, size_t size);
bool shim_hard_is_near_zero(const void *slot, size_t size);
/* The tables that are read-only after the start. */
char *shim_hard_sealed(size_t *size);
void shim_hard_zero_near(void *slot, size_t size);
/* Which of @lines lines two secrets tell. */
unsigned int shim_hard_secret_place(const uint64_t *secret, uintptr_t slot, uint32_t lines);
/* Brings objects into random order. */
void shim_hard_shuffle(void **objs, unsigned int n);
/* Frees a run of one page, which is closed, when the system opens it. */
void shim_hard_free_later(struct page *page);
/* Whether functions for AVX2 serve slots of this size, and these. */
bool shim_hard_is_wide(size_t size);
bool shim_hard_is_zero_wide(const void *slot, size_t size);
void shim_hard_zero_wide(void *slot, size_t size);

#ifdef __cplusplus
}
#endif

#endif
