/* SPDX-License-Identifier: MIT */
/*
 * Object caches, below the public functions.
 *
 * Life of an allocation, a file per step:
 *   slab_cpu.c    this CPU's array of free objects; refilled and drained in bulk
 *   slab_node.c   the node's partly used slabs, under the node's lock
 *   slab_page.c   one slab: a run of pages cut into objects, a bitmap of the free
 *   page/         runs of pages
 * slab_cache.c makes, shrinks and destroys caches; slab_stats.c shows them.
 */
#ifndef SLAB_SLAB_H
#define SLAB_SLAB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/lock.h"
#include "page/page.h"
#include "percpu/array.h"
#include "ukmem/slab.h"

enum {
	SLAB_NAME_SIZE = 32,
	SLAB_BATCH_MAX = 128,  /* objects moved between an array and slabs at once */
	SLAB_MAX_SIZE = 16384, /* bytes per object */
	SLAB_MAX_ALIGN = 4096,
};

/*
 * Invariants, for each slab of the node:
 *   inuse + set bits in its bitmap = objects per slab
 *   on the partial list  <=>  inuse < objects
 *   node->inuse = sum of inuse;  node->nr_slabs counts full ones too
 * Synchronization: all but the lock itself: lock.
 */
struct kmem_cache_node {
	struct lock lock;
	unsigned int index;
	struct list_head partial;
	size_t nr_partial;
	size_t nr_slabs;
	size_t inuse;	     /* objects out of slabs: in use, or in CPUs' arrays */
	uint64_t alloc_slow; /* objects handed out past the arrays */
	uint64_t free_slow;  /* objects taken back past the arrays */
	uint64_t refills, flushes;
	uint64_t slabs_made, slabs_freed;
	uint64_t fails;
};

/* Synchronization: read-only once created, save list (caches lock). */
struct kmem_cache {
	void *cpu_array;		       /* per-CPU struct pcpu_array */
	unsigned int size;		       /* bytes from object to object */
	uint16_t objects;		       /* per slab */
	uint16_t npages;		       /* per slab */
	uint64_t reciprocal;		       /* of size */
	uint16_t capacity_first, capacity_max; /* of a CPU's array */
	uint16_t array_entry;		       /* of cpu_array, in the array map of its slabs */
	bool budgeted;		  /* capacities count against the CPU's budget: kmalloc's */
	bool bitmap_in_slab;	  /* more objects than the page entries have bits */
	unsigned int min_partial; /* empty slabs kept per node */
	unsigned int object_size, align;
	slab_flags_t flags;
	void (*ctor)(void *);
	struct list_head list;
	char name[SLAB_NAME_SIZE];
	struct kmem_cache_node *nodes; /* [page_window.nr_nodes] */
};

/* Everything that describes a cache before it exists. */
struct slab_params {
	const char *name;
	unsigned int size, align;
	slab_flags_t flags;
	void (*ctor)(void *);
	unsigned int capacity_max;
	bool budgeted;
};

/* slab_cache.c */
bool slab_init(void);
/* A new cache, known to statistics, trim and fork; NULL without memory. */
struct kmem_cache *slab_cache_new(const struct slab_params *p);
/* All caches, in order of creation; the caches lock is held meanwhile. */
void slab_for_each_cache(void (*fn)(struct kmem_cache *s, void *arg), void *arg);

/* slab_budget.c */
bool slab_budget_init(void);
/* Make @s share the budget; while it is created. */
void slab_budget_join(struct kmem_cache *s);
/*
 * Room for @objects more in @s's array on @cpu; caches without a budget always have
 * it. With @must they are charged even where there is none left.
 */
bool slab_budget_charge(struct kmem_cache *s, unsigned int cpu, unsigned int objects,
			bool must);

void slab_budget_uncharge(struct kmem_cache *s, unsigned int cpu, unsigned int objects);

/* slab_cpu.c */
void *slab_alloc_slow(struct kmem_cache *s, gfp_t flags);
void slab_free_slow(struct kmem_cache *s, void *obj);
/* Objects from CPU index @cpu's array, or PCPU_ALL_CPUS', back to their slabs; false: CPUs
 * cannot be stopped. */
bool slab_drain(struct kmem_cache *s, unsigned int cpu);
/* The cache @obj lies in a slab of, or NULL. */
struct kmem_cache *slab_cache_of(const void *obj);
/* @n objects of one cache. */
void slab_free_bulk(struct kmem_cache *s, size_t n, void **p);

static always_inline void *slab_alloc(struct kmem_cache *s, gfp_t flags)
{
	void *obj = pcpu_array_pop(s->cpu_array);

	return likely(obj) ? obj : slab_alloc_slow(s, flags);
}

static always_inline void slab_free(struct kmem_cache *s, void *obj)
{
	if (unlikely(!pcpu_array_push(s->cpu_array, obj)))
		slab_free_slow(s, obj);
}

/* slab_node.c */
/*
 * Up to @n objects into out[0..), ascending within a slab; may make new slabs.
 * @direct: of these, how many the program gets past the arrays (for the counts).
 * A caller that may not block gets what a free lock and present slabs give.
 */
unsigned int slab_node_take(struct kmem_cache *s, unsigned int node, void **out, unsigned int n,
			    unsigned int direct, gfp_t flags);
/*
 * All of @n objects past the arrays or none, without blocking: only tries the lock,
 * and holds it until it is certain that nothing has to be put back.
 */
bool slab_node_take_all(struct kmem_cache *s, unsigned int node, void **out, unsigned int n,
			gfp_t flags);
/* Back to their slabs, whatever nodes those are of; @direct: came past the arrays. */
void slab_node_put(struct kmem_cache *s, void **objs, unsigned int n, unsigned int direct);
/* Free all empty slabs. Result: whether partly used ones remain. */
bool slab_node_shrink(struct kmem_cache *s);

/* slab_page.c */
struct page *slab_page_new(struct kmem_cache *s, unsigned int node, gfp_t flags);
void slab_page_free(struct kmem_cache *s, struct page *page);
/* Take up to @n free objects; the number taken. Node lock held. */
unsigned int __slab_page_take(struct kmem_cache *s, struct page *page, void **out,
			      unsigned int n);
/* NULL, or what is wrong with @obj as an object of @page to be freed. Node lock held. */
const char *__slab_page_put(struct kmem_cache *s, struct page *page, const void *obj);

/* slab_stats.c */
struct slab_counts {
	uint64_t allocs, frees;		  /* objects given to and taken from the program */
	uint64_t allocs_fast, frees_fast; /* of these, by the arrays alone */
	uint64_t inuse;			  /* in the program's hands */
	uint64_t cached;		  /* free, in CPUs' arrays */
	uint64_t slabs, partial, objects; /* objects: slabs * objects per slab */
	uint64_t refills, flushes, fails;
};
void slab_count(struct kmem_cache *s, struct slab_counts *c);
void slab_stats_init(void);

static inline struct page *slab_head(struct page *page)
{
	return page_type(page) == PAGE_SLAB_TAIL ? page - page->span : page;
}

#endif
