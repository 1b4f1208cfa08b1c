/* SPDX-License-Identifier: MIT */
/* A node's partial slabs; see slab_node.c. */
#ifndef SLAB_SLAB_NODE_H
#define SLAB_SLAB_NODE_H

#include "slab/slab_page.h"

/*
 * Takes up to @n objects of slabs on the list of @node into out[0..), ascending within a slab;
 * then up to @max further slabs of that list, *@nr_slabs of them, into slabs[]. Without
 * @may_block it only tries the node's lock. Result: how many objects.
 */
unsigned int slab_node_take(struct kmem_cache *s, unsigned int node, void **out, unsigned int n,
			    struct page **slabs, unsigned int max, unsigned int *nr_slabs,
			    bool may_block);
/* Puts slabs that the caller has onto the lists of their nodes. Waits for nothing. */
void slab_node_add(struct kmem_cache *s, struct page **slabs, unsigned int n);
/* Leaves a slab that the caller has to the next holder of the lock; that thread lists it. */
void slab_node_defer(struct kmem_cache_node *node, struct page *page);
/* Makes the next holder of the lock look for empty slabs. */
void slab_node_note_missed(struct kmem_cache_node *node);
/* In the child of a fork, which has one thread: whether a slab is deferred. */
bool slab_node_has_deferred(struct kmem_cache_node *node, const struct page *page);
/* Takes a slab that became empty off its node's list, if it is spare. Waits for nothing. */
void slab_node_retire(struct kmem_cache *s, struct page *page);
/* Frees an empty slab that is on no list. */
void slab_node_dismiss(struct kmem_cache *s, struct page *page);
/* Frees the empty slabs of all nodes' lists. Result: the slabs that remain. */
size_t slab_node_shrink(struct kmem_cache *s);

/* The number of objects out of the slabs on the list of @node. */
size_t slab_node_partial_inuse(struct kmem_cache *s, unsigned int node);
/* The number of free objects in the slabs on the list of @node. */
size_t slab_node_partial_free(struct kmem_cache *s, unsigned int node);
/* The number of empty slabs on the list of @node. */
size_t slab_node_idle(struct kmem_cache *s, unsigned int node);

#define for_each_shard(list, node)                                                             \
	for (struct list_head *list = (node)->partial;                                         \
	     list < (node)->partial + (node)->nr_shards; list++)

static inline size_t slab_node_nr_partial(const struct kmem_cache_node *node)
{
	return atomic_load_explicit(&node->nr_partial, memory_order_relaxed);
}

#endif
