/* SPDX-License-Identifier: MIT */
/*
 * The child of a fork finishes what other threads of its parent had begun; slab_hand.c has the
 * argument.
 *
 * The parent shares each page with the child, and the thread that writes to one first waits
 * until the kernel has copied it. The arrays of size classes lie in a page each, so that would
 * be one request of each class and CPU, of whatever thread. The thread that forks, which waits
 * for the kernel anyhow, has these pages copied, unless there is no other thread.
 */
#include "slab/slab_fork.h"

#include "base/alone.h"
#include "base/assert.h"
#include "base/lock.h"
#include "os/os.h"
#include "page/recent.h"
#include "percpu/gate.h"
#include "percpu/percpu_alloc.h"
#include "slab/slab_budget.h"
#include "slab/slab_count.h"
#include "slab/slab_hand.h"
#include "slab/slab_list.h"
#include "slab/slab_node.h"
#include "slab/slab_partial.h"
#include "slab/slab_stock.h"

/* Arrays that a fork copies pages of: one for so many pages that are in use, and so at most a
 * part of what the kernel does for the fork. */
enum { PAGES_PER_ARRAY = 16 };

/* Has copies made of the page that an array begins in, and of the one that has its last object.
 * Result: whether it is in use. */
static bool renew(const struct pcpu_array *a)
{
	unsigned int count = pcpu_array_count(pcpu_array_header(a));
	size_t page = os_page_size();
	char *first = (char *)align_down((uintptr_t)a, page);
	char *last = (char *)align_down((uintptr_t)&a->slot[count ? count - 1 : 0], page);

	if (!atomic_load_explicit(&a->capacity, memory_order_relaxed))
		return false;
	os_populate(first, last == first + page ? 2 * page : page);
	if (last > first + page)
		os_populate(last, page);
	return true;
}

/* The same for the arrays of @cpu, up to @most that are in use. Result: how many were. */
static size_t renew_all(unsigned int cpu, size_t most)
{
	unsigned int members = slab_budget_members();
	size_t n = 0;

	/* Other caches of the program are not looked at: that would take a lock. */
	for (unsigned int i = 0; i < members; i++) {
		const struct kmem_cache *s = slab_budget_member(i);

		/* The arrays of a class without objects are empty, and may be untouched. */
		for (unsigned int node = 0; n < most && node < page_window.nr_nodes; node++)
			if (atomic_load_explicit(&s->nodes[node].inuse, memory_order_relaxed))
				n += renew(pcpu_ptr(slab_array(s, node), cpu));
	}
	return n;
}

void slab_fork_parent(void)
{
	size_t most = page_recent_used() / PAGES_PER_ARRAY;

	if (alone_is_program() || !slab_budget_members())
		return;
	for_each_cpu_unit (cpu)
		if (most && slab_budget_is_used(cpu))
			most -= renew_all(cpu, most);
}

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
			slab_node_note_missed(node, slab_state_shard(state));
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
