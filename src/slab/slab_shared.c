/* SPDX-License-Identifier: MIT */
/*
 * The shared queue of each node carries objects from CPUs that free what others allocate to
 * CPUs that allocate what others free. It is an ALF queue (queue/), as between the arrays of
 * a qmempool. Half an array goes through it for one atomic instruction; the way through the
 * slabs costs several for each slab, and the cache lines of its bitmap.
 *
 * The gain is small, so no thread waits for the queue: if a section cannot have a side at once,
 * the objects go to the slabs, or come from there. Without restartable sequences no thread uses
 * the queue.
 *
 * A queue is made after a CPU had objects for it. Its objects are free; statistics count them
 * with those of arrays, and each function that empties the arrays of all CPUs empties it.
 */
#include "slab/slab_shared.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/bits.h"
#include "page/node.h"
#include "percpu/register.h"
#include "queue/queue.h"
#include "slab/slab_budget.h"
#include "slab/slab_objects.h"

enum {
	BYTES_MAX = 32768, /* bytes of objects in a queue */
	SLOTS_MIN = 8,	   /* a smaller queue does not pay */
};

struct kmem_cache slab_queues;

static struct alf_queue *queue_of(const struct kmem_cache *s, unsigned int node)
{
	debug_assert(node < page_window.nr_nodes);
	return atomic_load_explicit(&s->nodes[node].shared, memory_order_acquire);
}

void slab_shared_describe(struct kmem_cache *s)
{
	unsigned int slots = min_uint(SLAB_QUEUE_SLOTS, BYTES_MAX / s->size);

	/* Down to a power of two. */
	while (slots & (slots - 1))
		slots &= slots - 1;
	s->shared_size = (uint16_t)(slots >= SLOTS_MIN ? slots : 0);
	debug_assert(!s->shared_size || queue_size_valid(s->shared_size));
}

unsigned int slab_shared_get(struct kmem_cache *s, unsigned int node, void **out,
			     unsigned int n)
{
	struct alf_queue *q = queue_of(s, node);
	unsigned int got;

	if (!q)
		return 0;
	got = queue_try_dequeue(q, out, n);
	debug_assert(got <= n);
	slab_event(s, got ? SLAB_BARN_GET : SLAB_BARN_GET_FAIL);
	return got;
}

unsigned int slab_shared_put(struct kmem_cache *s, unsigned int node, void **objs,
			     unsigned int n)
{
	struct alf_queue *q = queue_of(s, node);
	unsigned int put;

	if (!q) {
		if (s->shared_size)
			atomic_store_explicit(&s->nodes[node].wants_shared, true,
					      memory_order_relaxed);
		return 0;
	}
	put = queue_try_enqueue(q, objs, n);
	debug_assert(put <= n);
	slab_event(s, put ? SLAB_BARN_PUT : SLAB_BARN_PUT_FAIL);
	if (put && page_window.nr_nodes > 1 && node != page_local_node())
		slab_count_events(s, SLAB_FREE_REMOTE, put);
	return put;
}

bool slab_shared_claim(struct kmem_cache *s, unsigned int index, unsigned int *cpu)
{
	struct kmem_cache_node *node = &s->nodes[index];

	if (likely(!atomic_load_explicit(&node->wants_shared, memory_order_relaxed)))
		return false;
	/* If the budget has no room now, a CPU that misses the queue will ask again. */
	atomic_store_explicit(&node->wants_shared, false, memory_order_relaxed);
	*cpu = pcpu_index();
	/* The other half of the budget is for arrays. */
	return pcpu_use_rseq() && *cpu < pcpu.nr_ids && !queue_of(s, index) &&
	       slab_budget_charge(s, *cpu, s->shared_size, SLAB_BUDGET_QUEUES);
}

bool slab_shared_give(struct kmem_cache *s, unsigned int node, unsigned int cpu, void *mem)
{
	struct alf_queue *q = mem, *none = NULL;

	if (q) {
		debug_assert(s->shared_size && s->shared_size <= SLAB_QUEUE_SLOTS);
		queue_init(q, s->shared_size, QUEUE_UNBIASED);
		if (atomic_compare_exchange_strong_explicit(&s->nodes[node].shared, &none, q,
							    memory_order_release,
							    memory_order_relaxed))
			return true;
	}
	slab_budget_uncharge(s, cpu, s->shared_size);
	return false;
}

unsigned int slab_shared_count(const struct kmem_cache *s, unsigned int node)
{
	struct alf_queue *q = queue_of(s, node);

	return q ? alf_queue_count(q) : 0;
}

bool slab_shared_drain(struct kmem_cache *s, bool idle)
{
	void *batch[SLAB_BATCH_FEW];
	bool drained = true;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		struct alf_queue *q = queue_of(s, i);
		unsigned int n;

		if (!q)
			continue;
		while ((n = alf_mc_dequeue(q, batch, SLAB_BATCH_FEW)))
			slab_put(s, batch, n, SLAB_PUT_NODE);
		if (idle && alf_queue_count(q)) {
			/* Single functions take objects whatever CPU has a side. */
			alf_queue_hand_over(q);
			while ((n = alf_sc_dequeue(q, batch, SLAB_BATCH_FEW)))
				slab_put(s, batch, n, SLAB_PUT_NODE);
			alf_queue_hand_over(q);
		}
		drained = drained && !alf_queue_count(q);
	}
	return drained;
}

void *slab_shared_detach(struct kmem_cache *s, unsigned int node)
{
	debug_assert(!slab_shared_count(s, node));
	return atomic_exchange_explicit(&s->nodes[node].shared, NULL, memory_order_acquire);
}

void slab_shared_verify(const struct kmem_cache *s, struct verify *v)
{
	char what[SLAB_NAME_SIZE + 48];

	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		struct alf_queue *q = queue_of(s, i);

		snprintf(what, sizeof(what), "queue of cache '%s', node %u", s->name, i);
		if (q)
			queue_verify(q, what, v);
	}
}
