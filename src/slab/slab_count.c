/* SPDX-License-Identifier: MIT */
/*
 * Counts what caches hold and did. The fast paths count only the pops, in the array header; the
 * rest is computed: objects out of slabs less those in arrays are in use; objects that were
 * allocated and are not in use were freed.
 */
#include "slab/slab_count.h"

#include "base/assert.h"
#include "base/bits.h"
#include "kfence/kfence.h"
#include "percpu/array_slow.h"
#include "slab/debug/twin.h"
#include "slab/slab_node.h"
#include "slab/slab_shared.h"

static uint64_t relaxed(_Atomic size_t *v)
{
	return atomic_load_explicit(v, memory_order_relaxed);
}

static size_t is_of_node(void *obj, const void *node)
{
	const unsigned int *index = node;

	return page_node(page_of(obj)) == *index;
}

/* Adds the counts of one node, of the cache or the twin alone. inuse counts all objects out of
 * slabs. */
static void add_node(struct kmem_cache *s, unsigned int i, struct slab_counts *c)
{
	struct kmem_cache_node *node = &s->nodes[i];
	size_t shared = slab_shared_count(s, i);
	struct pcpu_array_sums sums;

	c->inuse += relaxed(&node->inuse);
	c->slabs += relaxed(&node->nr_slabs);
	c->objects += slab_node_objects(s, i);
	c->pages += slab_node_pages(s, i);
	c->partial += slab_node_nr_partial(node);
	c->shared += shared;
	c->cached += shared;
	sums = pcpu_array_sums(slab_array(s, i), PCPU_ALL_CPUS);
	c->cached += sums.count;
	c->allocs_fast += sums.pops;
	if (s->home != s)
		c->cached += slab_twin_waiting(s, i);
	if (s->hard)
		c->cached += pcpu_array_sum_of(s->hard_waiting, PCPU_ALL_CPUS, is_of_node, &i);
}

/* Arrays move while they are read: differences must not wrap. */
static void subtract_cached(struct slab_counts *c)
{
	c->inuse -= min_size(c->cached, c->inuse);
}

/* Adds what a twin holds and did; of one node, or of all. */
static void add(struct slab_counts *c, const struct slab_counts *twin)
{
	c->allocs += twin->allocs;
	c->frees += twin->frees;
	c->frees_fast += twin->frees_fast;
	c->inuse += twin->inuse;
	c->guarded += twin->guarded;
	c->cached += twin->cached;
	c->slabs += twin->slabs;
	c->partial += twin->partial;
	c->objects += twin->objects;
	c->pages += twin->pages;
	for (unsigned int e = 0; e < SLAB_NR_EVENTS; e++)
		c->events[e] += twin->events[e];
}

void slab_count_node(struct kmem_cache *s, unsigned int node, struct slab_counts *c)
{
	struct slab_counts twin = { 0 };

	*c = (struct slab_counts){ 0 };
	add_node(s, node, c);
	subtract_cached(c);
	if (!slab_twin(s))
		return;
	add_node(slab_twin(s), node, &twin);
	subtract_cached(&twin);
	add(c, &twin);
}

/* Counts what a cache without its twin, or a twin, holds in slabs, arrays and queues. */
static void count_held(struct kmem_cache *s, struct slab_counts *c)
{
	*c = (struct slab_counts){ 0 };
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		add_node(s, i, c);
	c->cpu_partial = pcpu_array_sums(s->partial_array, PCPU_ALL_CPUS).count;
	subtract_cached(c);
}

/* Counts a cache without its twin, or a twin; objects in KFENCE's pool are of no node. */
static void count_one(struct kmem_cache *s, struct slab_counts *c)
{
	count_held(s, c);
	for (unsigned int e = 0; e < SLAB_NR_EVENTS; e++)
		c->events[e] = per_cpu_sum(s->events[e]);
	c->guarded = kfence_count(s);
	c->inuse += c->guarded;
	c->objects += c->guarded;
	c->allocs = c->allocs_fast + c->events[SLAB_ALLOC_SLOWPATH];
	c->frees = c->allocs - min_size(c->inuse, c->allocs);
	c->frees_fast = c->frees - min_size(c->events[SLAB_FREE_SLOWPATH], c->frees);
}

static void count_with_twin(struct kmem_cache *s, struct slab_counts *c,
			    void (*count)(struct kmem_cache *s, struct slab_counts *c))
{
	struct slab_counts twin;

	count(s, c);
	if (!slab_twin(s))
		return;
	count(slab_twin(s), &twin);
	add(c, &twin);
}

void slab_count(struct kmem_cache *s, struct slab_counts *c)
{
	count_with_twin(s, c, count_one);
}

void slab_count_held(struct kmem_cache *s, struct slab_counts *c)
{
	count_with_twin(s, c, count_held);
}

unsigned long kmem_cache_nr_allocated(struct kmem_cache *s)
{
	struct slab_counts c;

	slab_count(s, &c);
	return c.inuse;
}
