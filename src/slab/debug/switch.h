/* SPDX-License-Identifier: MIT */
/* Decides which caches are checked, and why; see switch.c. */
#ifndef SLAB_DEBUG_SWITCH_H
#define SLAB_DEBUG_SWITCH_H

#include "slab/slab_types.h"

/* Sets the reasons why a new cache is checked, before it is used. False: no memory. */
bool slab_check_created(struct kmem_cache *s, const struct slab_params *p);
/* Whether that may need memory for a twin. */
bool slab_check_may_need_twin(const struct slab_params *p);

#endif
