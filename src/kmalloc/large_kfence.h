/* SPDX-License-Identifier: MIT */
/* Blocks of whole pages, now and then in KFENCE's pool; see large_kfence.c. */
#ifndef KMALLOC_LARGE_KFENCE_H
#define KMALLOC_LARGE_KFENCE_H

#include "kfence/kfence.h"
#include "kmalloc/large.h"

/*
 * A new block that the program asked for. @align: bytes, a power of two; 0: what kmalloc()
 * promises. @caller: the program's. The caller holds no lock.
 *
 * Nearly always it is large_alloc()'s, after one load.
 */
void *large_kfence_alloc_slow(size_t size, size_t align, gfp_t flags, const void *caller);

static always_inline void *large_kfence_alloc(size_t size, size_t align, gfp_t flags,
					      const void *caller)
{
	if (kfence_gate_is_open() || unlikely(align > page_size()))
		return large_kfence_alloc_slow(size, align, flags, caller);
	return large_alloc(size, 0, flags, caller);
}

/* Frees @p, which kfence_has(): a block, or an object of any cache. */
void large_kfence_free(void *p, const char *func, const void *caller);

#endif
