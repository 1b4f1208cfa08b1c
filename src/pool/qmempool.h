/* SPDX-License-Identifier: MIT */
/* Inside of qmempools: qmempool.c moves elements, qmempool_create.c does all else. */
#ifndef POOL_QMEMPOOL_H
#define POOL_QMEMPOOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "percpu/percpu.h"
#include "ukmem/qmempool.h"

/* Counted per CPU, past the fast paths; counts of the fast paths follow from arrays' pops. */
enum qmempool_event {
	QMEMPOOL_FETCHED,   /* elements from the cache */
	QMEMPOOL_RETURNED,  /* elements back to the cache */
	QMEMPOOL_OF_SHARED, /* elements handed out directly from the queue */
	QMEMPOOL_OF_CACHE,  /* elements handed out directly from the cache */
	QMEMPOOL_UNUSED,    /* elements popped from arrays and not handed out */
	QMEMPOOL_REFILLS,   /* times a request got elements from the queue */
	QMEMPOOL_DRAINS,    /* times a free found its CPU's array full */
	QMEMPOOL_NR_EVENTS
};

/* Synchronization: read-only once created, unless a member says something else. */
struct qmempool {
	void *local;	  /* per-CPU struct pcpu_array of localq_sz slots */
	void *fast_array; /* the same; on several nodes a closed one */
	struct kmem_cache *kmem;
	struct alf_queue *shared;
	uint64_t *events; /* per-CPU uint64_t[QMEMPOOL_NR_EVENTS] */
	_Atomic uint16_t localq_sz;
	uint32_t bulk;	       /* elements moved between an array and the queue */
	struct list_head list; /* pools lock */
};

/* Puts elements that the caller has into the shared queue, or if it is full into the cache. */
void qmempool_share(struct qmempool *pool, void **p, unsigned int n);
/* Gives elements back to the cache. */
void qmempool_give_back(struct qmempool *pool, void **p, size_t n);

#endif
