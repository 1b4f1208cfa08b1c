/* SPDX-License-Identifier: MIT */
/*
 * Object caches, below the public functions.
 *
 * Life of an allocation, a file per step:
 *   slab_api.c      the program's functions
 *   slab_cpu.c      this CPU's array of free objects; refilled and drained in bulk
 *   slab_shared.c   objects that are on their way from CPU to CPU: the node's ALF queue
 *   slab_partial.c  this CPU's partly used slabs
 *   slab_node.c     the node's partly used slabs, under the node's lock
 *   slab_page.c     one slab: a run of pages cut into objects, a bitmap of the free
 *   page/           runs of pages
 * slab_cache.c makes and destroys caches, slab_geometry.c cuts their slabs,
 * slab_reclaim.c empties them, slab_limit.c bounds them and keeps a stock; slab_stats.c,
 * slab_tables.c, slab_attr.c and slab_print.c show them, slab_check.c looks after caches that
 * somebody wants looked after (slab_debug.h).
 */
#ifndef SLAB_SLAB_H
#define SLAB_SLAB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/config.h"
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
	SLAB_QUEUE_BYTES = sizeof(struct alf_queue) + SLAB_QUEUE_SLOTS * sizeof(void *),
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
	/* Slabs to be put on the list by the next holder of the lock: slab_node.c, N1 / N2. */
	_Atomic(struct page *) deferred;
	_Atomic bool missed; /* an empty slab was left on the list: the lock was taken */
	/* slab_shared.c: made when somebody has had objects for it; written once, release. */
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
	uint64_t *events;      /* per-CPU uint64_t[SLAB_NR_EVENTS] */
	struct list_head list; /* caches lock */
	char name[SLAB_NAME_SIZE];
	struct kmem_cache_node *nodes; /* [page_window.nr_nodes] */
	/* Debugging: slab_debug.h. */
	struct kmem_cache *home;	    /* itself, or the cache this is the twin of */
	_Atomic(struct kmem_cache *) twin;  /* written once, with release */
	_Atomic slab_flags_t debug;	    /* of SLAB_DEBUG_FLAGS; relaxed */
	unsigned int record_offset;	    /* of twins: from an object to its record */
	struct slab_quarantine *quarantine; /* of twins */
	_Atomic uint64_t fail_calls, fail_after, fail_times; /* kmem_cache_fail(); relaxed */
	/* slab_limit.c; relaxed, but for the pointer, which is written once, with release. */
	_Atomic size_t max_slabs;    /* 0: no limit */
	_Atomic uint64_t limit_told; /* ms */
	atomic_uint limit_interval;  /* seconds */
	_Atomic size_t stock_slabs;  /* to be kept; those that are: in the stock */
	_Atomic(struct slab_stock *) stock;
	/* Slabs of all nodes, the twin's too, and the most there ever were; relaxed. Last,
	 * since it is written by all who make slabs. */
	_Atomic size_t all_slabs, most_slabs;
};

/* Why a cache's arrays stay closed, so that all requests come by slab_check.c. */
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
	uint8_t mark;		 /* pages of slabs of the usual layout say so; 0: none */
	struct kmem_cache *home; /* this one is to be its twin */
};

static always_inline void slab_count_events(struct kmem_cache *s, enum slab_event e, uint64_t n)
{
	this_cpu_add(s->events[e], n);
}

static inline void slab_event(struct kmem_cache *s, enum slab_event e)
{
	slab_count_events(s, e, 1);
}

/* slab_geometry.c */
void slab_set_geometry(struct kmem_cache *s);
/* Objects into slabs: what @objects of them come to, half of them in use. */
uint16_t slab_cpu_partial_slabs(const struct kmem_cache *s, unsigned int objects);
unsigned int slab_default_cpu_partial(const struct kmem_cache *s);

/* slab_cache.c */
bool slab_init(void);
/* A new cache, known to statistics, trim and fork; NULL without memory. */
struct kmem_cache *slab_cache_new(const struct slab_params *p);
/* Its parts: what it is; where its slabs are listed. */
void slab_describe(struct kmem_cache *s, const struct slab_params *p);
void slab_set_nodes(struct kmem_cache *s, struct kmem_cache_node *nodes);
/* Everything of an unused cache but its slabs. */
void slab_cache_delete(struct kmem_cache *s);
/* Memory of a node's queue, of SLAB_QUEUE_BYTES. */
void *slab_queue_alloc(void);
void slab_queue_free(void *q);
/* Whether its objects are the library's, not the program's. */
bool slab_is_own(const struct kmem_cache *s);
/* For who changes what a cache is checked for. */
void slab_caches_lock(void);
void slab_caches_unlock(void);
/* All caches but twins, in order of creation; the caches lock is held meanwhile. */
void slab_for_each_cache(void (*fn)(struct kmem_cache *s, void *arg), void *arg);
void __slab_for_each_cache(void (*fn)(struct kmem_cache *s, void *arg), void *arg);

/* slab_reserve.c */
enum { SLAB_RESERVE = 16 }; /* caches */
bool slab_reserve_init(void);
/* A per-CPU array that is always closed. */
void *slab_closed_array(void);
/* A new cache without waiting or memory: one of the reserve, NULL if there is none left. */
struct kmem_cache *slab_cache_new_nowait(const struct slab_params *p);
/* It is used: known to statistics and trim from now on. Or it is not needed after all. */
void slab_reserve_use(struct kmem_cache *s);
void slab_reserve_put(struct kmem_cache *s);
/* Those new since the last time, onto the list of caches, whose lock is held. */
void __slab_reserve_list(struct list_head *caches);
/* Caches of the reserve that are used, and requests for one that found none. */
unsigned int slab_reserve_used(uint64_t *exhausted);

/* slab_reclaim.c */
void slab_reclaim_init(void);
/* Objects and slabs of CPU index @cpu's lists, or PCPU_ALL_CPUS', back to the nodes; false:
 * CPUs cannot be stopped, and something is left. */
bool slab_drain(struct kmem_cache *s, unsigned int cpu);
/* The attribute cpu_partial, in objects: of at most SLAB_CPU_PARTIAL_MAX slabs. */
void slab_set_cpu_partial(struct kmem_cache *s, unsigned int objects);
/* Drain all, free all empty slabs. Result: whether slabs remain. */
bool slab_shrink(struct kmem_cache *s);

/* slab_budget.c */
bool slab_budget_init(void);
/* Make @s share the budget; while it is created. */
void slab_budget_join(struct kmem_cache *s);
/*
 * Room for @objects more in @s's array on @cpu: of what is spare, or of what idle classes
 * have, too, or anyhow; caches without a budget always have it.
 */
enum slab_budget_of { SLAB_BUDGET_SPARE, SLAB_BUDGET_OF_IDLE, SLAB_BUDGET_ANYHOW };
bool slab_budget_charge(struct kmem_cache *s, unsigned int cpu, unsigned int objects,
			enum slab_budget_of of);

void slab_budget_uncharge(struct kmem_cache *s, unsigned int cpu, unsigned int objects);

/* slab_cpu.c */
/* @node: of which node; @caller: of the program's function, for those who keep records. */
void *slab_alloc_slow(struct kmem_cache *s, unsigned int node, gfp_t flags, const void *caller);
void slab_free_slow(struct kmem_cache *s, void *obj, const void *caller);
/* @n objects in the program's hands; how many it got. */
size_t slab_alloc_bulk(struct kmem_cache *s, unsigned int node, gfp_t flags, size_t n, void **p,
		       const void *caller);
/* @n objects of one cache. */
void slab_free_bulk(struct kmem_cache *s, size_t n, void **p, const void *caller);
/*
 * Up to @n objects out of slabs, of *@node if possible; *@node: where they are of. Of these
 * the caller needs @need: it may be as few where another node has to serve.
 */
unsigned int slab_take(struct kmem_cache *s, unsigned int *node, void **out, unsigned int n,
		       unsigned int need, gfp_t flags);

/* pcpu_first_unit(), where the array map's entries count from. */
extern char *slab_arrays;
/* A capacity that was charged already. False: somebody changed it, *@from, meanwhile. */
bool slab_widen_array(struct kmem_cache *s, struct pcpu_array *a, unsigned int cpu,
		      uint16_t *from, uint16_t to);
/* An array's capacity to nothing, what it was charged with back to the budget. */
void slab_close_array(struct kmem_cache *s, struct pcpu_array *a, unsigned int cpu);

/* The array of objects of @node. */
static always_inline void *slab_array(const struct kmem_cache *s, unsigned int node)
{
	return (char *)s->cpu_array + (size_t)node * s->array_stride;
}

/* Both fail, and take the slow path, in fallback mode too. */
static always_inline void *slab_alloc(struct kmem_cache *s, gfp_t flags, const void *caller)
{
	void *obj;

	return likely(pcpu_array_pop_rseq(&pcpu, s->fast_array, &obj))
		       ? obj
		       : slab_alloc_slow(s, page_policy_node(), flags, caller);
}

/* Objects of one cache and node have one entry in the array map. */
static always_inline unsigned int slab_entry(const void *obj)
{
	size_t offset = (uintptr_t)obj - page_window.base;

	return likely(page_window_readable(offset))
		       ? page_window.array_map[offset >> ARRAY_MAP_SHIFT]
		       : PCPU_ENTRY_NONE;
}

/* No page's: of caches that no entries were left for. */
#define SLAB_NO_ENTRY UINT32_MAX

/* Whether an object whose page has @entry lies in a slab of @s. False also: there is no entry
 * that says so; then slab_cache_of() does. */
static always_inline bool slab_has(const struct kmem_cache *s, unsigned int entry)
{
	return entry - s->entry_first <= s->entry_last - s->entry_first;
}

/* To the array of the cache whose object it is; with a token that fails. */
static always_inline bool slab_push(unsigned int entry, void *obj)
{
	return pcpu_array_push_rseq(&pcpu, slab_arrays, entry, obj);
}

/* The fast path of a free to a cache. False: it is not for it to tell why. */
static always_inline bool slab_push_to(const struct kmem_cache *s, unsigned int entry,
				       void *obj)
{
	return likely(slab_has(s, entry)) &&
	       pcpu_array_push_rseq(&pcpu, s->free_base, entry, obj);
}

/* slab_api.c */
/* kmem_cache_free() without the fast path; @func: the name to report misuse under. */
void slab_free_any(struct kmem_cache *s, void *obj, const char *func, const void *caller);

/* slab_partial.c */
/* Up to @n objects of slabs of @node on this CPU's list. */
unsigned int slab_partial_take(struct kmem_cache *s, unsigned int node, void **out,
			       unsigned int n);
/* Slabs in the caller's hands onto this CPU's list, or else to the node. */
void slab_partial_add(struct kmem_cache *s, struct page **slabs, unsigned int n);
/* Slabs on CPUs' lists no object is out of. */
size_t slab_partial_idle(struct kmem_cache *s);

/* slab_shared.c */
/* The size of @s's queues, before it is used. */
void slab_shared_describe(struct kmem_cache *s);
/* Up to @n objects of @node that CPUs had too many of. Neither waits for anything. */
unsigned int slab_shared_get(struct kmem_cache *s, unsigned int node, void **out,
			     unsigned int n);
/* Objects of @node that a CPU has too many of. Result: how many there was room for. */
unsigned int slab_shared_put(struct kmem_cache *s, unsigned int node, void **objs,
			     unsigned int n);
/* Make the queue, if it was missed. For who may wait. */
void slab_shared_make(struct kmem_cache *s, unsigned int node);
/* All objects back into their slabs. False: a side is held on a CPU that cannot be stopped, or
 * others go on filling it. */
bool slab_shared_drain(struct kmem_cache *s);
unsigned int slab_shared_count(const struct kmem_cache *s, unsigned int node);
/* Of an empty cache. */
void slab_shared_delete(struct kmem_cache *s);

/* slab_node.c */
/*
 * Up to @n objects of @node into out[0..), ascending within a slab; @new: may make slabs.
 * Of these the caller needs @need. One that may not block gets what a free lock and present
 * slabs give.
 */
unsigned int slab_node_take(struct kmem_cache *s, unsigned int node, void **out, unsigned int n,
			    unsigned int need, gfp_t flags);
/* Slabs in the caller's hands onto the list of their node. Waits for nothing. */
void slab_node_add(struct kmem_cache *s, struct page **slabs, unsigned int n);
/* The slab on a list of @node became empty. Waits for nothing. */
void slab_node_retire(struct kmem_cache *s, struct page *page);
/* Free all empty slabs. Result: whether slabs remain. */
bool slab_node_shrink(struct kmem_cache *s);
/* Objects out of the slabs on the list of @node. */
size_t slab_node_partial_inuse(struct kmem_cache *s, unsigned int node);
/* Slabs on the list of @node no object is out of. */
size_t slab_node_idle(struct kmem_cache *s, unsigned int node);

/* Up to @n objects of partly used slabs of another node, *@node from then on, when it is
 * their turn (remote_node_defrag_ratio). */
unsigned int slab_node_take_remote(struct kmem_cache *s, unsigned int *node, void **out,
				   unsigned int n, gfp_t flags);
/* For slab_node_take(): slabs there are, and none made. */
#define SLAB_NO_NEW 0x20000000u
/* A slab that is on no list and of which nothing is out, back to the page allocator. */
void slab_node_dismiss(struct kmem_cache *s, struct page *page);

/* slab_limit.c */
/* One slab more; false: it would be one too many. */
bool slab_limit_charge(struct kmem_cache *s, gfp_t flags);
void slab_limit_uncharge(struct kmem_cache *s);
/* Whether another slab would be one too many. */
bool slab_limit_reached(const struct kmem_cache *s);
/* A request came away with nothing for it: says so, if it may and it is time. */
void slab_limit_tell(struct kmem_cache *s, gfp_t flags);
/* A slab of @node, with all its objects, for who could not have one made; or NULL. */
struct page *slab_stock_take(struct kmem_cache *s, unsigned int node);
/* Fill up what was taken. For who may wait. */
void slab_stock_refill(struct kmem_cache *s);
size_t slab_stock_count(const struct kmem_cache *s);
/* In objects: whole slabs. 0, -EINVAL: too many, -ENOMEM: not all could be made. */
int slab_stock_set(struct kmem_cache *s, size_t objects);
/* Of an empty one. */
void slab_stock_delete(struct kmem_cache *s);

static always_inline bool slab_keeps_stock(const struct kmem_cache *s)
{
	return unlikely(atomic_load_explicit(&s->stock_slabs, memory_order_relaxed));
}

enum slab_put_to { SLAB_PUT_CPU, SLAB_PUT_NODE };
/*
 * Objects back into their slabs, whatever nodes those are of; the slabs that are no longer
 * full come onto the list of this CPU or their node. Waits for nothing.
 */
void slab_put(struct kmem_cache *s, void **objs, unsigned int n, enum slab_put_to to);

/* slab_check.c */
/* Instead of all else while s->checked. @s: not a twin. */
void *slab_checked_alloc(struct kmem_cache *s, unsigned int node, gfp_t flags,
			 const void *caller);
size_t slab_checked_alloc_bulk(struct kmem_cache *s, unsigned int node, gfp_t flags, size_t n,
			       void **p, const void *caller);
/* @s: the cache or the twin that @obj is of. */
void slab_checked_free(struct kmem_cache *s, void *obj, const void *caller);
/* Whether @obj, an object of @s or its place, is in use as far as is known; false: reported. */
bool slab_checked_in_use(struct kmem_cache *s, void *obj, const void *caller);
/* A new cache before anybody uses it; false without memory. */
bool slab_check_created(struct kmem_cache *s, const struct slab_params *p);
/* Whether @obj is nobody's here, and libc's for all that is known. */
static inline bool slab_passes_through(const void *obj)
{
	return unlikely(config.passthrough) && !page_lookup(obj);
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

/* slab_stats.c */
struct slab_counts {
	uint64_t allocs, frees;		  /* objects given to and taken from the program */
	uint64_t allocs_fast, frees_fast; /* of these, by the arrays alone */
	uint64_t inuse;			  /* in the program's hands */
	uint64_t cached;		  /* free, in CPUs' arrays and nodes' queues */
	uint64_t shared;		  /* of these, in queues */
	uint64_t slabs, partial, objects; /* objects: of all slabs; partial: nodes' */
	uint64_t pages;			  /* of all slabs */
	uint64_t cpu_partial;		  /* slabs on CPUs' lists */
	uint64_t events[SLAB_NR_EVENTS];
};
void slab_count(struct kmem_cache *s, struct slab_counts *c);
/* Objects, and pages, that the node's slabs have room for. */
size_t slab_node_objects(const struct kmem_cache *s, unsigned int node);
size_t slab_node_pages(const struct kmem_cache *s, unsigned int node);
void slab_stats_init(void);

/* slab_tables.c */
struct emitter;
void slab_tables_emit(struct emitter *e);

static inline struct page *slab_head(struct page *page)
{
	return page - page_place_to_head(page_place(page_to_pfn(page)));
}

/* The cache @obj lies in a slab of, or NULL. */
struct kmem_cache *slab_cache_of(const void *obj);

#endif
