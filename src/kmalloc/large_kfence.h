/* SPDX-License-Identifier: MIT */
/* Blocks of whole pages in KFENCE's pool; see large_kfence.c. */
#ifndef KMALLOC_LARGE_KFENCE_H
#define KMALLOC_LARGE_KFENCE_H

#include "kfence/kfence.h"
#include "ukmem/gfp.h"

void *large_kfence_take(size_t size, size_t align, gfp_t flags, const void *caller);

/* Before large_alloc(), for a new block that the program asked for: now and then one in the
 * pool, of @size bytes. Nearly always NULL, after one load. @align: bytes, a power of two;
 * @caller: the program's. The caller holds no lock. */
static always_inline void *large_kfence_alloc(size_t size, size_t align, gfp_t flags,
					      const void *caller)
{
	return kfence_gate_is_open() ? large_kfence_take(size, align, flags, caller) : NULL;
}

/* Frees @p, which kfence_has(): a block, or an object of any cache. */
void large_kfence_free(void *p, const char *func, const void *caller);

#endif
