/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/qmempool.h> - a quick pool of elements in front of a kmem_cache.
 *
 *	struct qmempool *pool = qmempool_create(256, 1024, 512, cache, GFP_KERNEL);
 *
 *	p = qmempool_alloc(pool, GFP_ATOMIC);
 *	qmempool_free(pool, p);
 *
 * It is for elements that come and go at packet rates. Two levels stand before the cache:
 *
 *   local    of each CPU, localq_sz elements: an array; a restartable sequence per call
 *   shared   one for all, sharedq_sz elements: an ALF queue (alf_queue.h)
 *
 * A bulk of elements moves at once between a local array and the shared queue: QMEMPOOL_BULK,
 * or half of localq_sz if that is more, up to QMEMPOOL_BULK_MAX and half of sharedq_sz. If
 * the queue is empty, the pool fetches QMEMPOOL_REFILL_MULTIPLIER bulks from the cache; for a
 * request of a bulk or more it fetches just what the request lacks. If the queue is full, the
 * pool gives elements back to the cache. So a pool never holds more than
 * localq_sz * CPUs + sharedq_sz free elements.
 *
 * On machines with several nodes, local arrays take elements of their CPU's node only; an
 * element that is freed on another node goes back to the cache at once.
 *
 * Thread safety: all functions but qmempool_destroy, during and after which no thread may use
 * the pool. Signal safety: qmempool_alloc and qmempool_alloc_bulk with GFP_NOWAIT or
 * GFP_ATOMIC, qmempool_free and qmempool_free_bulk, where the cache's functions are safe
 * (slab.h). None of them then waits for another thread. For the shared queue (alf_queue.h)
 * they may make system calls: membarrier, if another CPU has the queue to itself; sched_yield,
 * beside a thread that cannot run restartable sequences; once membarrier is refused, some for
 * this thread's affinity, once for each CPU. Beside such a thread, or after such a refusal,
 * they may take the queue for empty or full though it is not, and turn to the cache.
 *
 * Elements are objects of the cache: if it has a constructor they must be freed in their
 * constructed state, and wrong pointers and double frees are found when they go back to it.
 *
 * fork: the child's pool is a copy of the parent's without the elements that other threads
 * were using; without restartable sequences the child may also lose elements in the shared
 * queue.
 *
 * Owner contexts: the same names with __ before them are for a thread that owns its CPU
 * (percpu_owner_enter), if no other thread and no signal handler uses the same pool on that
 * CPU. They are plain loads and stores. Other CPUs and ukmem_trim() may use the same pool
 * meanwhile, and the owner may mix them with the other functions. Compiled with UKMEM_DEBUG=1,
 * they abort with their name and place if the thread owns no CPU.
 *
 * Thanks to qmempool, a queue-based pool for network buffers (J. D. Brouer, 2014).
 */
#ifndef UKMEM_QMEMPOOL_H
#define UKMEM_QMEMPOOL_H

#include <ukmem/compiler.h>

#include <stdint.h>

#include <ukmem/gfp.h>
#include <ukmem/percpu.h>
#include <ukmem/slab.h>

UKMEM_BEGIN_DECLS

enum {
	QMEMPOOL_BULK = 16,	       /**< elements moved at once, at least */
	QMEMPOOL_BULK_MAX = 256,       /**< and at most */
	QMEMPOOL_REFILL_MULTIPLIER = 2 /**< bulks fetched from the cache at once */
};

#define QMEMPOOL_LOCALQ_MAX 16384u
#define QMEMPOOL_SHAREDQ_MAX 65536u

struct qmempool;

/**
 * qmempool_create - make a pool in front of a cache
 * @localq_sz:  elements that a CPU keeps at most: a power of two, QMEMPOOL_BULK .. 16384; with
 *		16384 it keeps one less
 * @sharedq_sz: elements that the shared queue keeps at most: a power of two,
 *		QMEMPOOL_BULK * QMEMPOOL_REFILL_MULTIPLIER .. 65536
 * @prealloc:   elements that are fetched from the cache now; at most @sharedq_sz. A number
 *		that is no multiple of QMEMPOOL_BULK is logged. If it is below QMEMPOOL_BULK,
 *		the function tries to fetch QMEMPOOL_BULK, so that a first request that may not
 *		block can succeed. They are of the caller's node, and the queue hands elements
 *		to CPUs of their node alone.
 * @kmem:       the cache; it must live longer than the pool
 * @gfp:        GFP_KERNEL or GFP_ATOMIC: this function may block with either, and uses the
 *		reserves with the second
 *
 * Result: the pool; NULL, a log line and errno: EINVAL, an invalid parameter; ENOMEM.
 */
UKMEM_EXPORT struct qmempool *qmempool_create(uint32_t localq_sz, uint32_t sharedq_sz,
					      uint32_t prealloc, struct kmem_cache *kmem,
					      gfp_t gfp) UKMEM_SYMBOL(qmempool_create);

/**
 * qmempool_destroy - give back everything a pool holds
 *
 * NULL is ignored. If the pool has handed out more elements than it has taken back, the library
 * logs the difference, and the pool stays valid; it can be destroyed when they have been freed.
 * Objects of the cache that were freed into the pool count as taken back, so each of them hides
 * an element in use from this function; elements that kmem_cache_free freed do not. Elements in
 * use stay valid in any case: once their pool is gone, kmem_cache_free frees them. May block.
 */
UKMEM_EXPORT void qmempool_destroy(struct qmempool *pool) UKMEM_SYMBOL(qmempool_destroy);

/** qmempool_alloc - allocate one element; NULL: no memory. __GFP_ZERO fills it with zeros. */
UKMEM_EXPORT void *qmempool_alloc(struct qmempool *pool, gfp_t gfp)
	UKMEM_SYMBOL(qmempool_alloc) UKMEM_OBJECT;

/**
 * qmempool_free - free @elem, which came from this pool or its cache
 *
 * Either counts as an element that the pool takes back. NULL is ignored.
 */
UKMEM_EXPORT void qmempool_free(struct qmempool *pool, void *elem) UKMEM_SYMBOL(qmempool_free);

/**
 * qmempool_alloc_bulk - allocate @n elements into @p[0..n-1]
 *
 * Result: n; 0: no memory, or @n is above INT32_MAX, and nothing is allocated. With @n 0 the
 * result is 0, too, and @p is not used.
 */
UKMEM_EXPORT int qmempool_alloc_bulk(struct qmempool *pool, gfp_t gfp, size_t n, void **p)
	UKMEM_SYMBOL(qmempool_alloc_bulk);

/** qmempool_free_bulk - free @p[0..n-1], none of which is NULL. */
UKMEM_EXPORT void qmempool_free_bulk(struct qmempool *pool, size_t n, void **p)
	UKMEM_SYMBOL(qmempool_free_bulk);

/* The same functions for owner contexts. */
UKMEM_EXPORT void *__qmempool_alloc(struct qmempool *pool, gfp_t gfp)
	UKMEM_SYMBOL(qmempool_alloc_owner) UKMEM_OBJECT;
UKMEM_EXPORT void __qmempool_free(struct qmempool *pool, void *elem)
	UKMEM_SYMBOL(qmempool_free_owner);
UKMEM_EXPORT int __qmempool_alloc_bulk(struct qmempool *pool, gfp_t gfp, size_t n, void **p)
	UKMEM_SYMBOL(qmempool_alloc_bulk_owner);
UKMEM_EXPORT void __qmempool_free_bulk(struct qmempool *pool, size_t n, void **p)
	UKMEM_SYMBOL(qmempool_free_bulk_owner);

#if UKMEM_DEBUG
#define __qmempool_alloc(pool, gfp)                                                            \
	(UKMEM_OWNER_CHECK("__qmempool_alloc"), (__qmempool_alloc)((pool), (gfp)))
#define __qmempool_free(pool, elem)                                                            \
	(UKMEM_OWNER_CHECK("__qmempool_free"), (__qmempool_free)((pool), (elem)))
#define __qmempool_alloc_bulk(pool, gfp, n, p)                                                 \
	(UKMEM_OWNER_CHECK("__qmempool_alloc_bulk"),                                           \
	 (__qmempool_alloc_bulk)((pool), (gfp), (n), (p)))
#define __qmempool_free_bulk(pool, n, p)                                                       \
	(UKMEM_OWNER_CHECK("__qmempool_free_bulk"), (__qmempool_free_bulk)((pool), (n), (p)))
#endif

/**
 * Statistics of a pool; exact while no thread uses it. An element that was handed out came from
 * an array (local_hits), from the shared queue (shared_hits) or else from the cache. A bulk
 * request that fails hands out nothing. Many drains and refills beside few allocs are a sign
 * that localq_sz is small for what a CPU frees or allocates in a row.
 */
struct qmempool_stats {
	uint64_t local, shared; /**< elements in CPUs' arrays, in the shared queue */
	int64_t outstanding;	/**< elements handed out and not taken back: allocs - frees */
	uint64_t allocs, frees; /**< elements handed out, taken back */
	uint64_t local_hits;	/**< elements handed out from a CPU's array */
	uint64_t shared_hits;	/**< elements handed out from the shared queue */
	uint64_t refills;	/**< times a request took elements from the shared queue */
	uint64_t drains;	/**< times a free found its CPU's array full */
	uint64_t fetched, returned; /**< elements that came from the cache, went back to it */
};

/** qmempool_stats_read - read a pool's statistics. Never stops others. */
UKMEM_EXPORT void qmempool_stats_read(const struct qmempool *pool, struct qmempool_stats *stats)
	UKMEM_SYMBOL(qmempool_stats_read);

UKMEM_END_DECLS

#endif
