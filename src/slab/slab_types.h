/* SPDX-License-Identifier: MIT */
/*
 * Object caches: the types that all files of this folder share. Every other file declares its
 * functions in a header of its own name, and includes only headers of files below it:
 *
 *   slab_create.c     the top: caches are created and destroyed, the layer is initialised
 *   show/             attributes, tables, gauges
 *   slab_verify.c     the invariants as code
 *   slab_fork.c       what the child of a fork finishes
 *   slab_reclaim.c    memory goes back: trim, shrinker, CPUs that go offline
 *   debug/switch.c    debugging is switched on and off; twins are made
 *   slab_reserve.c    caches for those who may not wait
 *   slab_cache.c      one cache's descriptor and arrays
 *
 *   slab_api.c        the program's functions: an object in, an object out
 *   slab_array.c      this CPU's array of free objects is refilled and flushed
 *   slab_capacity.c   how large the array is
 *   slab_drain.c      all arrays, lists and queues of a cache are emptied
 *   slab_count.c      what a cache holds and did
 *   debug/            in place of arrays: objects of twins, with guards and records
 *   slab_take.c       which node objects come from
 *   slab_shared.c     objects on their way from CPU to CPU: the node's ALF queue
 *   slab_budget.c     what kmalloc's arrays and queues may hold together
 *   slab_objects.c    objects out of slabs and back; which list a slab goes to
 *   slab_hand.c       what frees have in hand that wait for no fork
 *   slab_stock.c      empty slabs kept for those who may not wait
 *   slab_partial.c    this CPU's partly used slabs
 *   slab_node.c       the node's partly used slabs, under the node's lock
 *   slab_page.c       one slab: a run of pages cut into objects, a bitmap of the free
 *   slab_limit.c      how many slabs a cache may have
 *   slab_geometry.c   how slabs are cut
 *   slab_list.c       all caches
 *   page/             runs of pages
 *
 * tests/layers checks this order.
 */
#ifndef SLAB_SLAB_TYPES_H
#define SLAB_SLAB_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/config.h"
#include "base/deferred.h"
#include "base/list.h"
#include "base/lock.h"
#include "page/page.h"
#include "percpu/array.h"
#include "ukmem/alf_queue.h"
#include "ukmem/slab.h"

enum {
	SLAB_NAME_SIZE = 32,
	SLAB_BATCH_MAX = 128,  /* objects moved between an array and slabs at once */
	SLAB_BATCH_FEW = 32,   /* the same below a request that has such a batch on its stack */
	SLAB_MAX_SIZE = 16384, /* bytes per object; of kmalloc more, and then few at a time */
	SLAB_MAX_ALIGN = 4096,
	SLAB_MAX_BYTES = 131072,    /* of a slab, as long as it is more than an object */
	SLAB_CPU_PARTIAL_MAX = 128, /* slabs on a CPU's list */
	SLAB_STOCK_MAX = 2047,	    /* slabs kept in stock */
	SLAB_QUEUE_SLOTS = 256,	    /* objects in a node's queue */
};

/*
 * What happens outside the fast paths, counted per CPU. X(name, as the kernel's attribute).
 * ALLOC_FASTPATH and FREE_FASTPATH follow from the array's pops.
 */
#define SLAB_EVENTS(X)                                                                         \
	X(ALLOC_SLOWPATH, alloc_slowpath)	  /* objects handed out past the arrays */     \
	X(FREE_SLOWPATH, free_slowpath)		  /* objects taken back past the arrays */     \
	X(ALLOC_FROM_PARTIAL, alloc_from_partial) /* slabs used where they were on the node */ \
	X(ALLOC_SLAB, alloc_slab)		  /* slabs made */                             \
	X(ALLOC_REFILL, alloc_refill)		  /* arrays filled */                          \
	X(FREE_FLUSH, free_flush)		  /* arrays emptied */                         \
	X(FREE_SLAB, free_slab)			  /* slabs given back */                       \
	X(FREE_FROZEN, free_frozen)		  /* objects into a slab that a CPU has */     \
	X(FREE_ADD_PARTIAL, free_add_partial)	  /* full slabs that came to the node */       \
	X(FREE_REMOVE_PARTIAL, free_remove_partial) /* empty slabs that left the node */       \
	X(CPUSLAB_FLUSH, cpuslab_flush)		    /* arrays drained from outside */          \
	X(DEACTIVATE_EMPTY, deactivate_empty)	    /* slabs that a CPU gave to the node: */   \
	X(DEACTIVATE_TO_HEAD, deactivate_to_head)   /* used first */                           \
	X(DEACTIVATE_TO_TAIL, deactivate_to_tail)   /* used last: nothing of it is in use */   \
	X(ORDER_FALLBACK, order_fallback)	    /* slabs made smaller for want of pages */ \
	X(CPU_PARTIAL_ALLOC, cpu_partial_alloc)	    /* slabs used from the CPU's list */       \
	X(CPU_PARTIAL_FREE, cpu_partial_free)	/* full slabs that came to the CPU's list */   \
	X(CPU_PARTIAL_NODE, cpu_partial_node)	/* slabs fetched from the node to it */        \
	X(CPU_PARTIAL_DRAIN, cpu_partial_drain) /* times it was full and went to the node */   \
	X(FREE_REMOTE, free_remote)		/* objects flushed to another node */          \
	X(ALLOC_NODE_MISMATCH, alloc_node_mismatch) /* not of the node that was asked for */   \
	X(ALLOC_FAIL, alloc_fail)		    /* requests without a result */            \
	X(ALLOC_FROM_NEW, alloc_from_new) /* objects that slabs had to be made for */          \
	X(NODE_CONTENDED, node_contended) /* times the node's lock was found taken */          \
	X(BARN_GET, barn_get)		  /* times an array was filled from the queue, */      \
	X(BARN_GET_FAIL, barn_get_fail)	  /* or found it empty; */                             \
	X(BARN_PUT, barn_put)		  /* times an array was emptied into it, */            \
	X(BARN_PUT_FAIL, barn_put_fail)	  /* or found no room there */

#define SLAB_EVENT_ENUM(name, attr) SLAB_##name,
enum slab_event { SLAB_EVENTS(SLAB_EVENT_ENUM) SLAB_NR_EVENTS };
#undef SLAB_EVENT_ENUM

/*
 * Invariants, for each slab of the node:
 *   on the partial list  <=>  its state says SLAB_ON_NODE
 *   nr_slabs counts those that are full or on CPUs' lists, too
 * Synchronization: all but the lock itself: lock; atomic members as they say.
 */
struct kmem_cache_node {
	struct lock lock;
	unsigned int index;
	struct list_head partial;
	_Atomic size_t nr_partial; /* written under the lock, read at any time */
	_Atomic size_t nr_slabs;   /* relaxed */
	_Atomic size_t nr_small;   /* of these, those of the smaller layout; relaxed */
	_Atomic size_t inuse;	   /* objects out of slabs: in use, or in arrays; relaxed */
	struct deferred deferred;  /* slabs that are to come onto the list */
	_Atomic bool missed;	   /* an empty slab was left on the list: the lock was taken */
	/* slab_shared.c: made when a CPU has had objects for it; written once, release. */
	_Atomic(struct alf_queue *) shared;
	_Atomic bool wants_shared; /* relaxed */
};

/* A way of cutting slabs. */
struct slab_layout {
	uint16_t npages;
	uint16_t objects;
	bool bitmap_in_slab; /* more objects than the page entries have bits */
};

/* Synchronization: read-only once created, save what is said. */
struct kmem_cache {
	/* What the fast paths load, in one cache line. */
	void *fast_array; /* cpu_array; on several nodes a closed one */
	/* Where its arrays' entries count from: slab_arrays. Of a cache whose entries are a
	 * token's (slab_cache.c), as far before its array. */
	char *free_base;
	uint32_t entry_first, entry_last; /* in the array map, of all nodes; no other cache's */
	void *cpu_array;		  /* of node 0's objects: per-CPU struct pcpu_array */
	void *partial_array;		  /* per-CPU struct pcpu_array of struct page */
	unsigned int size;		  /* bytes from object to object */
	unsigned int pad_left;		  /* bytes before each: guard; 0 but in twins */
	struct slab_layout layout, small; /* the usual one; where pages are short */
	uint16_t capacity_first, capacity_max; /* of a CPU's array */
	uint64_t reciprocal;		       /* of size */
	unsigned int entry_stride;	       /* from one node's entry to the next one's */
	void *token;			       /* NULL: the entries are the arrays' own */
	uint16_t shared_size;		       /* slots of nodes' queues; 0: without */
	uint8_t mark;			       /* of pages of its usual slabs; 0: none */
	unsigned int array_stride;	       /* from one node's array to the next one's */
	bool budgeted;			       /* capacities count against the CPU's budget */
	_Atomic unsigned int checked; /* enum slab_check: why the arrays stay closed, or 0 */
	_Atomic bool keeps_slabs;     /* SLAB_TYPESAFE_BY_RCU */
	gfp_t gfp;		      /* which zone */
	_Atomic unsigned int min_partial;   /* partly used slabs kept per node; relaxed */
	_Atomic unsigned int cpu_partial;   /* objects as the attribute says; relaxed */
	_Atomic uint16_t cpu_partial_slabs; /* and slabs; relaxed */
	/* The attribute, in percent, and how many of these have come together; relaxed. */
	atomic_uint remote_node_defrag_ratio, defrag_turn;
	unsigned int object_size, align;
	slab_flags_t flags;
	void (*ctor)(void *);
	uint64_t *events;	     /* per-CPU uint64_t[SLAB_NR_EVENTS] */
	struct list_head list;	     /* caches lock */
	struct kmem_cache *new_next; /* slab_list_add_nowait() */
	char name[SLAB_NAME_SIZE];
	struct kmem_cache_node *nodes; /* [page_window.nr_nodes] */
	/* Debugging: debug/record.h. */
	struct kmem_cache *home;	    /* itself, or the cache this is the twin of */
	const struct slab_twin_ops *ops;    /* of twins; else NULL */
	_Atomic(struct kmem_cache *) twin;  /* written once, with release */
	_Atomic slab_flags_t debug;	    /* of SLAB_DEBUG_FLAGS; relaxed */
	unsigned int record_offset;	    /* of twins: from an object to its record */
	struct slab_quarantine *quarantine; /* of twins */
	_Atomic uint64_t fail_calls, fail_after, fail_times; /* kmem_cache_fail(); relaxed */
	/* slab_limit.c, slab_stock.c; relaxed, but for the pointer: written once, release. */
	_Atomic size_t max_slabs;    /* 0: no limit */
	_Atomic uint64_t limit_told; /* ms */
	atomic_uint limit_interval;  /* seconds */
	_Atomic size_t stock_slabs;  /* to be kept; those that are: in the stock */
	_Atomic(struct slab_stock *) stock;
	/* Slabs of all nodes, the twin's too, and the most there ever were; relaxed. Last,
	 * since it is written by all who make slabs. */
	_Atomic size_t all_slabs, most_slabs;
};

/* What twins do that other caches do not: slabs call it without knowing about debugging. */
struct slab_twin_ops {
	/* Size and offsets of a twin whose object_size and align are set. */
	void (*lay_out)(struct kmem_cache *twin);
	void (*new_slab)(struct kmem_cache *twin, char *first, unsigned int objects);
	void (*free_slab)(void *mem, size_t len);
	/* The twin is about to be freed. */
	void (*release)(struct kmem_cache *twin);
};

/* Why a cache's arrays stay closed, so that all requests come by debug/check.c. */
enum slab_check {
	SLAB_CHECK_TWIN = 1,	     /* it is a twin: always */
	SLAB_CHECK_DEBUG = 2,	     /* debug flags are set */
	SLAB_CHECK_FAIL = 4,	     /* allocations are to fail */
	SLAB_CHECK_ANNOTATE = 8,     /* AddressSanitizer or valgrind are told */
	SLAB_CHECK_PASSTHROUGH = 16, /* objects come from libc */
};

/* Everything that describes a cache before it exists. */
struct slab_params {
	const char *name;
	unsigned int size, align;
	slab_flags_t flags;
	void (*ctor)(void *);
	unsigned int capacity_max;
	bool budgeted;
	uint8_t mark; /* pages of slabs of the usual layout say so; 0: none */
	/* Of twins: the cache, and what makes it one. */
	struct kmem_cache *home;
	const struct slab_twin_ops *ops;
};

static always_inline void slab_count_events(struct kmem_cache *s, enum slab_event e, uint64_t n)
{
	this_cpu_add(s->events[e], n);
}

static inline void slab_event(struct kmem_cache *s, enum slab_event e)
{
	slab_count_events(s, e, 1);
}

/* The twin, or NULL as long as there was no need of one. */
static inline struct kmem_cache *slab_twin(const struct kmem_cache *s)
{
	return atomic_load_explicit(&s->twin, memory_order_acquire);
}

static always_inline bool slab_is_checked(const struct kmem_cache *s)
{
	return unlikely(atomic_load_explicit(&s->checked, memory_order_relaxed));
}

/* The array of objects of @node. */
static always_inline void *slab_array(const struct kmem_cache *s, unsigned int node)
{
	return (char *)s->cpu_array + (size_t)node * s->array_stride;
}

/* The entry of pages of caches for which the array map had no entry left: no page has it. */
#define SLAB_NO_ENTRY UINT32_MAX

#endif
