/* SPDX-License-Identifier: MIT */
/*
 * Records of the slabs that frees are changing while a fork is under way.
 *
 * To free an object takes several steps: it sets the object's bit, changes the slab's state,
 * lists the slab, and counts. A free passes the gate (percpu/gate.h) for that, so that a fork
 * finds all of the steps done or none. But while the gate is closed, a free does not wait for
 * it to open. Instead it writes into one of a few records which slab it works on, and the child
 * of the fork finishes what the bitmap says was begun:
 *
 *   free:   record = slab; bit; state; was it full? deferred list; count; record = none
 *   child:  for each record: compute the state from the bitmap, put the slab onto the deferred
 *           list if it is on no list; then compute the count from the slabs
 *
 * Why that is enough. The child's memory is that of one moment, because the system lets no
 * thread write to memory while it copies it.
 *   1. A free T outside the gate changes nothing of its slab before the slab is in a record,
 *	and empties the record after the last change. H1 (release) orders the record's cache
 *	before its slab; the instruction that sets the bit, a release, too, orders both
 *	before the bit; and H2 (release) the changes before the empty record. So the child
 *	finds records of all slabs that are half changed, unless all records were in use.
 *   2. Everything else that changes slabs does so inside the gate, or under a lock that the
 *	fork takes. So in the child the slab of a record is as T left it, or whole.
 *   3. A slab's counts follow from its bitmap, and so does whether it must be on a list
 *	(slab_page.c, 1 and 2). So it does no harm to compute them for a slab that is whole.
 *   4. All free objects are in slabs on lists or in the stock. The objects that the slabs have
 *	room for, less these, are those out of slabs: node->inuse.
 *
 * slab_fork.c has the child's part. A thread that forks in a signal handler goes on, in the
 * child, with the slab it has in hand; the child leaves that record alone.
 */
#include "slab/slab_hand.h"

#include "base/assert.h"
#include "percpu/gate.h"

/* Synchronization: @owner, an address of thread-local memory, by compare-and-swap; the owner
 * writes the rest. */
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
