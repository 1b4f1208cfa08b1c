/* SPDX-License-Identifier: MIT */
/*
 * A cache's partial slabs on one node, on a list for each shard (struct kmem_cache_node). Which
 * list a slab is on decides only who takes it first; below, "the list" is any of them.
 *
 * Lock: node->lock, for the lists alone. Freeing never waits for it. If the lock is taken, a
 * free pushes a slab that must come onto the list to node->deferred (base/deferred.h), and the
 * next holder of the lock lists it. For an empty slab that must leave the list, it sets
 * node->missed, and the next holder looks for empty slabs. Requests look at both.
 *
 * N1 / N2: a holder that sees node->missed (N2, acquire) sees that the slab is empty (N1,
 * release).
 */
#include "slab/slab_node.h"

#include "percpu/register.h"
#include "slab/slab_hard.h"
#include "slab/slab_pace.h"

/* Lock held: only holders write nr_partial. */
static void __count_partial(struct kmem_cache_node *node, size_t change)
{
	lock_assert_held(&node->lock);
	atomic_store_explicit(&node->nr_partial, slab_node_nr_partial(node) + change,
			      memory_order_relaxed);
	debug_assert(slab_node_nr_partial(node) <=
		     atomic_load_explicit(&node->nr_slabs, memory_order_relaxed));
}

/* Whether an empty slab, on the list or about to be, must leave the cache. Lock held. */
static bool spare(const struct kmem_cache *s, const struct kmem_cache_node *node)
{
	lock_assert_held(&node->lock);
	return !s->keeps_slabs &&
	       slab_node_nr_partial(node) >
		       atomic_load_explicit(&s->min_partial, memory_order_relaxed);
}

/* A listed slab is empty, and stays. Lock held. */
static void __note_empty(struct kmem_cache_node *node)
{
	lock_assert_held(&node->lock);
	atomic_store_explicit(&node->may_have_empty, true, memory_order_relaxed);
}

/* This CPU's shard. Where CPUs are numbered round the nodes, those of one node have all shards,
 * too. */
static unsigned int own_shard(const struct kmem_cache_node *node)
{
	unsigned int cpu = pcpu_index();

	return (cpu + cpu / SLAB_SHARDS_MAX) & (node->nr_shards - 1u);
}

static struct list_head *own_list(struct kmem_cache_node *node)
{
	return &node->partial[own_shard(node)];
}

static void __remove(struct kmem_cache_node *node, struct page *page)
{
	debug_assert(slab_node_nr_partial(node) && page_node(page) == node->index);
	debug_assert(slab_state_where(slab_state(page)) == SLAB_ON_NODE);
	list_del(&page->list);
	__count_partial(node, (size_t)-1);
}

/*
 * Takes an empty slab off the list; no thread can take from it, or free into it, any more. The
 * slab's page no longer names the cache. So a thread that was told earlier that the slab is
 * empty finds out, under the lock, that it is gone (slab_node_retire): slabs leave a cache only
 * here, under the lock. Its state no longer says that it is on the list, because the page may
 * become a slab of the same cache, and has the old state until slab_page_new() sets it.
 */
static void __retire(struct kmem_cache *s, struct kmem_cache_node *node, struct page *page,
		     struct list_head *retired)
{
	lock_assert_held(&node->lock);
	debug_assert(slab_page_cache(page) == s);
	__remove(node, page);
	slab_page_move(page, SLAB_ON_NODE, SLAB_WITH_CPU);
	__atomic_store_n(&page->cache, NULL, __ATOMIC_RELAXED);
	list_add(&page->list, retired);
	slab_event(s, SLAB_FREE_REMOVE_PARTIAL);
}

/* Puts a slab that the caller has onto the list; if it is empty and spare, onto @retired. */
static void __add(struct kmem_cache *s, struct kmem_cache_node *node, struct page *page,
		  struct list_head *retired)
{
	bool empty = slab_state_empty(slab_layout(s, page), slab_state(page));

	lock_assert_held(&node->lock);
	debug_assert(slab_page_cache(page) == s && page_node(page) == node->index);
	debug_assert(slab_state_avail(slab_state(page)) > 0);
	if (empty)
		list_add_tail(&page->list, own_list(node));
	else
		list_add(&page->list, own_list(node));
	__count_partial(node, 1);
	slab_event(s, empty ? SLAB_DEACTIVATE_TO_TAIL : SLAB_DEACTIVATE_TO_HEAD);
	/* A free that empties the slab before this move is told nothing, after it, that the
	 * slab is empty on the node; so this thread tests the state that the move returns. */
	if (!slab_state_empty(slab_layout(s, page),
			      slab_page_move(page, SLAB_WITH_CPU, SLAB_ON_NODE)))
		return;
	if (!spare(s, node)) {
		__note_empty(node);
		return;
	}
	slab_event(s, SLAB_DEACTIVATE_EMPTY);
	__retire(s, node, page, retired);
}

/* Takes all spare empty slabs off the list. */
static void __retire_missed(struct kmem_cache *s, struct kmem_cache_node *node,
			    struct list_head *retired)
{
	struct page *page, *next;

	lock_assert_held(&node->lock);
	__note_empty(node); /* some may stay */
	for_each_shard (list, node)
		list_for_each_entry_safe (page, next, list, list)
			if (spare(s, node) &&
			    slab_state_empty(slab_layout(s, page), slab_state(page)))
				__retire(s, node, page, retired);
}

static bool nothing_waits(struct kmem_cache_node *node)
{
	return !deferred_any(&node->deferred) &&
	       !atomic_load_explicit(&node->missed, memory_order_relaxed);
}

/* Does the work that frees left when they found the lock taken. */
static void __catch_up(struct kmem_cache *s, struct kmem_cache_node *node,
		       struct list_head *retired)
{
	struct page *page;

	lock_assert_held(&node->lock);
	if (likely(nothing_waits(node)))
		return;
	for_each_deferred (page, deferred_take(&node->deferred), deferred)
		__add(s, node, page, retired);
	if (atomic_exchange_explicit(&node->missed, false, memory_order_acquire)) /* N2 */
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

/* For callers that may wait for the lock. */
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

void slab_node_defer(struct kmem_cache_node *node, struct page *page)
{
	debug_assert(page_type(page) == PAGE_SLAB && page_node(page) == node->index);
	debug_assert(slab_state_where(slab_state(page)) == SLAB_WITH_CPU);
	deferred_push(&node->deferred, &page->deferred);
}

void slab_node_note_missed(struct kmem_cache_node *node)
{
	atomic_store_explicit(&node->missed, true, memory_order_release); /* N1 */
}

bool slab_node_has_deferred(struct kmem_cache_node *node, const struct page *page)
{
	const struct page *other;

	for_each_deferred (other, deferred_look(&node->deferred), deferred)
		if (other == page)
			return true;
	return false;
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
			slab_node_defer(home, slabs[i]);
	}
	if (node)
		node_unlock(s, node, false, &retired);
}

void slab_node_retire(struct kmem_cache *s, struct page *page)
{
	struct kmem_cache_node *node = &s->nodes[page_node(page)];
	struct list_head retired;

	if (!node_lock_if(s, node, false, &retired)) {
		slab_node_note_missed(node);
		return;
	}
	if (slab_page_is_of(page, s)) {
		uint32_t state = slab_state(page);

		if (slab_state_where(state) == SLAB_ON_NODE &&
		    slab_state_empty(slab_layout(s, page), state)) {
			if (spare(s, node))
				__retire(s, node, page, &retired);
			else
				__note_empty(node);
		}
	}
	node_unlock(s, node, false, &retired);
}

enum { HARD_CHOICE = 8 }; /* slabs that objects of hardened caches may come from */

/* The first slab on a list that is not empty; for a hardened cache one of the first few. */
static struct page *choose(const struct kmem_cache *s, const struct list_head *list)
{
	struct page *page = list_first_entry(list, struct page, list);

	if (likely(!s->hard))
		return page;
	for (unsigned int i = slab_hard_random(HARD_CHOICE); i; i--)
		if (page->list.next != list)
			page = list_entry(page->list.next, struct page, list);
	return page;
}

/* Takes objects of the slabs on one list into out[0..n); then up to @max further slabs, which
 * the caller has then, if there were objects enough. Lock held. */
static unsigned int __take_listed(struct kmem_cache *s, struct kmem_cache_node *node,
				  struct list_head *list, void **out, unsigned int n,
				  struct page **slabs, unsigned int max, unsigned int *nr_slabs)
{
	unsigned int got = 0;

	lock_assert_held(&node->lock);
	while (got < n && !list_empty(list)) {
		struct page *page = choose(s, list);

		__remove(node, page);
		got += slab_page_take(s, page, out + got, n - got);
		slab_event(s, SLAB_ALLOC_FROM_PARTIAL);
		if (slab_page_leave_if_full(page))
			continue;
		if (*nr_slabs < max) {
			slab_page_move(page, SLAB_ON_NODE, SLAB_WITH_CPU);
			slabs[(*nr_slabs)++] = page;
		} else {
			list_add(&page->list, list);
			__count_partial(node, 1);
		}
	}
	while (got == n && *nr_slabs < max && !list_empty(list)) {
		struct page *page = list_first_entry(list, struct page, list);

		__remove(node, page);
		slab_page_move(page, SLAB_ON_NODE, SLAB_WITH_CPU);
		slabs[(*nr_slabs)++] = page;
	}
	return got;
}

/* Takes from this CPU's shard, and from others only what that lacks: whole slabs for the CPU's
 * list come from its own. Lock held. */
static unsigned int __take_partial(struct kmem_cache *s, struct kmem_cache_node *node,
				   void **out, unsigned int n, struct page **slabs,
				   unsigned int max, unsigned int *nr_slabs)
{
	unsigned int own = own_shard(node), got = 0;

	for (unsigned int i = 0; i < node->nr_shards && got < n; i++) {
		struct list_head *list = &node->partial[(own + i) & (node->nr_shards - 1u)];

		if (i) /* no more than the rest of a slab that is begun */
			max = min_uint(max, *nr_slabs + 1);
		got += __take_listed(s, node, list, out + got, n - got, slabs, max, nr_slabs);
	}
	return got;
}

unsigned int slab_node_take(struct kmem_cache *s, unsigned int index, void **out,
			    unsigned int n, struct page **slabs, unsigned int max,
			    unsigned int *nr_slabs, bool may_block)
{
	struct kmem_cache_node *node = &s->nodes[index];
	struct list_head retired;
	unsigned int got;

	debug_assert(index < page_window.nr_nodes);
	*nr_slabs = 0;
	/* Looks without the lock: a slab that comes at this moment serves the next request. */
	if (!slab_node_nr_partial(node) && nothing_waits(node))
		return 0;
	if (!node_lock_if(s, node, may_block, &retired))
		return 0;
	got = __take_partial(s, node, out, n, slabs, max, nr_slabs);
	debug_assert(got <= n && *nr_slabs <= max);
	node_unlock(s, node, may_block, &retired);
	return got;
}

/* The sum of @of over all slabs on the list of one node. */
static size_t sum_listed(struct kmem_cache *s, unsigned int index,
			 size_t (*of)(const struct kmem_cache *s, struct page *page))
{
	struct kmem_cache_node *node = &s->nodes[index];
	struct list_head retired;
	struct page *page;
	size_t sum = 0;

	node_lock(s, node, &retired);
	for_each_shard (list, node)
		list_for_each_entry (page, list, list)
			sum += of(s, page);
	node_unlock(s, node, true, &retired);
	return sum;
}

static size_t inuse_of(const struct kmem_cache *s, struct page *page)
{
	return slab_layout(s, page)->objects - slab_page_free_objects(s, page);
}

static size_t idle_of(const struct kmem_cache *s, struct page *page)
{
	return slab_state_empty(slab_layout(s, page), slab_state(page));
}

size_t slab_node_partial_inuse(struct kmem_cache *s, unsigned int index)
{
	return sum_listed(s, index, inuse_of);
}

size_t slab_node_partial_free(struct kmem_cache *s, unsigned int index)
{
	return sum_listed(s, index, slab_page_free_objects);
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

/* Takes all empty slabs off the list. */
static void retire_all(struct kmem_cache *s, struct kmem_cache_node *node)
{
	struct list_head retired;
	struct page *page, *next;

	node_lock(s, node, &retired);
	/* A slab that becomes empty from here on has its thread wait for the lock, or set
	 * node->missed. */
	atomic_store_explicit(&node->may_have_empty, false, memory_order_relaxed);
	for_each_shard (list, node)
		list_for_each_entry_safe (page, next, list, list)
			if (slab_state_empty(slab_layout(s, page), slab_state(page)))
				__retire(s, node, page, &retired);
	node_unlock(s, node, true, &retired);
}

size_t slab_node_shrink(struct kmem_cache *s)
{
	size_t remain = 0;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		struct kmem_cache_node *node = &s->nodes[i];

		/* The list may be long, and programs trim again and again. */
		if (!s->keeps_slabs &&
		    (!nothing_waits(node) ||
		     atomic_load_explicit(&node->may_have_empty, memory_order_relaxed)))
			retire_all(s, node);
		slab_pace_forget(node);
		remain += atomic_load_explicit(&node->nr_slabs, memory_order_relaxed);
	}
	return remain;
}
