/* SPDX-License-Identifier: MIT */
/*
 * Puts free objects and slabs of CPUs back to the nodes. percpu/drain.h empties the arrays.
 *
 * A trim empties those arrays alone that keep memory: slabs that would become empty if all
 * their objects went back. Threads that go on meanwhile find the other arrays as they were, and
 * need no slow path. A trim leaves the arrays of caches that the program uses also if they keep
 * little: all together at most a 64th of the pages that the program's objects fill, because as
 * much would come back at the next requests. Lists of CPUs' slabs stay if none of the slabs is
 * empty. What a trim finds is right if no thread uses the cache; otherwise a slab that a thread
 * empties meanwhile may stay until the next one.
 *
 * Programs trim again and again. So a trim does not stop CPUs for arrays that are empty, and
 * judges arrays anew only if objects moved since the last one (judged_of).
 */
#include "slab/slab_drain.h"

#include "base/assert.h"
#include "page/lookup.h"
#include "percpu/drain.h"
#include "percpu/gate.h"
#include "slab/debug/twin.h"
#include "slab/slab_count.h"
#include "slab/slab_geometry.h"
#include "slab/slab_list.h"
#include "slab/slab_node.h"
#include "slab/slab_objects.h"
#include "slab/slab_shared.h"
#include "slab/slab_stock.h"

static void put_objects(void *cache, void **objects, unsigned int n)
{
	slab_put(cache, objects, n, SLAB_PUT_NODE);
}

static void put_slabs(void *cache, void **slabs, unsigned int n)
{
	slab_node_add(cache, (struct page **)slabs, n);
}

enum {
	JUDGED_MAX = 1024, /* more objects of a cache and node are always drained */
	LEAVE_SHIFT = 6,   /* a trim leaves arrays at most 1/2^6 of the objects' pages */
};

static uint64_t mix(uint64_t sum, uint64_t v)
{
	sum = (sum ^ v) * 0x9e3779b97f4a7c15;
	return sum ^ sum >> 32;
}

/* Objects in the arrays of one cache and node. Synchronization: the caches lock. */
static void *judged[JUDGED_MAX];
static unsigned int nr_judged;

static size_t note_object(void *object, const void *unused)
{
	(void)unused;
	if (nr_judged < JUDGED_MAX)
		judged[nr_judged++] = object;
	return 1;
}

/* Sorts by address, so that objects of one slab lie together. The library must not call what
 * may allocate. */
static void sort_judged(void)
{
	for (unsigned int gap = nr_judged / 2; gap; gap = gap == 2 ? 1 : gap * 5 / 11)
		for (unsigned int i = gap; i < nr_judged; i++) {
			void *object = judged[i];
			unsigned int k = i;

			for (; k >= gap && (uintptr_t)judged[k - gap] > (uintptr_t)object;
			     k -= gap)
				judged[k] = judged[k - gap];
			judged[k] = object;
		}
}

/* The head of the slab that an object is of, or was of a moment ago; NULL: it is of none. */
static struct page *head_of(const void *object)
{
	struct page *page = page_lookup(object);

	return page ? slab_head(page) : NULL;
}

/* The layout of slab @page; NULL: it is no slab of @s. The page may be anything by now; the
 * words that are read of it are written whole.
 */
static noinline no_sanitize_thread const struct slab_layout *
layout_of(const struct kmem_cache *s, struct page *page)
{
	uint32_t head =
		page_head_order(atomic_load_explicit(&page->head, memory_order_relaxed));

	if ((head & 0xff) != PAGE_SLAB || __atomic_load_n(&page->cache, __ATOMIC_RELAXED) != s)
		return NULL;
	return slab_layout_of(s, head >> 16);
}

/* The pages of a slab of which no more than @k objects are out; 0: there are more, or @page is
 * no slab of @s. */
static noinline no_sanitize_thread size_t pages_kept(const struct kmem_cache *s,
						     struct page *page, size_t k)
{
	const struct slab_layout *l = layout_of(s, page);
	size_t out;

	if (!l)
		return 0;
	out = l->objects;
	for (unsigned int w = 0; w < (l->objects + 63u) / 64; w++)
		out -= (size_t)__builtin_popcountll(
			atomic_load_explicit(slab_entry_word(page, w), memory_order_relaxed));
	return out <= k ? l->npages : 0;
}

/*
 * A number for the objects that a node's arrays hold, and that its slabs have out. As long as
 * it is the same, so are they: objects go to slabs and are counted (nr_puts), or come from
 * there, so that more are out; or a program pops objects, which arrays count, or pushes some,
 * so that arrays hold more. (The number mixes these counts, so it may be the same by chance,
 * once in 2^64 times. Then the next change is seen.)
 *
 * pages_in_arrays() takes the number before judge() looks, so what moves meanwhile makes
 * another number. Where processors reorder loads, judge() may see less than the number says of
 * what another thread moved just before; then a slab may stay until something moves again.
 */
static uint64_t state_of(struct kmem_cache *s, unsigned int index)
{
	const struct kmem_cache_node *node = &s->nodes[index];
	uint64_t sum = mix(0, atomic_load_explicit(&node->nr_puts, memory_order_relaxed));

	sum = mix(sum, atomic_load_explicit(&node->inuse, memory_order_relaxed));
	for_each_cpu_unit (cpu)
		sum = mix(sum, pcpu_array_header(pcpu_ptr(slab_array(s, index), cpu)));
	return sum;
}

/* As pages_in_arrays(), of arrays that are not empty. */
static size_t judge(struct kmem_cache *s, unsigned int node)
{
	size_t n, pages = 0;

	nr_judged = 0;
	n = pcpu_array_sum_of(slab_array(s, node), PCPU_ALL_CPUS, note_object, NULL);
	if (n > JUDGED_MAX ||
	    atomic_load_explicit(&s->nodes[node].inuse, memory_order_relaxed) <= n)
		return SIZE_MAX;
	sort_judged();
	for (unsigned int i = 0, k; i < nr_judged; i += k) {
		struct page *slab = head_of(judged[i]);

		for (k = 1; i + k < nr_judged && head_of(judged[i + k]) == slab; k++)
			if (unlikely(judged[i + k] == judged[i + k - 1]))
				return SIZE_MAX;
		if (slab)
			pages += pages_kept(s, slab, k);
	}
	return pages;
}

/* The pages of a node's slabs that would become empty if arrays were emptied; SIZE_MAX: the
 * arrays are to be emptied anyhow. So they are if the program has none of the cache's objects,
 * if there are too many to be looked at, and if one is there twice, which a slab then finds;
 * and always if the cache is hardened, or has its bitmaps in the slabs. */
static size_t pages_in_arrays(struct kmem_cache *s, unsigned int index)
{
	struct kmem_cache_node *node = &s->nodes[index];
	uint64_t state;

	if (s->hard || s->layout.bitmap_in_slab)
		return SIZE_MAX;
	state = state_of(s, index);
	if (node->judged_of != state) {
		node->judged_pages = judge(s, index);
		node->judged_of = state;
	}
	return node->judged_pages;
}

/* A trim of all caches. */
struct trim {
	struct pcpu_drain *drain;
	bool counted; /* `left` is set */
	size_t left;  /* pages that may be left to arrays yet */
};

/* Adds the bytes of the objects that the program has. A trim does not change the sum, so a
 * second one leaves as much as the first. */
static void add_in_use(struct kmem_cache *s, void *sum)
{
	size_t *bytes = sum;
	struct slab_counts c;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		slab_count_node(s, i, &c);
		*bytes += c.inuse * slab_object_bytes(s);
	}
}

/* Whether a trim leaves the arrays of a node as they are. The caches lock is held. */
static bool __may_stay(struct kmem_cache *s, unsigned int node, struct trim *t)
{
	size_t pages;

	if (pcpu_array_is_empty(slab_array(s, node)))
		return true;
	pages = pages_in_arrays(s, node);
	if (!pages)
		return true;
	if (pages != SIZE_MAX && !t->counted) {
		__slab_for_each_cache(add_in_use, &t->left);
		t->left = t->left >> page_shift() >> LEAVE_SHIFT;
		t->counted = true;
	}
	if (pages > t->left)
		return false;
	t->left -= pages;
	return true;
}

static noinline no_sanitize_thread size_t is_empty(void *slab, const void *s)
{
	const struct slab_layout *l = layout_of(s, slab);

	return l && slab_state_empty(l, slab_state(slab));
}

/* Whether a trim leaves the lists of CPUs' slabs. */
static bool slabs_may_stay(struct kmem_cache *s)
{
	return !pcpu_array_sum_of(s->partial_array, PCPU_ALL_CPUS, is_empty, s);
}

static void add_objects(struct kmem_cache *s, struct pcpu_drain *d, void *array)
{
	pcpu_drain_add(d, array, put_objects, s);
}

/* Empties the twin's quarantine, which is of no CPU. */
static void drain_twin(struct kmem_cache *s)
{
	if (slab_twin(s))
		slab_twin_drain(slab_twin(s));
}

/* Adds the arrays of a cache to @d. The slabs come last, so that those which become empty
 * leave. */
static void list_cache(struct kmem_cache *s, struct pcpu_drain *d)
{
	slab_event(s, SLAB_CPUSLAB_FLUSH);
	if (d->cpu == PCPU_ALL_CPUS)
		drain_twin(s);
	if (s->hard)
		add_objects(s, d, s->hard_waiting);
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		add_objects(s, d, slab_array(s, i));
	pcpu_drain_add(d, s->partial_array, put_slabs, s);
}

/* The same of the arrays that a trim empties. */
static void __list_trimmed(struct kmem_cache *s, struct trim *t)
{
	bool any = false;

	drain_twin(s);
	if (s->hard && !pcpu_array_is_empty(s->hard_waiting)) {
		any = true;
		add_objects(s, t->drain, s->hard_waiting);
	}
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		if (!__may_stay(s, i, t)) {
			any = true;
			add_objects(s, t->drain, slab_array(s, i));
		}
	if (!any && slabs_may_stay(s))
		return;
	slab_event(s, SLAB_CPUSLAB_FLUSH);
	pcpu_drain_add(t->drain, s->partial_array, put_slabs, s);
}

bool slab_drain(struct kmem_cache *s, bool idle)
{
	struct pcpu_drain d = { .cpu = PCPU_ALL_CPUS, .idle = idle };

	list_cache(s, &d);
	pcpu_drain_end(&d);
	/* The queue is drained after the arrays: while these are stopped, threads flush to the
	 * shared queue. */
	return slab_shared_drain(s, idle) && !d.refused;
}

/* A function of its own: a drain needs the stack that the counts take. */
static noinline bool holds_any(struct kmem_cache *s)
{
	struct slab_counts c;

	slab_count_held(s, &c);
	return c.cached || c.cpu_partial;
}

void slab_drain_held(struct kmem_cache *s)
{
	if (holds_any(s))
		slab_drain(s, false);
}

static void list_arrays(struct kmem_cache *s, void *drain)
{
	list_cache(s, drain);
}

static void trim_arrays(struct kmem_cache *s, void *trim)
{
	slab_shared_drain(s, false); /* its objects are of the same slabs */
	__list_trimmed(s, trim);
}

void slab_arrays_list(struct pcpu_drain *d)
{
	struct trim t = { .drain = d };

	pcpu_drain_end(d); /* puts elements of pools into arrays */
	slab_caches_lock();
	if (d->cpu != PCPU_ALL_CPUS) {
		__slab_for_each_cache(list_arrays, d);
		return;
	}
	__slab_for_each_cache(trim_arrays, &t);
}

void slab_set_cpu_partial(struct kmem_cache *s, unsigned int objects)
{
	debug_assert(s->home == s);
	atomic_store_explicit(&s->cpu_partial, objects, memory_order_relaxed);
	pcpu_arrays_set_bound(s->partial_array, &s->cpu_partial_slabs,
			      slab_cpu_partial_slabs(s, objects), put_slabs, s);
	slab_event(s, SLAB_CPUSLAB_FLUSH);
}

bool slab_shrink_drained(struct kmem_cache *s)
{
	struct kmem_cache *twin = slab_twin(s);
	size_t remain = slab_node_shrink(s);

	if (twin)
		remain += slab_node_shrink(twin);
	return remain > slab_stock_count(s);
}

bool slab_shrink(struct kmem_cache *s)
{
	bool remain;

	/* Objects and slabs are in hand here, and not all of them under a lock. */
	pcpu_gate_enter(true);
	slab_drain_held(s);
	remain = slab_shrink_drained(s);
	pcpu_gate_leave();
	return remain;
}
