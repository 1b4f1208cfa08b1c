/* SPDX-License-Identifier: MIT */
/* How large a new slab is; see slab_pace.c. */
#ifndef SLAB_SLAB_PACE_H
#define SLAB_SLAB_PACE_H

#include "slab/slab_types.h"

/* Whether new slabs of @node should have the large layout. @may_look: at the clock. */
bool slab_pace_is_large(const struct kmem_cache *s, struct kmem_cache_node *node,
			bool may_look);
/* The layout that a new slab of @node should have. Counts it. @may_look: at the clock. */
const struct slab_layout *slab_pace_layout(const struct kmem_cache *s,
					   struct kmem_cache_node *node, bool may_look);
/* A slab of @npages is given back. */
void slab_pace_note_freed(struct kmem_cache_node *node, unsigned int npages);
/* Forgets what was given back: the program wants to have less memory. */
void slab_pace_forget(struct kmem_cache_node *node);

#endif
