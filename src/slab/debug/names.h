/* SPDX-License-Identifier: MIT */
/* The tunable slab_debug; see names.c. */
#ifndef SLAB_DEBUG_NAMES_H
#define SLAB_DEBUG_NAMES_H

#include "slab/slab_types.h"

/* What the tunable says of the cache of this name. */
slab_flags_t slab_debug_of_name(const char *name);
/* Complains about names of caches that do not exist; for callers that know that no more caches
 * will come. */
void slab_debug_check_names(void);

#endif
