/* SPDX-License-Identifier: MIT */
/*
 * The child of a fork finishes what other threads of its parent had begun; slab_hand.c has the
 * argument.
 */
#include "slab/slab_fork.h"

#include "base/assert.h"
#include "base/lock.h"
#include "percpu/gate.h"
#include "slab/slab_count.h"
#include "slab/slab_hand.h"
#include "slab/slab_list.h"
#include "slab/slab_node.h"
#include "slab/slab_partial.h"
#include "slab/slab_stock.h"

/* Finishes a free into slab @page. @alone: this thread has no slab in hand itself. */
static void finish(struct kmem_cache *s, struct page *page, bool alone)
{
	struct kmem_cache_node *node = &s->nodes[page_node(page)];
	uint32_t state;

	if (!slab_page_is_of(page, s))
		return;
	state = slab_page_settle(s, page);
	switch (slab_state_where(state)) {
	case SLAB_FULL:
		if (slab_state_avail(state) <= 0)
			return;
		slab_page_move(page, SLAB_FULL, SLAB_WITH_CPU);
		break;
	case SLAB_WITH_CPU:
		if (!alone || slab_node_has_deferred(node, page) || slab_partial_has(s, page))
			return;
		break;
	default:
		if (slab_state_empty(slab_layout(s, page), state))
			slab_node_note_missed(node);
		return;
	}
	slab_node_defer(node, page);
}

static void recount(struct kmem_cache *s, unsigned int node)
{
	size_t free;

	/* First puts deferred slabs onto the list, and takes empty ones off. */
	slab_node_idle(s, node);
	free = slab_node_partial_free(s, node) + slab_partial_free_objects(s, node) +
	       slab_stock_free_objects(s, node);
	debug_assert(free <= slab_node_objects(s, node));
	atomic_store_explicit(&s->nodes[node].inuse, slab_node_objects(s, node) - free,
			      memory_order_relaxed);
}

void slab_fork_child(void)
{
	/* If false, a handler forked: this thread goes on with the slab it has in hand. */
	bool alone = !slab_hand_is_mine() && !pcpu_gate_depth && lock_none_held();
	struct kmem_cache *s;
	struct page *page;

	slab_list_fork_child();
	for (unsigned int i = 0; i < SLAB_HANDS; i++)
		if ((s = slab_hand_left(i, &page)))
			finish(s, page, alone);
	for (unsigned int i = 0; alone && i < SLAB_HANDS; i++)
		if ((s = slab_hand_left(i, &page)))
			recount(s, page_node(page));
	slab_hand_drop_others();
}
