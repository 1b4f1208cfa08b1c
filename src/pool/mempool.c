/* SPDX-License-Identifier: MIT */
/*
 * An allocator with a reserve. Called by the program; below: its allocator, and kmalloc for
 * the pool's own memory. No lock: signal handlers may free.
 *
 * The reserve is an array of slots, each an element or NULL. Elements are put into the first
 * empty slot and taken from the first full one, a compare-and-swap or exchange each; so an
 * element is in one place at any time, and a thread that stops anywhere stops nobody.
 *
 *   slots     | e | e | . | e |   | . | . |	chunks, which are never moved or freed
 *	       0	  min_nr - 1	     before the end: resizing appends
 *
 * `missing` tells whoever frees whether the reserve wants the element. Invariant, P being
 * the number of elements in slots (also those that a resize left behind min_nr):
 *
 *	P + missing >= min_nr
 *
 * 1. take: missing + 1, then P - 1. put: P + 1, then missing - 1. Between the two steps of
 *    either the sum is one higher: a thread that vanishes there (fork) leaves it so, which
 *    costs later frees a search and no element.
 * 2. resize adds the difference to missing, or takes as many from P and missing together as
 *    it takes from min_nr.
 * 3. An element goes to the allocator only if missing <= 0, hence P >= min_nr, or if each of
 *    the first min_nr slots was seen full. What was seen in a slot and left it since is in
 *    somebody's hands and will be freed.
 * So an allocator that fails for ever leaves min_nr elements between the reserve and the
 * program: somebody who waits gets the next one that is freed.
 *
 * Waiting is base/wait.h: the put comes before the notification.
 */
#include "ukmem/mempool.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "base/wait.h"
#include "ukmem/page_alloc.h"
#include "ukmem/slab.h"

/* How long somebody waits before asking the allocator again: others may have freed to it. */
enum { WAIT_MS = 100 };

struct chunk {
	_Atomic(struct chunk *) next; /* set once, with release */
	int nr_slots;
	_Atomic(void *) slots[];
};

struct mempool_reserve {
	_Atomic long missing;
	struct wait_queue wait;
	struct chunk *chunks; /* read-only once made */
};

static struct chunk *next_of(const struct chunk *c)
{
	return atomic_load_explicit(&c->next, memory_order_acquire);
}

static int promised(const mempool_t *pool)
{
	return __atomic_load_n(&pool->min_nr, __ATOMIC_RELAXED);
}

static struct chunk *chunk_new(int nr_slots, int node)
{
	struct chunk *c =
		kzalloc_node(struct_size(c, slots, nr_slots), GFP_KERNEL | __GFP_NOWARN, node);

	debug_assert(nr_slots > 0);
	if (c)
		c->nr_slots = nr_slots;
	return c;
}

/* An element of the reserve; NULL if a search found none. */
static void *take(struct mempool_reserve *r)
{
	for (struct chunk *c = r->chunks; c; c = next_of(c))
		for (int i = 0; i < c->nr_slots; i++) {
			void *element;

			if (!atomic_load_explicit(&c->slots[i], memory_order_relaxed))
				continue;
			atomic_fetch_add_explicit(&r->missing, 1, memory_order_relaxed);
			element = atomic_exchange_explicit(&c->slots[i], NULL,
							   memory_order_acquire); /* M1 */
			if (element)
				return element;
			atomic_fetch_sub_explicit(&r->missing, 1, memory_order_relaxed);
		}
	return NULL;
}

static bool put_in(_Atomic(void *) *slot, void *element)
{
	void *empty = NULL;

	debug_assert(element);
	return !atomic_load_explicit(slot, memory_order_relaxed) &&
	       atomic_compare_exchange_strong_explicit(slot, &empty, element,
						       memory_order_release, /* M2 */
						       memory_order_relaxed);
}

/* False: the reserve does not want it. */
static bool put(mempool_t *pool, void *element)
{
	struct mempool_reserve *r = pool->reserve;
	int left;

	debug_assert(r && r->chunks);
	if (likely(atomic_load_explicit(&r->missing, memory_order_relaxed) <= 0))
		return false;
	left = promised(pool);
	for (struct chunk *c = r->chunks; c; c = next_of(c))
		for (int i = 0; i < c->nr_slots; i++) {
			if (left-- <= 0)
				return false;
			if (!put_in(&c->slots[i], element))
				continue;
			atomic_fetch_sub_explicit(&r->missing, 1, memory_order_relaxed);
			wait_notify(&r->wait, 1);
			return true;
		}
	return false;
}

/* Until the reserve is full; false: the allocator has no more. */
static bool fill(mempool_t *pool, gfp_t flags)
{
	while (atomic_load_explicit(&pool->reserve->missing, memory_order_relaxed) > 0) {
		void *element = pool->alloc(flags, pool->pool_data);

		if (!element)
			return false;
		if (!put(pool, element)) {
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
	r = kzalloc_node(sizeof(*r), GFP_KERNEL | __GFP_NOWARN, node);
	if (!r)
		return -ENOMEM;
	r->chunks = chunk_new(min_nr ? min_nr : 1, node);
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
	mempool_t *pool = kmalloc_node(sizeof(*pool), GFP_KERNEL, node);

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

/* Room for @min_nr elements, at least doubled where it grows; false without memory. */
static bool make_room(struct mempool_reserve *r, int min_nr)
{
	struct chunk *last, *more = NULL, *next;
	int room = 0;

	for (struct chunk *c = r->chunks; c; c = next_of(c)) {
		last = c;
		room += c->nr_slots;
	}
	debug_assert(room > 0);
	while (room < min_nr) {
		int want = min_nr - room > room ? min_nr - room : room;

		if (!more)
			more = chunk_new(want, NUMA_NO_NODE);
		if (!more)
			return false;
		next = NULL;
		if (atomic_compare_exchange_strong_explicit(&last->next, &next, more,
							    memory_order_acq_rel,
							    memory_order_acquire)) {
			more = NULL;
			break;
		}
		/* Another resize was faster. */
		last = next;
		room += last->nr_slots;
	}
	kfree(more);
	return true;
}

/* min_nr went from @from down to @to: what of that is in slots, and what is missing. */
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
			if (!element)
				atomic_fetch_sub_explicit(&r->missing, 1, memory_order_relaxed);
			else if (!put(pool, element))
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

/* Elements that are freed go to the reserve, and a waiter is woken for each. */
static cold void *wait_for_element(mempool_t *pool, gfp_t flags)
{
	struct mempool_reserve *r = pool->reserve;
	void *element;

	debug_assert(flags & __GFP_DIRECT_RECLAIM);
	for (;;) {
		uint32_t seq = wait_begin(&r->wait);

		element = take(r);
		if (!element)
			wait_for(&r->wait, seq, WAIT_MS);
		wait_end(&r->wait);
		/* The reserve first: who was woken must not leave the element there. */
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
	if (element && !put(pool, element))
		pool->free(element, pool->pool_data);
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
