/* SPDX-License-Identifier: MIT */
/*
 * Object caches: the types that all files of this folder share. Every other file declares its
 * functions in a header of its own name, and includes only headers of files below it:
 *
 *   slab_create.c     the top: creates and destroys caches, initialises the layer
 *   show/oom.c        the largest caches, for a report of a request that failed
 *   show/stats.c      the caches' part of the gauges
 *   show/tables.c     the caches' statistics as tables
 *   show/print.c      all caches in the kernel's formats
 *   show/setting.c    attributes that caches get when they are made
 *   show/attr.c       a cache's attributes by name
 *   slab_verify.c     verifies the invariants
 *   slab_fork.c       the child of a fork finishes what other threads had begun; the parent
 *                     has pages of arrays copied
 *   slab_reclaim.c    gives memory back: trim, shrinker, CPUs that go offline
 *   debug/switch.c    switches debugging on and off, makes twins
 *   debug/tunable.c   the tunable slab_debug
 *   slab_reserve.c    caches for callers that may not wait
 *   slab_cache.c      one cache's descriptor and arrays
 *
 *   slab_api.c        the program's functions: an object in, an object out
 *   slab_array.c      the slow paths behind this CPU's array of free objects
 *   debug/check.c     in their place: caches that are checked, debugged or hardened
 *   debug/hard.c      objects of hardened caches
 *   slab_refill.c     fills the array out of slabs
 *   slab_capacity.c   decides how large the array is
 *   slab_line.c       keeps CPUs from sharing a line of the processor's cache
 *   slab_drain.c      empties all arrays, lists and queues of a cache
 *   slab_count.c      counts what a cache holds and did
 *   debug/twin.c      objects of twins, with guards and records
 *   debug/pattern.c   bytes in and around these objects
 *   debug/report.c    reports about them
 *   debug/annotate.c  tells AddressSanitizer and valgrind of them
 *   debug/record.h    what a twin keeps of an object
 *   slab_sample.c     looks at one allocation of many
 *   slab_kfence.c     objects in KFENCE's pool, between guard pages
 *   slab_take.c       chooses the node that objects come from
 *   slab_shared.c     the node's shared queue, for objects on their way from CPU to CPU
 *   slab_budget.c     the budget of kmalloc's arrays and queues
 *   slab_objects.c    takes objects out of slabs and puts them back; lists slabs
 *   slab_hand.c       records of frees that did not wait for a fork
 *   slab_stock.c      empty slabs kept for requests that may not wait
 *   slab_partial.c    this CPU's partial slabs
 *   slab_node.c       the node's partial slabs, on a list and under a lock for each shard
 *   slab_page.c       one slab: a run of pages cut into objects, a bitmap of the free
 *   slab_pace.c       how large a new slab is: how many were made and given back lately
 *   slab_limit.c      how many slabs a cache may have
 *   slab_profile.c    which allocations the heap profile samples
 *   slab_geometry.c   how slabs are cut
 *   slab_hard.c       hardened caches: secrets, tables, random numbers
 *   slab_list.c       all caches
 *   page/             runs of pages
 *
 * tests/layers reads this order, and checks it.
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
	SLAB_BATCH_FEW = 32,   /* the same, where a caller has such a batch on its stack */
	SLAB_MAX_SIZE = 16384, /* bytes per object; kmalloc's may be larger */
	SLAB_MAX_ALIGN = 4096,
	/* Bytes of a slab of the usual layout, unless one object needs more. */
	SLAB_MAX_BYTES = 131072,
	/* Bytes of a large slab of objects below SLAB_LARGE_SIZE, at most. */
	SLAB_LARGE_BYTES = 16384,
	SLAB_LARGE_SIZE = 2048,	     /* bytes: objects from here on have the largest slabs */
	SLAB_LARGE_MOST = 512 << 10, /* bytes of those */
	SLAB_ROW = 4,		     /* slabs of the larger layout that are made at once */
	SLAB_CPU_PARTIAL_MAX = 128,  /* slabs on a CPU's list */
	SLAB_STOCK_MAX = 2047,	     /* slabs kept in stock */
	SLAB_QUEUE_SLOTS = 256,	     /* objects in a node's queue */
};

/*
 * Events outside the fast paths, counted per CPU. X(name, the kernel's attribute).
 * ALLOC_FASTPATH and FREE_FASTPATH are computed from the array's pops.
 */
#define SLAB_EVENTS(X)                                                                         \
	X(ALLOC_SLOWPATH, alloc_slowpath)	    /* objects handed out past the arrays */   \
	X(FREE_SLOWPATH, free_slowpath)		    /* objects taken back past the arrays */   \
	X(ALLOC_FROM_PARTIAL, alloc_from_partial)   /* slabs used on the node's list */        \
	X(ALLOC_SLAB, alloc_slab)		    /* slabs made */                           \
	X(ALLOC_REFILL, alloc_refill)		    /* arrays filled */                        \
	X(FREE_FLUSH, free_flush)		    /* arrays emptied */                       \
	X(FREE_SLAB, free_slab)			    /* slabs given back */                     \
	X(FREE_FROZEN, free_frozen)		    /* objects freed into a slab of a CPU */   \
	X(FREE_ADD_PARTIAL, free_add_partial)	    /* full slabs that came to the node */     \
	X(FREE_REMOVE_PARTIAL, free_remove_partial) /* empty slabs that left the node */       \
	X(CPUSLAB_FLUSH, cpuslab_flush)		    /* arrays drained from outside */          \
	X(DEACTIVATE_EMPTY, deactivate_empty)	    /* slabs that a CPU gave to the node: */   \
	X(DEACTIVATE_TO_HEAD, deactivate_to_head)   /* used first */                           \
	X(DEACTIVATE_TO_TAIL, deactivate_to_tail)   /* used last, because it is empty */       \
	X(ORDER_FALLBACK, order_fallback)	/* smaller slabs, since pages were short */    \
	X(CPU_PARTIAL_ALLOC, cpu_partial_alloc) /* slabs used from the CPU's list */           \
	X(CPU_PARTIAL_FREE, cpu_partial_free)	/* full slabs that came to the CPU's list */   \
	X(CPU_PARTIAL_NODE, cpu_partial_node)	/* slabs fetched from the node to the CPU's */ \
	X(CPU_PARTIAL_DRAIN, cpu_partial_drain) /* drains of a CPU's list that was full */     \
	X(FREE_REMOTE, free_remote)		/* objects flushed to another node */          \
	X(ALLOC_NODE_MISMATCH, alloc_node_mismatch) /* objects of another node than asked */   \
	X(ALLOC_FAIL, alloc_fail)		    /* requests that failed */                 \
	X(ALLOC_FROM_NEW, alloc_from_new) /* objects that slabs had to be made for */          \
	X(NODE_CONTENDED, node_contended) /* times a thread found a shard's lock taken */      \
	X(BARN_GET, barn_get)		  /* refills of arrays from the shared queue */        \
	X(BARN_GET_FAIL, barn_get_fail)	  /* refills that found the shared queue empty */      \
	X(BARN_PUT, barn_put)		  /* flushes of arrays to the shared queue */          \
	X(BARN_PUT_FAIL, barn_put_fail)	  /* flushes that found the shared queue full */

#define SLAB_EVENT_ENUM(name, attr) SLAB_##name,
enum slab_event { SLAB_EVENTS(SLAB_EVENT_ENUM) SLAB_NR_EVENTS };
#undef SLAB_EVENT_ENUM

/*
 * A node's partial slabs are listed by shard: that of the CPU that listed them last. So CPUs
 * take slabs from which they had objects before, and do not divide lines of the processor's
 * cache among each other. Many CPUs have one shard, and there are at least two. Their number is
 * 2^k.
 */
enum { SLAB_SHARDS_MAX = 8 };

/* One shard. Synchronization: the lock, for plain members; atomic members as they say. */
struct slab_shard {
	struct lock lock;
	struct list_head partial;
	_Atomic size_t nr_partial; /* written under the lock, read at any time */
	uint16_t index;
	/* An empty slab was left on the list, because its thread did not have the lock. */
	_Atomic bool missed;
	/* False: no slab on the list was empty when it was last walked, or has become so since.
	 * Written under the lock, relaxed. */
	_Atomic bool may_have_empty;
} cacheline_aligned;

/*
 * Invariants, for each slab of the node:
 *   the slab is on the list of shard i  <=>  its state says SLAB_ON_NODE + i
 *   nr_slabs counts all slabs: listed, on CPUs' lists, full, deferred, in stock, in hand
 * Synchronization: plain members are written once, or as they say; atomic members as they say.
 */
struct kmem_cache_node {
	uint16_t index;
	uint16_t nr_shards;
	struct slab_shard *shards; /* behind all nodes */
	_Atomic size_t nr_slabs;   /* relaxed */
	_Atomic size_t nr_small;   /* how many of them have the smaller layout; relaxed */
	_Atomic size_t nr_large;   /* how many of them have the larger layout; relaxed */
	_Atomic size_t inuse;	   /* objects out of slabs: in use, or in arrays; relaxed */
	_Atomic size_t nr_puts;	   /* times that objects came back to slabs; relaxed */
	/* slab_pace.c: since when slabs of lean caches are counted, ms, and how many were made.
	 */
	_Atomic uint32_t lean_since, lean_made; /* relaxed */
	/* The pages of slabs given back of late, and when they were averaged last, ms. */
	_Atomic uint32_t given_pages, given_since; /* relaxed */
	_Atomic uint32_t no_row;  /* slabs to be made until a row is tried again; relaxed */
	struct deferred deferred; /* slabs that are to come onto a shard's list */
	_Atomic bool some_missed; /* a shard's missed was set: requests look which */
	/* A trim writes which state of the arrays it judged, and the pages that these kept:
	 * slab_drain.c. Synchronization: the caches lock. */
	uint64_t judged_of;
	size_t judged_pages;
	/* slab_shared.c: made when a CPU has had objects for it; written once, release. */
	_Atomic(struct alf_queue *) shared;
	_Atomic bool wants_shared; /* relaxed */
} cacheline_aligned;		   /* shards are, and follow */

/* A way of cutting slabs. */
struct slab_layout {
	uint16_t npages;
	uint16_t objects;
	bool bitmap_in_slab; /* more objects than the page entries have bits */
};

/* Synchronization: read-only once created, save where a member says otherwise. */
struct kmem_cache {
	/* The first members are what the fast paths load: one cache line. */
	void *fast_array; /* cpu_array; on several nodes a closed one */
	/* Entries in the array map of all nodes' arrays, from the first to the last one's. */
	pcpu_entry_t entry_first, entry_last;
	void *cpu_array;       /* for node 0's objects: per-CPU struct pcpu_array */
	void *partial_array;   /* per-CPU struct pcpu_array of struct page */
	unsigned int size;     /* bytes from object to object, the colour included */
	unsigned int pad_left; /* twins: bytes of guard before each object; else 0 */
	struct slab_layout layout, small, large; /* the usual one; a smaller, a larger one */
	uint16_t capacity_max;			 /* of a CPU's array */
	uint8_t shift;				 /* of size, and its inverse: exact_divide() */
	uint64_t inverse;
	uint16_t shared_size; /* slots of nodes' shared queues; 0: no queue */
	/* Class marks of its slabs, and of those of the larger layout: slab_page.c; or 0. */
	uint8_t class_mark, large_mark;
	unsigned int array_stride;    /* from one node's array to the next one's */
	bool budgeted;		      /* capacities count against the CPU's budget */
	_Atomic unsigned int checked; /* enum slab_check; 0: the usual fast paths serve it */
	_Atomic bool keeps_slabs;     /* SLAB_TYPESAFE_BY_RCU */
	uint8_t init;		      /* enum slab_init */
	bool hard;		      /* hardened: slab_hard.h */
	bool lean;		      /* slabs are of the small layout while few are made */
	bool barred;		      /* it is being destroyed; the caches lock */
	atomic_bool scattered;	      /* the last batch freed was: slab_order_of(); relaxed */
	gfp_t gfp;		      /* the flag of the zone that slabs come from */
	_Atomic unsigned int min_partial; /* so many slabs on a node's list may stay empty */
	/* How many free objects a CPU's list should hold, and the slabs for that; relaxed. */
	_Atomic unsigned int cpu_partial;
	_Atomic uint16_t cpu_partial_slabs;
	/* The attribute, in percent, and the sum of its values over all turns; relaxed. */
	atomic_uint remote_node_defrag_ratio, defrag_turn;
	unsigned int object_size, align;
	unsigned int colour; /* bytes between objects, so that they share no set of a cache */
	slab_flags_t flags;
	void (*ctor)(void *);
	uint64_t *events;	     /* per-CPU words: slab_events_bytes() */
	struct list_head list;	     /* Synchronization: the caches lock */
	struct kmem_cache *new_next; /* slab_list_add_nowait() */
	char name[SLAB_NAME_SIZE];
	struct kmem_cache_node *nodes; /* [page_window.nr_nodes] */
	/* Debugging: debug/record.h. */
	struct kmem_cache *home;	    /* itself; in a twin, the cache it belongs to */
	const struct slab_twin_ops *ops;    /* twins only; else NULL */
	_Atomic(struct kmem_cache *) twin;  /* written once, with release */
	_Atomic slab_flags_t debug;	    /* a subset of SLAB_DEBUG_FLAGS; relaxed */
	unsigned int record_offset;	    /* twins: from an object to its record */
	struct slab_quarantine *quarantine; /* twins only */
	/* Hardened caches: debug/hard.c. */
	void *hard_waiting;	     /* per-CPU struct pcpu_array: the quarantine */
	_Atomic uint16_t hard_slots; /* of the quarantine */
	_Atomic uint64_t fail_calls, fail_after, fail_times; /* kmem_cache_fail(); relaxed */
	/* slab_limit.c, slab_stock.c; relaxed, except the pointer: written once, release. */
	_Atomic size_t max_slabs;    /* 0: no limit */
	_Atomic uint64_t limit_told; /* when it was last logged, ms */
	atomic_uint limit_interval;  /* seconds */
	_Atomic size_t stock_slabs;  /* slabs that the stock should have */
	_Atomic(struct slab_stock *) stock;
	/* Slabs of all nodes and of the twin, and the most there ever were; relaxed. They are
	 * last, away from the fast paths' members, because all makers of slabs write them. */
	_Atomic size_t all_slabs, most_slabs;
};

/* When objects are zeroed. The fast paths of allocations, or of frees, do not reach such a
 * cache's arrays then: the slow paths zero, and use the arrays as they are. */
enum slab_init { SLAB_INIT_ALLOC = 1, SLAB_INIT_FREE = 2 };

/* Hooks of twins: the files of slabs call them without knowing about debugging. */
struct slab_twin_ops {
	/* Computes size and offsets of a twin whose object_size and align are set. */
	void (*lay_out)(struct kmem_cache *twin);
	void (*new_slab)(struct kmem_cache *twin, char *first, unsigned int objects);
	void (*free_slab)(void *mem, size_t len);
	/* Called before the twin is freed. */
	void (*release)(struct kmem_cache *twin);
};
/*
 * Reasons why the usual fast paths pass a cache by, and its requests go to debug/check.c. For
 * all reasons but SLAB_CHECK_HARD its arrays also stay closed; a hardened cache's arrays are
 * used by the fast paths of hardened processes.
 */
enum slab_check {
	SLAB_CHECK_TWIN = 1,	 /* the cache is a twin */
	SLAB_CHECK_DEBUG = 2,	 /* debug flags are set */
	SLAB_CHECK_FAIL = 4,	 /* kmem_cache_fail() makes allocations fail */
	SLAB_CHECK_ANNOTATE = 8, /* allocations are reported to AddressSanitizer, valgrind */
	SLAB_CHECK_PASSTHROUGH = 16, /* objects come from libc */
	SLAB_CHECK_HARD = 32,	     /* the cache is hardened */
	SLAB_CHECK_GONE = 64,	     /* the cache has been destroyed */
};
/* The parameters of a new cache. */
struct slab_params {
	const char *name;
	unsigned int size, align;
	unsigned int colour; /* bytes between objects */
	slab_flags_t flags;
	void (*ctor)(void *);
	unsigned int capacity_max;
	/* Per-CPU memory for the arrays, which stays the caller's, and the way from one node's
	 * array to the next one's; NULL: the cache allocates its own. */
	void *arrays;
	unsigned int array_stride;
	/* The same for the rest of a permanent cache, which then needs nothing else: zeroed
	 * memory of slab_descriptor_bytes(), per-CPU memory of slab_cpu_bytes(). Or NULL. */
	void *place, *cpu_place;
	bool budgeted;
	bool hard;	/* hardened, if the process is */
	bool nothing;	/* objects of no bytes, which nobody may touch */
	bool permanent; /* never destroyed: pcpu_alloc_permanent() */
	/* Class marks of its slabs; 0: none. Without @large_mark none is of the larger layout.
	 */
	uint8_t class_mark, large_mark;
	/* For twins: the cache it belongs to, and the hooks. */
	struct kmem_cache *home;
	const struct slab_twin_ops *ops;
};

/* A note of a CPU's array for one node's objects. Synchronization: relaxed, any thread. */
struct slab_note {
	uint32_t pops;	/* objects popped off it when objects last moved: slab_capacity.c */
	uint32_t level; /* its countdown was drawn at this level: slab_profile.c */
};

/* A cache's per-CPU words: its events, and behind them a note for each node. */
static inline size_t slab_events_bytes(void)
{
	return SLAB_NR_EVENTS * sizeof(uint64_t) +
	       page_window.nr_nodes * sizeof(struct slab_note);
}

static inline struct slab_note *slab_note(const struct kmem_cache *s, unsigned int node,
					  unsigned int cpu)
{
	debug_assert(node < page_window.nr_nodes);
	return (struct slab_note *)(void *)per_cpu_ptr(&s->events[SLAB_NR_EVENTS], cpu) + node;
}

static always_inline void slab_count_events(struct kmem_cache *s, enum slab_event e, uint64_t n)
{
	this_cpu_add(s->events[e], n);
}

/* The bytes of an object and what its alignment adds. */
static inline unsigned int slab_object_bytes(const struct kmem_cache *s)
{
	return s->size - s->colour;
}

/* The bytes that @n objects of a slab take; behind the last one is no colour. */
static inline size_t slab_objects_bytes(const struct kmem_cache *s, size_t n)
{
	debug_assert(n);
	return n * s->size - s->colour;
}

/* Whether the fast paths of allocations must not find the cache's arrays. */
static inline bool slab_alloc_is_shut(const struct kmem_cache *s)
{
	return s->init & SLAB_INIT_ALLOC || s->hard;
}

static inline void slab_event(struct kmem_cache *s, enum slab_event e)
{
	slab_count_events(s, e, 1);
}

/* The twin; NULL: none has been made yet. */
static inline struct kmem_cache *slab_twin(const struct kmem_cache *s)
{
	return atomic_load_explicit(&s->twin, memory_order_acquire);
}

static always_inline bool slab_is_checked(const struct kmem_cache *s)
{
	return unlikely(atomic_load_explicit(&s->checked, memory_order_relaxed));
}

/* The array for objects of @node. */
static always_inline void *slab_array(const struct kmem_cache *s, unsigned int node)
{
	return (char *)s->cpu_array + (size_t)node * s->array_stride;
}

/* In entry_first: the pages of the cache's slabs have no entry, because they must not have one,
 * or because its arrays lie too far away. No page has these. */
#define SLAB_NO_ENTRY UINT32_MAX
#define SLAB_FAR_ENTRY (UINT32_MAX - 1)

#endif
