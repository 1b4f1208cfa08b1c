/* SPDX-License-Identifier: MIT */
/* What the files of the libc face share. */
#ifndef MALLOC_MALLOC_INTERNAL_H
#define MALLOC_MALLOC_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

/* Sets errno to ENOMEM; NULL. */
void *malloc_failed(void);
/* @align a power of two; keeps errno; NULL without memory. */
void *malloc_aligned(size_t align, size_t size);

/* callers.c: find libc, once. */
void callers_init(void);
/* Whether the code at @caller is libc's; true if that cannot be told, or not yet. */
bool caller_is_libc(const void *caller);

#endif
