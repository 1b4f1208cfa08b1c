/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/slab.h> - object caches (kmem_cache), as the kernel's slab allocator has them.
 *
 * A cache hands out objects of one size. Each CPU keeps, per cache and NUMA node, an
 * array of free objects: allocating pops from it and freeing pushes onto it, by one
 * restartable sequence each, with no lock and no atomic instruction. Behind the arrays
 * stand slabs: runs of pages cut into objects, with a bitmap of the free objects that lies
 * outside the objects. Each CPU has a few partly used slabs, the node has a list of the
 * others, and the page allocator has pages for new ones.
 *
 * Slabs after the kernel's SLUB (C. Lameter); arrays of pointers moved in bulk after
 * J. Bonwick's magazines. Counting a CPU's partly used slabs instead of estimating their
 * objects: V. Babka's change to SLUB of 2021.
 *
 * Thread safety: every function may be called from any thread at any time,
 * except kmem_cache_destroy, during and after which nothing may use the cache.
 * Signal safety: handlers may call the functions that allocate, with GFP_NOWAIT or GFP_ATOMIC,
 * and kmem_cache_free, kfree and their bulk forms, which wait for nothing. This does not hold
 * while the cache is debugged (SLAB_CONSISTENCY_CHECKS and the like), nor under
 * AddressSanitizer and valgrind (tunable annotate), nor with the tunable passthrough.
 */
#ifndef UKMEM_SLAB_H
#define UKMEM_SLAB_H

#include <ukmem/compiler.h>

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <ukmem/gfp.h>
#include <ukmem/kmalloc.h>

#ifndef NUMA_NO_NODE
#define NUMA_NO_NODE (-1)
#endif

UKMEM_BEGIN_DECLS

typedef unsigned int slab_flags_t;

/** F: report double frees, pointers that are no objects, and objects of other caches. */
#define SLAB_CONSISTENCY_CHECKS 0x00000100u
/** Z: put guard bytes around each object, and check them when it is freed. */
#define SLAB_RED_ZONE 0x00000400u
/** P: fill free objects with a pattern, and check it when they are allocated. */
#define SLAB_POISON 0x00000800u
/** Align objects to a cache line (64 bytes); small ones to a part of it. */
#define SLAB_HWCACHE_ALIGN 0x00002000u
/** Slabs of pinned pages (ZONE_DMA). */
#define SLAB_CACHE_DMA 0x00004000u
/** Slabs of pages below 4 GiB (ZONE_DMA32). */
#define SLAB_CACHE_DMA32 0x00008000u
/** U: remember who allocated and who freed each object. */
#define SLAB_STORE_USER 0x00010000u
/** For information only: the objects can be reclaimed by a shrinker. */
#define SLAB_RECLAIM_ACCOUNT 0x00020000u
/** kmem_cache_create logs and aborts instead of returning NULL. */
#define SLAB_PANIC 0x00040000u
/**
 * The memory of an object that is freed stays an object of this cache: it may be handed
 * out again, but its slab goes back to the page allocator only when the cache is
 * destroyed, because the library does not know the program's grace periods. The constructor
 * is run once for each object, and freed objects are not poisoned.
 */
#define SLAB_TYPESAFE_BY_RCU 0x00080000u
/** Accepted, without effect: caches are never merged. */
#define SLAB_NO_MERGE 0x01000000u
/** Accepted, without effect. */
#define SLAB_ACCOUNT 0x04000000u
/**
 * Zero each object when it is allocated, or when it is freed, as the tunables init_on_alloc and
 * init_on_free ask for all caches. Without effect for caches with a constructor or
 * SLAB_TYPESAFE_BY_RCU, because their free objects keep what they hold.
 */
#define SLAB_INIT_ON_ALLOC 0x10000000u
#define SLAB_INIT_ON_FREE 0x20000000u
/** The four debugging flags (F, Z, P, U) together. */
#define SLAB_DEBUG_FLAGS                                                                       \
	(SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON | SLAB_STORE_USER)

struct kmem_cache;

/** Further parameters of a new cache. Zero is the default of every member. */
struct kmem_cache_args {
	unsigned int align;		   /**< bytes, a power of two up to 4096 */
	unsigned int useroffset, usersize; /**< accepted, without effect */
	unsigned int freeptr_offset;	   /**< without effect: objects hold no free pointer */
	bool use_freeptr_offset;
	void (*ctor)(void *);	     /**< run on each object of a new slab */
	unsigned int sheaf_capacity; /**< slots of a CPU's array at most; 0: by size */
};

/**
 * kmem_cache_create - make a cache of objects
 * @name:  shown in statistics and reports; copied, at most 31 bytes are kept
 * @size:  object size in bytes, 1 .. 16384
 * @align: alignment in bytes, 0 (8, or 16 from a size of 16 on) or a power of
 *         two up to 4096
 * @flags: SLAB_* or 0
 * @ctor:  NULL, or a function that is run on each object when its slab is made; an
 *         object must be freed in its constructed state
 *
 * The function brings in pages for a first slab, so that a first request that may not block
 * can succeed. These pages are not reserved: any request may use them up.
 * kmem_cache_set_stock() keeps objects for requests that may not block.
 *
 * Result: the cache, or NULL: an invalid parameter (logged) or no memory. May block.
 *
 * The newer form, kmem_cache_create(name, size, args, flags) with a struct
 * kmem_cache_args pointer or NULL in third place, works too.
 */
UKMEM_EXPORT struct kmem_cache *kmem_cache_create(const char *name, unsigned int size,
						  unsigned int align, slab_flags_t flags,
						  void (*ctor)(void *))
	UKMEM_SYMBOL(kmem_cache_create);

/** __kmem_cache_create_args - the same, with the other parameters in @args; NULL: defaults. */
UKMEM_EXPORT struct kmem_cache *__kmem_cache_create_args(const char *name, unsigned int size,
							 const struct kmem_cache_args *args,
							 slab_flags_t flags)
	UKMEM_SYMBOL(kmem_cache_create_args);

/** KMEM_CACHE - a cache of struct @type, named and aligned after it. */
#define KMEM_CACHE(type, flags)                                                                \
	(kmem_cache_create)(#type, sizeof(struct type), __alignof__(struct type), (flags), NULL)

/**
 * kmem_cache_destroy - give back everything a cache holds
 *
 * NULL is ignored. A pointer to no cache, or to one that was destroyed, is reported (tunable
 * invalid_free) and otherwise ignored. If objects are still in use, the library logs their
 * number and the addresses of the first ones (with SLAB_STORE_USER also their allocation's call
 * stack); the cache and its slabs stay, and the objects stay valid. Samples of the heap profile
 * (<ukmem/profile.h>) are blocks of their own, which no cache counts: a cache of which only
 * samples are in use goes, the samples stay valid, and a kmem_cache_free() of one that comes
 * later is an invalid free. The same is true of all objects with the tunable passthrough. May
 * block.
 */
UKMEM_EXPORT void kmem_cache_destroy(struct kmem_cache *s) UKMEM_SYMBOL(kmem_cache_destroy);

/**
 * kmem_cache_shrink - return free objects and slabs to the page allocator
 *
 * Empties the arrays of every CPU (while one is emptied, requests on its CPU take the slow
 * path) and frees all empty slabs. May block. Result: 0, or 1 if partly used slabs
 * remain (as in the kernel).
 */
UKMEM_EXPORT int kmem_cache_shrink(struct kmem_cache *s) UKMEM_SYMBOL(kmem_cache_shrink);

/** kmem_cache_size - the object size given at creation, in bytes. */
UKMEM_EXPORT unsigned int kmem_cache_size(const struct kmem_cache *s)
	UKMEM_SYMBOL(kmem_cache_size);

/** kmem_cache_alloc - allocate one object; NULL: no memory. Free with kmem_cache_free. */
UKMEM_EXPORT void *kmem_cache_alloc(struct kmem_cache *s, gfp_t flags)
	UKMEM_SYMBOL(kmem_cache_alloc) UKMEM_OBJECT;

/** kmem_cache_zalloc - allocate one object filled with zeros; NULL: no memory. */
UKMEM_EXPORT void *kmem_cache_zalloc(struct kmem_cache *s, gfp_t flags)
	UKMEM_SYMBOL(kmem_cache_zalloc) UKMEM_MALLOC;

/**
 * kmem_cache_alloc_node - allocate one object on a NUMA node
 * @node: a node id, or NUMA_NO_NODE
 *
 * If that node has no memory, the object comes from another one; with __GFP_THISNODE the
 * result is NULL then. The result is also NULL if there is no such node.
 */
UKMEM_EXPORT void *kmem_cache_alloc_node(struct kmem_cache *s, gfp_t flags, int node)
	UKMEM_SYMBOL(kmem_cache_alloc_node) UKMEM_OBJECT;

/** kmem_cache_alloc_lru - kmem_cache_alloc; @lru is not used. */
struct list_lru;
static inline void *kmem_cache_alloc_lru(struct kmem_cache *s, struct list_lru *lru,
					 gfp_t flags)
{
	(void)lru;
	return kmem_cache_alloc(s, flags);
}

/**
 * kmem_cache_free - give @obj back to @s, the cache it came from
 *
 * NULL is ignored. A pointer that is no object of @s is reported (tunable
 * invalid_free), with the name of the cache that it is of, and otherwise ignored.
 */
UKMEM_EXPORT void kmem_cache_free(struct kmem_cache *s, void *obj)
	UKMEM_SYMBOL(kmem_cache_free);

/**
 * kmem_cache_alloc_bulk - allocate @n objects at once into @p[0..n-1]
 *
 * Result: n; 0: no memory, and nothing is allocated.
 */
UKMEM_EXPORT int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t n, void **p)
	UKMEM_SYMBOL(kmem_cache_alloc_bulk);

/**
 * kmem_cache_debug - switch a cache's debugging on and off while it is used
 * @flags: of SLAB_DEBUG_FLAGS; 0: off
 *
 * Objects that are in use already get fewer checks: they have no guard bytes and no record of
 * their allocation. The tunable slab_debug_action says what a finding does. The tunable
 * slab_debug switches debugging on from the beginning, for all caches or some. Result: 0;
 * -EINVAL: other flags; -ENOMEM. May block.
 */
UKMEM_EXPORT int kmem_cache_debug(struct kmem_cache *s, slab_flags_t flags)
	UKMEM_SYMBOL(kmem_cache_debug);

/**
 * kmem_cache_fail - make allocations from a cache fail, to test how callers handle it
 * @after: number of allocations that still succeed; negative: all succeed again
 * @times: number of allocations that fail then; 0: all
 *
 * A bulk allocation counts as one.
 */
UKMEM_EXPORT void kmem_cache_fail(struct kmem_cache *s, long after, unsigned long times)
	UKMEM_SYMBOL(kmem_cache_fail);

/**
 * kmem_cache_set_limit - set a hard limit
 * @objects:  the most objects that the cache may have, used and free together; 0: no limit
 * @interval: seconds between two log lines that say that the limit was reached; default 60
 *
 * The library counts slabs, so that no allocation pays for the limit: @objects is rounded up
 * to whole slabs (objs_per_slab). At the limit, a request that may block takes free objects
 * that other CPUs keep, and gives back empty slabs of other nodes; if there are none, it
 * returns NULL and logs one line. What other threads move at this moment it does not find: with
 * a limit of a slab or two, threads that allocate at once are refused now and then although
 * some objects are free. A request that may not block returns NULL and logs nothing.
 * Requests with __GFP_NOFAIL exceed the limit. If the cache has more objects than the new
 * limit, it keeps them and makes no more. Samples of the heap profile (<ukmem/profile.h>) are
 * blocks of their own, which no cache counts: the program may have these beyond the limit.
 * Result: 0. kmem_cache_limit - the limit as it was rounded, in objects; 0: none.
 */
UKMEM_EXPORT int kmem_cache_set_limit(struct kmem_cache *s, unsigned long objects,
				      unsigned int interval) UKMEM_SYMBOL(kmem_cache_set_limit);
UKMEM_EXPORT unsigned long kmem_cache_limit(const struct kmem_cache *s)
	UKMEM_SYMBOL(kmem_cache_limit);

/**
 * kmem_cache_set_stock - keep a stock of free objects for requests that may not block
 * @objects: the number of objects, rounded up to whole slabs (at most 2047 slabs); 0: none
 *
 * The function makes the stock's slabs now, on the node that the thread's memory policy says.
 * Only kmem_cache_destroy() gives them back; ukmem_trim(), kmem_cache_shrink() and reclaim
 * leave them alone. A request takes from the stock if it finds no free object elsewhere and no
 * slab can be made for it; mostly these are requests that may not block. The next request that
 * may block, and needs more objects than its CPU has, makes slabs in place of those that were
 * taken. The stock counts towards the limit. A debugged cache (kmem_cache_debug) does not use
 * it.
 *
 * Result: 0; -EINVAL: too many; -ENOMEM: not all could be made now, later requests make the
 * rest. May block. kmem_cache_stock - the number of objects in stock now.
 */
UKMEM_EXPORT int kmem_cache_set_stock(struct kmem_cache *s, unsigned long objects)
	UKMEM_SYMBOL(kmem_cache_set_stock);
UKMEM_EXPORT unsigned long kmem_cache_stock(const struct kmem_cache *s)
	UKMEM_SYMBOL(kmem_cache_stock);

/**
 * kmem_cache_nr_allocated - objects in use by the program; exact if no thread is busy
 *
 * Without samples of the heap profile; 0 with the tunable passthrough (kmem_cache_destroy).
 */
UKMEM_EXPORT unsigned long kmem_cache_nr_allocated(struct kmem_cache *s)
	UKMEM_SYMBOL(kmem_cache_nr_allocated);

/**
 * kmem_cache_find - the cache of that name, or NULL
 *
 * No cache may be destroyed meanwhile. kmalloc's caches are there after the process's first
 * allocation.
 */
UKMEM_EXPORT struct kmem_cache *kmem_cache_find(const char *name) UKMEM_SYMBOL(kmem_cache_find);

/**
 * kmem_cache_attr_show - an attribute of a cache, as /sys/kernel/slab/<cache>/<attr> shows it
 * @attr: object_size, objs_per_slab, order, cpu_partial, alloc_fastpath, ... (the tool's
 *        `ukmem slab` lists them)
 * @buf:  gets the text with its newline and a terminating zero, cut at @size bytes
 *
 * Counts of events have the kernel's form: the sum, then Cn=number for each CPU that has any.
 *
 * Result: the length of the whole text in bytes; -ENOENT: there is no such attribute; -EACCES:
 * it can only be set.
 */
UKMEM_EXPORT ssize_t kmem_cache_attr_show(struct kmem_cache *s, const char *attr, char *buf,
					  size_t size) UKMEM_SYMBOL(kmem_cache_attr_show);

/**
 * kmem_cache_attr_store - set an attribute, as writing to that file does
 *
 *   min_partial	       slabs on the node's list, above which a free gives its empty
 *			       slab back
 *   cpu_partial	       objects in a CPU's partly used slabs; CPUs that hold more give
 *			       the rest back at once
 *   limit, limit_interval     as kmem_cache_set_limit()
 *   stock		       as kmem_cache_set_stock()
 *   remote_node_defrag_ratio  percent of the times that a new slab is needed in which a
 *			       partly used slab of another node is taken instead, if one can
 *			       be spared. Default 0 (the kernel's is 100): objects stay near
 *   shrink		       "1": as kmem_cache_shrink()
 *   validate		       "1": as ukmem_verify(), for this cache; findings are logged
 *   a count of events	       "0": begins to count again; not for the events that the
 *			       numbers of allocations and frees are computed from
 *
 * Result: 0; -ENOENT: no such attribute; -EACCES: it cannot be set; -EINVAL: an invalid value;
 * -ENOMEM; -EUCLEAN: validate has findings.
 */
UKMEM_EXPORT int kmem_cache_attr_store(struct kmem_cache *s, const char *attr,
				       const char *value) UKMEM_SYMBOL(kmem_cache_attr_store);

UKMEM_END_DECLS

/* kmem_cache_create has two forms; the type of the third argument tells which is called. */
#ifdef __cplusplus
extern "C++" {
static inline struct kmem_cache *kmem_cache_create(const char *name, unsigned int size,
						   const struct kmem_cache_args *args,
						   slab_flags_t flags)
{
	return __kmem_cache_create_args(name, size, args, flags);
}
}
#else
/* The type of C23's nullptr, which compilers had before the standard's date. */
#if !defined(nullptr) && (__STDC_VERSION__ >= 202311L ||                                       \
			  (__STDC_VERSION__ > 201710L &&                                       \
			   (defined(__clang__) ? __clang_major__ >= 16 : __GNUC__ >= 13)))
typedef __typeof__(nullptr) ukmem_nullptr_t;
#else
typedef struct ukmem_nullptr *ukmem_nullptr_t; /* no argument has this type */
#endif
#define kmem_cache_create(name, size, args, ...)                                               \
	_Generic((args),                                                                       \
		struct kmem_cache_args *: __kmem_cache_create_args,                            \
		const struct kmem_cache_args *: __kmem_cache_create_args,                      \
		void *: __kmem_cache_create_args,                                              \
		ukmem_nullptr_t: __kmem_cache_create_args,                                     \
		default: (kmem_cache_create))((name), (size), (args), __VA_ARGS__)
#endif

#ifdef UKMEM_ALLOC_TAGS
#include <ukmem/alloc_tag.h>
#endif

#endif
