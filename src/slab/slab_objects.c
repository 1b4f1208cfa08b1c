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
		/* The thread has moved to a CPU of another node, or one that had moved left its
		 * slab here. */
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

/*
 * Takes objects from slabs on the node's lists, and moves some slabs to this CPU's list. Its
 * slabs are not on the stack any more when a new slab is made, and memory reclaimed for it.
 * @need, @anyhow, *@left_some: of struct slab_node_take.
 */
static noinline unsigned int take_from_node(struct kmem_cache *s, unsigned int node, void **out,
					    unsigned int n, unsigned int need, bool may_block,
					    bool anyhow, bool *left_some)
{
	unsigned int half =
		atomic_load_explicit(&s->cpu_partial_slabs, memory_order_relaxed) / 2;
	struct page *slabs[SLAB_PUSH_MAX];
	struct slab_node_take take = { .out = out,
				       .n = n,
				       .need = need,
				       .anyhow = anyhow,
				       .slabs = slabs,
				       .max = min_uint(half, SLAB_PUSH_MAX),
				       .may_block = may_block };

	slab_node_take(s, node, &take);
	if (take.nr_slabs) {
		slab_count_events(s, SLAB_CPU_PARTIAL_NODE, take.nr_slabs);
		place(s, slabs, take.nr_slabs);
	}
	*left_some = take.left_some;
	return take.got;
}

/* Takes objects from new slabs that lie in a row. The slabs that the request leaves go onto
 * this CPU's list, so that they come out in the order of their addresses. */
static unsigned int take_row(struct kmem_cache *s, unsigned int node, void **out,
			     unsigned int n, gfp_t flags)
{
	struct page *row[SLAB_ROW], *page;
	unsigned int left = SLAB_ROW, got = 0;

	if (!s->large_mark || s->size >= SLAB_LARGE_SIZE || !is_local(node) ||
	    atomic_load_explicit(&s->cpu_partial_slabs, memory_order_relaxed) < SLAB_ROW ||
	    !slab_page_new_row(s, node, flags, row))
		return 0;
	for (;;) {
		page = row[--left];
		got += slab_page_take(s, page, out + got, n - got);
		if (got == n || !left)
			break;
		if (!slab_page_leave_if_full(page))
			place(s, &page, 1);
	}
	if (left)
		place(s, row, left);
	if (!slab_page_leave_if_full(page))
		place(s, &page, 1);
	return got;
}

/* Takes objects from new slabs; if no slab can be made, with @stock from slabs in stock. */
static unsigned int take_new(struct kmem_cache *s, unsigned int node, void **out,
			     unsigned int n, gfp_t flags, bool stock)
{
	unsigned int got = 0, more;

	while (got < n) {
		struct page *page;

		more = take_row(s, node, out + got, n - got, flags);
		if (more) {
			got += more;
			continue;
		}
		page = slab_page_new(s, node, flags | __GFP_THISNODE, out + got, n - got,
				     &more);
		if (!page && stock && slab_keeps_stock(s) && (page = slab_stock_take(s, node)))
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
	bool may_block = flags & __GFP_DIRECT_RECLAIM, left_some = false;

	debug_assert(got <= n && need <= n && pcpu_gate_depth);
	if (got < n)
		got += take_from_node(s, node, out + got, n - got, need - min_uint(need, got),
				      may_block, false, &left_some);
	/* A thread that has lost its CPU may have the lock for long. So no more than what is
	 * needed comes from a new slab. */
	if (left_some)
		n = max_uint(need, got);
	if (got < n && !(flags & SLAB_NO_NEW)) {
		made = take_new(s, node, out + got, n - got, flags, !left_some || !may_block);
		if (need > got && made)
			slab_count_events(s, SLAB_ALLOC_FROM_NEW, min_uint(need - got, made));
		got += made;
	}
	if (unlikely(got < need && left_some && may_block))
		got += take_from_node(s, node, out + got, n - got, need - got, may_block, true,
				      &left_some);
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
	atomic_fetch_add_explicit(&node->nr_puts, 1, memory_order_relaxed);
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
 * Objects in a row that share a word of their slab's bitmap go back by one instruction. Where
 * the caller knows that few do, they are not looked for (put_scattered).
 */
enum {
	AHEAD = 16,	   /* about as many lines as a core waits for at once */
	PIECE = AHEAD / 2, /* others are located when so many wait */
};

struct put {
	struct kmem_cache *s;
	struct kmem_cache_node *node; /* of the objects not counted yet */
	unsigned int freed;	      /* their number */
	enum slab_put_to to;
	bool careful;		/* there are several nodes, or @hand */
	struct slab_hand *hand; /* with SLAB_PUT_LATER; NULL: no record was free */
	uint32_t usual, large;	/* the heads of slabs whose objects may go back alone */
};

/* Where an object is. */
struct place {
	struct page *slab;
	unsigned int index;
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

/* Whether slabs have so many objects that bits lie in further entries than the first one. */
static bool has_further(const struct kmem_cache *s)
{
	return s->layout.objects > 64 * PAGE_BITMAP_WORDS && !s->layout.bitmap_in_slab;
}

static void fetch_further(const struct kmem_cache *s, struct place at)
{
	if (at.index < s->layout.objects)
		__builtin_prefetch(at.slab + at.index / (64 * PAGE_BITMAP_WORDS), 1);
}

/*
 * Locates objects from objs[i] on, as far as there are places for them. *@places has those
 * before objs[located] already. Result: the first one that has no place.
 */
static noinline unsigned int locate_ahead(const struct kmem_cache *s, void *const *objs,
					  unsigned int i, unsigned int located, unsigned int n,
					  struct place *places)
{
	bool further = has_further(s);
	/* So many were gathered at once that what comes next is near, and needs no prefetch. */
	unsigned int end = i > located ? i + 1 : min_uint(i + AHEAD, n);

	debug_assert(i < n && located <= n);
	for (unsigned int k = max_uint(i, located); k < end; k++) {
		struct place *at = &places[k % AHEAD];

		*at = locate(s, objs[k]);
		if (unlikely(further))
			fetch_further(s, *at);
	}
	return end;
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

		report_invalid("free()", base + (size_t)i * s->size, "double free", NULL);
	}
}

/* Reports an object that cannot be put back. */
static cold void refuse(const struct put *put, const void *obj, struct place at)
{
	report_invalid("free()", obj, slab_page_wrong(put->s, at.slab, at.index), NULL);
}

/* Counts what was put back, before objects of @next, another node, are. */
static void turn_to(struct put *put, struct kmem_cache_node *next)
{
	uncount(put->s, put->node, put->freed);
	put->node = next;
	put->freed = 0;
}

/* On several nodes, or while a fork is under way. */
static noinline void prepare(struct put *put, struct page *slab)
{
	struct kmem_cache_node *node = &put->s->nodes[page_node(slab)];

	if (node != put->node)
		turn_to(put, node);
	slab_hand_set(put->hand, slab);
}

/* After a word of the slab has changed: changes the state by @change, and does what that calls
 * for. */
static noinline void follow(struct put *put, const struct slab_layout *l, struct page *slab,
			    uint32_t change)
{
	struct kmem_cache *s = put->s;
	struct slab_shard *shard = NULL;
	struct page *empty = NULL;
	uint32_t state;

	/* As soon as the state says so, others may free the slab; not so with the lock. */
	if (put->to != SLAB_PUT_LATER && slab_state_empty(l, slab_state(slab) + change))
		shard = slab_node_hold(s, slab);
	switch (slab_page_changed(l, slab, change, &state)) {
	case SLAB_UNCHANGED:
		break;
	case SLAB_NO_LONGER_FULL:
		list_slab(s, slab, put->to);
		break;
	case SLAB_EMPTY_ON_NODE:
		if (shard)
			empty = slab;
		else
			slab_node_note_missed(put->node, slab_state_shard(state));
		break;
	case SLAB_OTHERS_FROZEN:
		slab_event(s, SLAB_FREE_FROZEN);
		break;
	}
	if (shard)
		slab_node_let_go(s, put->node, shard, empty);
}

/* After the bits @mask of word @w were set, which was @old. @again: the bits of objects that
 * came twice. */
static noinline void conclude(struct put *put, const struct slab_layout *l, struct page *slab,
			      unsigned int w, uint64_t old, uint64_t mask, uint64_t again)
{
	uint32_t change = slab_state_change(l, w, old, old | mask);
	uint64_t twice = old & mask;

	if (change)
		follow(put, l, slab, change);
	if (unlikely(twice | again)) {
		put->freed -= (unsigned int)__builtin_popcountll(twice);
		report_twice(put->s, slab, w, twice | again);
	}
}

/*
 * The objects of the word in which objs[0] is, from there on. *@mask: their bits; *@again:
 * those of objects that came twice. Result: how many.
 */
static always_inline unsigned int gather(const struct kmem_cache *s, void *const *objs,
					 unsigned int n, unsigned int bit, unsigned int bits,
					 uint64_t *mask, uint64_t *again)
{
	uintptr_t base = (uintptr_t)objs[0] - (uintptr_t)bit * s->size;
	unsigned int k = 1;

	for (*mask = (uint64_t)1 << bit, *again = 0; k < n; k++) {
		uint64_t at = exact_divide((uintptr_t)objs[k] - base, s->inverse, s->shift);
		uint64_t one = (uint64_t)1 << (at & 63);

		if (at >= bits)
			break;
		*again |= *mask & one;
		*mask |= one;
	}
	return k;
}

/* Puts back objs[0], which is @at, and those that follow in the same word of its slab. Result:
 * how many. */
static noinline unsigned int put_word(struct put *put, void *const *objs, unsigned int n,
				      struct place at)
{
	const struct slab_layout *l = slab_layout(put->s, at.slab);
	unsigned int word = at.index / 64, bit = at.index % 64, k;
	uint64_t mask, again, old;

	if (unlikely(slab_page_wrong(put->s, at.slab, at.index))) {
		refuse(put, objs[0], at);
		return 1;
	}
	k = gather(put->s, objs, n, bit, min_uint(l->objects - 64 * word, 64), &mask, &again);
	if (unlikely(put->careful))
		prepare(put, at.slab);
	put->freed += unlikely(again) ? (unsigned int)__builtin_popcountll(mask) : k;
	debug_assert(mask && !(mask & ~slab_word_whole(l, word)));
	old = slab_word_put(slab_bitmap_word(l, at.slab, word), mask);
	if (slab_word_turns(old, old | mask) || unlikely(old & mask || again))
		conclude(put, l, at.slab, word, old, mask, again);
	return k;
}

/*
 * The head word that a slab of layout @l has. put_singles() and put_piece() put an object back
 * without a closer look if its slab's head is this one. UINT32_MAX, which no head is, sends
 * each object to put_word(): with several nodes, during a fork, and where the bitmap lies in
 * the slab.
 */
static uint32_t head_of(const struct put *put, const struct slab_layout *l)
{
	struct page like;

	if (put->careful || l->bitmap_in_slab)
		return UINT32_MAX;
	atomic_init(&like.head, 0);
	like.same_type = PAGE_SLAB;
	like.span = l->npages;
	return atomic_load_explicit(&like.head, memory_order_relaxed);
}

/* Whether objs[0] and objs[1] may share a word of a slab's bitmap. */
static always_inline bool are_near(void *const *objs, size_t word_bytes)
{
	return (uintptr_t)objs[1] - (uintptr_t)objs[0] + word_bytes < 2 * word_bytes;
}

/*
 * Puts back objs[i] and those that follow, up to objs[end], one by one: as long as each lies in
 * a slab of the usual layout or the large one, and far from the next one. Result: how many.
 */
static noinline unsigned int put_singles(struct put *put, void *const *objs, unsigned int i,
					 unsigned int end, unsigned int n,
					 const struct place *places)
{
	const struct kmem_cache *s = put->s;
	const uint32_t usual = put->usual, large = put->large;
	const unsigned int usual_objects = s->layout.objects, first = i;
	const size_t word_bytes = (size_t)64 * s->size;
	const volatile char *alone = alone_flag();

	do {
		const struct place at = places[i % AHEAD];
		const uint64_t mask = (uint64_t)1 << at.index % 64;
		const unsigned int w = at.index / 64;
		const struct slab_layout *l = &s->layout;
		unsigned int objects = usual_objects;
		uint32_t head = atomic_load_explicit(&at.slab->head, memory_order_relaxed);
		uint64_t old;

		if (head != usual) {
			if (head != large)
				break;
			l = &s->large;
			objects = l->objects;
		}
		if (unlikely(at.index >= objects || slab_page_cache(at.slab) != s))
			break;
		old = slab_bit_put(alone, slab_entry_word(at.slab, w), mask);
		if (slab_word_turns(old, old | mask) || unlikely(old & mask))
			conclude(put, l, at.slab, w, old, mask, 0);
		i++;
	} while (i < end && (i + 1 == n || !are_near(objs + i, word_bytes)));
	put->freed += i - first;
	return i - first;
}

/* Locates all objects of a piece. */
static noinline void locate_piece(const struct kmem_cache *s, void *const *objs, unsigned int n,
				  struct place *places)
{
	for (unsigned int i = 0; i < n; i++)
		places[i] = locate(s, objs[i]);
	if (likely(!has_further(s)))
		return;
	for (unsigned int i = 0; i < n; i++)
		fetch_further(s, places[i]);
}

static const struct slab_layout *layout_by_head(const struct put *put, uint32_t head)
{
	debug_assert(head == put->usual || head == put->large);
	return head == put->usual ? &put->s->layout : &put->s->large;
}

/* Puts back a piece, one object after the other. All are of one node, since they are counted at
 * once. */
static noinline void put_piece(struct put *put, void *const *objs, unsigned int n,
			       const struct place *places)
{
	const struct kmem_cache *s = put->s;
	const volatile char *alone = alone_flag();
	uint32_t expected = put->usual; /* the head that the last slab had */
	unsigned int objects = s->layout.objects;

	debug_assert(!put->careful);
	put->freed += n;
	for (const struct place *at = places; at < places + n; at++) {
		const uint64_t mask = (uint64_t)1 << at->index % 64;
		const unsigned int w = at->index / 64;
		uint32_t head = atomic_load_explicit(&at->slab->head, memory_order_relaxed);
		uint64_t old;

		if (head != expected) {
			if (head != put->usual && head != put->large)
				goto careful;
			expected = head;
			objects = layout_by_head(put, head)->objects;
		}
		if (unlikely(at->index >= objects || slab_page_cache(at->slab) != s))
			goto careful;
		old = slab_bit_put(alone, slab_entry_word(at->slab, w), mask);
		if (slab_word_turns(old, old | mask) || unlikely(old & mask))
			conclude(put, layout_by_head(put, head), at->slab, w, old, mask, 0);
		continue;
careful:
		put->freed--; /* put_word() counts it */
		put_word(put, objs + (at - places), 1, *at);
	}
}

/* Objects of which few share a word with the next one. */
static void put_scattered(struct put *put, void *const *objs, unsigned int n)
{
	struct place places[2][PIECE];

	locate_piece(put->s, objs, min_uint(n, PIECE), places[0]);
	for (unsigned int i = 0; i < n; i += PIECE) {
		unsigned int next = i + PIECE;

		if (next < n)
			locate_piece(put->s, objs + next, min_uint(n - next, PIECE),
				     places[next / PIECE % 2]);
		put_piece(put, objs + i, min_uint(n - i, PIECE), places[i / PIECE % 2]);
	}
}

/* Objects of which some share a word with the next one. */
static void put_in_words(struct put *put, void *const *objs, unsigned int n)
{
	const size_t word_bytes = (size_t)64 * put->s->size;
	unsigned int located = 0, i = 0;
	struct place places[AHEAD];

	while (i < n) {
		unsigned int single = 0;

		/* Objects of one word are gathered without their places. */
		if (unlikely(located <= i + PIECE && located < n))
			located = locate_ahead(put->s, objs, i, located, n, places);
		if (i + 1 == n || !are_near(objs + i, word_bytes))
			single = put_singles(put, objs, i, located < n ? located - PIECE : n, n,
					     places);
		i += single ? single : put_word(put, objs + i, n - i, places[i % AHEAD]);
	}
}

static void put_all(struct put *put, void *const *objs, unsigned int n, bool scattered)
{
	put->usual = head_of(put, &put->s->layout);
	put->large = head_of(put, &put->s->large);
	if (scattered && !put->careful)
		put_scattered(put, objs, n);
	else
		put_in_words(put, objs, n);
	turn_to(put, NULL);
}

static void put_objects(struct kmem_cache *s, void **objs, unsigned int n, enum slab_put_to to,
			bool scattered)
{
	struct put put = {
		.s = s, .node = s->nodes, .to = to, .careful = page_window.nr_nodes > 1
	};

	debug_assert(to != SLAB_PUT_LATER);
	alone_begin();
	if (likely(pcpu_gate_try_enter())) {
		put_all(&put, objs, n, scattered);
		pcpu_gate_leave();
	} else {
		put.to = SLAB_PUT_LATER;
		put.hand = slab_hand_take(s);
		put.careful = true;
		put_all(&put, objs, n, scattered);
		slab_hand_drop(put.hand);
	}
	alone_end();
}

void slab_put(struct kmem_cache *s, void **objs, unsigned int n, enum slab_put_to to)
{
	put_objects(s, objs, n, to, false);
}

void slab_put_scattered(struct kmem_cache *s, void **objs, unsigned int n)
{
	put_objects(s, objs, n, SLAB_PUT_CPU, true);
}
