/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/slab.h> - object caches (kmem_cache), as the kernel's slab allocator has them.
 *
 * A cache hands out objects of one size. Each CPU keeps, per cache and NUMA node, an
 * array of free objects: allocating pops from it and freeing pushes onto it, one
 * restartable sequence each, with no lock and no atomic instruction. Behind the arrays
 * stand slabs (runs of pages cut into objects, their free state in a bitmap outside the
 * objects): a few partly used ones of each CPU, the rest on a list of the node, and the
 * page allocator.
 *
 * Slabs after the kernel's SLUB (C. Lameter); arrays of pointers moved in bulk after
 * J. Bonwick's magazines. Counting a CPU's partly used slabs instead of estimating their
 * objects: V. Babka's change to SLUB of 2021.
 *
 * Thread safety: every function may be called from any thread at any time,
 * except kmem_cache_destroy, during and after which nothing may use the cache.
 * Signal safety: with GFP_NOWAIT or GFP_ATOMIC, alloc may be called in a signal
 * handler. kmem_cache_free, kfree and their bulk forms may too: they wait for nothing.
 * Not while the cache is debugged (SLAB_CONSISTENCY_CHECKS and the like), nor under
 * AddressSanitizer and valgrind (tunable annotate), nor with the tunable passthrough.
 */
#ifndef UKMEM_SLAB_H
#define UKMEM_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <ukmem/compiler.h>
#include <ukmem/gfp.h>
#include <ukmem/kmalloc.h>

#ifndef NUMA_NO_NODE
#define NUMA_NO_NODE (-1)
#endif

UKMEM_BEGIN_DECLS

typedef unsigned int slab_flags_t;

/** F: look for double frees, pointers that are no objects, objects of other caches. */
#define SLAB_CONSISTENCY_CHECKS 0x00000100u
/** Z: guard bytes around each object, looked at when it is freed. */
#define SLAB_RED_ZONE 0x00000400u
/** P: fill free objects with a pattern, looked at when they are allocated. */
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
 * destroyed (a user-space program's grace periods are not known here). A constructor
 * is run once, and freed objects are not poisoned.
 */
#define SLAB_TYPESAFE_BY_RCU 0x00080000u
/** Accepted, without effect: caches are never merged. */
#define SLAB_NO_MERGE 0x01000000u
/** Accepted, without effect. */
#define SLAB_ACCOUNT 0x04000000u
/** The four of debugging (F, Z, P, U) together. */
#define SLAB_DEBUG_FLAGS                                                                       \
	(SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON | SLAB_STORE_USER)

struct kmem_cache;

/** What else a new cache can be told. Zero is the default of every member. */
struct kmem_cache_args {
	unsigned int align;		   /**< bytes, a power of two up to 4096 */
	unsigned int useroffset, usersize; /**< accepted, without effect */
	unsigned int freeptr_offset;	   /**< accepted: no pointer is kept in objects */
	bool use_freeptr_offset;
	void (*ctor)(void *);	     /**< run on each object of a new slab */
	unsigned int sheaf_capacity; /**< objects a CPU's array holds at most; 0: by size */
};

/**
 * kmem_cache_create - make a cache of objects
 * @name:  shown in statistics and reports; copied, at most 31 bytes are kept
 * @size:  object size in bytes, 1 .. 16384
 * @align: alignment in bytes, 0 (8, or 16 from a size of 16 on) or a power of
 *         two up to 4096
 * @flags: SLAB_* or 0
 * @ctor:  must be NULL, or is run on each object when its slab is created; an
 *         object must be freed in its constructed state
 *
 * Pages of a first slab are made available, so that a first request may be one that does not
 * block; they are for whoever comes first. kmem_cache_set_stock() keeps some for such requests.
 *
 * Result: the cache, or NULL: a bad parameter (logged) or no memory.
 *
 * The newer form, kmem_cache_create(name, size, args, flags) with a struct
 * kmem_cache_args pointer or NULL in third place, is understood too.
 */
UKMEM_EXPORT struct kmem_cache *kmem_cache_create(const char *name, unsigned int size,
						  unsigned int align, slab_flags_t flags,
						  void (*ctor)(void *))
	UKMEM_SYMBOL(kmem_cache_create);

/** __kmem_cache_create_args - the same with everything else in @args, which may be NULL. */
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
 * NULL is ignored. If objects are still in use, their number and the addresses of the
 * first of them are logged (with SLAB_STORE_USER, who allocated them); the cache and its
 * slabs stay, and the objects stay valid.
 */
UKMEM_EXPORT void kmem_cache_destroy(struct kmem_cache *s) UKMEM_SYMBOL(kmem_cache_destroy);

/**
 * kmem_cache_shrink - return free objects and slabs to the page allocator
 *
 * Empties the arrays of every CPU, with each CPU's users stopped for the
 * moment, and frees all empty slabs. Result: 0, or 1 if partly used slabs
 * remain (as in the kernel).
 */
UKMEM_EXPORT int kmem_cache_shrink(struct kmem_cache *s) UKMEM_SYMBOL(kmem_cache_shrink);

/** kmem_cache_size - the object size given at creation, in bytes. */
UKMEM_EXPORT unsigned int kmem_cache_size(const struct kmem_cache *s)
	UKMEM_SYMBOL(kmem_cache_size);

/** kmem_cache_alloc - one object, or NULL without memory. */
UKMEM_EXPORT void *kmem_cache_alloc(struct kmem_cache *s, gfp_t flags)
	UKMEM_SYMBOL(kmem_cache_alloc) UKMEM_MALLOC;

/** kmem_cache_zalloc - one object filled with zeros, or NULL. */
UKMEM_EXPORT void *kmem_cache_zalloc(struct kmem_cache *s, gfp_t flags)
	UKMEM_SYMBOL(kmem_cache_zalloc) UKMEM_MALLOC;

/**
 * kmem_cache_alloc_node - one object of a NUMA node
 * @node: a node id, or NUMA_NO_NODE
 *
 * From another node if that one has no memory; with __GFP_THISNODE, NULL then. NULL also
 * if there is no such node.
 */
UKMEM_EXPORT void *kmem_cache_alloc_node(struct kmem_cache *s, gfp_t flags, int node)
	UKMEM_SYMBOL(kmem_cache_alloc_node) UKMEM_MALLOC;

/** kmem_cache_alloc_lru - kmem_cache_alloc; @lru is not used. */
struct list_lru;
static inline void *kmem_cache_alloc_lru(struct kmem_cache *s, struct list_lru *lru,
					 gfp_t flags)
{
	(void)lru;
	return kmem_cache_alloc(s, flags);
}

/**
 * kmem_cache_free - give @obj back to @s, which it came from
 *
 * NULL is ignored. A pointer that is no object of @s is reported (see the
 * tunable invalid_free) and otherwise ignored.
 */
UKMEM_EXPORT void kmem_cache_free(struct kmem_cache *s, void *obj)
	UKMEM_SYMBOL(kmem_cache_free);

/**
 * kmem_cache_alloc_bulk - @n objects at once into @p[0..n-1]
 *
 * Result: n, or 0 and nothing allocated.
 */
UKMEM_EXPORT int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t n, void **p)
	UKMEM_SYMBOL(kmem_cache_alloc_bulk);

/**
 * kmem_cache_debug - switch a cache's debugging on and off while it is used
 * @flags: of SLAB_DEBUG_FLAGS; 0: off
 *
 * Objects that are in use already are looked after as far as they can be: they have no
 * guard bytes and no record of who allocated them. What a finding does is the tunable
 * slab_debug_action. The tunable slab_debug does the same from the beginning, for all
 * caches or some. Result: 0, -EINVAL for other flags, -ENOMEM.
 */
UKMEM_EXPORT int kmem_cache_debug(struct kmem_cache *s, slab_flags_t flags)
	UKMEM_SYMBOL(kmem_cache_debug);

/**
 * kmem_cache_fail - let allocations from a cache fail, for tests of what the caller does then
 * @after: so many more succeed; negative: none fails any more
 * @times: then so many fail; 0: all
 *
 * Counts single and bulk allocations alike, one per call.
 */
UKMEM_EXPORT void kmem_cache_fail(struct kmem_cache *s, long after, unsigned long times)
	UKMEM_SYMBOL(kmem_cache_fail);

/**
 * kmem_cache_set_limit - a hard limit
 * @objects:  at most so many, in the program's hands and free ones alike; 0: no limit
 * @interval: seconds between two lines that say that it was reached; at first 60
 *
 * Counted in slabs, so that no allocation pays for it: @objects is rounded up to whole ones
 * (objs_per_slab). At the limit, a request that may block takes what free objects other CPUs
 * keep; then it is NULL, and one line is logged. One that may not block gets NULL without a
 * word. With __GFP_NOFAIL there is no limit. If there are more objects now, no more are made.
 * Result: 0. kmem_cache_limit - as it was rounded; 0: none.
 */
UKMEM_EXPORT int kmem_cache_set_limit(struct kmem_cache *s, unsigned long objects,
				      unsigned int interval) UKMEM_SYMBOL(kmem_cache_set_limit);
UKMEM_EXPORT unsigned long kmem_cache_limit(const struct kmem_cache *s)
	UKMEM_SYMBOL(kmem_cache_limit);

/**
 * kmem_cache_set_stock - a low-water mark: free objects that are always there
 * @objects: so many, rounded up to whole slabs, of 2047 at most; 0: none
 *
 * They are made now, for the node that the thread's policy says. Nothing gives them back,
 * neither ukmem_trim() nor kmem_cache_shrink() nor want of memory, but kmem_cache_destroy().
 * Whoever finds nothing else, and can have nothing made, gets them: requests that may not block
 * above all. The next one that may block, and needs more than its CPU has, replaces what was
 * taken. They count for the limit. A debugged cache (kmem_cache_debug) takes none of them.
 *
 * Result: 0; -EINVAL: too many; -ENOMEM: not all could be made, the rest will when it can.
 * May block. kmem_cache_stock - how many there are now.
 */
UKMEM_EXPORT int kmem_cache_set_stock(struct kmem_cache *s, unsigned long objects)
	UKMEM_SYMBOL(kmem_cache_set_stock);
UKMEM_EXPORT unsigned long kmem_cache_stock(const struct kmem_cache *s)
	UKMEM_SYMBOL(kmem_cache_stock);

/** kmem_cache_nr_allocated - objects in the program's hands. Exact if nobody else is busy. */
UKMEM_EXPORT unsigned long kmem_cache_nr_allocated(struct kmem_cache *s)
	UKMEM_SYMBOL(kmem_cache_nr_allocated);

/** kmem_cache_find - the cache of that name, or NULL. It must not be destroyed meanwhile. */
UKMEM_EXPORT struct kmem_cache *kmem_cache_find(const char *name) UKMEM_SYMBOL(kmem_cache_find);

/**
 * kmem_cache_attr_show - an attribute of a cache, as /sys/kernel/slab/<cache>/<attr> shows it
 * @attr: object_size, objs_per_slab, order, cpu_partial, alloc_fastpath, ... (the tool's
 *        `ukmem slab` lists them)
 * @buf:  gets the text with its newline and a terminating zero, cut at @size bytes
 *
 * Events are shown as in the kernel, too: the sum, then Cn=number for each CPU with some.
 *
 * Result: the length of the whole text; -ENOENT: there is no such attribute, -EACCES: it can
 * only be set.
 */
UKMEM_EXPORT ssize_t kmem_cache_attr_show(struct kmem_cache *s, const char *attr, char *buf,
					  size_t size) UKMEM_SYMBOL(kmem_cache_attr_show);

/**
 * kmem_cache_attr_store - set an attribute, as writing to that file does
 *
 * min_partial; cpu_partial, in objects, with effect on what CPUs hold now; limit,
 * limit_interval and stock, as the functions above; remote_node_defrag_ratio, of 100 times that
 * a slab would have to be made so many look for a partly used one of another node first (0,
 * where the kernel has 100: objects stay near); "1" to shrink; "1" to validate, as
 * ukmem_verify() for this cache alone (findings are logged); "0" to events, which begins to
 * count them anew, save those that the numbers of allocations and frees are made of.
 *
 * Result: 0; -ENOENT: no such attribute, -EACCES: it cannot be set, -EINVAL: not so, -ENOMEM,
 * -EUCLEAN: validate has findings.
 */
UKMEM_EXPORT int kmem_cache_attr_store(struct kmem_cache *s, const char *attr,
				       const char *value) UKMEM_SYMBOL(kmem_cache_attr_store);

UKMEM_END_DECLS

/* kmem_cache_create in both of its forms, told apart by the third argument. */
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
#define kmem_cache_create(name, size, args, ...)                                               \
	_Generic((args),                                                                       \
		struct kmem_cache_args *: __kmem_cache_create_args,                            \
		const struct kmem_cache_args *: __kmem_cache_create_args,                      \
		void *: __kmem_cache_create_args,                                              \
		default: (kmem_cache_create))((name), (size), (args), __VA_ARGS__)
#endif

#endif
