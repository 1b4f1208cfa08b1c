/* SPDX-License-Identifier: MIT */
/*
 * A cache's partial slabs on one node, on a list for each shard (struct slab_shard). Which list
 * a slab is on decides only who takes it first.
 *
 * Lock: shard->lock, for the shard's list alone. A thread may lose its CPU while it holds one,
 * so a request that finds its own shard taken takes from the others. What it needs more it has
 * from a new slab. It waits where none can be made, and where the node has many free objects:
 * there a slab has few of them, so holders need long for a batch, and the shards are taken at
 * most times. If each such request made a slab, the cache would grow to several times its
 * size, because slabs in which a few objects are in use do not go. Freeing never waits. If the
 * lock is taken, a free pushes a slab that must come onto the list to node->deferred
 * (base/deferred.h), and the next holder of a lock of the node lists it. For an empty slab that
 * must leave the list, it sets shard->missed, and the next holder looks for empty slabs.
 * Requests look at both, of all shards: a thread may be told that a slab is empty when nobody
 * has the lock, and a fork lets the locks go without a look.
 *
 * A holder of the lock may free a slab that is empty, and the page may be anything then. So a
 * free that will empty a listed slab tries the lock before that (slab_node_hold), while its
 * object keeps the slab. A free that did not have the lock does not look at the slab again.
 *
 * N1 / N2: a holder that sees shard->missed (N2, acquire) sees that the slab is empty (N1,
 * release). N3 / N4: a request that clears node->some_missed (N4, acquire) sees each
 * shard->missed that was set before (N3, release).
 */
#include "slab/slab_node.h"

#include "percpu/register.h"
#include "slab/slab_hard.h"
#include "slab/slab_pace.h"

/* So many slabs, and such a part of what a node's slabs have room for, may be free objects
 * before requests rather wait for a taken lock than make one slab more. */
enum { AMPLE_SLABS = 16, AMPLE_PART = 8 };

/* Lock held: only holders write nr_partial. */
static void __count_partial(struct slab_shard *shard, size_t change)
{
	size_t n = atomic_load_explicit(&shard->nr_partial, memory_order_relaxed);

	lock_assert_held(&shard->lock);
	atomic_store_explicit(&shard->nr_partial, n + change, memory_order_relaxed);
}

size_t slab_node_nr_partial(const struct kmem_cache_node *node)
{
	size_t n = 0;

	for_each_shard (shard, node)
		n += atomic_load_explicit(&shard->nr_partial, memory_order_relaxed);
	return n;
}

/* The sum over a node's slabs of @of their layout. Other threads may change the numbers between
 * the loads, so this keeps the parts below the whole. */
static size_t sum_of(const struct kmem_cache *s, unsigned int node,
		     size_t (*of)(const struct slab_layout *l))
{
	struct kmem_cache_node *n = &s->nodes[node];
	size_t all = atomic_load_explicit(&n->nr_slabs, memory_order_relaxed);
	size_t small = min_size(atomic_load_explicit(&n->nr_small, memory_order_relaxed), all);
	size_t large =
		min_size(atomic_load_explicit(&n->nr_large, memory_order_relaxed), all - small);

	debug_assert(n->index < page_window.nr_nodes);
	return small * of(&s->small) + large * of(&s->large) +
	       (all - small - large) * of(&s->layout);
}

static size_t objects_of(const struct slab_layout *l)
{
	return l->objects;
}

static size_t pages_of(const struct slab_layout *l)
{
	return l->npages;
}

size_t slab_node_objects(const struct kmem_cache *s, unsigned int node)
{
	return sum_of(s, node, objects_of);
}

size_t slab_node_pages(const struct kmem_cache *s, unsigned int node)
{
	return sum_of(s, node, pages_of);
}

/* Whether so many of the objects of a node's slabs are free that a slab more would be waste. */
static bool is_ample(const struct kmem_cache *s, unsigned int node)
{
	size_t all = slab_node_objects(s, node);
	size_t out = atomic_load_explicit(&s->nodes[node].inuse, memory_order_relaxed);
	size_t few = (size_t)AMPLE_SLABS * s->layout.objects;

	return out < all && all - out > few + all / AMPLE_PART;
}

/* Whether an empty slab, on a list or about to be, must leave the cache. */
static bool spare(const struct kmem_cache *s, const struct kmem_cache_node *node)
{
	return !s->keeps_slabs &&
	       slab_node_nr_partial(node) >
		       atomic_load_explicit(&s->min_partial, memory_order_relaxed);
}

/* A listed slab is empty, and stays. Lock held. */
static void __note_empty(struct slab_shard *shard)
{
	lock_assert_held(&shard->lock);
	atomic_store_explicit(&shard->may_have_empty, true, memory_order_relaxed);
}

/* This CPU's shard. Where CPUs are numbered round the nodes, those of one node have all shards,
 * too. */
static struct slab_shard *own_shard(struct kmem_cache_node *node)
{
	unsigned int cpu = pcpu_index();

	return &node->shards[(cpu + cpu / SLAB_SHARDS_MAX) & (node->nr_shards - 1u)];
}

/* Where a request looks first. Objects of a hardened cache come from any shard: who knows the
 * CPU must not know the slabs. */
static unsigned int first_shard(const struct kmem_cache *s, struct kmem_cache_node *node)
{
	return unlikely(s->hard) ? slab_hard_random(node->nr_shards) : own_shard(node)->index;
}

static unsigned int place_on(const struct slab_shard *shard)
{
	return SLAB_ON_NODE + shard->index;
}

static void __remove(struct slab_shard *shard, struct page *page)
{
	lock_assert_held(&shard->lock);
	debug_assert(slab_state_place(slab_state(page)) == place_on(shard));
	list_del(&page->list);
	__count_partial(shard, (size_t)-1);
}

/* Takes an empty slab off the list; no thread can take from it, or free into it, any more. The
 * slab's page no longer names the cache. */
static void __retire(struct kmem_cache *s, struct slab_shard *shard, struct page *page,
		     struct list_head *retired)
{
	debug_assert(slab_page_cache(page) == s);
	__remove(shard, page);
	__atomic_store_n(&page->cache, NULL, __ATOMIC_RELAXED);
	list_add(&page->list, retired);
	slab_event(s, SLAB_FREE_REMOVE_PARTIAL);
}

/* Puts a slab that the caller has onto the list; if it is empty and spare, onto @retired. */
static void __add(struct kmem_cache *s, struct kmem_cache_node *node, struct slab_shard *shard,
		  struct page *page, struct list_head *retired)
{
	bool empty = slab_state_empty(slab_layout(s, page), slab_state(page));

	lock_assert_held(&shard->lock);
	debug_assert(slab_page_cache(page) == s && page_node(page) == node->index);
	debug_assert(slab_state_avail(slab_state(page)) > 0);
	if (empty)
		list_add_tail(&page->list, &shard->partial);
	else
		list_add(&page->list, &shard->partial);
	__count_partial(shard, 1);
	slab_event(s, empty ? SLAB_DEACTIVATE_TO_TAIL : SLAB_DEACTIVATE_TO_HEAD);
	/* A free that empties the slab before this move is told nothing, after it, that the
	 * slab is empty on the node; so this thread tests the state that the move returns. */
	if (!slab_state_empty(slab_layout(s, page),
			      slab_page_move(page, SLAB_WITH_CPU, place_on(shard))))
		return;
	if (!spare(s, node)) {
		__note_empty(shard);
		return;
	}
	slab_event(s, SLAB_DEACTIVATE_EMPTY);
	__retire(s, shard, page, retired);
}

/* Takes all spare empty slabs off the list. */
static void __retire_missed(struct kmem_cache *s, struct kmem_cache_node *node,
			    struct slab_shard *shard, struct list_head *retired)
{
	struct page *page, *next;

	__note_empty(shard); /* some may stay */
	list_for_each_entry_safe (page, next, &shard->partial, list)
		if (spare(s, node) && slab_state_empty(slab_layout(s, page), slab_state(page)))
			__retire(s, shard, page, retired);
}

static bool nothing_waits(const struct kmem_cache_node *node, const struct slab_shard *shard)
{
	return !deferred_any(&node->deferred) &&
	       !atomic_load_explicit(&shard->missed, memory_order_relaxed);
}

/* Does the work that frees left when they found the lock taken. */
static void __catch_up(struct kmem_cache *s, struct kmem_cache_node *node,
		       struct slab_shard *shard, struct list_head *retired)
{
	struct page *page;

	lock_assert_held(&shard->lock);
	if (likely(nothing_waits(node, shard)))
		return;
	for_each_deferred (page, deferred_take(&node->deferred), deferred)
		__add(s, node, shard, page, retired);
	if (atomic_exchange_explicit(&shard->missed, false, memory_order_acquire)) /* N2 */
		__retire_missed(s, node, shard, retired);
}

static bool shard_trylock(struct kmem_cache *s, struct slab_shard *shard)
{
	if (likely(trylock(&shard->lock)))
		return true;
	slab_event(s, SLAB_NODE_CONTENDED);
	return false;
}

static void free_slabs(struct kmem_cache *s, struct list_head *slabs)
{
	struct page *page, *next;

	list_for_each_entry_safe (page, next, slabs, list)
		slab_page_free(s, page);
}

static void shard_unlock(struct kmem_cache *s, struct kmem_cache_node *node,
			 struct slab_shard *shard, bool may_block, struct list_head *retired)
{
	__catch_up(s, node, shard, retired);
	unlock_if(&shard->lock, may_block);
	free_slabs(s, retired);
}

void slab_node_defer(struct kmem_cache_node *node, struct page *page)
{
	debug_assert(page_type(page) == PAGE_SLAB && page_node(page) == node->index);
	debug_assert(slab_state_where(slab_state(page)) == SLAB_WITH_CPU);
	deferred_push(&node->deferred, &page->deferred);
}

void slab_node_note_missed(struct kmem_cache_node *node, unsigned int shard)
{
	debug_assert(shard < node->nr_shards);
	atomic_store_explicit(&node->shards[shard].missed, true, memory_order_release); /* N1 */
	atomic_store_explicit(&node->some_missed, true, memory_order_release);		/* N3 */
}

/* Takes the spare empty slabs that frees left off all lists, also off those of CPUs that do not
 * use the cache any more. */
static noinline void catch_up_all(struct kmem_cache *s, struct kmem_cache_node *node,
				  bool may_block)
{
	struct list_head retired;
	bool taken = false;

	atomic_exchange_explicit(&node->some_missed, false, memory_order_acquire); /* N4 */
	for_each_shard (shard, node) {
		if (!atomic_load_explicit(&shard->missed, memory_order_relaxed))
			continue;
		list_init(&retired);
		if (trylock(&shard->lock))
			shard_unlock(s, node, shard, may_block, &retired);
		else
			taken = true;
	}
	if (taken) /* the holder may have looked before */
		atomic_store_explicit(&node->some_missed, true, memory_order_release);
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
	struct slab_shard *shard = NULL;
	struct list_head retired;

	for (unsigned int i = 0; i < n; i++) {
		struct kmem_cache_node *home = &s->nodes[page_node(slabs[i])];

		slab_event(s, SLAB_FREE_ADD_PARTIAL);
		if (node != home) {
			if (shard)
				shard_unlock(s, node, shard, false, &retired);
			list_init(&retired);
			node = home;
			shard = own_shard(node);
			if (!shard_trylock(s, shard))
				shard = NULL;
		}
		if (shard)
			__add(s, node, shard, slabs[i], &retired);
		else
			slab_node_defer(node, slabs[i]);
	}
	if (shard)
		shard_unlock(s, node, shard, false, &retired);
}

struct slab_shard *slab_node_hold(struct kmem_cache *s, struct page *page)
{
	struct kmem_cache_node *node = &s->nodes[page_node(page)];
	uint32_t state = slab_state(page);
	struct slab_shard *shard;

	if (slab_state_where(state) != SLAB_ON_NODE)
		return NULL;
	shard = &node->shards[slab_state_shard(state)];
	if (!shard_trylock(s, shard))
		return NULL;
	/* The slab may have left the list before. */
	if (likely(slab_state_place(slab_state(page)) == place_on(shard)))
		return shard;
	slab_node_let_go(s, node, shard, NULL);
	return NULL;
}

void slab_node_let_go(struct kmem_cache *s, struct kmem_cache_node *node,
		      struct slab_shard *shard, struct page *empty)
{
	struct list_head retired;

	list_init(&retired);
	if (empty) {
		if (spare(s, node))
			__retire(s, shard, empty, &retired);
		else
			__note_empty(shard);
	}
	shard_unlock(s, node, shard, false, &retired);
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
static unsigned int __take_listed(struct kmem_cache *s, struct slab_shard *shard, void **out,
				  unsigned int n, struct page **slabs, unsigned int max,
				  unsigned int *nr_slabs)
{
	struct list_head *list = &shard->partial;
	unsigned int got = 0;

	while (got < n && !list_empty(list)) {
		struct page *page = choose(s, list);

		__remove(shard, page);
		got += slab_page_take(s, page, out + got, n - got);
		slab_event(s, SLAB_ALLOC_FROM_PARTIAL);
		if (slab_page_leave_if_full(page))
			continue;
		if (*nr_slabs < max) {
			slab_page_move(page, place_on(shard), SLAB_WITH_CPU);
			slabs[(*nr_slabs)++] = page;
		} else {
			list_add(&page->list, list);
			__count_partial(shard, 1);
		}
	}
	while (got == n && *nr_slabs < max && !list_empty(list)) {
		struct page *page = list_first_entry(list, struct page, list);

		__remove(shard, page);
		slab_page_move(page, place_on(shard), SLAB_WITH_CPU);
		slabs[(*nr_slabs)++] = page;
	}
	return got;
}

/* Takes what @take lacks from a shard whose lock this thread has taken, and lets it go. */
static void take_held(struct kmem_cache *s, struct kmem_cache_node *node,
		      struct slab_shard *shard, struct slab_node_take *take, unsigned int max)
{
	struct list_head retired;

	list_init(&retired);
	__catch_up(s, node, shard, &retired);
	take->got += __take_listed(s, shard, take->out + take->got, take->n - take->got,
				   take->slabs, max, &take->nr_slabs);
	shard_unlock(s, node, shard, take->may_block, &retired);
}

/*
 * Takes from this CPU's shard, and from others only what that lacks: whole slabs for the CPU's
 * list come from its own. (A hardened cache has no such lists, and begins anywhere.) Result:
 * the first shard that was taken; NULL: none was.
 */
static struct slab_shard *take_from_free(struct kmem_cache *s, struct kmem_cache_node *node,
					 struct slab_node_take *take)
{
	unsigned int first = first_shard(s, node), max = take->max;
	struct slab_shard *taken = NULL;

	for (unsigned int i = 0; i < node->nr_shards && take->got < take->n; i++) {
		struct slab_shard *shard = &node->shards[(first + i) & (node->nr_shards - 1u)];

		/* Looks without the lock: a slab that comes at this moment serves the next
		 * request. */
		if (!atomic_load_explicit(&shard->nr_partial, memory_order_relaxed) &&
		    nothing_waits(node, shard))
			continue;
		if (i) /* no more than the rest of a slab that is begun */
			max = min_uint(max, take->nr_slabs + 1);
		if (shard_trylock(s, shard) ||
		    (take->may_block && !take->got && lock_spin(&shard->lock)))
			take_held(s, node, shard, take, max);
		else if (!taken)
			taken = shard;
	}
	return taken;
}

void slab_node_take(struct kmem_cache *s, unsigned int index, struct slab_node_take *take)
{
	struct kmem_cache_node *node = &s->nodes[index];
	struct slab_shard *taken;
	bool waits;

	debug_assert(index < page_window.nr_nodes && take->need <= take->n);
	take->got = take->nr_slabs = 0;
	taken = take_from_free(s, node, take);
	waits = unlikely(taken) && take->may_block && (take->anyhow || is_ample(s, index));
	/* By the time that one is free, others may have taken what it had. */
	for (unsigned int i = node->nr_shards; i && waits && taken && take->got < take->need;
	     i--) {
		if (!lock_unless_fork(&taken->lock))
			break;
		take_held(s, node, taken, take, take->max);
		taken = take_from_free(s, node, take);
	}
	take->left_some = taken != NULL;
	if (unlikely(atomic_load_explicit(&node->some_missed, memory_order_relaxed)))
		catch_up_all(s, node, take->may_block);
	debug_assert(take->got <= take->n && take->nr_slabs <= take->max);
}

/* For callers that may wait for the lock. */
static void shard_lock(struct kmem_cache *s, struct kmem_cache_node *node,
		       struct slab_shard *shard, struct list_head *retired)
{
	list_init(retired);
	lock(&shard->lock);
	__catch_up(s, node, shard, retired);
}

/* The sum of @of over all slabs on the lists of one node. */
static size_t sum_listed(struct kmem_cache *s, unsigned int index,
			 size_t (*of)(const struct kmem_cache *s, struct page *page))
{
	struct kmem_cache_node *node = &s->nodes[index];
	struct list_head retired;
	struct page *page;
	size_t sum = 0;

	for_each_shard (shard, node) {
		shard_lock(s, node, shard, &retired);
		list_for_each_entry (page, &shard->partial, list)
			sum += of(s, page);
		shard_unlock(s, node, shard, true, &retired);
	}
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

/* The lock keeps the slab for a thread that holds all (slab_node_lock_all). */
void slab_node_dismiss(struct kmem_cache *s, struct page *page)
{
	struct kmem_cache_node *node = &s->nodes[page_node(page)];
	struct slab_shard *shard = own_shard(node);
	struct list_head retired;

	shard_lock(s, node, shard, &retired);
	__atomic_store_n(&page->cache, NULL, __ATOMIC_RELAXED);
	shard_unlock(s, node, shard, true, &retired);
	slab_page_free(s, page);
}

/* Takes all empty slabs off the list. */
static void retire_all(struct kmem_cache *s, struct kmem_cache_node *node,
		       struct slab_shard *shard)
{
	struct list_head retired;
	struct page *page, *next;

	shard_lock(s, node, shard, &retired);
	/* A slab that becomes empty from here on has its thread hold the lock, or set
	 * shard->missed. */
	atomic_store_explicit(&shard->may_have_empty, false, memory_order_relaxed);
	list_for_each_entry_safe (page, next, &shard->partial, list)
		if (slab_state_empty(slab_layout(s, page), slab_state(page)))
			__retire(s, shard, page, &retired);
	shard_unlock(s, node, shard, true, &retired);
}

/* The list may be long, and programs trim again and again. */
static bool may_have_empty(const struct kmem_cache_node *node, const struct slab_shard *shard)
{
	return !nothing_waits(node, shard) ||
	       atomic_load_explicit(&shard->may_have_empty, memory_order_relaxed);
}

size_t slab_node_shrink(struct kmem_cache *s)
{
	size_t remain = 0;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		struct kmem_cache_node *node = &s->nodes[i];

		for_each_shard (shard, node)
			if (!s->keeps_slabs && may_have_empty(node, shard))
				retire_all(s, node, shard);
		slab_pace_forget(node);
		remain += atomic_load_explicit(&node->nr_slabs, memory_order_relaxed);
	}
	return remain;
}

void slab_node_lock_all(struct kmem_cache_node *node)
{
	for_each_shard (shard, node)
		if (shard == node->shards)
			lock(&shard->lock);
		else
			lock_another(&shard->lock);
}

void slab_node_unlock_all(struct kmem_cache_node *node)
{
	for_each_shard (shard, node)
		unlock(&shard->lock);
}
