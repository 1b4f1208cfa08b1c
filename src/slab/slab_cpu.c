/* SPDX-License-Identifier: MIT */
/*
 * Between a CPU's array and the node's queue or the slabs: half an array moves at once, of
 * large objects less.
 *
 * The array's capacity is found by use. It starts small and doubles whenever a
 * refill follows a flush or the other way round: then what the program allocates
 * and frees in turn is more than the array holds. Long phases of one kind only, as where
 * one CPU allocates what another one frees, let it grow to a modest size, slowly.
 * slab_budget.c bounds what kmalloc's arrays hold together.
 *
 * A section that was aborted, an empty array, a stopped one and one without a
 * CPU index all look alike here, and progress never depends on which it was:
 * one more try, then the slabs serve the request directly.
 */
#include "percpu/gate.h"
#include "slab/slab.h"

/* struct pcpu_array.last_move: the direction, and above it how often in a row. */
enum { MOVED_NONE, MOVED_REFILL, MOVED_FLUSH, MOVED_MASK = 3, MOVED_ONE = 4 };

enum {
	MODEST = 128,		/* slots */
	MODEST_BYTES = 1 << 20, /* and bytes, of large objects a quarter */
	STREAK_MAX = 8,		/* moves in one direction until the array grows */
	STEP_BYTES = 1 << 20,	/* of large objects that move, or that an array grows by */
};

/* Objects that may be moved at once, or slots that come to an array at once. */
static unsigned int step_of(const struct kmem_cache *s)
{
	return s->size > SLAB_MAX_SIZE ? STEP_BYTES / s->size : s->capacity_max;
}

/* By how much a capacity grows that is moved in direction @move now. */
static unsigned int growth(const struct kmem_cache *s, struct pcpu_array *a,
			   unsigned int capacity, uint8_t move)
{
	uint8_t last = atomic_load_explicit(&a->last_move, memory_order_relaxed), now = move;
	unsigned int bytes = s->size > SLAB_MAX_SIZE ? MODEST_BYTES / 4 : MODEST_BYTES;
	unsigned int modest = min_uint(MODEST, bytes / s->size);
	unsigned int max = s->capacity_max;

	if ((last & MOVED_MASK) == move && last / MOVED_ONE < STREAK_MAX)
		now = (uint8_t)(last + MOVED_ONE);
	if (now != last)
		atomic_store_explicit(&a->last_move, now, memory_order_relaxed);
	if (!capacity)
		return s->capacity_first;
	if (last == MOVED_NONE)
		return 0;
	if ((last & MOVED_MASK) == move) {
		if (now / MOVED_ONE < STREAK_MAX || capacity >= modest)
			return 0;
		max = min_uint(max, modest);
	}
	return capacity < max ? min_uint(min_uint(capacity, step_of(s)), max - capacity) : 0;
}

/*
 * The capacity of this CPU's @array, opened on first use and grown as said above. Sections
 * read it afresh, so any value up to capacity_max is safe at any time.
 */
static unsigned int tune(struct kmem_cache *s, void *array, uint8_t move)
{
	unsigned int cpu = pcpu_index(), more;
	struct pcpu_array *a;
	uint16_t capacity;

	if (cpu >= pcpu.nr_ids)
		return s->capacity_first;
	a = pcpu_ptr(array, cpu);
	capacity = atomic_load_explicit(&a->capacity, memory_order_relaxed);
	more = growth(s, a, capacity, move);
	/* A first few are every class's right. */
	if (!more || !slab_budget_charge(s, cpu, more,
					 capacity ? SLAB_BUDGET_OF_IDLE : SLAB_BUDGET_ANYHOW))
		return capacity;
	if (!atomic_compare_exchange_strong_explicit(
		    &a->capacity, &capacity, (uint16_t)(capacity + more), memory_order_seq_cst,
		    memory_order_relaxed)) {
		slab_budget_uncharge(s, cpu, more);
		return capacity;
	}
	/* C2: who closes the arrays (C1) sees this capacity, or this sees that they close. */
	if (unlikely(atomic_load_explicit(&s->checked, memory_order_seq_cst)))
		return slab_close_array(s, a, cpu);
	return capacity + more;
}

unsigned int slab_close_array(struct kmem_cache *s, struct pcpu_array *a, unsigned int cpu)
{
	slab_budget_uncharge(s, cpu,
			     atomic_exchange_explicit(&a->capacity, 0, memory_order_seq_cst));
	return 0;
}

/* How many objects to move to or from an array of that capacity, and @more. */
static unsigned int half_of(const struct kmem_cache *s, unsigned int capacity,
			    unsigned int more)
{
	return min_uint(min_uint(capacity / 2, step_of(s)) + more, SLAB_BATCH_MAX);
}

static void reverse(void **p, unsigned int n)
{
	for (unsigned int i = 0, k = n; i + 1 < k; i++) {
		void *t = p[i];

		p[i] = p[--k];
		p[k] = t;
	}
}

/* Up to @n objects of one node, out of slabs, of which @need are needed. */
static unsigned int take_from_slabs(struct kmem_cache *s, unsigned int node, void **out,
				    unsigned int n, unsigned int need, gfp_t flags)
{
	unsigned int got = slab_partial_take(s, node, out, n);

	if (got < n)
		got += slab_node_take(s, node, out + got, n - got, need - min_uint(need, got),
				      flags);
	if (got)
		atomic_fetch_add_explicit(&s->nodes[node].inuse, got, memory_order_relaxed);
	return got;
}

/* The same, of what others had too many of if that is enough. */
static unsigned int take_from(struct kmem_cache *s, unsigned int node, void **out,
			      unsigned int n, unsigned int need, gfp_t flags)
{
	unsigned int got = slab_shared_get(s, node, out, n);

	if (got && got >= need)
		return got;
	return got + take_from_slabs(s, node, out + got, n - got, need - got, flags);
}

/* Objects of one node that the array has no room for. */
static void put_back(struct kmem_cache *s, unsigned int node, void **objs, unsigned int n)
{
	unsigned int put = slab_shared_put(s, node, objs, n);

	if (put < n)
		slab_put(s, objs + put, n - put, SLAB_PUT_CPU);
}

/*
 * Before a slab of *@node is made, those of other nodes that are used partly, as often as
 * remote_node_defrag_ratio says.
 */
static cold unsigned int take_defragmenting(struct kmem_cache *s, unsigned int *node,
					    void **out, unsigned int n, unsigned int need,
					    gfp_t flags)
{
	unsigned int got = take_from(s, *node, out, n, need, flags | SLAB_NO_NEW);

	if (!got && !(flags & __GFP_THISNODE))
		got = slab_node_take_remote(s, node, out, n, flags);
	return got ? got : take_from(s, *node, out, n, need, flags);
}

/*
 * One round over the nodes: another one only if those before have nothing at all; of that one
 * first what this CPU's array holds of it, but no more than @need.
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

/* No node has any: wait until there are the pages of a slab. */
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

/* At its hard limit what others keep in their arrays is all that is left; where CPUs cannot be
 * stopped, what the drain could reach of it. */
static cold unsigned int take_at_limit(struct kmem_cache *s, unsigned int first, void **out,
				       unsigned int n, unsigned int need, gfp_t flags,
				       unsigned int *node)
{
	unsigned int got = 0;

	if (flags & __GFP_DIRECT_RECLAIM) {
		slab_drain(s, PCPU_ALL_CPUS);
		got = take_round(s, first, out, n, need, flags, node);
	}
	if (!got)
		slab_limit_tell(s, flags);
	return got;
}

unsigned int slab_take(struct kmem_cache *s, unsigned int *node, void **out, unsigned int n,
		       unsigned int need, gfp_t flags)
{
	unsigned int first = *node;
	unsigned int got = take_round(s, first, out, n, need, flags | PAGE_NO_RECLAIM, node);

	if (unlikely(!got && (flags & (__GFP_DIRECT_RECLAIM | PAGE_INTERRUPTED))))
		got = take_round(s, first, out, n, need, flags, node);
	if (unlikely(!got && (flags & __GFP_NOFAIL)))
		got = take_waiting(s, first, out, n, need, flags, node);
	if (unlikely(!got && page_may_leave_nodes(flags)))
		got = take_round(s, first, out, n, need, flags | PAGE_ANY_ALLOWED, node);
	if (unlikely(!got && slab_limit_reached(s)))
		got = take_at_limit(s, first, out, n, need, flags, node);
	if (unlikely(!got))
		slab_event(s, SLAB_ALLOC_FAIL);
	else if (unlikely(*node != first))
		slab_count_events(s, SLAB_ALLOC_NODE_MISMATCH, got);
	return got;
}

static void *alloc_slow(struct kmem_cache *s, unsigned int node, gfp_t flags,
			const void *caller)
{
	unsigned int asked = node, want, got, pushed;
	void *batch[SLAB_BATCH_MAX], *obj;

	if (slab_is_checked(s))
		return slab_checked_alloc(s, node, flags, caller);
	obj = pcpu_array_pop(slab_array(s, node));
	if (obj)
		return obj;
	want = half_of(s, tune(s, slab_array(s, node), MOVED_REFILL), 1);
	if (flags & __GFP_DIRECT_RECLAIM) {
		page_decay();
		slab_shared_make(s, node);
		if (slab_keeps_stock(s))
			slab_stock_refill(s);
	}
	got = slab_take(s, &node, batch, want, 1, flags);
	if (!got)
		return NULL;
	slab_event(s, SLAB_ALLOC_SLOWPATH);
	if (got == 1)
		return batch[0];
	slab_event(s, SLAB_ALLOC_REFILL);
	if (unlikely(node != asked))
		tune(s, slab_array(s, node), MOVED_REFILL);
	/* The array is a stack: the lowest address is to come out first. */
	reverse(batch + 1, got - 1);
	pushed = pcpu_array_push_bulk(slab_array(s, node), batch + 1, got - 1);
	if (pushed < got - 1)
		slab_put(s, batch + 1 + pushed, got - 1 - pushed, SLAB_PUT_CPU);
	return batch[0];
}

void *slab_alloc_slow(struct kmem_cache *s, unsigned int node, gfp_t flags, const void *caller)
{
	void *obj;

	flags = page_flags_now(flags);
	pcpu_gate_enter(flags & __GFP_DIRECT_RECLAIM);
	obj = alloc_slow(s, node, flags, caller);
	pcpu_gate_leave();
	return obj;
}

static void free_slow(struct kmem_cache *s, void *obj)
{
	void *batch[SLAB_BATCH_MAX];
	unsigned int n, node;
	void *array;

	node = page_node(page_of(obj));
	array = slab_array(s, node);
	if (pcpu_array_push(array, obj))
		return;
	n = half_of(s, tune(s, array, MOVED_FLUSH), 0);
	/* After growth, or on a CPU used for the first time, there is room now. */
	if (pcpu_array_push(array, obj))
		return;
	n = pcpu_array_pop_bulk(array, batch, n, PCPU_POP_UNCOUNTED);
	slab_event(s, SLAB_FREE_SLOWPATH);
	if (n) {
		slab_event(s, SLAB_FREE_FLUSH);
		put_back(s, node, batch, n);
	}
	if (!pcpu_array_push(array, obj))
		slab_put(s, &obj, 1, SLAB_PUT_CPU);
}

void slab_free_slow(struct kmem_cache *s, void *obj, const void *caller)
{
	if (slab_is_checked(s)) {
		slab_checked_free(s, obj, caller);
	} else if (pcpu_gate_try_enter()) {
		free_slow(s, obj);
		pcpu_gate_leave();
	} else if (!pcpu_array_push(slab_array(s, page_node(page_of(obj))), obj)) {
		slab_event(s, SLAB_FREE_SLOWPATH);
		slab_put(s, &obj, 1, SLAB_PUT_CPU);
	}
}

static size_t alloc_bulk(struct kmem_cache *s, unsigned int node, gfp_t flags, size_t n,
			 void **p, const void *caller)
{
	void *array = slab_array(s, node);
	size_t got = 0;

	if (slab_is_checked(s))
		return slab_checked_alloc_bulk(s, node, flags, n, p, caller);
	while (got < n) {
		unsigned int piece = (unsigned int)min_size(n - got, SLAB_BATCH_MAX), k, home;

		k = pcpu_array_pop_bulk(array, p + got, piece, PCPU_POP_COUNTED);
		if (k < piece) {
			unsigned int more;

			tune(s, array, MOVED_REFILL);
			if (flags & __GFP_DIRECT_RECLAIM)
				slab_shared_make(s, node);
			home = node;
			more = slab_take(s, &home, p + got + k, piece - k, piece - k, flags);
			if (!more)
				return got + k;
			slab_count_events(s, SLAB_ALLOC_SLOWPATH, more);
			k += more;
		}
		got += k;
	}
	return got;
}

size_t slab_alloc_bulk(struct kmem_cache *s, unsigned int node, gfp_t flags, size_t n, void **p,
		       const void *caller)
{
	size_t got;

	flags = page_flags_now(flags);
	pcpu_gate_enter(flags & __GFP_DIRECT_RECLAIM);
	got = alloc_bulk(s, node, flags, n, p, caller);
	pcpu_gate_leave();
	return got;
}

/* How many of p[0..n) are of the same node as the first. */
static size_t same_node(void **p, size_t n)
{
	size_t i = 1;

	if (likely(page_window.nr_nodes == 1))
		return n;
	while (i < n && page_node(page_of(p[i])) == page_node(page_of(p[0])))
		i++;
	return i;
}

void slab_free_bulk(struct kmem_cache *s, size_t n, void **p, const void *caller)
{
	if (slab_is_checked(s)) {
		for (size_t i = 0; i < n; i++)
			slab_checked_free(s, p[i], caller);
		return;
	}
	while (n) {
		unsigned int piece = (unsigned int)same_node(p, min_size(n, SLAB_BATCH_MAX));
		unsigned int node = page_node(page_of(p[0]));
		void *array = slab_array(s, node);
		unsigned int pushed = pcpu_array_push_bulk(array, p, piece);

		if (pushed < piece) {
			tune(s, array, MOVED_FLUSH);
			slab_count_events(s, SLAB_FREE_SLOWPATH, piece - pushed);
			put_back(s, node, p + pushed, piece - pushed);
		}
		p += piece;
		n -= piece;
	}
}
