/* SPDX-License-Identifier: MIT */
/* What the files of the libc face share. */
#ifndef MALLOC_MALLOC_INTERNAL_H
#define MALLOC_MALLOC_INTERNAL_H

#include <stddef.h>

/* Sets errno to ENOMEM; NULL. */
void *malloc_failed(void);
/* @align a power of two; keeps errno; NULL without memory. */
void *malloc_aligned(size_t align, size_t size);

#endif
