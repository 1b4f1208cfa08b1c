/* SPDX-License-Identifier: MIT */
/* A node's partial slabs; see slab_node.c. */
#ifndef SLAB_SLAB_NODE_H
#define SLAB_SLAB_NODE_H

#include "slab/slab_page.h"

/* A request for objects of a node's partial slabs, and its result. */
struct slab_node_take {
	void **out;	     /* objects, ascending within a slab */
	unsigned int n;	     /* so many at most; */
	unsigned int need;   /* for fewer than this it may wait for a lock; */
	bool anyhow;	     /* else only where many of the node's objects are free */
	struct page **slabs; /* then further slabs, which the caller has */
	unsigned int max;    /* their number at most */
	bool may_block;	     /* else locks are tried once */
	unsigned int got;    /* objects */
	unsigned int nr_slabs;
	bool left_some; /* the lock of a list that may have more was taken */
};
void slab_node_take(struct kmem_cache *s, unsigned int node, struct slab_node_take *take);
/* Puts slabs that the caller has onto the lists of their nodes. Waits for nothing. */
void slab_node_add(struct kmem_cache *s, struct page **slabs, unsigned int n);
/* Leaves a slab that the caller has to the next holder of a lock; that thread lists it. */
void slab_node_defer(struct kmem_cache_node *node, struct page *page);
/* Makes the next holder of the lock of @shard look for empty slabs. */
void slab_node_note_missed(struct kmem_cache_node *node, unsigned int shard);
/* In the child of a fork, which has one thread: whether a slab is deferred. */
bool slab_node_has_deferred(struct kmem_cache_node *node, const struct page *page);
/*
 * Before a free that may make @page empty, whose state says yet that it is not. Waits for
 * nothing. Result: the shard on whose list the slab is, with its lock; NULL: it is on none, or
 * the lock was taken.
 */
struct slab_shard *slab_node_hold(struct kmem_cache *s, struct page *page);
/* After it, lets the lock go. @empty: the slab, if the free has made it empty; it goes if it is
 * spare. */
void slab_node_let_go(struct kmem_cache *s, struct kmem_cache_node *node,
		      struct slab_shard *shard, struct page *empty);
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

/* The objects that the node's slabs have room for, and the slabs' pages. */
size_t slab_node_objects(const struct kmem_cache *s, unsigned int node);
size_t slab_node_pages(const struct kmem_cache *s, unsigned int node);
/* The number of slabs on the lists of @node. */
size_t slab_node_nr_partial(const struct kmem_cache_node *node);

/* Takes the locks of all shards, so that no slab joins or leaves a list, and none is freed. */
void slab_node_lock_all(struct kmem_cache_node *node);
void slab_node_unlock_all(struct kmem_cache_node *node);

#define for_each_shard(shard, node)                                                            \
	for (struct slab_shard *shard = (node)->shards;                                        \
	     shard < (node)->shards + (node)->nr_shards; shard++)

#endif
