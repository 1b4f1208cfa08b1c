/* SPDX-License-Identifier: MIT */
/*
 * A cache's partly used slabs on one node, and how objects get back into slabs.
 *
 * Lock: node->lock, for the list alone. Freeing never waits for it: slabs that have to
 * come onto the list while it is taken are pushed onto node->deferred, from where the
 * next holder of the lock puts them onto the list; empty ones that have to leave are
 * looked for then (node->missed). Who looks for objects looks at both.
 *
 * N1 / N2: the release of a deferred slab and the acquire of who puts it onto the list.
 * N3 / N4: that a slab is empty, before the note that somebody has to look.
 */
#include "base/report.h"
#include "percpu/percpu.h"
#include "slab/slab_page.h"

static size_t nr_partial(const struct kmem_cache_node *node)
{
	return atomic_load_explicit(&node->nr_partial, memory_order_relaxed);
}

/* Lock held: it alone writes. */
static void __count_partial(struct kmem_cache_node *node, size_t change)
{
	atomic_store_explicit(&node->nr_partial, nr_partial(node) + change,
			      memory_order_relaxed);
}

/* Whether an empty slab on the list, or about to be, is one too many. Lock held. */
static bool spare(const struct kmem_cache *s, const struct kmem_cache_node *node)
{
	return !s->keeps_slabs &&
	       nr_partial(node) > atomic_load_explicit(&s->min_partial, memory_order_relaxed);
}

static void __remove(struct kmem_cache_node *node, struct page *page)
{
	list_del(&page->list);
	__count_partial(node, (size_t)-1);
}

/*
 * An empty slab off the list: nobody can take from it, and nobody frees into it. From now
 * on it is none of this cache's, for those who were told earlier that it is empty
 * (slab_node_retire): no slab of a cache stops being one but here, under the lock.
 */
static void __retire(struct kmem_cache *s, struct kmem_cache_node *node, struct page *page,
		     struct list_head *retired)
{
	__remove(node, page);
	__atomic_store_n(&page->cache, NULL, __ATOMIC_RELAXED);
	list_add(&page->list, retired);
	slab_event(s, SLAB_FREE_REMOVE_PARTIAL);
}

/* A slab of the caller's onto the list; or, empty and one too many, onto @retired. */
static void __add(struct kmem_cache *s, struct kmem_cache_node *node, struct page *page,
		  struct list_head *retired)
{
	bool empty = slab_state_empty(slab_layout(s, page), slab_state(page));

	if (empty)
		list_add_tail(&page->list, &node->partial);
	else
		list_add(&page->list, &node->partial);
	__count_partial(node, 1);
	slab_event(s, empty ? SLAB_DEACTIVATE_TO_TAIL : SLAB_DEACTIVATE_TO_HEAD);
	/* Before this nobody is told that it became empty, after it somebody is. */
	if (!slab_state_empty(slab_layout(s, page),
			      slab_page_move(page, SLAB_WITH_CPU, SLAB_ON_NODE)) ||
	    !spare(s, node))
		return;
	slab_event(s, SLAB_DEACTIVATE_EMPTY);
	__retire(s, node, page, retired);
}

/* All empty slabs that are too many. */
static void __retire_missed(struct kmem_cache *s, struct kmem_cache_node *node,
			    struct list_head *retired)
{
	struct page *page, *next;

	list_for_each_entry_safe (page, next, &node->partial, list)
		if (spare(s, node) && slab_state_empty(slab_layout(s, page), slab_state(page)))
			__retire(s, node, page, retired);
}

static bool nothing_waits(struct kmem_cache_node *node)
{
	return !atomic_load_explicit(&node->deferred, memory_order_relaxed) &&
	       !atomic_load_explicit(&node->missed, memory_order_relaxed);
}

/* What those left who found the lock taken. */
static void __catch_up(struct kmem_cache *s, struct kmem_cache_node *node,
		       struct list_head *retired)
{
	struct page *page, *next;

	if (likely(nothing_waits(node)))
		return;
	page = atomic_exchange_explicit(&node->deferred, NULL, memory_order_acquire); /* N2 */
	for (; page; page = next) {
		next = page->deferred;
		__add(s, node, page, retired);
	}
	if (atomic_exchange_explicit(&node->missed, false, memory_order_acquire)) /* N4 */
		__retire_missed(s, node, retired);
}

static bool node_lock_if(struct kmem_cache *s, struct kmem_cache_node *node, bool may_block,
			 struct list_head *retired)
{
	bool held, taken;

	list_init(retired);
	held = lock_if_noting(&node->lock, may_block, &taken);
	if (unlikely(taken))
		slab_event(s, SLAB_NODE_CONTENDED);
	if (!held)
		return false;
	__catch_up(s, node, retired);
	return true;
}

/* For those whom nobody waits for. */
static void node_lock(struct kmem_cache *s, struct kmem_cache_node *node,
		      struct list_head *retired)
{
	list_init(retired);
	lock(&node->lock);
	__catch_up(s, node, retired);
}

static void free_slabs(struct kmem_cache *s, struct list_head *slabs)
{
	struct page *page, *next;

	list_for_each_entry_safe (page, next, slabs, list)
		slab_page_free(s, page);
}

static void node_unlock(struct kmem_cache *s, struct kmem_cache_node *node, bool may_block,
			struct list_head *retired)
{
	__catch_up(s, node, retired);
	unlock_if(&node->lock, may_block);
	free_slabs(s, retired);
}

/* For the next holder of the lock. */
static void defer(struct kmem_cache_node *node, struct page *page)
{
	struct page *first = atomic_load_explicit(&node->deferred, memory_order_relaxed);

	do
		page->deferred = first;
	while (!atomic_compare_exchange_weak_explicit(&node->deferred, &first, page,
						      memory_order_release, /* N1 */
						      memory_order_relaxed));
}

void slab_node_add(struct kmem_cache *s, struct page **slabs, unsigned int n)
{
	struct kmem_cache_node *node = NULL;
	struct list_head retired;

	for (unsigned int i = 0; i < n; i++) {
		struct kmem_cache_node *home = &s->nodes[page_node(slabs[i])];

		slab_event(s, SLAB_FREE_ADD_PARTIAL);
		if (node != home) {
			if (node)
				node_unlock(s, node, false, &retired);
			node = node_lock_if(s, home, false, &retired) ? home : NULL;
		}
		if (node)
			__add(s, node, slabs[i], &retired);
		else
			defer(home, slabs[i]);
	}
	if (node)
		node_unlock(s, node, false, &retired);
}

/*
 * Of a page that may be anything by now, while somebody makes it something else. The type
 * and the pointer are words that are written whole, and both are right only for a slab of
 * @s, which stays one while the lock is held: no other use of the pointer's place holds the
 * address of a cache (struct page).
 */
static noinline no_sanitize_thread bool slab_of(struct page *page, const struct kmem_cache *s)
{
	return page_type(page) == PAGE_SLAB &&
	       __atomic_load_n(&page->cache, __ATOMIC_RELAXED) == s;
}

void slab_node_retire(struct kmem_cache *s, struct page *page)
{
	struct kmem_cache_node *node = &s->nodes[page_node(page)];
	struct list_head retired;

	if (!node_lock_if(s, node, false, &retired)) {
		atomic_store_explicit(&node->missed, true, memory_order_release); /* N3 */
		return;
	}
	if (slab_of(page, s)) {
		uint32_t state = slab_state(page);

		if (slab_state_where(state) == SLAB_ON_NODE &&
		    slab_state_empty(slab_layout(s, page), state) && spare(s, node))
			__retire(s, node, page, &retired);
	}
	node_unlock(s, node, false, &retired);
}

/* Objects of listed slabs to out[0..n), then up to @max further slabs into the caller's
 * hands. Lock held. */
static unsigned int __take_partial(struct kmem_cache *s, struct kmem_cache_node *node,
				   void **out, unsigned int n, struct page **slabs,
				   unsigned int max, unsigned int *nr_slabs)
{
	unsigned int got = 0;

	*nr_slabs = 0;
	while (got < n && !list_empty(&node->partial)) {
		struct page *page = list_first_entry(&node->partial, struct page, list);

		__remove(node, page);
		got += slab_page_take(s, page, out + got, n - got);
		slab_event(s, SLAB_ALLOC_FROM_PARTIAL);
		if (slab_page_leave_if_full(page))
			continue;
		if (*nr_slabs < max) {
			slab_page_move(page, SLAB_ON_NODE, SLAB_WITH_CPU);
			slabs[(*nr_slabs)++] = page;
		} else {
			list_add(&page->list, &node->partial);
			__count_partial(node, 1);
		}
	}
	while (*nr_slabs < max && !list_empty(&node->partial)) {
		struct page *page = list_first_entry(&node->partial, struct page, list);

		__remove(node, page);
		slab_page_move(page, SLAB_ON_NODE, SLAB_WITH_CPU);
		slabs[(*nr_slabs)++] = page;
	}
	return got;
}

enum { FETCH_MAX = 32 }; /* slabs fetched at once */

/* From the node's list, and some slabs more for this CPU's. */
static unsigned int take_listed(struct kmem_cache *s, struct kmem_cache_node *node, void **out,
				unsigned int n, bool may_block)
{
	struct page *slabs[FETCH_MAX];
	unsigned int half =
		atomic_load_explicit(&s->cpu_partial_slabs, memory_order_relaxed) / 2;
	unsigned int got, nr_slabs;
	struct list_head retired;

	/* An unlocked look: a slab that comes this moment serves the next request. */
	if (!nr_partial(node) && nothing_waits(node))
		return 0;
	if (!node_lock_if(s, node, may_block, &retired))
		return 0;
	got = __take_partial(s, node, out, n, slabs, min_uint(half, FETCH_MAX), &nr_slabs);
	node_unlock(s, node, may_block, &retired);
	if (nr_slabs) {
		slab_count_events(s, SLAB_CPU_PARTIAL_NODE, nr_slabs);
		slab_partial_add(s, slabs, nr_slabs);
	}
	return got;
}

unsigned int slab_node_take_remote(struct kmem_cache *s, unsigned int *node, void **out,
				   unsigned int n, gfp_t flags)
{
	unsigned int ratio =
		atomic_load_explicit(&s->remote_node_defrag_ratio, memory_order_relaxed);
	unsigned int turn =
		atomic_fetch_add_explicit(&s->defrag_turn, ratio, memory_order_relaxed);

	if (turn % 100 + ratio < 100)
		return 0;
	for (unsigned int i = 1; i < page_window.nr_nodes; i++) {
		unsigned int other = page_fallback_node(*node, i), got;

		if (!page_policy_allows(other) ||
		    nr_partial(&s->nodes[other]) <=
			    atomic_load_explicit(&s->min_partial, memory_order_relaxed))
			continue;
		got = take_listed(s, &s->nodes[other], out, n, flags & __GFP_DIRECT_RECLAIM);
		if (!got)
			continue;
		atomic_fetch_add_explicit(&s->nodes[other].inuse, got, memory_order_relaxed);
		*node = other;
		return got;
	}
	return 0;
}

/* Objects of new slabs, or of the stock; no more slabs than hold them. */
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
		got += more;
		if (!slab_page_leave_if_full(page))
			slab_partial_add(s, &page, 1);
	}
	return got;
}

unsigned int slab_node_take(struct kmem_cache *s, unsigned int index, void **out,
			    unsigned int n, unsigned int need, gfp_t flags)
{
	struct kmem_cache_node *node = &s->nodes[index];
	unsigned int got = take_listed(s, node, out, n, flags & __GFP_DIRECT_RECLAIM), made;

	if (got == n || flags & SLAB_NO_NEW)
		return got;
	made = take_new(s, index, out + got, n - got, flags);
	if (need > got && made)
		slab_count_events(s, SLAB_ALLOC_FROM_NEW, min_uint(need - got, made));
	return got + made;
}

static void uncount(struct kmem_cache *s, struct kmem_cache_node *node, unsigned int n)
{
	if (!n)
		return;
	atomic_fetch_sub_explicit(&node->inuse, n, memory_order_relaxed);
	if (page_window.nr_nodes > 1 && node->index != page_local_node())
		slab_count_events(s, SLAB_FREE_REMOTE, n);
}

/* The slab is the caller's after its first object came back: to whoever has use for it. */
static void list_slab(struct kmem_cache *s, struct page *page, enum slab_put_to to)
{
	slab_page_move(page, SLAB_FULL, SLAB_WITH_CPU);
	if (to == SLAB_PUT_NODE) {
		slab_node_add(s, &page, 1);
		return;
	}
	slab_event(s, SLAB_CPU_PARTIAL_FREE);
	slab_partial_add(s, &page, 1);
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

/* Objects of one word of one slab, from objs[0] on. Result: how many of @n those are. */
static unsigned int put_word(struct kmem_cache *s, void **objs, unsigned int n,
			     enum slab_put_to to, unsigned int *freed)
{
	struct page *page = slab_head(page_of(objs[0]));
	uint64_t mask = 0, twice = 0, again = 0;
	unsigned int index = 0, word = 0, i;
	const char *wrong = NULL;

	for (i = 0; i < n; i++) {
		uint64_t bit;

		if (i && slab_head(page_of(objs[i])) != page)
			break;
		wrong = slab_page_find(s, page, objs[i], &index);
		if (unlikely(wrong))
			break;
		if (i && index / 64 != word)
			break;
		word = index / 64;
		bit = (uint64_t)1 << (index % 64);
		again |= mask & bit;
		mask |= bit;
	}
	if (unlikely(!i)) {
		report_invalid("free()", objs[0], wrong);
		return 1;
	}
	*freed += (unsigned int)__builtin_popcountll(mask);
	switch (slab_page_put(s, page, word, mask, &twice)) {
	case SLAB_NO_LONGER_FULL:
		list_slab(s, page, to);
		break;
	case SLAB_EMPTY_ON_NODE:
		slab_node_retire(s, page);
		break;
	case SLAB_OTHERS_FROZEN:
		slab_event(s, SLAB_FREE_FROZEN);
		break;
	default:
		break;
	}
	if (unlikely(twice | again)) {
		*freed -= (unsigned int)__builtin_popcountll(twice);
		report_twice(s, page, word, twice | again);
	}
	return i;
}

void slab_put(struct kmem_cache *s, void **objs, unsigned int n, enum slab_put_to to)
{
	struct kmem_cache_node *node = NULL;
	unsigned int freed = 0;

	for (unsigned int i = 0; i < n;) {
		struct kmem_cache_node *home = &s->nodes[page_node(page_of(objs[i]))];

		if (node != home) {
			if (node)
				uncount(s, node, freed);
			node = home;
			freed = 0;
		}
		i += put_word(s, objs + i, n - i, to, &freed);
	}
	if (node)
		uncount(s, node, freed);
}

/* Of all slabs on the list of one node. */
static size_t sum_listed(struct kmem_cache *s, unsigned int index,
			 size_t (*of)(const struct kmem_cache *s, struct page *page))
{
	struct kmem_cache_node *node = &s->nodes[index];
	struct list_head retired;
	struct page *page;
	size_t sum = 0;

	node_lock(s, node, &retired);
	list_for_each_entry (page, &node->partial, list)
		sum += of(s, page);
	node_unlock(s, node, true, &retired);
	return sum;
}

static size_t inuse_of(const struct kmem_cache *s, struct page *page)
{
	const struct slab_layout *l = slab_layout(s, page);
	size_t inuse = l->objects;

	for (unsigned int w = 0; w < slab_words(l); w++)
		inuse -= (size_t)__builtin_popcountll(atomic_load_explicit(
			slab_bitmap_word(l, page, w), memory_order_relaxed));
	return inuse;
}

static size_t idle_of(const struct kmem_cache *s, struct page *page)
{
	return slab_state_empty(slab_layout(s, page), slab_state(page));
}

size_t slab_node_partial_inuse(struct kmem_cache *s, unsigned int index)
{
	return sum_listed(s, index, inuse_of);
}

size_t slab_node_idle(struct kmem_cache *s, unsigned int index)
{
	return sum_listed(s, index, idle_of);
}

void slab_node_dismiss(struct kmem_cache *s, struct page *page)
{
	struct kmem_cache_node *node = &s->nodes[page_node(page)];
	struct list_head retired;

	node_lock(s, node, &retired);
	__atomic_store_n(&page->cache, NULL, __ATOMIC_RELAXED);
	node_unlock(s, node, true, &retired);
	slab_page_free(s, page);
}

bool slab_node_shrink(struct kmem_cache *s)
{
	size_t remain = 0;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		struct kmem_cache_node *node = &s->nodes[i];
		struct list_head retired;
		struct page *page, *next;

		node_lock(s, node, &retired);
		list_for_each_entry_safe (page, next, &node->partial, list)
			if (!s->keeps_slabs &&
			    slab_state_empty(slab_layout(s, page), slab_state(page)))
				__retire(s, node, page, &retired);
		node_unlock(s, node, true, &retired);
		remain += atomic_load_explicit(&node->nr_slabs, memory_order_relaxed);
	}
	return remain > slab_stock_count(s);
}
