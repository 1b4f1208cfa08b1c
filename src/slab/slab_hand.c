/* SPDX-License-Identifier: MIT */
/*
 * What frees have in hand that wait for no fork.
 *
 * To free an object takes several steps: its bit, the state of its slab, the list the slab
 * comes onto, the count. Whoever frees passes the gate (percpu/gate.h) for that, so that a fork
 * finds all of them done; but while the gate is closed a free does not wait for it to open.
 * Then it writes into one of a few records which slab it works on, and the child of a fork
 * finishes what the bitmap says was begun:
 *
 *   free:   record = slab; bit; state; full before? deferred list; count; record = none
 *   child:  for each record: state as of the bitmap, onto the deferred list if it is on none;
 *           count as of the slabs
 *
 * Why it is enough. The child has the memory of one moment, since the system lets nobody write
 * to what it copies.
 *   1. A free T outside the gate changes nothing of its slab before the slab is in a record,
 * and takes it out after the last change: H1 releases what the record says before the bit, H2
 * the changes before the record is empty. So the child finds records of all slabs that are half
 * changed, but for the case that all records were in use.
 *   2. Everything else that changes slabs is inside the gate, or under a lock that the fork
 * takes. So in the child a slab of a record is as T left it, or whole.
 *   3. A slab's counts and, unless it is full, that it is on a list follow from its bitmap
 * (slab_page.c, 1 and 2). So to work them out anew is right for a slab that is whole, too.
 *   4. All free objects are in slabs on lists or in the stock. What slabs have room for less
 * these is what is out of them: node->inuse.
 *
 * slab_fork.c does what the child does. A thread that forks in a handler goes on in the child
 * with what it has in hand: what is its own is left to it.
 */
#include "slab/slab_hand.h"

#include "base/assert.h"
#include "percpu/gate.h"

/* Synchronization: @owner, an address of the thread's own, by compare-and-swap; the rest is the
 * owner's. */
struct slab_hand {
	_Atomic(const void *) owner;
	_Atomic(struct page *) page;
	struct kmem_cache *cache;
};

static struct slab_hand hands[SLAB_HANDS];

static const void *self(void)
{
	return &pcpu_gate_depth;
}

struct slab_hand *slab_hand_take(struct kmem_cache *s)
{
	unsigned int first = (unsigned int)((uintptr_t)self() >> 12);

	for (unsigned int i = 0; i < SLAB_HANDS; i++) {
		struct slab_hand *hand = &hands[(first + i) % SLAB_HANDS];
		const void *none = NULL;

		if (atomic_load_explicit(&hand->owner, memory_order_relaxed) ||
		    !atomic_compare_exchange_strong_explicit(&hand->owner, &none, self(),
							     memory_order_acquire,
							     memory_order_relaxed))
			continue;
		debug_assert(!atomic_load_explicit(&hand->page, memory_order_relaxed));
		hand->cache = s;
		return hand;
	}
	return NULL;
}

void slab_hand_set(struct slab_hand *hand, struct page *page)
{
	debug_assert(!hand ||
		     atomic_load_explicit(&hand->owner, memory_order_relaxed) == self());
	if (hand)
		atomic_store_explicit(&hand->page, page, memory_order_release); /* H1 */
}

void slab_hand_drop(struct slab_hand *hand)
{
	if (!hand)
		return;
	atomic_store_explicit(&hand->page, NULL, memory_order_release); /* H2 */
	atomic_store_explicit(&hand->owner, NULL, memory_order_release);
}

struct kmem_cache *slab_hand_left(unsigned int i, struct page **page)
{
	const void *owner = atomic_load_explicit(&hands[i].owner, memory_order_relaxed);

	debug_assert(i < SLAB_HANDS);
	if (!owner || owner == self())
		return NULL;
	*page = atomic_load_explicit(&hands[i].page, memory_order_acquire);
	return *page ? hands[i].cache : NULL;
}

bool slab_hand_is_mine(void)
{
	for (unsigned int i = 0; i < SLAB_HANDS; i++)
		if (atomic_load_explicit(&hands[i].owner, memory_order_relaxed) == self())
			return true;
	return false;
}

void slab_hand_drop_others(void)
{
	for (unsigned int i = 0; i < SLAB_HANDS; i++)
		if (atomic_load_explicit(&hands[i].owner, memory_order_relaxed) != self())
			slab_hand_drop(&hands[i]);
}
