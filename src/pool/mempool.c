/* SPDX-License-Identifier: MIT */
/*
 * An allocator with a reserve. The program calls it; it calls the pool's allocator, and kmalloc
 * for the pool's own memory. It takes no lock, so signal handlers may free.
 *
 * The reserve is an array of slots, each an element or NULL. A thread puts an element into
 * an empty slot by a compare-and-swap, and takes one from a full slot by an exchange; so an
 * element is in one place at any time, and a thread that stops anywhere stops no other. A
 * search looks at all slots if need be. It begins behind the slot where the last one ended,
 * because elements leave in about the order in which they came.
 *
 *   slots     | e | e | . | e |   | . | . |	chunks, which are never moved or freed
 *	       0	  min_nr - 1	     before the end: resizing appends
 *
 * `missing` tells a thread that frees whether the reserve needs the element. Invariant, where P
 * is the number of elements in slots (also in slots that a resize left behind min_nr):
 *
 *	P + missing >= min_nr
 *
 * 1. take() adds 1 to missing, then takes 1 from P. put() adds 1 to P, then takes 1 from
 *    missing. Between the two steps of either the sum is one higher. If a fork drops a thread
 *    there, the sum stays higher, which costs later frees a search and no element.
 * 2. resize adds the difference to missing, or takes as many from P and missing together as
 *    it takes from min_nr.
 * 3. A free gives its element to the allocator only if missing <= 0, hence P >= min_nr, or if
 *    it saw the first min_nr slots full, and no element was taken meanwhile.
 * So if the allocator fails for ever, min_nr elements remain between the reserve and the
 * program, and a thread that waits gets the next one that is freed.
 *
 * Threads wait by base/wait.h: the put comes before the notification.
 */
#include "ukmem/mempool.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/wait.h"
#include "ukmem/page_alloc.h"
#include "ukmem/slab.h"

/* Milliseconds until a waiter asks the allocator again: others may have freed to it. */
enum { WAIT_MS = 100 };

struct chunk {
	_Atomic(struct chunk *) next; /* set once, with release */
	int nr_slots;
	_Atomic(void *) slots[];
};

struct mempool_reserve {
	_Atomic long missing;
	struct wait_queue wait;
	/* Numbers of the slots where searches for an element, and for room, begin; relaxed. */
	atomic_uint next_take, next_put;
	_Atomic uint64_t takes; /* how many elements have left their slots */
	struct chunk *chunks;	/* read-only once made */
	int node;		/* of chunks; read-only once made */
};

static struct chunk *next_of(const struct chunk *c)
{
	return atomic_load_explicit(&c->next, memory_order_acquire);
}

static int promised(const mempool_t *pool)
{
	return __atomic_load_n(&pool->min_nr, __ATOMIC_RELAXED);
}

/* The flags with which a pool that is made with @flags gets its own memory: the request may do
 * as much for it as for elements, but a zone is for elements alone. */
static gfp_t own_flags(gfp_t flags)
{
	return flags & ~(__GFP_ZERO | __GFP_DMA | __GFP_DMA32);
}

static struct chunk *chunk_new(int nr_slots, gfp_t flags, int node)
{
	struct chunk *c =
		kzalloc_node(struct_size(c, slots, nr_slots), flags | __GFP_NOWARN, node);

	debug_assert(nr_slots > 0);
	if (c)
		c->nr_slots = nr_slots;
	return c;
}

/* Counts an element that has left its slot, and is in no other one yet. Release: a search that
 * begins with this count sees that slot empty. */
static void count_take(struct mempool_reserve *r)
{
	atomic_fetch_add_explicit(&r->takes, 1, memory_order_release);
}

/* Takes an element out of slots [@from, @to); NULL: a search found none. */
static void *take_between(struct mempool_reserve *r, unsigned int from, unsigned int to)
{
	unsigned int first = 0; /* the number of a chunk's first slot */

	for (struct chunk *c = r->chunks; c && first < to; c = next_of(c)) {
		unsigned int nr = min_uint((unsigned int)c->nr_slots, to - first);

		for (unsigned int i = max_uint(from, first) - first; i < nr; i++) {
			void *element;

			if (!atomic_load_explicit(&c->slots[i], memory_order_relaxed))
				continue;
			atomic_fetch_add_explicit(&r->missing, 1, memory_order_relaxed);
			element = atomic_exchange_explicit(&c->slots[i], NULL,
							   memory_order_acquire); /* M1 */
			if (element) {
				count_take(r);
				atomic_store_explicit(&r->next_take, first + i + 1,
						      memory_order_relaxed);
				return element;
			}
			atomic_fetch_sub_explicit(&r->missing, 1, memory_order_relaxed);
		}
		first += nr;
	}
	return NULL;
}

/* Takes an element out of the reserve; NULL: a search found none. */
static void *take(struct mempool_reserve *r)
{
	unsigned int from = atomic_load_explicit(&r->next_take, memory_order_relaxed);
	void *element = take_between(r, from, UINT_MAX);

	return element ? element : take_between(r, 0, from);
}

/* A thread that finds the slot full goes on to the next one, and must not see that as it was
 * before another thread moved an element from there to here (M1). */
static bool put_in(_Atomic(void *) *slot, void *element)
{
	void *empty = NULL;

	debug_assert(element);
	return !atomic_load_explicit(slot, memory_order_acquire) && /* M1 */
	       atomic_compare_exchange_strong_explicit(slot, &empty, element,
						       memory_order_acq_rel,  /* M2 */
						       memory_order_acquire); /* M1 */
}

/* Puts @element into an empty one of slots [@from, @to). False: each was full. */
static bool put_between(struct mempool_reserve *r, void *element, unsigned int from,
			unsigned int to)
{
	unsigned int first = 0; /* as above */

	debug_assert(r && r->chunks);
	for (struct chunk *c = r->chunks; c && first < to; c = next_of(c)) {
		unsigned int nr = min_uint((unsigned int)c->nr_slots, to - first);

		for (unsigned int i = max_uint(from, first) - first; i < nr; i++) {
			if (!put_in(&c->slots[i], element))
				continue;
			atomic_store_explicit(&r->next_put, first + i + 1,
					      memory_order_relaxed);
			atomic_fetch_sub_explicit(&r->missing, 1, memory_order_relaxed);
			wait_notify(&r->wait, 1);
			return true;
		}
		first += nr;
	}
	return false;
}

static bool is_missing(const mempool_t *pool)
{
	return atomic_load_explicit(&pool->reserve->missing, memory_order_relaxed) > 0;
}

/*
 * Puts @element into an empty slot. False: the first min_nr were full at one time, or nothing
 * is missing. A search that sees an element twice, in a slot that it leaves later and in the
 * one that it moves to, would take a reserve for full that is not. The take is counted between
 * the two. A search that has counted the take before it began sees the first slot empty;
 * another one, since it sees the element in its new slot (M1), sees the count change, and is
 * repeated.
 */
static bool put_anywhere(mempool_t *pool, void *element)
{
	struct mempool_reserve *r = pool->reserve;
	uint64_t takes = atomic_load_explicit(&r->takes, memory_order_acquire), before;

	do {
		unsigned int end = (unsigned int)promised(pool);
		unsigned int from =
			min_uint(atomic_load_explicit(&r->next_put, memory_order_relaxed), end);

		if (put_between(r, element, from, end) || put_between(r, element, 0, from))
			return true;
		before = takes;
		takes = atomic_load_explicit(&r->takes, memory_order_acquire);
	} while (unlikely(takes != before) && is_missing(pool));
	return false;
}

/* Puts @element into the reserve. False: the reserve does not need it. */
static bool put(mempool_t *pool, void *element)
{
	return unlikely(is_missing(pool)) && put_anywhere(pool, element);
}

/* Fills the reserve; false: the allocator has no more elements. */
static bool fill(mempool_t *pool, gfp_t flags)
{
	while (is_missing(pool)) {
		void *element = pool->alloc(flags, pool->pool_data);

		if (!element)
			return false;
		if (!put_anywhere(pool, element)) {
			pool->free(element, pool->pool_data);
			break;
		}
	}
	return true;
}

int mempool_init_node(mempool_t *pool, int min_nr, mempool_alloc_t *alloc_fn,
		      mempool_free_t *free_fn, void *pool_data, gfp_t flags, int node)
{
	struct mempool_reserve *r;

	memset(pool, 0, sizeof(*pool));
	if (min_nr < 0 || !alloc_fn || !free_fn)
		return -EINVAL;
	r = kzalloc_node(sizeof(*r), own_flags(flags) | __GFP_NOWARN, node);
	if (!r)
		return -ENOMEM;
	r->node = node;
	r->chunks = chunk_new(min_nr ? min_nr : 1, own_flags(flags), node);
	if (!r->chunks) {
		kfree(r);
		return -ENOMEM;
	}
	*pool = (mempool_t){
		.min_nr = min_nr,
		.pool_data = pool_data,
		.alloc = alloc_fn,
		.free = free_fn,
		.reserve = r,
	};
	atomic_init(&r->missing, min_nr);
	if (fill(pool, flags & ~__GFP_ZERO))
		return 0;
	mempool_exit(pool);
	return -ENOMEM;
}

int mempool_init(mempool_t *pool, int min_nr, mempool_alloc_t *alloc_fn,
		 mempool_free_t *free_fn, void *pool_data)
{
	return mempool_init_node(pool, min_nr, alloc_fn, free_fn, pool_data, GFP_KERNEL,
				 NUMA_NO_NODE);
}

void mempool_exit(mempool_t *pool)
{
	struct mempool_reserve *r = pool->reserve;
	struct chunk *c, *next;

	if (!r)
		return;
	for (c = r->chunks; c; c = next) {
		next = next_of(c);
		for (int i = 0; i < c->nr_slots; i++) {
			void *element =
				atomic_load_explicit(&c->slots[i], memory_order_acquire);

			if (element)
				pool->free(element, pool->pool_data);
		}
		kfree(c);
	}
	kfree(r);
	memset(pool, 0, sizeof(*pool));
}

mempool_t *mempool_create_node(int min_nr, mempool_alloc_t *alloc_fn, mempool_free_t *free_fn,
			       void *pool_data, gfp_t flags, int node)
{
	mempool_t *pool = kmalloc_node(sizeof(*pool), own_flags(flags), node);

	if (pool &&
	    mempool_init_node(pool, min_nr, alloc_fn, free_fn, pool_data, flags, node)) {
		kfree(pool);
		pool = NULL;
	}
	return pool;
}

mempool_t *mempool_create(int min_nr, mempool_alloc_t *alloc_fn, mempool_free_t *free_fn,
			  void *pool_data)
{
	return mempool_create_node(min_nr, alloc_fn, free_fn, pool_data, GFP_KERNEL,
				   NUMA_NO_NODE);
}

void mempool_destroy(mempool_t *pool)
{
	if (!pool)
		return;
	mempool_exit(pool);
	kfree(pool);
}

/*
 * Makes room for @min_nr elements, at least doubling it if it grows, up to INT_MAX. False: no
 * memory.
 */
static bool make_room(struct mempool_reserve *r, int min_nr)
{
	struct chunk *last = r->chunks, *more = NULL, *next;
	int room = 0;

	for (struct chunk *c = r->chunks; c; c = next_of(c)) {
		last = c;
		room += c->nr_slots;
	}
	debug_assert(room > 0);
	while (room < min_nr) {
		int want = min_nr - room > room ? min_nr - room : room;
		int most = INT_MAX - room;

		if (!more)
			more = chunk_new(want < most ? want : most, GFP_KERNEL, r->node);
		if (!more)
			return false;
		if (more->nr_slots > most)
			more->nr_slots = most;
		next = NULL;
		if (atomic_compare_exchange_strong_explicit(&last->next, &next, more,
							    memory_order_acq_rel,
							    memory_order_acquire)) {
			more = NULL;
			break;
		}
		/* Another resize has appended a chunk first. */
		last = next;
		room += last->nr_slots;
	}
	kfree(more);
	return true;
}

/*
 * min_nr went from @from down to @to. For each slot between, one element leaves the reserve, or
 * one less is missing.
 */
static void shrink(mempool_t *pool, int to, int from)
{
	struct mempool_reserve *r = pool->reserve;
	int index = 0;
	debug_assert(to >= 0 && to < from);

	for (struct chunk *c = r->chunks; c && index < from; c = next_of(c))
		for (int i = 0; i < c->nr_slots && index < from; i++, index++) {
			void *element;

			if (index < to)
				continue;
			element = atomic_exchange_explicit(&c->slots[i], NULL,
							   memory_order_acquire); /* M1 */
			if (!element) {
				atomic_fetch_sub_explicit(&r->missing, 1, memory_order_relaxed);
				continue;
			}
			count_take(r);
			if (!put(pool, element))
				pool->free(element, pool->pool_data);
		}
}

int mempool_resize(mempool_t *pool, int new_min_nr)
{
	int old;

	if (new_min_nr < 0)
		return -EINVAL;
	if (!make_room(pool->reserve, new_min_nr))
		return -ENOMEM;
	old = __atomic_exchange_n(&pool->min_nr, new_min_nr, __ATOMIC_ACQ_REL);
	if (new_min_nr < old) {
		shrink(pool, new_min_nr, old);
		return 0;
	}
	atomic_fetch_add_explicit(&pool->reserve->missing, new_min_nr - old,
				  memory_order_relaxed);
	fill(pool, GFP_KERNEL | __GFP_NOWARN);
	return 0;
}

/*
 * While the reserve is not full, frees put elements into it and wake a waiter for each. With
 * min_nr 0 they give elements to the allocator and wake a waiter for each.
 */
static cold void *wait_for_element(mempool_t *pool, gfp_t flags)
{
	struct mempool_reserve *r = pool->reserve;
	void *element;

	debug_assert(flags & __GFP_DIRECT_RECLAIM);
	for (;;) {
		uint32_t seq = wait_begin(&r->wait);

		element = take(r);
		if (!element) /* a free may just have given it one */
			element = pool->alloc(flags, pool->pool_data);
		if (!element)
			wait_for(&r->wait, seq, WAIT_MS);
		wait_end(&r->wait);
		/* The reserve first: a thread that was woken must take that element. */
		if (!element)
			element = take(r);
		if (!element)
			element = pool->alloc(flags, pool->pool_data);
		if (element)
			return element;
	}
}

void *mempool_alloc(mempool_t *pool, gfp_t flags)
{
	gfp_t asked = (flags & ~(__GFP_NOFAIL | __GFP_RETRY_MAYFAIL | __GFP_ZERO)) |
		      __GFP_NORETRY | __GFP_NOWARN;
	void *element = pool->alloc(asked, pool->pool_data);

	if (likely(element))
		return element;
	element = take(pool->reserve);
	if (element || !(flags & __GFP_DIRECT_RECLAIM))
		return element;
	return wait_for_element(pool, asked);
}

void *mempool_alloc_preallocated(mempool_t *pool)
{
	return take(pool->reserve);
}

void mempool_free(void *element, mempool_t *pool)
{
	if (!element || put(pool, element))
		return;
	pool->free(element, pool->pool_data);
	/* No put wakes a thread that waits. Where the reserve has slots, one may have found it
	 * empty meanwhile; if it begins to wait just now, it asks anew after WAIT_MS. */
	if (unlikely(!promised(pool) || wait_has_waiters(&pool->reserve->wait)))
		wait_notify(&pool->reserve->wait, 1);
}

bool mempool_is_saturated(mempool_t *pool)
{
	int present = 0;

	for (struct chunk *c = pool->reserve->chunks; c; c = next_of(c))
		for (int i = 0; i < c->nr_slots; i++)
			present += !!atomic_load_explicit(&c->slots[i], memory_order_relaxed);
	return present >= promised(pool);
}

void *mempool_alloc_slab(gfp_t flags, void *pool_data)
{
	return kmem_cache_alloc(pool_data, flags);
}

void mempool_free_slab(void *element, void *pool_data)
{
	kmem_cache_free(pool_data, element);
}

void *mempool_kmalloc(gfp_t flags, void *pool_data)
{
	return kmalloc((size_t)pool_data, flags);
}

void mempool_kfree(void *element, void *pool_data)
{
	(void)pool_data;
	kfree(element);
}

void *mempool_alloc_pages(gfp_t flags, void *pool_data)
{
	return alloc_pages(flags, (unsigned int)(size_t)pool_data);
}

void mempool_free_pages(void *element, void *pool_data)
{
	__free_pages(element, (unsigned int)(size_t)pool_data);
}
