/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/qmempool.h> - a quick pool of elements in front of a kmem_cache.
 *
 *	struct qmempool *pool = qmempool_create(256, 1024, 512, cache, GFP_KERNEL);
 *
 *	p = qmempool_alloc(pool, GFP_ATOMIC);
 *	qmempool_free(pool, p);
 *
 * For elements that come and go at packet rates. Two levels stand before the cache:
 *
 *   local    of each CPU, localq_sz elements: an array; a restartable sequence per call
 *   shared   one for all, sharedq_sz elements: an ALF queue (alf_queue.h)
 *
 * Between a local array and the shared queue a bulk of elements moves at once: QMEMPOOL_BULK,
 * or a quarter of localq_sz if that is more, up to QMEMPOOL_BULK_MAX. Where the queue has
 * none, QMEMPOOL_REFILL_MULTIPLIER times as many are fetched from the cache, and what it has
 * no room for goes back there. So a pool never holds more than
 * localq_sz * CPUs + sharedq_sz elements that nobody uses.
 *
 * On machines with several nodes, local arrays take elements of their CPU's node only: what
 * is freed on another node goes back to the cache at once.
 *
 * Thread safety: all functions but qmempool_destroy, during and after which nothing may use
 * the pool. Signal safety: qmempool_alloc and qmempool_alloc_bulk with GFP_NOWAIT or
 * GFP_ATOMIC, qmempool_free and qmempool_free_bulk, where those of the cache are (slab.h).
 * None of them waits for another thread then; the one system call there may be is membarrier,
 * where another CPU has the shared queue to itself.
 * Elements are the cache's: with a constructor they must be freed as they were constructed,
 * and wrong pointers and double frees are found when they go back to it.
 * fork: the child's pool is the parent's as it was, but for what other threads had in hands;
 * without restartable sequences, what is in the shared queue may be out of its reach as well.
 *
 * Owner contexts: the same names with __ before them are for a thread that owns its CPU
 * (percpu_owner_enter), if no other thread and no signal handler uses the same pool on that
 * CPU; they take plain loads and stores. Everything else may go on, also on the same pool:
 * other CPUs, ukmem_trim(). Compiled with UKMEM_DEBUG=1, they abort with their name and place
 * where the thread owns nothing. Mixing them with the others, in that thread, is allowed.
 *
 * Thanks to qmempool, a queue-based pool for network buffers (J. D. Brouer, 2014).
 */
#ifndef UKMEM_QMEMPOOL_H
#define UKMEM_QMEMPOOL_H

#include <stdint.h>

#include <ukmem/compiler.h>
#include <ukmem/gfp.h>
#include <ukmem/percpu.h>
#include <ukmem/slab.h>

UKMEM_BEGIN_DECLS

enum {
	QMEMPOOL_BULK = 16,	       /**< elements moved at once, at least */
	QMEMPOOL_BULK_MAX = 128,       /**< and at most */
	QMEMPOOL_REFILL_MULTIPLIER = 2 /**< bulks fetched from the cache at once */
};

#define QMEMPOOL_LOCALQ_MAX 16384u
#define QMEMPOOL_SHAREDQ_MAX 65536u

struct qmempool;

/**
 * qmempool_create - make a pool in front of a cache
 * @localq_sz:  elements a CPU keeps at most: a power of two, QMEMPOOL_BULK .. 16384
 * @sharedq_sz: and the shared queue: a power of two,
 *		QMEMPOOL_BULK * QMEMPOOL_REFILL_MULTIPLIER .. 65536
 * @prealloc:   fetched from the cache now; at most @sharedq_sz. What is no multiple of
 *		QMEMPOOL_BULK is logged. With fewer than QMEMPOOL_BULK, as many as are missing
 *		are fetched if they can be had, so that a first request may be one that does
 *		not block.
 * @kmem:       the cache; it must live longer than the pool
 * @gfp:        GFP_KERNEL or GFP_ATOMIC: this function may block with either, and uses the
 *		reserves with the second
 *
 * Result: the pool, or NULL, logged, and errno: EINVAL, a parameter is not so; ENOMEM.
 */
UKMEM_EXPORT struct qmempool *qmempool_create(uint32_t localq_sz, uint32_t sharedq_sz,
					      uint32_t prealloc, struct kmem_cache *kmem,
					      gfp_t gfp) UKMEM_SYMBOL(qmempool_create);

/**
 * qmempool_destroy - give back everything a pool holds
 *
 * NULL is ignored. If elements are still in use, their number is logged and the pool stays,
 * and so do the elements; it can be destroyed when they have been freed. May block.
 */
UKMEM_EXPORT void qmempool_destroy(struct qmempool *pool) UKMEM_SYMBOL(qmempool_destroy);

/** qmempool_alloc - one element, or NULL without memory. With __GFP_ZERO of zeros. */
UKMEM_EXPORT void *qmempool_alloc(struct qmempool *pool, gfp_t gfp)
	UKMEM_SYMBOL(qmempool_alloc) UKMEM_MALLOC;

/** qmempool_free - give @elem back, which came from this pool, or its cache. NULL is ignored.
 */
UKMEM_EXPORT void qmempool_free(struct qmempool *pool, void *elem) UKMEM_SYMBOL(qmempool_free);

/** qmempool_alloc_bulk - @n elements into @p[0..n-1]. Result: n, or 0 and nothing allocated. */
UKMEM_EXPORT int qmempool_alloc_bulk(struct qmempool *pool, gfp_t gfp, size_t n, void **p)
	UKMEM_SYMBOL(qmempool_alloc_bulk);

/** qmempool_free_bulk - free @p[0..n-1], none of which is NULL. */
UKMEM_EXPORT void qmempool_free_bulk(struct qmempool *pool, size_t n, void **p)
	UKMEM_SYMBOL(qmempool_free_bulk);

/* The same in owner contexts. */
UKMEM_EXPORT void *__qmempool_alloc(struct qmempool *pool, gfp_t gfp)
	UKMEM_SYMBOL(qmempool_alloc_owner) UKMEM_MALLOC;
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

/** What a pool holds and did. Exact while nobody uses it. */
struct qmempool_stats {
	uint64_t local, shared;	  /**< elements in CPUs' arrays, in the shared queue */
	int64_t outstanding;	  /**< elements of the pool in the program's hands */
	uint64_t allocs, frees;	  /**< elements handed out and taken back */
	uint64_t local_hits;	  /**< elements handed out from a CPU's array */
	uint64_t shared_hits;	  /**< others: from the shared queue; the rest from the cache */
	uint64_t refills, drains; /**< times elements came from the shared queue, went to it */
	uint64_t fetched, returned; /**< elements from the cache, and back to it */
};

/** qmempool_stats_read - read a pool's statistics. Never stops others. */
UKMEM_EXPORT void qmempool_stats_read(const struct qmempool *pool, struct qmempool_stats *stats)
	UKMEM_SYMBOL(qmempool_stats_read);

UKMEM_END_DECLS

#endif
