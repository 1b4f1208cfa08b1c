/* SPDX-License-Identifier: MIT */
/* How slabs are cut; see slab_geometry.c. */
#ifndef SLAB_SLAB_GEOMETRY_H
#define SLAB_SLAB_GEOMETRY_H

#include "slab/slab_types.h"

/* Sets the layouts of @s from its size and alignment. */
void slab_set_geometry(struct kmem_cache *s);
/* Makes the smaller layout of @s one that its objects fill: new slabs have it while few are
 * made. A cache has none if they fill no smaller slab than the usual one. */
void slab_set_lean(struct kmem_cache *s);
/* Makes the larger layout of @s one for new slabs while many are given back, if slabs of at
 * least twice the usual pages are allowed. */
void slab_set_large(struct kmem_cache *s);
/* The number of slabs with @objects free objects, if half of each slab is in use. */
uint16_t slab_cpu_partial_slabs(const struct kmem_cache *s, unsigned int objects);
unsigned int slab_default_cpu_partial(const struct kmem_cache *s);

#endif
