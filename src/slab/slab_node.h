/* SPDX-License-Identifier: MIT */
/* A node's partly used slabs; see slab_node.c. */
#ifndef SLAB_SLAB_NODE_H
#define SLAB_SLAB_NODE_H

#include "slab/slab_page.h"

/*
 * Up to @n objects of slabs on the list of @node into out[0..), ascending within a slab; and up
 * to @max further slabs of that list into the caller's hands, *@nr_slabs of them into slabs[].
 * Without @may_block only if the node's lock is free.
 */
unsigned int slab_node_take(struct kmem_cache *s, unsigned int node, void **out, unsigned int n,
			    struct page **slabs, unsigned int max, unsigned int *nr_slabs,
			    bool may_block);
/* Slabs in the caller's hands onto the list of their node. Waits for nothing. */
void slab_node_add(struct kmem_cache *s, struct page **slabs, unsigned int n);
/* A slab in the caller's hands: the next holder of the lock puts it onto the list. */
void slab_node_defer(struct kmem_cache_node *node, struct page *page);
/* The next holder of the lock is to look for empty slabs. */
void slab_node_note_missed(struct kmem_cache_node *node);
/* In a child that has one thread: whether a slab waits for that. */
bool slab_node_has_deferred(struct kmem_cache_node *node, const struct page *page);
/* The slab on a list of its node became empty. Waits for nothing. */
void slab_node_retire(struct kmem_cache *s, struct page *page);
/* A slab that is on no list and of which no object is out, back to the page allocator. */
void slab_node_dismiss(struct kmem_cache *s, struct page *page);
/* Frees the empty slabs of all nodes' lists. Result: the slabs that remain. */
size_t slab_node_shrink(struct kmem_cache *s);

/* Objects out of the slabs on the list of @node. */
size_t slab_node_partial_inuse(struct kmem_cache *s, unsigned int node);
/* Objects in the slabs on the list of @node. */
size_t slab_node_partial_free(struct kmem_cache *s, unsigned int node);
/* Slabs on the list of @node of which no object is out. */
size_t slab_node_idle(struct kmem_cache *s, unsigned int node);

static inline size_t slab_node_nr_partial(const struct kmem_cache_node *node)
{
	return atomic_load_explicit(&node->nr_partial, memory_order_relaxed);
}

#endif
