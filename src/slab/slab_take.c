/* SPDX-License-Identifier: MIT */
/*
 * Chooses the node that objects come from: the node that is asked for as long as it has any,
 * then the others, in the order of their distance. A request that may wait reclaims memory only
 * when no node has an object left.
 */
#include "slab/slab_take.h"

#include "base/assert.h"
#include "page/page_alloc.h"
#include "percpu/gate.h"
#include "slab/slab_node.h"
#include "slab/slab_objects.h"
#include "slab/slab_shared.h"

/* Takes up to @n objects of one node: out of its shared queue, and if these are fewer than
 * @need, out of slabs, too. */
static unsigned int take_from(struct kmem_cache *s, unsigned int node, void **out,
			      unsigned int n, unsigned int need, gfp_t flags)
{
	unsigned int got = slab_shared_get(s, node, out, n);

	debug_assert(got <= n && need <= n);
	if (got && got >= need)
		return got;
	return got + slab_objects_take(s, node, out + got, n - got, need - got, flags);
}

/*
 * remote_node_defrag_ratio percent of the calls take objects from partial slabs of another
 * node, which becomes *@node.
 */
static unsigned int take_remote(struct kmem_cache *s, unsigned int *node, void **out,
				unsigned int n, gfp_t flags)
{
	unsigned int ratio =
		atomic_load_explicit(&s->remote_node_defrag_ratio, memory_order_relaxed);
	unsigned int turn =
		atomic_fetch_add_explicit(&s->defrag_turn, ratio, memory_order_relaxed);

	debug_assert(*node < page_window.nr_nodes);
	if (turn % 100 + ratio < 100)
		return 0;
	for (unsigned int i = 1; i < page_window.nr_nodes; i++) {
		unsigned int other = page_fallback_node(*node, i), got;

		if (!page_policy_allows(other) ||
		    slab_node_nr_partial(&s->nodes[other]) <=
			    atomic_load_explicit(&s->min_partial, memory_order_relaxed))
			continue;
		got = slab_objects_take(s, other, out, n, 0, flags | SLAB_NO_NEW);
		if (!got)
			continue;
		*node = other;
		return got;
	}
	return 0;
}

/*
 * As take_from(), but before it makes a slab of *@node it tries partial slabs of other nodes,
 * as often as remote_node_defrag_ratio says.
 */
static cold unsigned int take_defragmenting(struct kmem_cache *s, unsigned int *node,
					    void **out, unsigned int n, unsigned int need,
					    gfp_t flags)
{
	unsigned int got = take_from(s, *node, out, n, need, flags | SLAB_NO_NEW);

	if (!got && !(flags & __GFP_THISNODE))
		got = take_remote(s, node, out, n, flags);
	return got ? got : take_from(s, *node, out, n, need, flags);
}

/*
 * Makes one round over the nodes, and goes on to the next node only if the nodes before it have
 * nothing. From the second node on, first takes up to @need objects out of this CPU's array for
 * the node.
 */
static unsigned int take_round(struct kmem_cache *s, unsigned int first, void **out,
			       unsigned int n, unsigned int need, gfp_t flags,
			       unsigned int *node)
{
	unsigned int nodes = flags & __GFP_THISNODE ? 1 : page_window.nr_nodes;
	unsigned int got = 0;

	for (unsigned int i = 0; i < nodes && !got; i++) {
		*node = page_fallback_node(first, i);
		if (i && !page_policy_allows(*node) && !(flags & PAGE_ANY_ALLOWED))
			continue;
		if (!i && unlikely(atomic_load_explicit(&s->remote_node_defrag_ratio,
							memory_order_relaxed)))
			got = take_defragmenting(s, node, out, n, need, flags);
		if (i)
			got = pcpu_array_pop_bulk(slab_array(s, *node), out, need,
						  PCPU_POP_UNCOUNTED);
		if (!got)
			got = take_from(s, *node, out, n, need, flags);
	}
	return got;
}

/* No node has an object: waits until there are pages for a slab. */
static cold unsigned int take_waiting(struct kmem_cache *s, unsigned int first, void **out,
				      unsigned int n, unsigned int need, gfp_t flags,
				      unsigned int *node)
{
	unsigned int got = 0;

	while (!got && (flags & __GFP_DIRECT_RECLAIM)) {
		bool zeroed;
		struct page *page =
			page_alloc_run(first, flags | s->gfp, s->small.npages, &zeroed);

		if (!page)
			break;
		page_free_run(page, s->small.npages);
		got = take_round(s, first, out, n, need, flags, node);
	}
	return got;
}

/* Of @got objects, counts those that are not of the node asked first. */
static unsigned int count_mismatch(struct kmem_cache *s, unsigned int got, unsigned int node,
				   unsigned int first)
{
	debug_assert(node < page_window.nr_nodes);
	if (unlikely(got && node != first))
		slab_count_events(s, SLAB_ALLOC_NODE_MISMATCH, got);
	return got;
}

unsigned int slab_take_ready(struct kmem_cache *s, unsigned int *node, void **out,
			     unsigned int n, unsigned int need, gfp_t flags)
{
	unsigned int first = *node, got;

	debug_assert(n && need <= n && first < page_window.nr_nodes && pcpu_gate_depth);
	got = take_round(s, first, out, n, need, flags | PAGE_NO_RECLAIM, node);
	debug_assert(got <= n);
	return count_mismatch(s, got, *node, first);
}

unsigned int slab_take_reclaiming(struct kmem_cache *s, unsigned int *node, void **out,
				  unsigned int n, unsigned int need, gfp_t flags)
{
	unsigned int first = *node, got = 0;

	debug_assert(n && need <= n && first < page_window.nr_nodes && pcpu_gate_depth);
	debug_assert(lock_none_held() ||
		     !(flags & __GFP_DIRECT_RECLAIM)); /* page_flags_now() */
	if (flags & (__GFP_DIRECT_RECLAIM | PAGE_INTERRUPTED))
		got = take_round(s, first, out, n, need, flags, node);
	if (unlikely(!got && (flags & __GFP_NOFAIL)))
		got = take_waiting(s, first, out, n, need, flags, node);
	if (unlikely(!got && page_may_leave_nodes(flags)))
		got = take_round(s, first, out, n, need, flags | PAGE_ANY_ALLOWED, node);
	debug_assert(got <= n);
	return count_mismatch(s, got, *node, first);
}

unsigned int slab_take(struct kmem_cache *s, unsigned int *node, void **out, unsigned int n,
		       unsigned int need, gfp_t flags)
{
	unsigned int first = *node;
	unsigned int got = slab_take_ready(s, node, out, n, need, flags);

	if (likely(got))
		return got;
	*node = first;
	return slab_take_reclaiming(s, node, out, n, need, flags);
}
