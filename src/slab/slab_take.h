/* SPDX-License-Identifier: MIT */
/* Chooses the node that objects come from; see slab_take.c. */
#ifndef SLAB_SLAB_TAKE_H
#define SLAB_SLAB_TAKE_H

#include "slab/slab_types.h"

/*
 * Takes up to @n objects, not from arrays, of *@node if possible; sets *@node to the node they
 * are of. The caller needs @need of them, and may get no more if another node has to serve.
 */
unsigned int slab_take(struct kmem_cache *s, unsigned int *node, void **out, unsigned int n,
		       unsigned int need, gfp_t flags);
/* Its two halves: what there is without reclaiming; and for a caller that got nothing, as much
 * as its flags allow. The second needs much of a stack. */
unsigned int slab_take_ready(struct kmem_cache *s, unsigned int *node, void **out,
			     unsigned int n, unsigned int need, gfp_t flags);
unsigned int slab_take_reclaiming(struct kmem_cache *s, unsigned int *node, void **out,
				  unsigned int n, unsigned int need, gfp_t flags);

#endif
