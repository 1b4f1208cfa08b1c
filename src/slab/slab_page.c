/* SPDX-License-Identifier: MIT */
/*
 * One slab: a run of pages cut into objects of a cache.
 *
 *   | object 0 | object 1 | ... | object n-1 | rest  [bitmap] |
 *
 * A bitmap outside the objects says which of them are free. It lies in the page entries, 256
 * bits each, where those suffice; otherwise (objects below 16 bytes, or pages larger than 4
 * KiB) at the end of the slab. So taking and returning objects touches none of them, and a
 * double free shows as a bit that is already set.
 *
 * Any thread may free an object into any slab at any time, by one atomic instruction, which
 * sets the object's bit. Only a thread that has the slab, or holds the lock of the list that
 * the slab is on, takes objects out and clears bits. A thread that sets the first bit or the
 * last bit of a word changes the slab's state (slab_page.h) afterwards. A thread that clears
 * bits changes the state before it gives the slab away. While the process has one thread, these
 * instructions go without LOCK (base/alone.h).
 *
 * Why that is enough:
 *   1. The changes of a word from "nothing free" and to "nothing free" alternate, and each is
 *      followed by one change of avail. So once all changes of avail have followed, avail is
 *      the number of words with a free object. The same holds for whole.
 *   2. slab_page_leave_if_full() sets SLAB_FULL and tests avail <= 0 in one atomic step. While
 *      a slab is SLAB_FULL, threads only set bits, so avail only rises, and goes from 0 to 1
 *      once. The thread that makes this step, and no other, has the slab and lists it.
 *   3. If a thread that holds the lock of the slab's list sees avail = whole = all words, then
 *      every object is in the slab, and no thread is between a bit and the state. So the
 *      holder may free the slab. slab_page_changed() tells the thread that makes the state so
 *      while the slab is listed (SLAB_EMPTY_ON_NODE). That thread may look at the slab again
 *      only if it held the lock before (slab_node.c).
 *   4. Each thread that is between a bit and the state can make the counts one too low, so
 *      they may be below zero; the bias leaves room for 4096 such threads at once.
 *
 * Memory order, P1 / P2: setting a bit is a release (P1) of what the freeing thread did to the
 * object, and taking bits is an acquire (P2). Setting a bit is an acquire, too: the thread that
 * sets a word's last free bit changes the slab's state on behalf of the threads that set the
 * other bits. P3 / P4: each change of the state is a release (P3) and each load of it an
 * acquire (P4). So, with 3, the thread that frees the slab has seen all stores to it.
 */
#include "slab/slab_page.h"

#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/probe.h"
#include "base/report.h"
#include "os/os.h"
#include "page/guard.h"
#include "page/lookup.h"
#include "page/page_alloc.h"
#include "page/window.h"
#include "percpu/percpu_alloc.h"
#include "slab/slab_hard.h"
#include "slab/slab_limit.h"
#include "slab/slab_pace.h"

static uint32_t pack(int avail, int whole, unsigned int place)
{
	debug_assert(whole >= 0 && whole <= avail && avail < (int)SLAB_STATE_BIAS);
	return ((uint32_t)avail + SLAB_STATE_BIAS) |
	       ((uint32_t)whole + SLAB_STATE_BIAS) << SLAB_WHOLE_SHIFT |
	       place << SLAB_WHERE_SHIFT;
}

/* Whether the bits that are set stand in a row. The lowest one, added, carries through them. */
static bool are_in_row(uint64_t bits)
{
	return !((bits + (bits & -bits)) & bits);
}

enum {
	FETCHED_SIZE = 256, /* bytes of objects whose first lines are always fetched */
	FETCHED_LINE = 64,  /* the processor fetches so many bytes */
	ROW_PAUSE = 16,	    /* slabs that are made one by one where there is no row */
};

/* Writes the addresses of the objects @bits of word @w to out[0..). Result: their number. */
static unsigned int list_bits(const struct kmem_cache *s, char *base, unsigned int w,
			      uint64_t bits, void **out)
{
	unsigned int got = 0;

	debug_assert(bits);
	if (are_in_row(bits)) {
		unsigned int first = (unsigned int)__builtin_ctzll(bits);
		unsigned int n = 64 - first - (unsigned int)__builtin_clzll(bits);
		char *obj = base + (size_t)(w * 64 + first) * s->size;

		for (; got < n; obj += s->size)
			out[got++] = obj;
		return got;
	}
	for (; bits; bits &= bits - 1) {
		unsigned int i = w * 64 + (unsigned int)__builtin_ctzll(bits);

		out[got++] = base + (size_t)i * s->size;
	}
	return got;
}

/* Fetches the first lines of objects, which the program will soon write to, into the second
 * level of caches. */
static void fetch(void *const *objs, unsigned int n, unsigned int size)
{
	unsigned int step = max_uint(FETCHED_LINE / size, 1);

	for (unsigned int i = 0; i < n; i += step)
		__builtin_prefetch(objs[i], 0, 2);
}

/*
 * list_bits(), of objects that the program gets soon. If they begin some lines apart, the
 * processor does not foresee the next one. Smaller ones, which it does foresee, and coloured
 * ones, of which each is a walk through the page table, are fetched, too, if they were freed at
 * random: nobody has touched them for long then.
 */
static unsigned int list_objects(const struct kmem_cache *s, char *base, unsigned int w,
				 uint64_t bits, void **out)
{
	unsigned int got = list_bits(s, base, w, bits, out);

	if ((s->size >= FETCHED_SIZE && !s->colour) ||
	    atomic_load_explicit(&s->scattered, memory_order_relaxed))
		fetch(out, got, s->size);
	return got;
}

/* The lowest @n of @bits. */
static uint64_t lowest(uint64_t bits, unsigned int n)
{
	uint64_t first = bits & -bits, rest = bits;

	debug_assert(bits && n);
	if (n >= 64)
		return bits;
	if (are_in_row(bits))
		return bits & ((first << n) - first);
	if ((unsigned int)__builtin_popcountll(bits) <= n)
		return bits;
	while (n--)
		rest &= rest - 1;
	return bits & ~rest;
}

/* Some @n of @bits: those from a random one on. */
static cold uint64_t random_bits(uint64_t bits, unsigned int n)
{
	unsigned int r = slab_hard_random(64);
	uint64_t turned = r ? bits >> r | bits << (64 - r) : bits, take = lowest(turned, n);

	return r ? take << r | take >> (64 - r) : take;
}

static char *first_object(const struct kmem_cache *s, struct page *page)
{
	return (char *)page_to_virt(page) + s->pad_left;
}

/* Sets all objects free, save the first @n, which go to @out. Result: how many went. */
static unsigned int fill_bitmap(struct kmem_cache *s, struct page *page,
				const struct slab_layout *l, void **out, unsigned int n)
{
	unsigned int words = slab_words(l), got = 0;
	int avail = 0, whole = 0;

	debug_assert(words <= (l->npages * PAGE_BITMAP_WORDS) || l->bitmap_in_slab);
	if (unlikely(s->hard))
		n = 0; /* slab_page_take() takes them, at random */
	for (unsigned int w = 0; w < words; w++) {
		uint64_t all = slab_word_whole(l, w), take = n > got ? lowest(all, n - got) : 0;

		if (take)
			got += list_objects(s, first_object(s, page), w, take, out + got);
		atomic_store_explicit(slab_bitmap_word(l, page, w), all & ~take,
				      memory_order_relaxed);
		avail += take != all;
		whole += !take;
	}
	atomic_store_explicit(&page->state, pack(avail, whole, SLAB_WITH_CPU),
			      memory_order_relaxed);
	return got;
}

/* Makes free objects of what was anything. */
static cold void wipe_objects(const struct kmem_cache *s, struct page *page)
{
	const struct slab_hard_class *c = slab_hard_class_of(s);
	char *obj = first_object(s, page);

	for (unsigned int n = s->layout.objects; n; n--, obj += s->size)
		slab_hard_wipe(c, obj);
}

/* Pages for a slab of a hardened cache, with a closed page at their end or not far behind it.
 * Objects of no bytes are closed themselves. */
static cold struct page *get_hard_pages(struct kmem_cache *s, unsigned int node, gfp_t flags)
{
	unsigned int n = s->layout.npages;
	enum page_guarded how;
	struct page *page;
	bool zeroed;

	page = page_alloc_guarded(node, flags | __GFP_NOWARN, n, &zeroed, &how);
	if (!page)
		return NULL;
	page->guard = (uint8_t)how;
	if (!zeroed && s->object_size)
		wipe_objects(s, page);
	if (!s->object_size) /* where that fails, they are as accessible as without the mode */
		(void)os_calls.mprotect(page_to_virt(page), n * page_size(), PROT_NONE);
	return page;
}

/* Whether nobody wrote to the objects of a slab, which are all free, as far as is looked at. */
static cold bool are_wiped(const struct kmem_cache *s, struct page *page)
{
	const struct slab_hard_class *c = slab_hard_class_of(s);
	const char *obj = first_object(s, page);

	for (unsigned int n = s->layout.objects; n; n--, obj += s->size)
		if (!slab_hard_is_wiped(c, obj))
			return false;
	return true;
}

/* Gives the pages of a slab back. */
static cold void free_hard_pages(struct kmem_cache *s, struct page *page, unsigned int npages)
{
	enum page_guarded how = page->guard;

	if (s->object_size && !are_wiped(s, page))
		report_invalid("free()", page_to_virt(page),
			       "objects here were written to after they were freed", NULL);
	page_set_head(page, page_head(PAGE_NONE, 0, false));
	if (!s->object_size && os_commit(page_to_virt(page), npages * page_size()))
		page_free_later(page, npages, how);
	else
		page_free_guarded(page, npages, how);
}

/* Runs in a row of memory that may be resident already. If there is no row, the next ROW_PAUSE
 * slabs do without. */
static bool get_row(const struct kmem_cache *s, unsigned int node, gfp_t flags, unsigned int n,
		    struct page **row)
{
	_Atomic uint32_t *pause = &s->nodes[node].no_row;

	if (page_alloc_row(node, flags, s->large.npages, n, row))
		return true;
	atomic_store_explicit(pause, ROW_PAUSE, memory_order_relaxed);
	return false;
}

/* Counts one slab of the pause after a row that was not to be had. Result: whether the pause
 * goes on. */
static bool count_row_pause(const struct kmem_cache *s, unsigned int node)
{
	_Atomic uint32_t *pause = &s->nodes[node].no_row;
	uint32_t n = atomic_load_explicit(pause, memory_order_relaxed);

	if (n)
		atomic_store_explicit(pause, n - 1, memory_order_relaxed);
	return n;
}

/*
 * A run for the layout that is due (slab_pace.c); for the small one, if there is no such run.
 * Large slabs of large objects are only made of memory that may be resident already: after
 * frees at random the free pages lie in holes, and the process would grow instead. Where
 * addresses are scarce there are none, because too much of one may stay unused.
 */
static struct page *get_pages(struct kmem_cache *s, unsigned int node, gfp_t flags,
			      unsigned int *npages)
{
	const struct slab_layout *l =
		slab_pace_layout(s, &s->nodes[node], flags & __GFP_DIRECT_RECLAIM);
	struct page *page;
	bool zeroed;

	*npages = l->npages;
	if (unlikely(s->hard))
		return get_hard_pages(s, node, flags);
	if (l == &s->large && s->size >= SLAB_LARGE_SIZE) {
		if (!window_has_small_steps() && !count_row_pause(s, node) &&
		    get_row(s, node, flags, 1, &page))
			return page;
		*npages = s->layout.npages;
	}
	page = page_alloc_run(node, flags | __GFP_NOWARN, *npages, &zeroed);
	if (page || s->small.npages == *npages)
		return page;
	*npages = s->small.npages;
	page = page_alloc_run(node, flags | __GFP_NOWARN, *npages, &zeroed);
	if (page)
		slab_event(s, SLAB_ORDER_FALLBACK);
	return page;
}

/* The number of a node's slabs of layout @l; NULL: of the usual one, which is computed. */
static _Atomic size_t *number_of(const struct kmem_cache *s, struct kmem_cache_node *node,
				 const struct slab_layout *l)
{
	if (likely(l == &s->layout))
		return NULL;
	return l == &s->large ? &node->nr_large : &node->nr_small;
}

static void count_new(struct kmem_cache *s, struct kmem_cache_node *node,
		      const struct slab_layout *l)
{
	_Atomic size_t *number = number_of(s, node, l);
	struct kmem_cache *all = s->home;
	size_t n = atomic_load_explicit(&all->all_slabs, memory_order_relaxed);
	size_t most = atomic_load_explicit(&all->most_slabs, memory_order_relaxed);

	while (most < n && !atomic_compare_exchange_weak_explicit(&all->most_slabs, &most, n,
								  memory_order_relaxed,
								  memory_order_relaxed))
		;
	atomic_fetch_add_explicit(&node->nr_slabs, 1, memory_order_relaxed);
	if (number)
		atomic_fetch_add_explicit(number, 1, memory_order_relaxed);
	slab_event(s, SLAB_ALLOC_SLAB);
}

static void count_freed(struct kmem_cache *s, struct kmem_cache_node *node,
			const struct slab_layout *l)
{
	_Atomic size_t *number = number_of(s, node, l);

	debug_assert(atomic_load_explicit(&node->nr_slabs, memory_order_relaxed));
	debug_assert(!number || atomic_load_explicit(number, memory_order_relaxed));
	slab_pace_note_freed(node, l->npages);
	slab_limit_uncharge(s->home);
	atomic_fetch_sub_explicit(&node->nr_slabs, 1, memory_order_relaxed);
	if (number)
		atomic_fetch_sub_explicit(number, 1, memory_order_relaxed);
	slab_event(s, SLAB_FREE_SLAB);
}

/* The array map's entry for a new slab; none for twins, whose objects go to no array. */
static pcpu_entry_t entry_of(const struct kmem_cache *s, unsigned int node)
{
	if (s->home != s || s->entry_first >= SLAB_FAR_ENTRY)
		return PCPU_ENTRY_NONE;
	debug_assert(node < page_window.nr_nodes);
	return s->entry_first + (pcpu_entry_t)node * s->array_stride;
}

/*
 * Makes the run a slab for threads that find it by its page (slab_verify.c). It is complete
 * then: its objects, state, places and entries of the array map have their first values.
 */
static void make_known(struct kmem_cache *s, struct page *page, unsigned int npages)
{
	uint32_t head =
		page_head_order(atomic_load_explicit(&page->head, memory_order_relaxed));

	__atomic_store_n(&page->cache, s, __ATOMIC_RELEASE); /* P5 */
	/* The second byte is the guard; 0 but in hardened caches, since frees compare the head
	 * as a word. */
	head = PAGE_SLAB | (unlikely(s->hard) ? head & 0xff00 : 0) | npages << 16;
	atomic_store_explicit(&page->head, page_head_order(head),
			      memory_order_release); /* P7 */
}

/* The mark of a slab's pages. It tells where objects of the usual layout end. Objects of a lean
 * cache fill its small slabs, so it does for these, too. Large slabs have another one. */
static uint8_t mark_of(const struct kmem_cache *s, const struct slab_layout *l)
{
	if (l == &s->layout)
		return s->class_mark;
	if (l == &s->large)
		return s->large_mark;
	return s->lean ? s->class_mark : 0;
}

/* Makes a slab of layout @l of a run. *@got of its objects, up to @n, are taken out. */
static void make_slab(struct kmem_cache *s, struct page *page, const struct slab_layout *l,
		      void **out, unsigned int n, unsigned int *got)
{
	debug_assert(page_type(page) == PAGE_ALLOCATED && l->npages <= PAGE_SLAB_SPAN_MAX);
	if (unlikely(s->ops))
		s->ops->new_slab(s, first_object(s, page), l->objects);
	else if (s->ctor)
		for (unsigned int i = 0; i < l->objects; i++)
			s->ctor(first_object(s, page) + (size_t)i * s->size);
	*got = fill_bitmap(s, page, l, out, n);
	page_set_slab(page, l->npages, entry_of(s, page_node(page)), mark_of(s, l));
	make_known(s, page, l->npages);
	if (unlikely(s->hard))
		*got = slab_page_take(s, page, out, n);
	debug_assert(*got <= n);
	count_new(s, &s->nodes[page_node(page)], l);
	PROBE(slab_new, s->name, page_to_virt(page), l->npages, page_node(page));
}

/* The flags for a slab's pages. Other requests get objects of the slab, too, so the zone is the
 * cache's. */
static gfp_t page_flags(const struct kmem_cache *s, gfp_t flags)
{
	return (flags & ~(__GFP_DMA | __GFP_DMA32 | __GFP_COMP | __GFP_NOFAIL)) | s->gfp;
}

struct page *slab_page_new(struct kmem_cache *s, unsigned int node, gfp_t flags, void **out,
			   unsigned int n, unsigned int *got)
{
	unsigned int npages;
	struct page *page;

	if (unlikely(!slab_limit_charge(s->home, flags)))
		return NULL;
	flags = page_flags(s, flags);
	page = get_pages(s, node, flags, &npages);
	if (!page) {
		slab_limit_uncharge(s->home);
		return NULL;
	}
	debug_assert(!(flags & __GFP_THISNODE) || page_node(page) == node);
	make_slab(s, page, slab_layout_of(s, npages), out, n, got);
	return page;
}

bool slab_page_new_row(struct kmem_cache *s, unsigned int node, gfp_t flags, struct page **row)
{
	unsigned int charged = 0, none;

	if (count_row_pause(s, node) ||
	    !slab_pace_is_large(s, &s->nodes[node], flags & __GFP_DIRECT_RECLAIM))
		return false;
	debug_assert(!s->hard);
	while (charged < SLAB_ROW && slab_limit_charge(s->home, flags))
		charged++;
	if (charged == SLAB_ROW && get_row(s, node, page_flags(s, flags), SLAB_ROW, row)) {
		for (unsigned int i = 0; i < SLAB_ROW; i++)
			make_slab(s, row[i], &s->large, NULL, 0, &none);
		return true;
	}
	while (charged--)
		slab_limit_uncharge(s->home);
	return false;
}

bool slab_page_is_mapped(const struct kmem_cache *s, struct page *page)
{
	unsigned int mark = mark_of(s, slab_layout(s, page));
	size_t pfn = page_to_pfn(page);

	for (unsigned int i = 0; i < page->span; i++) {
		size_t granule = ((pfn + i) << page_window.page_shift) >> ARRAY_MAP_SHIFT;

		if (page_place(pfn + i) != (i | mark << 8))
			return false;
		if (pfn < page_window.low_pfn &&
		    page_window.array_map[granule] != entry_of(s, page_node(page)))
			return false;
	}
	return true;
}

void slab_page_free(struct kmem_cache *s, struct page *page)
{
	unsigned int npages = page->span;

	debug_assert(page_type(page) == PAGE_SLAB);
	debug_assert(npages == slab_layout(s, page)->npages);
	debug_assert(slab_state_empty(slab_layout(s, page), slab_state(page)));
	debug_assert(!slab_page_cache(page)); /* a look at all slabs finds it gone */
	PROBE(slab_free, s->name, page_to_virt(page), npages, page_node(page));
	count_freed(s, &s->nodes[page_node(page)], slab_layout(s, page));
	if (unlikely(s->ops))
		s->ops->free_slab(page_to_virt(page), npages * page_size());
	page_clear_slab(page, npages);
	if (unlikely(s->hard)) {
		free_hard_pages(s, page, npages);
		return;
	}
	page_set_head(page, page_head(PAGE_NONE, 0, false));
	page_free_run(page, npages);
}

unsigned int slab_page_take(struct kmem_cache *s, struct page *page, void **out, unsigned int n)
{
	const struct slab_layout *l = slab_layout(s, page);
	unsigned int words = slab_words(l), got = 0;
	unsigned int first = unlikely(s->hard) ? slab_hard_random(words) : 0;
	uint32_t change = 0;

	debug_assert(slab_state_where(slab_state(page)) != SLAB_FULL);
	debug_assert(slab_page_cache(page) == s && page->span == l->npages);
	alone_begin();
	for (unsigned int i = 0; i < words && got < n; i++) {
		unsigned int w = i + first < words ? i + first : i + first - words;
		_Atomic uint64_t *word = slab_bitmap_word(l, page, w);
		uint64_t bits = atomic_load_explicit(word, memory_order_relaxed), take;

		if (!bits)
			continue;
		take = unlikely(s->hard) ? random_bits(bits, n - got) : lowest(bits, n - got);
		bits = alone_fetch_and(word, ~take, memory_order_acquire); /* P2 */
		if (bits == take)
			change -= SLAB_AVAIL_ONE;
		if (bits == slab_word_whole(l, w))
			change -= SLAB_WHOLE_ONE;
		got += list_objects(s, first_object(s, page), w, take, out + got);
	}
	if (change)
		alone_fetch_add(&page->state, change, memory_order_release); /* P3 */
	alone_end();
	return got;
}

size_t slab_page_free_objects(const struct kmem_cache *s, struct page *page)
{
	const struct slab_layout *l = slab_layout(s, page);
	size_t n = 0;

	for (unsigned int w = 0; w < slab_words(l); w++)
		n += (size_t)__builtin_popcountll(atomic_load_explicit(
			slab_bitmap_word(l, page, w), memory_order_relaxed));
	debug_assert(n <= l->objects);
	return n;
}

uint32_t slab_page_settle(const struct kmem_cache *s, struct page *page)
{
	const struct slab_layout *l = slab_layout(s, page);
	int avail = 0, whole = 0;
	uint32_t state;

	for (unsigned int w = 0; w < slab_words(l); w++) {
		uint64_t bits = atomic_load_explicit(slab_bitmap_word(l, page, w),
						     memory_order_acquire); /* P2 */

		avail += bits != 0;
		whole += bits == slab_word_whole(l, w);
	}
	state = pack(avail, whole, slab_state_place(slab_state(page)));
	atomic_store_explicit(&page->state, state, memory_order_release); /* P3 */
	return state;
}

uint32_t slab_page_move(struct page *page, unsigned int from, unsigned int to)
{
	uint32_t change = (to - from) << SLAB_WHERE_SHIFT;

	debug_assert(from != to && to != SLAB_FULL);
	debug_assert(slab_state_place(slab_state(page)) == from);
	return atomic_fetch_add_explicit(&page->state, change,
					 memory_order_acq_rel) + /* P3, P4 */
	       change;
}

bool slab_page_leave_if_full(struct page *page)
{
	uint32_t state = slab_state(page);

	debug_assert(slab_state_where(state) != SLAB_FULL);
	while (slab_state_avail(state) <= 0) {
		uint32_t full = state & ~(UINT32_MAX << SLAB_WHERE_SHIFT);

		if (atomic_compare_exchange_weak_explicit(&page->state, &state, full,
							  memory_order_release,	 /* P3 */
							  memory_order_acquire)) /* P4 */
			return true;
	}
	return false;
}

enum slab_change slab_page_changed(const struct slab_layout *l, struct page *page,
				   uint32_t change, uint32_t *state)
{
	debug_assert(change);
	*state = alone_fetch_add(&page->state, change, memory_order_acq_rel) +
		 change; /* P3, P4 */
	switch (slab_state_where(*state)) {
	case SLAB_FULL:
		return (change & SLAB_AVAIL_ONE) && slab_state_avail(*state) == 1
			       ? SLAB_NO_LONGER_FULL
			       : SLAB_UNCHANGED;
	case SLAB_ON_NODE:
		return slab_state_empty(l, *state) ? SLAB_EMPTY_ON_NODE : SLAB_UNCHANGED;
	default:
		return SLAB_OTHERS_FROZEN;
	}
}

struct kmem_cache *slab_cache_of(const void *obj)
{
	struct page *page = page_lookup(obj);

	if (!page)
		return NULL;
	page = slab_head(page);
	return page_type(page) == PAGE_SLAB ? slab_page_cache(page) : NULL;
}

/* The page may be anything by now, and another thread may be changing it: the pointer is a word
 * that is written whole. */
static noinline no_sanitize_thread bool names(const struct page *page,
					      const struct kmem_cache *s)
{
	return __atomic_load_n(&page->cache, __ATOMIC_ACQUIRE) == s; /* P6 */
}

/*
 * Type and pointer match only if the page is the head of a slab of @s, because no other use of
 * the pointer's place holds the address of a cache (struct page). The slab stays one while the
 * caller holds the locks of its node (slab_node_lock_all()).
 *
 * P6: a thread that sees the pointer of a new slab sees no type that the page had before it was
 * handed out for the slab (P5). So a type that says slab is that slab's. P8: with this type it
 * sees the slab as it was made (P7). A slab that is freed loses its pointer under the lock of
 * its list first.
 */
bool slab_page_is_of(struct page *page, const struct kmem_cache *s)
{
	return names(page, s) &&
	       atomic_load_explicit(&page->type, memory_order_acquire) == PAGE_SLAB; /* P8 */
}
