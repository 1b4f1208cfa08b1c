/* SPDX-License-Identifier: MIT */
/* This CPU's partial slabs; see slab_partial.c. */
#ifndef SLAB_SLAB_PARTIAL_H
#define SLAB_SLAB_PARTIAL_H

#include "slab/slab_page.h"

enum {
	SLAB_PUSH_MAX = 16,		    /* slabs pushed at once */
	SLAB_SPILL_MAX = 2 * SLAB_PUSH_MAX, /* slabs that one push may leave over */
};

/* Takes a slab off this CPU's list; NULL: there is none. */
struct page *slab_partial_pop(struct kmem_cache *s);
/*
 * Puts @n slabs, at most SLAB_PUSH_MAX, that the caller has onto this CPU's list. If the list
 * is full, slabs that lay there come off it first. Result: how many slabs, old or new, found no
 * place; they are in spilled[0..SLAB_SPILL_MAX), and the caller has them.
 */
unsigned int slab_partial_push(struct kmem_cache *s, struct page **slabs, unsigned int n,
			       struct page **spilled);
/* The number of empty slabs on CPUs' lists. */
size_t slab_partial_idle(struct kmem_cache *s);
/* In the child of a fork, which has one thread: whether a slab is on a CPU's list; and the
 * number of free objects in slabs of @node that are. */
bool slab_partial_has(struct kmem_cache *s, const struct page *page);
size_t slab_partial_free_objects(struct kmem_cache *s, unsigned int node);

#endif
