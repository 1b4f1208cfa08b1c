/* SPDX-License-Identifier: MIT */
/*
 * slab/slab_hand.c, for GenMC: frees take a record, name the slab that they change, and change
 * it; the child of a fork looks at it. A change of a slab has two steps: a bit, set with
 * release, and what follows from it. The child reads the bit before the record: what it finds
 * of the three must be what there was at one moment, or the record.
 */
#include "verifier.h"

#ifndef THREADS
#define THREADS 1
#endif
#ifndef CALLS
#define CALLS 1 /* slabs that a thread changes with its record */
#endif
#ifndef CHILD
#define CHILD 1 /* whether one more thread looks */
#endif

struct kmem_cache {
	int unused;
};

struct page {
	_Atomic bool bit;
	_Atomic bool whole; /* relaxed: what follows from the bit is done */
};

#define SLAB_SLAB_TYPES_H
#define PERCPU_GATE_H
static _Thread_local unsigned int pcpu_gate_depth;

#include "slab/slab_hand.c"

static struct kmem_cache cache[THREADS];
static struct page page[THREADS * CALLS];

static void change(struct slab_hand *hand, struct page *p)
{
	slab_hand_set(hand, p);
	atomic_store_explicit(&p->bit, true, memory_order_release);
	atomic_store_explicit(&p->whole, true, memory_order_relaxed);
}

static void look(struct page *p)
{
	if (!atomic_load_explicit(&p->bit, memory_order_acquire))
		return;
	for (unsigned int i = 0; i < SLAB_HANDS; i++)
		if (atomic_load_explicit(&hands[i].page, memory_order_acquire) == p)
			return;
	assert(atomic_load_explicit(&p->whole, memory_order_relaxed));
}

static void *run(void *arg)
{
	unsigned int thread = (unsigned int)(uintptr_t)arg;
	struct slab_hand *hand;

	if (thread == THREADS) {
		for (unsigned int i = 0; i < THREADS * CALLS; i++)
			look(&page[i]);
		return NULL;
	}
	hand = slab_hand_take(&cache[thread]);
	if (!hand)
		return NULL;
	assert(hand->cache == &cache[thread]);
	assert(slab_hand_is_mine());
	for (unsigned int i = 0; i < CALLS; i++)
		change(hand, &page[thread * CALLS + i]);
	slab_hand_drop(hand);
	return NULL;
}

int main(void)
{
	RUN_THREADS(THREADS + CHILD, run);
	for (unsigned int i = 0; i < SLAB_HANDS; i++)
		assert(!atomic_load(&hands[i].owner) && !atomic_load(&hands[i].page));
	assert(!END);
	return 0;
}
