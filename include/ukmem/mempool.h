/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/mempool.h> - allocations that cannot fail: an allocator with a reserve.
 *
 * A pool sets min_nr elements aside when it is made. It allocates from its allocator as
 * long as that has any, then from the reserve; elements that are freed fill the reserve
 * up again first. So min_nr elements can be in use at any time, even when there is no other
 * memory, provided that a thread which has one frees it without waiting for another.
 *
 * mempool_alloc with	allocator has none, reserve has none
 * GFP_KERNEL		waits until an element is freed, or the allocator has one: never NULL
 * GFP_NOWAIT, _ATOMIC	NULL at once
 *
 * The allocator is any pair of functions; for caches, kmalloc and pages there are ready ones.
 * mempool_alloc passes on its flags, with __GFP_NORETRY and __GFP_NOWARN, and without
 * __GFP_NOFAIL, __GFP_RETRY_MAYFAIL and __GFP_ZERO. mempool_init and mempool_create pass
 * GFP_KERNEL, their _node forms the caller's flags without __GFP_ZERO, and mempool_resize
 * GFP_KERNEL with __GFP_NOWARN. So elements are not zeroed. Unlike the kernel's pools these let
 * the allocator reclaim before they turn to the reserve. The reason: an allocator of this
 * library that may not enter the kernel runs out of memory sooner than one of the kernel.
 *
 * An allocation out of the reserve, and a free into it, look at the slots one by one, so they
 * take the longer the larger min_nr is. Where the reserve is not needed, both are the
 * allocator's functions alone.
 *
 * Thread safety: all functions, any thread; but no thread may use a pool while it is made or
 * during and after its end. Signal safety: mempool_alloc with GFP_NOWAIT or GFP_ATOMIC,
 * mempool_alloc_preallocated and mempool_free, if the pool's functions are safe (the ready
 * ones are). They take no lock, and make a system call only to wake a thread that waits.
 * fork: the child's pool is a copy of the parent's; elements that the parent's other threads
 * were using are lost to the child, as all memory of those threads is.
 *
 * The kernel's interface; reserves of this kind after I. Molnar's description of 2001.
 */
#ifndef UKMEM_MEMPOOL_H
#define UKMEM_MEMPOOL_H

#include <ukmem/compiler.h>

#include <stdbool.h>
#include <stddef.h>

#include <ukmem/gfp.h>

UKMEM_BEGIN_DECLS

struct kmem_cache;
struct mempool_reserve;

/** Allocates an element; NULL: there is none now. @pool_data: the pool's pool_data. */
typedef void *(mempool_alloc_t)(gfp_t flags, void *pool_data);
/** Frees an element. */
typedef void(mempool_free_t)(void *element, void *pool_data);

typedef struct mempool {
	int min_nr; /**< elements promised; set by mempool_resize only */
	void *pool_data;
	mempool_alloc_t *alloc;
	mempool_free_t *free;
	struct mempool_reserve *reserve; /* private; NULL before mempool_init, after exit */
} mempool_t;

/**
 * mempool_init - make the pool in @pool, with its reserve filled
 *
 * @min_nr: 0 or more. @pool_data is passed to both functions.
 * Result: 0; -EINVAL: @min_nr is negative or a function is missing; -ENOMEM. After an error,
 * mempool_exit of *@pool is allowed but not needed.
 */
UKMEM_EXPORT int mempool_init(mempool_t *pool, int min_nr, mempool_alloc_t *alloc_fn,
			      mempool_free_t *free_fn, void *pool_data)
	UKMEM_SYMBOL(mempool_init);
/**
 * mempool_init_node - the same; elements and the pool's own memory with @flags, the latter on
 * node @node
 *
 * With GFP_NOWAIT and GFP_ATOMIC the function does not block if @alloc_fn does not, and with
 * GFP_NOIO and GFP_NOFS shrinkers see these flags. The zone of @flags is for elements alone.
 */
UKMEM_EXPORT int mempool_init_node(mempool_t *pool, int min_nr, mempool_alloc_t *alloc_fn,
				   mempool_free_t *free_fn, void *pool_data, gfp_t flags,
				   int node) UKMEM_SYMBOL(mempool_init_node);
/**
 * mempool_exit - free the reserve
 *
 * Elements in use must have been freed. A pool that is all zero is ignored.
 */
UKMEM_EXPORT void mempool_exit(mempool_t *pool) UKMEM_SYMBOL(mempool_exit);

/** mempool_create - make a pool in memory of its own; NULL where mempool_init fails. */
UKMEM_EXPORT mempool_t *mempool_create(int min_nr, mempool_alloc_t *alloc_fn,
				       mempool_free_t *free_fn, void *pool_data)
	UKMEM_SYMBOL(mempool_create);
/** mempool_create_node - the same, as mempool_init_node. */
UKMEM_EXPORT mempool_t *mempool_create_node(int min_nr, mempool_alloc_t *alloc_fn,
					    mempool_free_t *free_fn, void *pool_data,
					    gfp_t flags, int node)
	UKMEM_SYMBOL(mempool_create_node);
/** mempool_destroy - mempool_exit, and free the pool's own memory. NULL is ignored. */
UKMEM_EXPORT void mempool_destroy(mempool_t *pool) UKMEM_SYMBOL(mempool_destroy);

/**
 * mempool_resize - promise another number of elements from now on
 *
 * A growing reserve is filled as far as the allocator has elements; elements that are freed
 * later fill the rest. A shrinking one frees the elements that are too many. May block.
 * Result: 0; -EINVAL: negative; -ENOMEM; after an error the pool is as it was.
 */
UKMEM_EXPORT int mempool_resize(mempool_t *pool, int new_min_nr) UKMEM_SYMBOL(mempool_resize);

/** mempool_alloc - allocate an element; when it waits or fails, the table above says. */
UKMEM_EXPORT void *mempool_alloc(mempool_t *pool, gfp_t flags)
	UKMEM_SYMBOL(mempool_alloc) UKMEM_OBJECT;
/** mempool_alloc_preallocated - an element of the reserve, or NULL; does not block. */
UKMEM_EXPORT void *mempool_alloc_preallocated(mempool_t *pool)
	UKMEM_SYMBOL(mempool_alloc_preallocated) UKMEM_OBJECT;
/** mempool_free - give @element back to the reserve or the allocator. NULL is ignored. */
UKMEM_EXPORT void mempool_free(void *element, mempool_t *pool) UKMEM_SYMBOL(mempool_free);
/** mempool_is_saturated - whether the reserve is full; exact while no thread uses the pool. */
UKMEM_EXPORT bool mempool_is_saturated(mempool_t *pool) UKMEM_SYMBOL(mempool_is_saturated);
/** mempool_initialized - whether the pool was made, and has not ended. */
static inline bool mempool_initialized(mempool_t *pool)
{
	return pool->reserve != NULL;
}

/*
 * Ready allocators. @pool_data is the cache (slab), the size in bytes (kmalloc) or the order
 * (pages; the elements are struct page pointers).
 */
UKMEM_EXPORT void *mempool_alloc_slab(gfp_t flags, void *pool_data)
	UKMEM_SYMBOL(mempool_alloc_slab);
UKMEM_EXPORT void mempool_free_slab(void *element, void *pool_data)
	UKMEM_SYMBOL(mempool_free_slab);
UKMEM_EXPORT void *mempool_kmalloc(gfp_t flags, void *pool_data) UKMEM_SYMBOL(mempool_kmalloc);
UKMEM_EXPORT void mempool_kfree(void *element, void *pool_data) UKMEM_SYMBOL(mempool_kfree);
UKMEM_EXPORT void *mempool_alloc_pages(gfp_t flags, void *pool_data)
	UKMEM_SYMBOL(mempool_alloc_pages);
UKMEM_EXPORT void mempool_free_pages(void *element, void *pool_data)
	UKMEM_SYMBOL(mempool_free_pages);
#define mempool_kvmalloc mempool_kmalloc
#define mempool_kvfree mempool_kfree

/* Pools of objects of a cache, of blocks of kmalloc, of pages. */
#define mempool_init_slab_pool(pool, min_nr, cache)                                            \
	mempool_init((pool), (min_nr), mempool_alloc_slab, mempool_free_slab,                  \
		     UKMEM_CAST(void *, cache))
#define mempool_create_slab_pool(min_nr, cache)                                                \
	mempool_create((min_nr), mempool_alloc_slab, mempool_free_slab,                        \
		       UKMEM_CAST(void *, cache))
#define mempool_init_kmalloc_pool(pool, min_nr, size)                                          \
	mempool_init((pool), (min_nr), mempool_kmalloc, mempool_kfree,                         \
		     UKMEM_CAST_ADDRESS(void *, UKMEM_CAST(size_t, size)))
#define mempool_create_kmalloc_pool(min_nr, size)                                              \
	mempool_create((min_nr), mempool_kmalloc, mempool_kfree,                               \
		       UKMEM_CAST_ADDRESS(void *, UKMEM_CAST(size_t, size)))
#define mempool_init_kvmalloc_pool mempool_init_kmalloc_pool
#define mempool_create_kvmalloc_pool mempool_create_kmalloc_pool
#define mempool_init_page_pool(pool, min_nr, order)                                            \
	mempool_init((pool), (min_nr), mempool_alloc_pages, mempool_free_pages,                \
		     UKMEM_CAST_ADDRESS(void *, UKMEM_CAST(size_t, order)))
#define mempool_create_page_pool(min_nr, order)                                                \
	mempool_create((min_nr), mempool_alloc_pages, mempool_free_pages,                      \
		       UKMEM_CAST_ADDRESS(void *, UKMEM_CAST(size_t, order)))

UKMEM_END_DECLS

#endif
