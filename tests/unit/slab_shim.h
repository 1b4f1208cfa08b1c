/* SPDX-License-Identifier: MIT */
/* A look into caches and size classes, for C++. */
#ifndef UNIT_SLAB_SHIM_H
#define UNIT_SLAB_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ukmem/slab.h"

#ifdef __cplusplus
extern "C" {
#endif

struct shim_counts {
	uint64_t allocs, frees, allocs_fast, frees_fast, inuse, cached, slabs, partial, objects;
	uint64_t refills, flushes, fails, cpu_partial, shared;
};

struct shim_geometry {
	unsigned int size, object_size, align, objects, npages;
	bool bitmap_in_slab;
	unsigned int capacity_first, capacity_max;
};

bool shim_slab_init(void);
/* How often the heap profile's mean is doubled. */
unsigned int shim_profile_level(void);
void shim_profile_set_level(unsigned int level);
void shim_slab_count(struct kmem_cache *s, struct shim_counts *c);
void shim_slab_geometry(struct kmem_cache *s, struct shim_geometry *g);
/* The fast path of kmem_cache_free() alone; false: nothing was done. */
bool shim_slab_push_to(struct kmem_cache *s, void *obj);
const char *shim_slab_name(const struct kmem_cache *s);
/* NULL, or which invariant of the cache's slabs does not hold. */
const char *shim_slab_wrong(struct kmem_cache *s);
struct kmem_cache *shim_slab_cache_of(const void *obj);
bool shim_slab_drain(struct kmem_cache *s);
/* Holds the locks of a node, or one shard's, as another thread would, without looking after
 * what was deferred. */
bool shim_shard_trylock(struct kmem_cache *s, unsigned int node, unsigned int shard);
void shim_shard_unlock(struct kmem_cache *s, unsigned int node, unsigned int shard);
bool shim_node_trylock(struct kmem_cache *s, unsigned int node);
void shim_node_unlock(struct kmem_cache *s, unsigned int node);
unsigned int shim_nr_shards(struct kmem_cache *s, unsigned int node);
/* The slabs on a shard's list. */
size_t shim_shard_partial(struct kmem_cache *s, unsigned int node, unsigned int shard);
/* Objects from a node's lists alone, for a request that waits for locks if it gets none. */
unsigned int shim_node_take(struct kmem_cache *s, unsigned int node, void **obj);
/* The shard on whose list the slab of @obj is; UINT_MAX: it is on none. */
unsigned int shim_slab_shard(const void *obj);
/* Slabs that wait for a holder of one of their node's locks. Nothing else may go on. */
unsigned int shim_slab_deferred(struct kmem_cache *s);
enum shim_event {
	SHIM_ORDER_FALLBACK,
	SHIM_FREE_REMOTE,
	SHIM_ALLOC_NODE_MISMATCH,
	SHIM_ALLOC_FAIL,
};
uint64_t shim_slab_event(struct kmem_cache *s, enum shim_event event);
/* The index of the node an object is of. */
unsigned int shim_object_node(const void *obj);
/* A queue, as if a section on @cpu had died in it; that of node 0. */
struct alf_queue;
void shim_hold_queue(struct alf_queue *q, unsigned int cpu);
void shim_hold_shared(struct kmem_cache *s, unsigned int cpu);
/* One that does not exist. */
unsigned int shim_no_cpu(void);
/* The first function returns the objects that any CPU's array holds above its capacity; the
 * second the bytes that the capacity of CPU index @cpu comes to. */
unsigned int shim_above_capacity(struct kmem_cache *s);
size_t shim_capacity_bytes(struct kmem_cache *s, unsigned int cpu);
size_t shim_budget_used(void);
/* Whether the last objects that a program freed lay far from each other. */
bool shim_slab_is_scattered(const struct kmem_cache *s);
/* Stops all CPUs' arrays of a cache, and calls @meanwhile. False: they cannot be stopped. */
bool shim_while_stopped(struct kmem_cache *s, void (*meanwhile)(void *arg), void *arg);
/* Slabs that a CPU's list may hold. */
unsigned int shim_cpu_partial_slabs(const struct kmem_cache *s);
/* The first byte of the slab @obj is in. */
void *shim_slab_base(const void *obj);
void shim_for_each_cache(void (*fn)(struct kmem_cache *s, void *arg), void *arg);

/* Caches of the reserve in use; requests that found none. */
unsigned int shim_reserve_used(unsigned long *exhausted);

bool shim_kmalloc_init(void);
/* The fast paths of kmalloc() and kfree() alone; false: nothing was done. */
bool shim_kmalloc_pop(size_t size, void **p);
bool shim_kmalloc_push(void *p);
/* Whether these go by the CPU id. */
bool shim_kmalloc_by_cpu(void);
/* In a hardened process: allocates and frees an object, as the drop-in does. *@node: where it
 * was. Result: whether both took the fast path. */
bool shim_hard_pair(size_t size, unsigned int *node);
struct kmem_cache *shim_class_cache(size_t size);
/* The result of ksize()'s fast path. */
size_t shim_class_usable(const void *p);
size_t shim_kmalloc_room(const void *p);
/* Where an object of a cache with SLAB_STORE_USER was allocated. */
const void *shim_slab_allocated_by(void *obj);
/* Counts so many blocks of whole pages, of a page each, and tells how many are counted. */
uint64_t shim_large_pretend(int64_t blocks);
struct kmem_cache *shim_class_aligned(size_t size, size_t align);
void *shim_class_small(size_t size); /* what the tables say: a per-CPU handle */
void *shim_class_large(size_t size);
void *shim_cache_array(const struct kmem_cache *s);
void *shim_kmalloc_aligned(size_t size, size_t align, gfp_t flags);
/* Records of frees that do not wait for a fork. */
struct slab_hand *shim_hand_take(struct kmem_cache *s);
void shim_hand_drop(struct slab_hand *hand);
bool shim_hand_is_mine(void);

#ifdef __cplusplus
}
#endif

#endif
