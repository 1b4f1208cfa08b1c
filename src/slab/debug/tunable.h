/* SPDX-License-Identifier: MIT */
/* The tunable slab_debug; see tunable.c. */
#ifndef SLAB_DEBUG_TUNABLE_H
#define SLAB_DEBUG_TUNABLE_H

#include "slab/slab_types.h"

/* By this name the tunable knows blocks of whole pages, which are no cache. */
#define SLAB_DEBUG_BLOCKS "kmalloc-large"

/* Reads a value of the tunable. *@names: the list of names in it; NULL: there is none. Result:
 * the first letter that is unknown, or 0. */
char slab_debug_parse(const char *text, slab_flags_t *flags, const char **names);
/* Whether the list has @name; NULL has each. */
bool slab_debug_has(const char *names, const char *name);
/* The debug flags that the tunable gives to a cache of this name. */
slab_flags_t slab_debug_of_name(const char *name);
/* Logs names in the tunable for which there is no cache; for callers that know that the program
 * creates no more caches. */
void slab_debug_check_names(void);

#endif
