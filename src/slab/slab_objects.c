/* SPDX-License-Identifier: MIT */
/*
 * Takes objects out of slabs and puts them back, and decides which list a slab goes to. The
 * files of the lists (slab_partial.c, slab_node.c) do not know of each other: a slab that a
 * list has no room for comes back to this file.
 *
 * A request takes objects first from slabs on this CPU's list, then from slabs on the node's
 * list, some of which it moves to the CPU's list, and then from new slabs.
 */
#include "slab/slab_objects.h"

#include <limits.h>

#include "base/assert.h"
#include "base/report.h"
#include "page/node.h"
#include "percpu/gate.h"
#include "percpu/percpu.h"
#include "slab/slab_hand.h"
#include "slab/slab_node.h"
#include "slab/slab_partial.h"
#include "slab/slab_stock.h"

_Static_assert(!(SLAB_NO_NEW & (PAGE_NO_RECLAIM | PAGE_ANY_ALLOWED | PAGE_INTERRUPTED)),
	       "one meaning per bit");

static bool is_local(unsigned int node)
{
	debug_assert(node < page_window.nr_nodes);
	return page_window.nr_nodes == 1 || node == page_local_node();
}

/* Lists slabs of one node that the caller has. If the node is this CPU's, they go to the CPU's
 * list as far as it has room. All others go to the node's list. */
static void place(struct kmem_cache *s, struct page **slabs, unsigned int n)
{
	struct page *spilled[SLAB_SPILL_MAX];

	debug_assert(n && page_node(slabs[0]) == page_node(slabs[n - 1]));
	if (is_local(page_node(slabs[0]))) {
		n = slab_partial_push(s, slabs, n, spilled);
		slabs = spilled;
	}
	slab_node_add(s, slabs, n);
}

/* Takes objects from slabs on this CPU's list. */
static unsigned int take_from_cpu(struct kmem_cache *s, unsigned int node, void **out,
				  unsigned int n)
{
	unsigned int got = 0;

	if (!is_local(node))
		return 0;
	while (got < n) {
		struct page *page = slab_partial_pop(s);

		if (!page)
			break;
		/* The thread has moved to a CPU of another node, and popped its slab. */
		if (unlikely(page_node(page) != node)) {
			slab_node_add(s, &page, 1);
			break;
		}
		got += slab_page_take(s, page, out + got, n - got);
		slab_event(s, SLAB_CPU_PARTIAL_ALLOC);
		if (!slab_page_leave_if_full(page))
			place(s, &page, 1);
	}
	return got;
}

/* Takes objects from slabs on the node's list, and moves some slabs to this CPU's list. Its
 * slabs are not on the stack any more when a new slab is made, and memory reclaimed for it. */
static noinline unsigned int take_from_node(struct kmem_cache *s, unsigned int node, void **out,
					    unsigned int n, bool may_block)
{
	unsigned int half =
		atomic_load_explicit(&s->cpu_partial_slabs, memory_order_relaxed) / 2;
	struct page *slabs[SLAB_PUSH_MAX];
	unsigned int nr_slabs, got;

	got = slab_node_take(s, node, out, n, slabs, min_uint(half, SLAB_PUSH_MAX), &nr_slabs,
			     may_block);
	debug_assert(got <= n && nr_slabs <= SLAB_PUSH_MAX);
	if (nr_slabs) {
		slab_count_events(s, SLAB_CPU_PARTIAL_NODE, nr_slabs);
		place(s, slabs, nr_slabs);
	}
	return got;
}

/* Takes objects from new slabs; if no slab can be made, from slabs in stock. */
static unsigned int take_new(struct kmem_cache *s, unsigned int node, void **out,
			     unsigned int n, gfp_t flags)
{
	unsigned int got = 0, more;

	while (got < n) {
		struct page *page = slab_page_new(s, node, flags | __GFP_THISNODE, out + got,
						  n - got, &more);

		if (!page && slab_keeps_stock(s) && (page = slab_stock_take(s, node)))
			more = slab_page_take(s, page, out + got, n - got);
		if (!page)
			break;
		debug_assert(more && page_node(page) == node);
		got += more;
		if (!slab_page_leave_if_full(page))
			place(s, &page, 1);
	}
	return got;
}

unsigned int slab_objects_take(struct kmem_cache *s, unsigned int node, void **out,
			       unsigned int n, unsigned int need, gfp_t flags)
{
	unsigned int got = take_from_cpu(s, node, out, n), made;

	debug_assert(got <= n && need <= n && pcpu_gate_depth);
	if (got < n)
		got += take_from_node(s, node, out + got, n - got,
				      flags & __GFP_DIRECT_RECLAIM);
	if (got < n && !(flags & SLAB_NO_NEW)) {
		made = take_new(s, node, out + got, n - got, flags);
		if (need > got && made)
			slab_count_events(s, SLAB_ALLOC_FROM_NEW, min_uint(need - got, made));
		got += made;
	}
	if (got)
		atomic_fetch_add_explicit(&s->nodes[node].inuse, got, memory_order_relaxed);
	return got;
}

static void uncount(struct kmem_cache *s, struct kmem_cache_node *node, unsigned int n)
{
	if (!n)
		return;
	debug_assert(atomic_load_explicit(&node->inuse, memory_order_relaxed) >= n);
	atomic_fetch_sub_explicit(&node->inuse, n, memory_order_relaxed);
	if (page_window.nr_nodes > 1 && node->index != page_local_node())
		slab_count_events(s, SLAB_FREE_REMOTE, n);
}

/*
 * One call of slab_put().
 *
 * Objects that a program frees in random order lie in many slabs, whose page entries are in no
 * cache of the processor. To put an object back is a locked instruction that waits for its
 * slab's entry. So slab_put() locates objects some places ahead, which needs only their
 * addresses and the dense array of places, and prefetches the lines that it will write.
 *
 * Objects in a row that share a word of their slab's bitmap go back by one instruction.
 */
enum {
	AHEAD = 16,	   /* about as many lines as a core waits for at once */
	PIECE = AHEAD / 2, /* objects located at once: half of them while the others wait */
};

struct put {
	struct kmem_cache *s;
	struct kmem_cache_node *node; /* of the objects not counted yet; NULL: there are none */
	unsigned int freed;	      /* their number */
	enum slab_put_to to;
	struct slab_hand *hand; /* with SLAB_PUT_LATER; NULL: no record was free */
};

/* Where an object is. */
struct place {
	struct page *slab;
	unsigned int index;
};

/* Objects in hand: of one word of a slab. */
struct put_word {
	const struct slab_layout *layout;
	struct page *slab; /* NULL: there are none */
	unsigned int word, n;
	uint64_t mask, again; /* their bits; those of objects that came twice */
};

/* Locates an object, and fetches the line that it will be put back into. */
static always_inline struct place locate(const struct kmem_cache *s, const void *obj)
{
	uintptr_t offset = (uintptr_t)obj - page_window.base;
	struct place at;

	if (likely(offset < page_window.size)) {
		size_t pfn = offset >> page_window.page_shift;
		size_t head = pfn - page_place_to_head(page_place(pfn));

		offset -= head << page_window.page_shift;
		at.slab = page_window.pages + head;
		at.index = slab_index(s, (uint32_t)offset);
	} else {
		at.slab = slab_head(page_of(obj));
		at.index = slab_page_index(s, at.slab, obj);
	}
	__builtin_prefetch(at.slab, 1);
	return at;
}

/* Locates @n objects. */
static always_inline void locate_some(const struct kmem_cache *s, void *const *objs,
				      unsigned int n, struct place *at)
{
	/* In slabs of many objects an object's bit lies in a further entry. */
	bool further = s->layout.objects > 64 * PAGE_BITMAP_WORDS && !s->layout.bitmap_in_slab;

	for (unsigned int i = 0; i < n; i++) {
		at[i] = locate(s, objs[i]);
		if (unlikely(further) && at[i].index < s->layout.objects)
			__builtin_prefetch(at[i].slab + at[i].index / (64 * PAGE_BITMAP_WORDS),
					   1);
	}
}

/* Lists a slab that was full. The caller has it, because it freed an object into it. */
static void list_slab(struct kmem_cache *s, struct page *page, enum slab_put_to to)
{
	slab_page_move(page, SLAB_FULL, SLAB_WITH_CPU);
	if (to == SLAB_PUT_LATER) {
		slab_node_defer(&s->nodes[page_node(page)], page);
		return;
	}
	if (to == SLAB_PUT_NODE) {
		slab_node_add(s, &page, 1);
		return;
	}
	slab_event(s, SLAB_CPU_PARTIAL_FREE);
	place(s, &page, 1);
}

static cold void report_twice(struct kmem_cache *s, struct page *page, unsigned int w,
			      uint64_t twice)
{
	char *base = (char *)page_to_virt(page) + s->pad_left;

	for (; twice; twice &= twice - 1) {
		unsigned int i = w * 64 + (unsigned int)__builtin_ctzll(twice);

		report_invalid("free()", base + (size_t)i * s->size, "double free");
	}
}

/* Reports an object that cannot be put back. */
static cold void refuse(const struct put *put, const void *obj, struct place at)
{
	report_invalid("free()", obj, slab_page_wrong(put->s, at.slab, at.index));
}

/* Counts what was put back, before objects of @next, another node, are. */
static noinline void turn_to(struct put *put, struct kmem_cache_node *next)
{
	if (put->node)
		uncount(put->s, put->node, put->freed);
	put->node = next;
	put->freed = 0;
}

/* Puts back the objects in hand. */
static always_inline void put_word(struct put *put, const struct put_word *w)
{
	struct kmem_cache *s = put->s;
	struct kmem_cache_node *node = s->nodes;
	uint64_t twice;

	if (unlikely(page_window.nr_nodes > 1))
		node += page_node(w->slab);
	if (unlikely(node != put->node))
		turn_to(put, node);
	if (unlikely(put->hand))
		slab_hand_set(put->hand, w->slab);
	put->freed += w->n;
	switch (slab_page_put(w->layout, w->slab, w->word, w->mask, &twice)) {
	case SLAB_UNCHANGED:
		break;
	case SLAB_NO_LONGER_FULL:
		list_slab(s, w->slab, put->to);
		break;
	case SLAB_EMPTY_ON_NODE:
		if (put->to == SLAB_PUT_LATER)
			slab_node_note_missed(node);
		else
			slab_node_retire(s, w->slab);
		break;
	case SLAB_OTHERS_FROZEN:
		slab_event(s, SLAB_FREE_FROZEN);
		break;
	}
	if (unlikely(twice | w->again)) {
		put->freed -= w->n - (unsigned int)__builtin_popcountll(w->mask & ~twice);
		report_twice(s, w->slab, w->word, twice | w->again);
	}
}

/* Adds an object to those in hand. False: it is of another word, or, if there are none, cannot
 * be put back. */
static always_inline bool take_in_hand(const struct kmem_cache *s, struct put_word *w,
				       struct place at)
{
	uint64_t bit = (uint64_t)1 << (at.index % 64);

	if (w->slab) {
		if (at.slab != w->slab || at.index / 64 != w->word ||
		    at.index >= w->layout->objects)
			return false;
		w->again |= w->mask & bit;
		w->mask |= bit;
		w->n++;
		return true;
	}
	if (unlikely(slab_page_wrong(s, at.slab, at.index)))
		return false;
	*w = (struct put_word){
		.layout = slab_layout(s, at.slab),
		.slab = at.slab,
		.word = at.index / 64,
		.n = 1,
		.mask = bit,
	};
	return true;
}

static void put_all(struct put *put, void **objs, unsigned int n)
{
	unsigned int located = min_uint(PIECE, n), i = 0;
	struct kmem_cache *s = put->s;
	struct place places[AHEAD];

	locate_some(s, objs, located, places);
	while (i < n) {
		struct put_word w = { .slab = NULL };

		do {
			if (located < n && located - i <= PIECE) {
				unsigned int more = min_uint(PIECE, n - located);

				locate_some(s, objs + located, more, places + located % AHEAD);
				located += more;
			}
			if (!take_in_hand(s, &w, places[i % AHEAD]))
				break;
		} while (++i < n);
		if (likely(w.slab)) {
			put_word(put, &w);
		} else {
			refuse(put, objs[i], places[i % AHEAD]);
			i++;
		}
	}
	turn_to(put, NULL);
}

void slab_put(struct kmem_cache *s, void **objs, unsigned int n, enum slab_put_to to)
{
	struct put put = { .s = s, .to = to };

	debug_assert(to != SLAB_PUT_LATER);
	if (likely(pcpu_gate_try_enter())) {
		put_all(&put, objs, n);
		pcpu_gate_leave();
		return;
	}
	put.to = SLAB_PUT_LATER;
	put.hand = slab_hand_take(s);
	put_all(&put, objs, n);
	slab_hand_drop(put.hand);
}
