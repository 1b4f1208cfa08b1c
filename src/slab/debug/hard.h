/* SPDX-License-Identifier: MIT */
/* Objects of hardened caches; see hard.c. */
#ifndef SLAB_DEBUG_HARD_H
#define SLAB_DEBUG_HARD_H

#include "slab/slab_hard.h"

/* Gives a new cache its quarantine; false without memory. The second undoes it. */
bool slab_hard_prepare(struct kmem_cache *s);
void slab_hard_release(struct kmem_cache *s);
/* Enters a class's cache into the table, before the table is sealed. */
void slab_hard_enter(struct kmem_cache *s);

/* An object of class @c at hand; NULL: there is none. It is zero. */
void *slab_hard_pop(const struct slab_hard_class *c, unsigned int node);
/* An object of @s; NULL: no memory. */
void *slab_hard_alloc(struct kmem_cache *s, unsigned int node, gfp_t flags);
/* Frees an object of a hardened cache, or reports why it is none. False, and nothing was done:
 * the page of @obj is of no such cache. @func: the name for the report. */
bool slab_hard_free(void *obj, const char *func);
/* Whether an object of @s begins at @obj and is in use; reports it if not. */
bool slab_hard_in_use(struct kmem_cache *s, const void *obj, const char *func);
/* Whether the slot of a free object shows that the program has it. */
bool slab_hard_has_canary(const struct kmem_cache *s, void *obj);

#endif
