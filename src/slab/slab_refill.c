/* SPDX-License-Identifier: MIT */
/*
 * The slow path's way from slabs to the program, of all caches: one object for the request, and
 * others, half an array at most, for the next ones. A hardened cache's objects are shuffled on
 * the way.
 */
#include "slab/slab_refill.h"

#include "base/assert.h"
#include "base/probe.h"
#include "page/background.h"
#include "percpu/array_slow.h"
#include "slab/slab_capacity.h"
#include "slab/slab_hard.h"
#include "slab/slab_objects.h"
#include "slab/slab_stock.h"
#include "slab/slab_take.h"

unsigned int slab_half_of(const struct kmem_cache *s, unsigned int capacity, unsigned int more)
{
	return min_uint(min_uint(capacity / 2, slab_step(s)) + more, SLAB_BATCH_MAX);
}

typedef unsigned int take_function(struct kmem_cache *s, unsigned int *node, void **out,
				   unsigned int n, unsigned int need, gfp_t flags);

/* Has @take fill @batch with up to @want objects. The first is the caller's. */
static void *refill(struct kmem_cache *s, unsigned int node, gfp_t flags, void **batch,
		    unsigned int want, take_function *take)
{
	unsigned int asked = node, pushed;
	unsigned int got = take(s, &node, batch, want, 1, flags);

	if (!got)
		return NULL;
	if (unlikely(s->hard))
		slab_hard_touch(s, batch, got);
	debug_assert(got <= want);
	debug_assert(slab_cache_of(batch[0]) == s && page_node(page_of(batch[0])) == node);
	slab_event(s, SLAB_ALLOC_SLOWPATH);
	if (got == 1)
		return batch[0];
	slab_event(s, SLAB_ALLOC_REFILL);
	PROBE(refill, s->name, node, got);
	if (unlikely(s->hard))
		slab_hard_shuffle(batch, got);
	if (unlikely(node != asked))
		slab_tune(s, node, SLAB_MOVED_REFILL);
	pushed = pcpu_array_fill(slab_array(s, node), batch + 1, got - 1);
	if (pushed < got - 1)
		slab_put(s, batch + 1 + pushed, got - 1 - pushed, SLAB_PUT_CPU);
	return batch[0];
}

static noinline void *refill_many(struct kmem_cache *s, unsigned int node, gfp_t flags,
				  unsigned int want)
{
	void *batch[SLAB_BATCH_MAX];

	return refill(s, node, flags, batch, min_uint(want, SLAB_BATCH_MAX), slab_take_ready);
}

static noinline void *refill_few(struct kmem_cache *s, unsigned int node, gfp_t flags,
				 unsigned int want, take_function *take)
{
	void *batch[SLAB_BATCH_FEW];

	return refill(s, node, flags, batch, min_uint(want, SLAB_BATCH_FEW), take);
}

void *slab_refill(struct kmem_cache *s, unsigned int node, gfp_t flags)
{
	unsigned int want;
	void *obj;

	debug_assert(node < page_window.nr_nodes);
	want = slab_half_of(s, slab_tune(s, node, SLAB_MOVED_REFILL), 1);
	if (flags & __GFP_DIRECT_RECLAIM) {
		page_decay(0);
		slab_look_at_pace();
		if (slab_keeps_stock(s))
			slab_stock_refill(s);
	}
	obj = slab_is_inside() ? refill_few(s, node, flags, want, slab_take_ready)
			       : refill_many(s, node, flags, want);
	/* A request that reclaims needs much of a stack itself. */
	return likely(obj) ? obj : refill_few(s, node, flags, want, slab_take_reclaiming);
}
