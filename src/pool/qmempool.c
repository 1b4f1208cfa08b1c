/* SPDX-License-Identifier: MIT */
/*
 * Pools of elements in front of a cache. The program calls this file; it uses this CPU's array
 * (percpu/array.h), one ALF queue for all CPUs, and the cache in bulk.
 *
 *	   get		   put
 *	    ^		    |
 *   local array of a CPU <-+	     localq_sz elements
 *	    ^		    v	     a bulk at a time
 *   shared queue <---------+	     sharedq_sz elements
 *	    ^ stock	    v	     what there is no room for
 *   cache  +---------------+	     two bulks at a time
 *
 * Bound: a free element is in a slot of an array or of the queue, in hand of a thread that
 * moves it, or in the cache; so the pool holds no more elements than there are slots. Elements
 * move to where there is room, or on to the cache, which always has room. No function here
 * waits, nor calls the cache in the middle of a change: a refill that gets fewer elements from
 * the cache than it asked for goes on with those.
 *
 * Nodes: a local array takes elements of its CPU's node. An element of another node may get
 * there, because the thread moved between the test and the push, or the array to another CPU
 * (mm_cid); it is found when it is taken out.
 *
 * Lock: pools_lock, for the list of pools, held while pools are emptied from outside.
 */
#include "pool/qmempool.h"

#include <string.h>

#include "base/bits.h"
#include "page/lookup.h"
#include "percpu/array_owner.h"
#include "percpu/array_slow.h"
#include "percpu/array_wind.h"
#include "percpu/gate.h"
#include "percpu/register.h"
#include "slab/slab_array.h"
#include "ukmem/alf_queue.h"

enum {
	REFILL_MAX = QMEMPOOL_BULK_MAX * QMEMPOOL_REFILL_MULTIPLIER,
	PIECE_MAX = 1 << 16, /* elements in one call to arrays, the queue, and the cache */
};

static void count(struct qmempool *pool, enum qmempool_event e, uint64_t n)
{
	this_cpu_add(pool->events[e], n);
}

void qmempool_give_back(struct qmempool *pool, void **p, size_t n)
{
	if (!n)
		return;
	count(pool, QMEMPOOL_RETURNED, n);
	kmem_cache_free_bulk(pool->kmem, n, p);
}

/* Puts elements into the shared queue; those that it has no room for go to the cache. */
void qmempool_share(struct qmempool *pool, void **p, unsigned int n)
{
	unsigned int kept = n ? alf_mp_enqueue_burst(pool->shared, p, n) : 0;

	qmempool_give_back(pool, p + kept, n - kept);
}

/* Whether @elem is of another node. With the tunable passthrough elements are of no node. */
static bool is_remote(const void *elem)
{
	const struct page *page = page_lookup(elem);

	return page && page_node(page) != page_local_node();
}

/* Sorts the elements of this CPU's node to the front. Result: their number. */
static unsigned int local_first(void **p, unsigned int n)
{
	unsigned int local = 0;

	if (likely(page_window.nr_nodes == 1))
		return n;
	for (unsigned int i = 0; i < n; i++) {
		void *elem = p[i];

		if (is_remote(elem))
			continue;
		p[i] = p[local];
		p[local++] = elem;
	}
	return local;
}

/*
 * Prefetches the last elements, which the array hands out next. They were freed long ago or
 * elsewhere, so their lines are cold. To prefetch more than these costs more than it saves.
 * (8192 elements of 2 KiB, the first line of each written, in bulks of 16: 16 -> 13 ns.)
 */
static void prefetch(void *const *p, unsigned int n)
{
	for (unsigned int i = n - min_uint(n, QMEMPOOL_BULK); i < n; i++)
		__builtin_prefetch(p[i], 1);
}

/* Pushes as many of @n elements as this CPU's array takes. Result: how many. */
static unsigned int push_local(struct qmempool *pool, void **p, unsigned int n)
{
	unsigned int pushed = pcpu_array_push_bulk(pool->local, p, n);

	if (pushed < n && pcpu_array_open(pool->local, &pool->localq_sz))
		pushed += pcpu_array_push_bulk(pool->local, p + pushed, n - pushed);
	return pushed;
}

/* Puts elements beyond the request: a bulk into this CPU's array, others into the queue. */
static void put_rest(struct qmempool *pool, void **p, unsigned int n)
{
	unsigned int local = min_uint(local_first(p, n), pool->bulk), pushed;

	prefetch(p, local);
	pushed = push_local(pool, p, local);
	qmempool_share(pool, p + pushed, n - pushed);
}

/*
 * Takes up to @n elements of this CPU's array, after the fast path failed. Elements of another
 * node, which it may have if it was another CPU's (mm_cid), go to the shared queue.
 */
static size_t take_local(struct qmempool *pool, void **p, size_t n)
{
	unsigned int got = pcpu_array_pop_bulk_winding(pool->local, p,
						       (unsigned int)min_size(n, PIECE_MAX));
	unsigned int local = local_first(p, got);

	if (unlikely(local < got)) {
		count(pool, QMEMPOOL_UNUSED, got - local);
		qmempool_share(pool, p + local, got - local);
	}
	return local;
}

/* Takes elements from the shared queue; puts those of other nodes back for CPUs of these. */
static unsigned int fetch_shared(struct qmempool *pool, void **out, unsigned int n)
{
	unsigned int got = alf_mc_dequeue(pool->shared, out, n), local;

	if (!got)
		return 0;
	count(pool, QMEMPOOL_REFILLS, 1);
	local = local_first(out, got);
	qmempool_share(pool, out + local, got - local);
	return local;
}

/* Fetches up to @n elements of @node from the cache; it reclaims only to get @need of them. */
static size_t fetch_cache(struct qmempool *pool, unsigned int node, gfp_t gfp, void **out,
			  size_t n, size_t need, const void *caller)
{
	size_t got;

	gfp &= ~__GFP_ZERO;
	got = slab_alloc_bulk(pool->kmem, node, (gfp & ~__GFP_NOFAIL) | PAGE_NO_RECLAIM, n, out,
			      caller);
	if (unlikely(got < need))
		got += slab_alloc_bulk(pool->kmem, node, gfp, need - got, out + got, caller);
	if (got)
		count(pool, QMEMPOOL_FETCHED, got);
	return got;
}

static void count_got(struct qmempool *pool, size_t of_shared, size_t of_cache)
{
	if (of_shared)
		count(pool, QMEMPOOL_OF_SHARED, of_shared);
	if (of_cache)
		count(pool, QMEMPOOL_OF_CACHE, of_cache);
}

/* An array's elements that a request got, which fails: the caller puts them back. */
static void count_unused(struct qmempool *pool, size_t popped)
{
	if (popped)
		count(pool, QMEMPOOL_UNUSED, popped);
}

/*
 * Gets fewer than a bulk; the local array gets some, too. The caller gets the last ones of the
 * batch, so that the others are loaded from the addresses at which they were stored.
 */
static size_t get_few(struct qmempool *pool, gfp_t gfp, void **p, size_t n, const void *caller)
{
	void *batch[REFILL_MAX];
	size_t have = fetch_shared(pool, batch, pool->bulk), fetched = 0, rest;
	bool all;

	if (have < n) {
		unsigned int node = page_policy_node();
		/* This CPU's array does not keep what a policy takes from elsewhere. */
		size_t most = node == page_local_node()
				      ? (size_t)pool->bulk * QMEMPOOL_REFILL_MULTIPLIER
				      : n;

		fetched = fetch_cache(pool, node, gfp, batch + have, most - have, n - have,
				      caller);
	}
	have += fetched;
	all = have >= n;
	n = min_size(n, have);
	rest = have - n;
	alf_queue_copy(p, batch + rest, (uint32_t)n);
	put_rest(pool, batch, (unsigned int)rest);
	if (all)
		count_got(pool, n - min_size(n, fetched), min_size(n, fetched));
	return n;
}

static size_t get_many(struct qmempool *pool, gfp_t gfp, void **p, size_t n, const void *caller)
{
	size_t got = 0, of_shared;

	while (got < n) {
		unsigned int more =
			fetch_shared(pool, p + got, (unsigned int)min_size(n - got, PIECE_MAX));

		if (!more)
			break;
		got += more;
	}
	of_shared = got;
	while (got < n) {
		size_t piece = min_size(n - got, PIECE_MAX);
		size_t more = fetch_cache(pool, page_policy_node(), gfp, p + got, piece, piece,
					  caller);

		got += more;
		if (more < piece)
			break;
		/* All elements are the program's: the thread has nothing in hand. */
		pcpu_gate_let_fork_in(gfp & __GFP_DIRECT_RECLAIM);
	}
	if (got == n)
		count_got(pool, of_shared, got - of_shared);
	return got;
}

/* Gets @n elements past the fast path. Result: how many; fewer do not count as handed out. */
static noinline size_t get(struct qmempool *pool, gfp_t gfp, void **p, size_t n,
			   const void *caller)
{
	size_t popped = take_local(pool, p, n), got;

	if (popped == n)
		return n;
	p += popped;
	n -= popped;
	gfp = page_flags_now(gfp);
	pcpu_gate_enter(gfp & __GFP_DIRECT_RECLAIM);
	got = n < pool->bulk ? get_few(pool, gfp, p, n, caller)
			     : get_many(pool, gfp, p, n, caller);
	if (unlikely(got < n))
		count_unused(pool, popped);
	pcpu_gate_leave();
	return popped + got;
}

/* Puts back elements of this CPU's node, for which its array may have no room. */
static void put(struct qmempool *pool, void **p, unsigned int n)
{
	void *batch[QMEMPOOL_BULK_MAX];
	unsigned int pushed = push_local(pool, p, n), drained;

	if (pushed == n)
		return;
	count(pool, QMEMPOOL_DRAINS, 1);
	if (n - pushed < pool->bulk && pcpu_gate_try_enter()) {
		drained =
			pcpu_array_pop_bulk(pool->local, batch, pool->bulk, PCPU_POP_UNCOUNTED);
		pushed += pcpu_array_push_bulk(pool->local, p + pushed, n - pushed);
		qmempool_share(pool, batch, drained);
		pcpu_gate_leave();
	}
	qmempool_share(pool, p + pushed, n - pushed);
}

/* Puts back elements of any node. */
static void put_any(struct qmempool *pool, void **p, size_t n)
{
	while (n) {
		unsigned int piece = (unsigned int)min_size(n, PIECE_MAX);
		unsigned int local = local_first(p, piece);

		if (local)
			put(pool, p, local);
		qmempool_give_back(pool, p + local, piece - local);
		p += piece;
		n -= piece;
	}
}

static always_inline void *zeroed(const struct qmempool *pool, void *elem, gfp_t gfp)
{
	if (unlikely(gfp & __GFP_ZERO))
		memset(elem, 0, pool->kmem->object_size);
	return elem;
}

/* Takes the element by value: its address would make the fast path keep it in memory. */
static noinline void put_one(struct qmempool *pool, void *elem)
{
	put_any(pool, &elem, 1);
}

static noinline void *get_one(struct qmempool *pool, gfp_t gfp, const void *caller)
{
	void *elem;

	if (!get(pool, gfp, &elem, 1, caller))
		return NULL;
	return zeroed(pool, elem, gfp);
}

/* Gets the rest of a bulk of @n; p[0..popped) came from the array. */
static always_inline int finish_bulk(struct qmempool *pool, gfp_t gfp, size_t n, void **p,
				     size_t popped, const void *caller)
{
	size_t got = popped;

	if (got < n)
		got += get(pool, gfp, p + got, n - got, caller);
	if (unlikely(got < n)) {
		count_unused(pool, popped);
		put_any(pool, p, got);
		return 0;
	}
	if (unlikely(gfp & __GFP_ZERO))
		for (size_t i = 0; i < n; i++)
			zeroed(pool, p[i], gfp);
	return (int)n;
}

void *qmempool_alloc(struct qmempool *pool, gfp_t gfp)
{
	void *elem;

	if (unlikely(!pcpu_array_pop_rseq(&pcpu, pool->fast_array, &elem)))
		return get_one(pool, gfp, CALLER_ADDRESS);
	return zeroed(pool, elem, gfp);
}

void qmempool_free(struct qmempool *pool, void *elem)
{
	if (unlikely(!elem))
		return;
	if (unlikely(!pcpu_array_push_rseq(&pcpu, pool->fast_array, 0, elem)))
		put_one(pool, elem);
}

int qmempool_alloc_bulk(struct qmempool *pool, gfp_t gfp, size_t n, void **p)
{
	size_t got;

	if (n > INT32_MAX)
		return 0;
	got = pcpu_array_pop_bulk(pool->fast_array, p, (unsigned int)n, PCPU_POP_COUNTED);
	return finish_bulk(pool, gfp, n, p, got, CALLER_ADDRESS);
}

void qmempool_free_bulk(struct qmempool *pool, size_t n, void **p)
{
	size_t pushed =
		pcpu_array_push_bulk(pool->fast_array, p, (unsigned int)min_size(n, PIECE_MAX));

	if (pushed < n)
		put_any(pool, p + pushed, n - pushed);
}

void *(__qmempool_alloc)(struct qmempool *pool, gfp_t gfp)
{
	void *elem = likely(pcpu_use_rseq()) ? pcpu_array_pop_owner(pool->fast_array) : NULL;

	if (unlikely(!elem))
		return get_one(pool, gfp, CALLER_ADDRESS);
	return zeroed(pool, elem, gfp);
}

void(__qmempool_free)(struct qmempool *pool, void *elem)
{
	if (unlikely(!elem))
		return;
	if (unlikely(!pcpu_use_rseq() || !pcpu_array_push_owner(pool->fast_array, elem)))
		put_one(pool, elem);
}

int(__qmempool_alloc_bulk)(struct qmempool *pool, gfp_t gfp, size_t n, void **p)
{
	size_t got = 0;

	if (n > INT32_MAX)
		return 0;
	if (likely(pcpu_use_rseq()))
		got = pcpu_array_pop_bulk_owner(pool->fast_array, p, (unsigned int)n);
	return finish_bulk(pool, gfp, n, p, got, CALLER_ADDRESS);
}

void(__qmempool_free_bulk)(struct qmempool *pool, size_t n, void **p)
{
	size_t pushed = 0;

	if (likely(pcpu_use_rseq()))
		pushed = pcpu_array_push_bulk_owner(pool->fast_array, p,
						    (unsigned int)min_size(n, PIECE_MAX));
	if (pushed < n)
		put_any(pool, p + pushed, n - pushed);
}
