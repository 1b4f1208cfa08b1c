/* SPDX-License-Identifier: MIT */
/*
 * <linux/qmempool.h> - the queue-based pool as it was proposed for the kernel in 2014, on
 * <ukmem/qmempool.h>.
 *
 * There a name says where code is: __qmempool_alloc is qmempool_alloc inlined, for any context,
 * and _softirq forms leave out the guard against soft interrupts, because their caller runs in
 * one. In <ukmem/qmempool.h> the prefix __ says that the thread owns its CPU. This header gives
 * the names their first meaning, so that code written for the original is right in any thread:
 *
 *   name here			 calls in <ukmem/qmempool.h>
 *   qmempool_alloc		 qmempool_alloc
 *   __qmempool_alloc		 qmempool_alloc
 *   qmempool_alloc_softirq,	 qmempool_alloc; compiled with UKMEM_SOFTIRQ_IS_OWNER=1
 *   __qmempool_alloc_softirq	 __qmempool_alloc: the thread owns its CPU
 *				 (percpu_owner_enter)
 *   qmempool_alloc_owner	 __qmempool_alloc
 *
 * and the same for qmempool_free and the bulk forms, which the original does not have.
 */
#ifndef UKMEM_COMPAT_LINUX_QMEMPOOL_H
#define UKMEM_COMPAT_LINUX_QMEMPOOL_H

#include <linux/alf_queue.h>
#include <linux/prefetch.h>
#include <linux/slab.h>
#include <linux/types.h>
#include <ukmem/qmempool.h>

/* For a thread that owns its CPU. */
static inline void *qmempool_alloc_owner(struct qmempool *pool, gfp_t gfp_mask)
{
	return __qmempool_alloc(pool, gfp_mask);
}

static inline void qmempool_free_owner(struct qmempool *pool, void *elem)
{
	__qmempool_free(pool, elem);
}

static inline int qmempool_alloc_bulk_owner(struct qmempool *pool, gfp_t gfp_mask, size_t n,
					    void **p)
{
	return __qmempool_alloc_bulk(pool, gfp_mask, n, p);
}

static inline void qmempool_free_bulk_owner(struct qmempool *pool, size_t n, void **p)
{
	__qmempool_free_bulk(pool, n, p);
}

/* In code of soft interrupts. */
static inline void *qmempool_alloc_softirq(struct qmempool *pool, gfp_t gfp_mask)
{
#if defined(UKMEM_SOFTIRQ_IS_OWNER) && UKMEM_SOFTIRQ_IS_OWNER
	return qmempool_alloc_owner(pool, gfp_mask);
#else
	return qmempool_alloc(pool, gfp_mask);
#endif
}

static inline void qmempool_free_softirq(struct qmempool *pool, void *elem)
{
#if defined(UKMEM_SOFTIRQ_IS_OWNER) && UKMEM_SOFTIRQ_IS_OWNER
	qmempool_free_owner(pool, elem);
#else
	qmempool_free(pool, elem);
#endif
}

/* @node has no effect, as in the original. */
static inline void *qmempool_alloc_node(struct qmempool *pool, gfp_t gfp_mask, int node)
{
	(void)node;
	return qmempool_alloc(pool, gfp_mask);
}

#undef __qmempool_alloc
#undef __qmempool_free
#undef __qmempool_alloc_bulk
#undef __qmempool_free_bulk
#define __qmempool_alloc qmempool_alloc
#define __qmempool_free qmempool_free
#define __qmempool_alloc_bulk qmempool_alloc_bulk
#define __qmempool_free_bulk qmempool_free_bulk
#define __qmempool_alloc_node qmempool_alloc_node
#define __qmempool_alloc_softirq qmempool_alloc_softirq
#define __qmempool_free_softirq qmempool_free_softirq

#endif
