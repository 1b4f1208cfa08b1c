/* SPDX-License-Identifier: MIT */
/* The bytes in and around objects of twins; see pattern.c. */
#ifndef SLAB_DEBUG_PATTERN_H
#define SLAB_DEBUG_PATTERN_H

#include "slab/debug/record.h"

/* Fills guards and object with what @flags want of an object of that state. */
void slab_pattern_fill(struct kmem_cache *twin, void *obj, slab_flags_t flags, bool free);
/* Reports what is not as it was filled, and restores it. */
void slab_pattern_check(struct kmem_cache *twin, void *obj, slab_flags_t flags, bool free,
			const void *caller);

#endif
