/* SPDX-License-Identifier: MIT */
/* Which node objects come from; see slab_take.c. */
#ifndef SLAB_SLAB_TAKE_H
#define SLAB_SLAB_TAKE_H

#include "slab/slab_types.h"

/*
 * Up to @n objects past the arrays, of *@node if possible; *@node: the node they are of. Of
 * these the caller needs @need: there may be as few where another node has to serve.
 */
unsigned int slab_take(struct kmem_cache *s, unsigned int *node, void **out, unsigned int n,
		       unsigned int need, gfp_t flags);

#endif
