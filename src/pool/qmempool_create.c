/* SPDX-License-Identifier: MIT */
/*
 * Makes and destroys qmempools, empties them from outside, and reads their statistics.
 *
 * Pools are emptied (percpu/drain.h) into the cache by ukmem_trim(), and by a shrinker when
 * memory is short; it runs before that of the caches, which then finds the slabs that became
 * empty. The array of a CPU that goes offline is emptied into the shared queue.
 *
 * Lock: pools_lock.
 */
#include "pool/qmempool.h"

#include <errno.h>
#include <stdio.h>

#include "base/bits.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/verify.h"
#include "layer/layer.h"
#include "page/reclaim.h"
#include "percpu/array_slow.h"
#include "percpu/drain.h"
#include "percpu/percpu_alloc.h"
#include "queue/queue.h"
#include "slab/slab_array.h"
#include "slab/slab_cache.h"
#include "ukmem/alf_queue.h"
#include "ukmem/shrinker.h"

enum { BATCH = 64 };

static struct lock pools_lock;
static struct list_head pools; /* Synchronization: pools_lock */

static void to_cache(void *pool, void **p, unsigned int n)
{
	qmempool_give_back(pool, p, n);
}

static void to_queue(void *pool, void **p, unsigned int n)
{
	qmempool_share(pool, p, n);
}

/* Empties the queue of the elements that it has now; other threads may go on putting. */
static void drain_shared(struct qmempool *pool)
{
	uint32_t left = alf_queue_count(pool->shared), n;
	void *batch[BATCH];

	for (; left; left -= n) {
		n = alf_mc_dequeue(pool->shared, batch, min_uint(left, BATCH));
		if (!n)
			break;
		qmempool_give_back(pool, batch, n);
	}
}

/* Empties the queue at once; the arrays are emptied when the drain ends. */
static void drain_to_cache(struct qmempool *pool, struct pcpu_drain *d)
{
	drain_shared(pool);
	pcpu_drain_add(d, pool->local, to_cache, pool);
}

void qmempool_stats_read(const struct qmempool *pool, struct qmempool_stats *s)
{
	struct pcpu_array_sums sums = pcpu_array_sums(pool->local, PCPU_ALL_CPUS);
	uint64_t events[QMEMPOOL_NR_EVENTS];

	*s = (struct qmempool_stats){
		.shared = alf_queue_count(pool->shared),
		.local = sums.count,
	};
	for (unsigned int e = 0; e < QMEMPOOL_NR_EVENTS; e++)
		events[e] = per_cpu_sum(pool->events[e]);
	s->fetched = events[QMEMPOOL_FETCHED];
	s->returned = events[QMEMPOOL_RETURNED];
	s->shared_hits = events[QMEMPOOL_OF_SHARED];
	s->refills = events[QMEMPOOL_REFILLS];
	s->drains = events[QMEMPOOL_DRAINS];
	s->local_hits = sums.pops - events[QMEMPOOL_UNUSED];
	s->outstanding = (int64_t)(s->fetched - s->returned - s->local - s->shared);
	s->allocs = s->local_hits + events[QMEMPOOL_OF_SHARED] + events[QMEMPOOL_OF_CACHE];
	s->frees = s->allocs - (uint64_t)s->outstanding;
}

static size_t held(const struct qmempool *pool)
{
	struct qmempool_stats s;

	qmempool_stats_read(pool, &s);
	return s.local + s.shared;
}

/* Empties the array of a CPU that goes offline into the queue, for other CPUs. If all CPUs are
 * drained, empties arrays and queue into the cache. */
static void drain(struct pcpu_drain *d)
{
	struct qmempool *pool;

	lock(&pools_lock);
	list_for_each_entry (pool, &pools, list)
		if (d->cpu == PCPU_ALL_CPUS)
			drain_to_cache(pool, d);
		else
			pcpu_drain_add(d, pool->local, to_queue, pool);
}

static void drained(void)
{
	unlock(&pools_lock);
}

static unsigned long count_free(struct shrinker *unused, struct shrink_control *sc)
{
	struct qmempool *pool;
	unsigned long n = 0;

	(void)unused;
	(void)sc;
	lock(&pools_lock);
	list_for_each_entry (pool, &pools, list)
		n += held(pool);
	unlock(&pools_lock);
	return n;
}

static unsigned long free_some(struct shrinker *unused, struct shrink_control *sc)
{
	struct qmempool *pool;
	unsigned long freed = 0;
	struct pcpu_drain d = { .cpu = PCPU_ALL_CPUS };

	(void)unused;
	lock(&pools_lock);
	list_for_each_entry (pool, &pools, list) {
		if (freed >= sc->nr_to_scan)
			break;
		freed += held(pool);
		drain_to_cache(pool, &d);
	}
	pcpu_drain_end(&d);
	unlock(&pools_lock);
	return freed;
}

static void verify(struct verify *v)
{
	struct qmempool *pool;
	char what[64];

	lock(&pools_lock);
	list_for_each_entry (pool, &pools, list) {
		snprintf(what, sizeof(what), "qmempool of '%s'", pool->kmem->name);
		pcpu_array_verify(pool->local, pool->localq_sz, what, NULL, NULL, v);
		queue_verify(pool->shared, what, v);
	}
	unlock(&pools_lock);
}

static bool init(void)
{
	static struct shrinker shrinker = {
		.count_objects = count_free,
		.scan_objects = free_some,
		.batch = INT32_MAX,
		.seeks = DEFAULT_SEEKS,
	};

	list_init(&pools);
	lock_register(&pools_lock, LOCK_RANK_POOLS);
	reclaim_add(&shrinker, "qmempool");
	return true;
}

static struct once pools_once = ONCE_INITIALIZER;

const struct layer pool_layer = {
	.once = &pools_once,
	.drain = drain,
	.drained = drained,
	.verify = verify,
};

/* Why the sizes are invalid, or NULL; *@limit: the number that belongs to the text. */
static const char *bad_sizes(uint32_t localq_sz, uint32_t sharedq_sz, uint32_t prealloc,
			     uint32_t *limit)
{
	const uint32_t least_shared = QMEMPOOL_BULK * QMEMPOOL_REFILL_MULTIPLIER;

	*limit = QMEMPOOL_BULK;
	if (localq_sz < *limit)
		return "localq_sz below the bulk of";
	*limit = QMEMPOOL_LOCALQ_MAX;
	if (localq_sz > *limit)
		return "localq_sz above";
	*limit = localq_sz;
	if (!is_pow2(localq_sz))
		return "localq_sz is no power of two:";
	*limit = least_shared;
	if (sharedq_sz < *limit)
		return "sharedq_sz below bulk times refill multiplier,";
	*limit = QMEMPOOL_SHAREDQ_MAX;
	if (sharedq_sz > *limit)
		return "sharedq_sz above";
	*limit = sharedq_sz;
	if (!is_pow2(sharedq_sz))
		return "sharedq_sz is no power of two:";
	if (prealloc > sharedq_sz)
		return "prealloc above sharedq_sz,";
	return NULL;
}

static bool check(uint32_t localq_sz, uint32_t sharedq_sz, uint32_t prealloc,
		  const struct kmem_cache *kmem)
{
	const char *bad;
	uint32_t limit;

	if (!kmem) {
		log_warn("qmempool_create(): no kmem_cache");
		return false;
	}
	bad = bad_sizes(localq_sz, sharedq_sz, prealloc, &limit);
	if (bad) {
		log_warn("qmempool_create(%s): %s %u", kmem->name, bad, limit);
		return false;
	}
	if (prealloc % QMEMPOOL_BULK)
		log_warn("qmempool_create(%s): prealloc %u is no multiple of the bulk of %u",
			 kmem->name, prealloc, QMEMPOOL_BULK);
	return true;
}

/* Fetches elements into the queue, since it is not known which CPUs will need them. */
static bool preallocate(struct qmempool *pool, uint32_t n, gfp_t gfp)
{
	void *batch[BATCH];

	while (n) {
		unsigned int want = min_uint(n, BATCH);
		size_t got = slab_alloc_bulk(pool->kmem, page_policy_node(), gfp, want, batch,
					     CALLER_ADDRESS);

		this_cpu_add(pool->events[QMEMPOOL_FETCHED], got);
		qmempool_share(pool, batch, (unsigned int)got);
		if (got < want)
			return false;
		n -= want;
	}
	return true;
}

static void *alloc_first(size_t size, gfp_t gfp)
{
	void *handle = __alloc_percpu_gfp(size, 64, gfp);

	return handle ? pcpu_first(handle) : NULL;
}

/* No other thread uses the pool, so all its elements are in the queue, and single
 * functions can take them whatever CPU has a bias. */
static void release(struct qmempool *pool)
{
	void *batch[BATCH];
	unsigned int n;

	if (pool->shared) {
		alf_queue_hand_over(pool->shared);
		while ((n = alf_sc_dequeue(pool->shared, batch, BATCH)))
			qmempool_give_back(pool, batch, n);
	}
	alf_queue_free(pool->shared);
	pcpu_free(pool->local);
	free_percpu(pool->events);
	kfree(pool);
}

/* Half of the array, if two of them fit into the queue. */
static uint32_t bulk_of(uint32_t localq_sz, uint32_t sharedq_sz)
{
	uint32_t bulk = min_uint(localq_sz / 2, sharedq_sz / QMEMPOOL_REFILL_MULTIPLIER);

	return max_uint(QMEMPOOL_BULK, min_uint(bulk, QMEMPOOL_BULK_MAX));
}

static struct qmempool *make(uint32_t localq_sz, uint32_t sharedq_sz, uint32_t prealloc,
			     struct kmem_cache *kmem, gfp_t gfp)
{
	struct qmempool *pool = kzalloc(sizeof(*pool), gfp);
	struct alf_queue *shared;

	if (!pool)
		return NULL;
	pool->kmem = kmem;
	pool->localq_sz = (uint16_t)min_uint(localq_sz, PCPU_ARRAY_MAX_SLOTS);
	pool->bulk = bulk_of(localq_sz, sharedq_sz);
	pool->events = __alloc_percpu_gfp(QMEMPOOL_NR_EVENTS * sizeof(uint64_t),
					  sizeof(uint64_t), gfp);
	pool->local = alloc_first(pcpu_array_size(pool->localq_sz), gfp);
	pool->fast_array = page_window.nr_nodes == 1 ? pool->local : slab_closed_array();
	shared = alf_queue_alloc(sharedq_sz, gfp);
	pool->shared = IS_ERR(shared) ? NULL : shared;
	if (!pool->events || !pool->local || !pool->shared ||
	    !preallocate(pool, prealloc, gfp)) {
		release(pool);
		return NULL;
	}
	/* Elements for first requests that may not wait; without them, such requests fail. */
	if (prealloc < QMEMPOOL_BULK)
		preallocate(pool, QMEMPOOL_BULK - prealloc, gfp | __GFP_NORETRY | __GFP_NOWARN);
	return pool;
}

struct qmempool *qmempool_create(uint32_t localq_sz, uint32_t sharedq_sz, uint32_t prealloc,
				 struct kmem_cache *kmem, gfp_t gfp)
{
	struct qmempool *pool;

	if (!check(localq_sz, sharedq_sz, prealloc, kmem)) {
		errno = EINVAL;
		return NULL;
	}
	pool = once(&pools_once, init) ? make(localq_sz, sharedq_sz, prealloc, kmem,
					      (gfp & ~__GFP_ZERO) | GFP_KERNEL)
				       : NULL;
	if (!pool) {
		log_warn("qmempool_create(%s): out of memory", kmem->name);
		errno = ENOMEM;
		return NULL;
	}
	lock(&pools_lock);
	list_add_tail(&pool->list, &pools);
	unlock(&pools_lock);
	return pool;
}

/* Drains the pool. Result: whether it can be freed; if not, @why says the reason. */
static bool can_be_freed(struct qmempool *pool, char *why, size_t size)
{
	struct pcpu_drain d = { .cpu = PCPU_ALL_CPUS, .idle = true };
	struct qmempool_stats s;

	drain_to_cache(pool, &d);
	pcpu_drain_end(&d);
	qmempool_stats_read(pool, &s);
	/* release() takes the elements that are left in the queue. */
	if (d.refused || s.local)
		snprintf(why, size, "CPUs' arrays cannot be emptied");
	else if (s.outstanding > 0)
		snprintf(why, size, "%lld elements still in use", (long long)s.outstanding);
	else
		return true;
	return false;
}

void qmempool_destroy(struct qmempool *pool)
{
	char why[64];
	bool freed;

	if (!pool)
		return;
	lock(&pools_lock); /* no other drain has elements of the pool in hand */
	freed = can_be_freed(pool, why, sizeof(why));
	if (freed)
		list_del(&pool->list);
	unlock(&pools_lock);
	if (freed)
		release(pool);
	else
		log_warn("qmempool_destroy(%s): %s, pool kept", pool->kmem->name, why);
}
