/* SPDX-License-Identifier: MIT */
/*
 * Checks the invariants that stand beside the structures of this folder. Lists, slabs, arrays
 * and queues are well formed, and every object is in one of them only. Page entries, array map
 * and places describe the slabs. Caches and CPUs are charged with what they have. Guards,
 * poison and records of debugged caches' objects are as the library wrote them.
 *
 * Locks: the caches lock; the node's, while its list is walked. Everything else may change
 * while it is read; see base/verify.h.
 */
#include "slab/slab_verify.h"

#include <stdio.h>

#include "base/bits.h"
#include "os/os.h"
#include "page/aside.h"
#include "page/guard.h"
#include "page/lookup.h"
#include "page/zone.h"
#include "percpu/array_slow.h"
#include "queue/queue.h"
#include "slab/debug/hard.h"
#include "slab/debug/twin.h"
#include "slab/slab_budget.h"
#include "slab/slab_count.h"
#include "slab/slab_list.h"
#include "slab/slab_node.h"
#include "slab/slab_shared.h"
#include "slab/slab_stock.h"

/* The cache that is being verified, and sums over the slabs seen so far. */
struct look {
	struct kmem_cache *s;
	struct verify *v;
	char what[SLAB_NAME_SIZE + 32];
	/* Slabs on lists, how many of them are small and large; objects out of these slabs. */
	size_t slabs, small, large, out;
};

static const char *kind_of(const struct kmem_cache *s)
{
	return s->home == s ? "cache" : "twin of cache";
}

#define wrong_slab(l, page, text)                                                              \
	verify_found((l)->v, "%s, slab %p: %s", (l)->what, page_to_virt(page), text)

/* False: @page is no slab of @s, and the walk must not follow it. */
static no_sanitize_thread bool verify_slab(struct look *l, struct page *page,
					   enum slab_where where)
{
	struct kmem_cache *s = l->s;
	const struct slab_layout *layout;
	int avail = 0, whole = 0;
	uint32_t state;

	if (page_lookup(page_to_virt(page)) != page || page_type(page) != PAGE_SLAB ||
	    slab_page_cache(page) != s) {
		wrong_slab(l, page, "is on a list of the cache but no slab of it");
		return false;
	}
	layout = slab_layout(s, page);
	for (unsigned int w = 0; w < slab_words(layout); w++) {
		uint64_t all = slab_word_whole(layout, w);
		uint64_t word = atomic_load_explicit(slab_bitmap_word(layout, page, w),
						     memory_order_relaxed);

		if (word & ~all)
			wrong_slab(l, page, "a bit of no object is set");
		avail += word != 0;
		whole += word == all;
		l->out += (size_t)__builtin_popcountll(all & ~word);
	}
	if (s->hard && page->guard != PAGE_UNGUARDED &&
	    !page_is_guarded(page, page->span, page->guard))
		wrong_slab(l, page, "the closed page behind it is not there");
	l->slabs++;
	l->small += layout == &s->small;
	l->large += layout == &s->large;
	state = slab_state(page);
	if (slab_state_avail(state) != avail || slab_state_whole(state) != whole)
		wrong_slab(l, page, "its state does not tell what its bitmap does");
	if (!avail)
		wrong_slab(l, page, "no object is free, but it is on a list");
	if (slab_state_where(state) != where)
		wrong_slab(l, page, "its state names another list");
	return true;
}

/* Verifies the slabs on one list. Result: their number. Locks held. */
static size_t __verify_listed(struct look *l, const struct kmem_cache_node *node,
			      struct slab_shard *shard)
{
	struct page *page;
	uint32_t state;
	size_t n = 0;

	list_for_each_entry (page, &shard->partial, list) {
		n++;
		if (!verify_slab(l, page, SLAB_ON_NODE))
			break;
		state = slab_state(page);
		if (slab_state_where(state) == SLAB_ON_NODE &&
		    slab_state_shard(state) != shard->index)
			wrong_slab(l, page, "is on another shard's list");
		if (page_node(page) != node->index)
			wrong_slab(l, page, "is on another node's list");
	}
	return n;
}

static void verify_node(struct look *l, struct kmem_cache_node *node)
{
	size_t partial = 0, before = l->slabs;
	struct page *page;

	slab_node_lock_all(node);
	for_each_deferred (page, deferred_look(&node->deferred), deferred)
		if (!verify_slab(l, page, SLAB_WITH_CPU))
			break;
	for_each_shard (shard, node)
		partial += __verify_listed(l, node, shard);
	verify_that(l->v, partial == slab_node_nr_partial(node),
		    "%s, node %u: nr_partial is %zu, the list has %zu slabs", l->what,
		    node->index, slab_node_nr_partial(node), partial);
	verify_that(l->v,
		    atomic_load_explicit(&node->nr_slabs, memory_order_relaxed) >=
			    l->slabs - before,
		    "%s, node %u: more slabs on the list than there are", l->what, node->index);
	slab_node_unlock_all(node);
}

/* verify_slab() reports its findings itself, so there is no text to return. */
static const char *listed_wrong(void *page, void *look)
{
	verify_slab(look, page, SLAB_WITH_CPU);
	return NULL;
}

struct object_home {
	struct kmem_cache *s;
	unsigned int node;
};

/* Tells why @obj must not be in an array of this cache and node; NULL: it may, and it is out of
 * its slab. Another thread may have taken it meanwhile, and its slab may be gone; the next look
 * then finds something else (base/verify.c). */
static const char *object_wrong(void *obj, void *home)
{
	const struct object_home *of = home;
	struct page *page = page_lookup(obj);
	struct kmem_cache *s = of->s;
	const struct slab_layout *layout;
	unsigned int i;

	if (!page || !slab_page_is_of(slab_head(page), s))
		return "is not of the cache";
	page = slab_head(page);
	i = slab_page_index(s, page, obj);
	layout = slab_layout(s, page);
	/* The slab may change between the two tests; the second is for the word below. */
	if (slab_page_wrong(s, page, i) || i >= layout->objects)
		return "is not the start of an object";
	if (page_node(page) != of->node)
		return "is another node's";
	if (atomic_load_explicit(slab_bitmap_word(layout, page, i / 64),
				 memory_order_relaxed) >>
		    (i % 64) &
	    1)
		return "is free in its slab, too";
	return NULL;
}

/* The same for a hardened cache's objects: of whatever node, and not the program's. */
static const char *hard_wrong(void *obj, void *cache)
{
	struct kmem_cache *s = cache;
	struct object_home home = { s, page_node(page_of(obj)) };
	const char *wrong = object_wrong(obj, &home);

	if (wrong)
		return wrong;
	return slab_hard_has_canary(s, obj) ? "is in use by its canary" : NULL;
}

/* Verifies the objects in the shared queue of @node. */
static void verify_queued(const struct look *l, unsigned int node)
{
	struct alf_queue *q =
		atomic_load_explicit(&l->s->nodes[node].shared, memory_order_acquire);
	struct object_home home = { l->s, node };
	void *obj;

	for (uint32_t i = 0; q && (obj = queue_peek(q, i)); i++) {
		const char *wrong = object_wrong(obj, &home);

		verify_that(l->v, !wrong, "%s: object %p in the queue of node %u %s", l->what,
			    obj, node, wrong);
	}
}

static unsigned long long events_of(const struct kmem_cache *s)
{
	unsigned long long n = 0;

	for (unsigned int e = 0; e < SLAB_NR_EVENTS; e++)
		n += per_cpu_sum(s->events[e]);
	return n;
}

/*
 * Slabs on no list are full or in stock. So the number of objects out of slabs can be computed
 * from the lists, and must be inuse. If there are slabs of several layouts, and a stock, whose
 * slabs may be of any layout, this is not checked.
 *
 * While other threads go on the two numbers differ by a few, and often by the same as in the
 * look before. So the finding tells how often slow paths were taken: it stays if it is found
 * again with nothing done in between (verify_run()).
 */
static void verify_sum(const struct look *l)
{
	const struct kmem_cache *s = l->s;
	size_t slabs = 0, small = 0, large = 0, inuse = 0, stock = slab_stock_count(s), out;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		struct kmem_cache_node *node = &s->nodes[i];

		slabs += atomic_load_explicit(&node->nr_slabs, memory_order_relaxed);
		small += atomic_load_explicit(&node->nr_small, memory_order_relaxed);
		large += atomic_load_explicit(&node->nr_large, memory_order_relaxed);
		inuse += atomic_load_explicit(&node->inuse, memory_order_relaxed);
	}
	slabs -= min_size(stock, slabs);
	verify_that(l->v,
		    slabs >= l->slabs && (stock || (small >= l->small && large >= l->large)),
		    "%s: %zu slabs (%zu small, %zu large), and %zu (%zu, %zu) on lists",
		    l->what, slabs, small, large, l->slabs, l->small, l->large);
	if (slabs < l->slabs || (stock && (small || large)))
		return;
	slabs -= l->slabs;
	small -= l->small;
	large -= l->large;
	out = l->out + small * s->small.objects + large * s->large.objects +
	      (slabs - small - large) * s->layout.objects;
	verify_that(l->v, inuse == out,
		    "%s: after %llu events inuse is %zu, but %zu objects are out of %zu listed "
		    "slabs, and %zu more, of which %zu are small and %zu large",
		    l->what, events_of(s), inuse, out, l->slabs, slabs, small, large);
}

static void verify_one(struct kmem_cache *s, struct verify *v)
{
	struct look l = { .s = s, .v = v };
	char slabs[sizeof(l.what) + 16];

	snprintf(l.what, sizeof(l.what), "%s '%s'", kind_of(s), s->name);
	snprintf(slabs, sizeof(slabs), "slabs of %s", l.what);
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		verify_node(&l, &s->nodes[i]);
	pcpu_array_verify(s->partial_array, s->home == s ? SLAB_CPU_PARTIAL_MAX : 0, slabs,
			  listed_wrong, &l, v);
	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		struct object_home home = { s, i };

		pcpu_array_verify(slab_array(s, i), s->capacity_max, l.what, object_wrong,
				  &home, v);
		if (s->hard)
			pcpu_array_verify(slab_array(s, i), s->capacity_max, l.what, hard_wrong,
					  s, v);
		verify_queued(&l, i);
	}
	if (s->hard)
		pcpu_array_verify(s->hard_waiting,
				  atomic_load_explicit(&s->hard_slots, memory_order_relaxed),
				  l.what, hard_wrong, s, v);
	slab_shared_verify(s, v);
	verify_sum(&l);
}

/* Verifies the bytes in and around the objects of a slab of a twin. Its node's locks are held,
 * so no thread frees the slab. */
static void __verify_objects(struct kmem_cache *twin, struct page *page, struct verify *v)
{
	char *first = (char *)page_to_virt(page) + twin->pad_left;
	const char *wrong;
	long offset = 0;

	for (unsigned int i = 0; i < slab_layout(twin, page)->objects; i++) {
		void *obj = first + (size_t)i * twin->size;

		wrong = slab_twin_object_wrong(twin, obj, &offset);
		if (wrong)
			verify_found(v, "cache '%s': object %p: %s at %+ld", twin->name, obj,
				     wrong, offset);
	}
}

/* The same for all slabs of a twin, which are found by their pages: full ones are on no list.
 */
static void verify_twin(struct kmem_cache *twin, struct verify *v)
{
	for_each_zone (z) {
		size_t end = atomic_load_explicit(&z->frontier, memory_order_acquire);

		for (size_t pfn = z->start; pfn < end; pfn++) {
			struct page *page = page_window.pages + pfn;
			struct kmem_cache_node *node;

			if (!slab_page_is_of(page, twin))
				continue;
			node = &twin->nodes[page_node(page)];
			slab_node_lock_all(node);
			if (slab_page_is_of(page, twin))
				__verify_objects(twin, page, v);
			slab_node_unlock_all(node);
		}
	}
}

static size_t slabs_of(const struct kmem_cache *s)
{
	size_t n = 0;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		n += atomic_load_explicit(&s->nodes[i].nr_slabs, memory_order_relaxed);
	return n;
}

/* The slabs charged to the cache's limit are the slabs that there are. */
static void verify_charge(struct kmem_cache *s, struct verify *v)
{
	size_t slabs = slabs_of(s) + (slab_twin(s) ? slabs_of(slab_twin(s)) : 0);
	size_t charged = atomic_load_explicit(&s->all_slabs, memory_order_relaxed);

	verify_that(v, charged == slabs, "cache '%s': %zu slabs, %zu charged to its limit",
		    s->name, slabs, charged);
	verify_that(v, charged <= atomic_load_explicit(&s->most_slabs, memory_order_relaxed),
		    "cache '%s': more slabs than there ever were", s->name);
}

/* Verifies all but what is found by pages. */
static void verify_cache(struct kmem_cache *s, struct verify *v)
{
	verify_one(s, v);
	if (slab_twin(s))
		verify_one(slab_twin(s), v);
	verify_charge(s, v);
	slab_stock_verify(s, v);
}

void slab_verify(struct kmem_cache *s, struct verify *v)
{
	verify_cache(s, v);
	if (slab_twin(s))
		verify_twin(slab_twin(s), v);
}

/* The bytes that the members' arrays and queues may hold are the bytes charged to CPUs. */
static void verify_budget(struct verify *v)
{
	uint64_t bytes = 0;

	for (unsigned int m = 0; m < slab_budget_members(); m++) {
		struct kmem_cache *s = slab_budget_member(m);
		uint64_t objects = 0;

		for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
			for_each_cpu_unit (cpu) {
				struct pcpu_array *a = pcpu_ptr(slab_array(s, i), cpu);

				objects += atomic_load_explicit(&a->capacity,
								memory_order_relaxed);
			}
			objects += s->nodes[i].shared ? s->shared_size : 0;
		}
		bytes += objects * s->size;
	}
	verify_that(v, bytes == slab_budget_used(),
		    "budget: arrays and queues may hold %llu bytes, CPUs are charged with %llu",
		    (unsigned long long)bytes, (unsigned long long)slab_budget_used());
}

/*
 * The caches and their twins by address, for as long as the caches lock is held: open
 * addressing, at most half of the slots are used. To walk all caches for each slab would take
 * half a minute under the lock where there are 20000. NULL @slot: there is no memory for it.
 */
struct known {
	struct kmem_cache **slot;
	unsigned int order;
	size_t left; /* so many more find room */
};

static void count(struct kmem_cache *s, void *n)
{
	*(size_t *)n += slab_twin(s) ? 2 : 1;
}

/* The slot of @s, or the unused one where it would be. */
static struct kmem_cache **slot_of(const struct known *known, const struct kmem_cache *s)
{
	size_t at = (uintptr_t)s * 0x9e3779b97f4a7c15 >> (64 - known->order);

	while (known->slot[at] && known->slot[at] != s)
		at = (at + 1) & (((size_t)1 << known->order) - 1);
	return known->slot + at;
}

static void note(struct known *known, struct kmem_cache *s)
{
	if (!s || !known->left)
		return;
	known->left--;
	*slot_of(known, s) = s;
}

static void note_both(struct kmem_cache *s, void *known)
{
	note(known, s);
	note(known, slab_twin(s));
}

static size_t known_bytes(const struct known *known)
{
	return align_up(sizeof(void *) << known->order, os_page_size());
}

/* Caches lock held, here and until __known_end(). */
static void __known_begin(struct known *known)
{
	void *slots;

	known->left = 0;
	__slab_for_each_cache(count, &known->left);
	known->order = ilog2_up(known->left * 2 + 2);
	known->slot = NULL;
	if (os_map_metadata(known_bytes(known), &slots))
		return;
	known->slot = slots;
	__slab_for_each_cache(note_both, known);
}

static void __known_end(struct known *known)
{
	if (known->slot)
		os_release(known->slot, known_bytes(known));
}

struct search {
	const struct kmem_cache *wanted;
	struct kmem_cache *found;
};

static void compare(struct kmem_cache *s, void *arg)
{
	struct search *search = arg;

	if (s == search->wanted || slab_twin(s) == search->wanted)
		search->found = s == search->wanted ? s : slab_twin(s);
}

/* Nothing orders this: another thread may be freeing the page. */
static noinline no_sanitize_thread const struct kmem_cache *named_cache(struct page *page)
{
	return __atomic_load_n(&page->cache, __ATOMIC_RELAXED);
}

/* The cache of a slab's head; NULL: no existing cache. The page may be no slab by now, so the
 * pointer in its entry is only compared. Caches lock held. */
static struct kmem_cache *__find_cache(const struct known *known, struct page *page)
{
	struct search search = { .wanted = named_cache(page) };

	if (known->slot && search.wanted)
		search.found = *slot_of(known, search.wanted);
	if (search.found)
		return search.found;
	/* Also for caches that were pushed onto the list meanwhile. */
	__slab_for_each_cache(compare, &search);
	return search.found;
}

/* Whether @entry is the entry of a page that was handed out at some time. */
static bool is_entry(uintptr_t entry)
{
	size_t offset = entry - (uintptr_t)page_window.pages;
	size_t pfn = offset / sizeof(struct page);

	if (offset % sizeof(struct page))
		return false;
	for_each_zone (z)
		if (pfn >= z->start &&
		    pfn < atomic_load_explicit(&z->frontier, memory_order_acquire))
			return true;
	return aside_has(pfn);
}

/* Whether a slab is on a shard's list. If it is on no list, its links may have any value. Lock
 * held. */
static bool __is_linked(const struct slab_shard *shard, const struct page *page)
{
	const struct list_head *prev = page->list.prev;

	lock_assert_held(&shard->lock);
	return (prev == &shard->partial ||
		is_entry((uintptr_t)prev - offsetof(struct page, list))) &&
	       prev->next == &page->list;
}

static bool __is_listed(const struct kmem_cache_node *node, struct page *page)
{
	unsigned int shard = slab_state_shard(slab_state(page));

	return shard < node->nr_shards && __is_linked(&node->shards[shard], page);
}

/* Tells what is wrong with a slab, listed or not. Its node's locks are held, so no thread frees
 * it. */
static const char *__slab_wrong(struct kmem_cache *s, struct page *page)
{
	enum slab_where where = slab_state_where(slab_state(page));

	if (!slab_page_is_mapped(s, page))
		return "the array map or the places say something else of it";
	if (where == SLAB_FULL && slab_page_free_objects(s, page))
		return "is full by its state, but an object is free";
	if (where == SLAB_ON_NODE && !__is_listed(&s->nodes[page_node(page)], page))
		return "its state says that it is on the node's list, where it is not";
	return NULL;
}

static void __verify_page(const struct known *known, struct page *page, struct verify *v)
{
	struct kmem_cache *s = __find_cache(known, page);
	struct kmem_cache_node *node;
	const char *wrong = NULL;

	if (!s) {
		verify_that(v, page_type(page) != PAGE_SLAB, "slab %p: is of no cache",
			    page_to_virt(page));
		return;
	}
	node = &s->nodes[page_node(page)];
	slab_node_lock_all(node);
	if (slab_page_is_of(page, s)) {
		wrong = __slab_wrong(s, page);
		if (s->home != s)
			__verify_objects(s, page, v);
	}
	slab_node_unlock_all(node);
	if (wrong)
		verify_found(v, "%s '%s', slab %p: %s", kind_of(s), s->name, page_to_virt(page),
			     wrong);
}

/* Finds all slabs by their pages, and verifies them. */
static void verify_pages(struct verify *v)
{
	struct known known;

	slab_caches_lock();
	__known_begin(&known);
	for_each_zone (z) {
		size_t end = atomic_load_explicit(&z->frontier, memory_order_acquire);

		for (size_t pfn = z->start; pfn < end; pfn++)
			if (page_type(page_window.pages + pfn) == PAGE_SLAB)
				__verify_page(&known, page_window.pages + pfn, v);
	}
	__known_end(&known);
	slab_caches_unlock();
}

static void verify_listed(struct kmem_cache *s, void *arg)
{
	verify_cache(s, arg);
}

void slab_verify_all(struct verify *v)
{
	slab_for_each_cache(verify_listed, v);
	verify_budget(v);
	verify_pages(v);
}
