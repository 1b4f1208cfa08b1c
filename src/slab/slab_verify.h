/* SPDX-License-Identifier: MIT */
/* Verification of caches; see slab_verify.c. */
#ifndef SLAB_SLAB_VERIFY_H
#define SLAB_SLAB_VERIFY_H

#include "base/verify.h"
#include "slab/slab_types.h"

/* Verifies one cache and its twin. Takes the nodes' locks. */
void slab_verify(struct kmem_cache *s, struct verify *v);
/* Verifies all caches. */
void slab_verify_all(struct verify *v);

#endif
