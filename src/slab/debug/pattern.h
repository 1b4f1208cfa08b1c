/* SPDX-License-Identifier: MIT */
/* Patterns in and around objects of twins; see pattern.c. */
#ifndef SLAB_DEBUG_PATTERN_H
#define SLAB_DEBUG_PATTERN_H

#include "slab/debug/record.h"

/* Fills guards and object as @flags ask for, for an object that is free or in use. */
void slab_pattern_fill(struct kmem_cache *twin, void *obj, slab_flags_t flags, bool free);
/* The right guard of an object in use began at @from, and begins behind its usable bytes now.
 */
void slab_pattern_move_end(struct kmem_cache *twin, void *obj, slab_flags_t flags, size_t from);
/* Reports bytes that have changed since, and restores them. */
void slab_pattern_check(struct kmem_cache *twin, void *obj, slab_flags_t flags, bool free,
			const void *caller);
/* Only looks: what is wrong, and the offset of the first wrong byte; NULL: nothing. The bytes
 * may be in the middle of a change. */
const char *slab_pattern_wrong(struct kmem_cache *twin, void *obj, slab_flags_t flags,
			       bool free, long *offset);
/* Counts the bytes from @from to @to, offsets from @obj, that are not @value. *@first: the
 * offset of the first one. */
size_t slab_count_wrong(const void *obj, long from, long to, uint8_t value, long *first);

#endif
