/* SPDX-License-Identifier: MIT */
#include "slab_shim.h"

#include "kmalloc/kmalloc.h"
#include "queue/queue.h"
#include "slab/slab_page.h"

bool shim_slab_init(void)
{
	return slab_init();
}

void shim_slab_count(struct kmem_cache *s, struct shim_counts *c)
{
	struct slab_counts in;

	slab_count(s, &in);
	*c = (struct shim_counts){
		.allocs = in.allocs,
		.frees = in.frees,
		.allocs_fast = in.allocs_fast,
		.frees_fast = in.frees_fast,
		.inuse = in.inuse,
		.cached = in.cached,
		.slabs = in.slabs,
		.partial = in.partial,
		.objects = in.objects,
		.refills = in.events[SLAB_ALLOC_REFILL],
		.flushes = in.events[SLAB_FREE_FLUSH],
		.fails = in.events[SLAB_ALLOC_FAIL],
		.cpu_partial = in.cpu_partial,
		.shared = in.shared,
	};
}

void shim_slab_geometry(struct kmem_cache *s, struct shim_geometry *g)
{
	*g = (struct shim_geometry){
		.size = s->size,
		.object_size = s->object_size,
		.align = s->align,
		.objects = s->layout.objects,
		.npages = s->layout.npages,
		.reciprocal = s->reciprocal,
		.bitmap_in_slab = s->layout.bitmap_in_slab,
		.capacity_first = s->capacity_first,
		.capacity_max = s->capacity_max,
	};
}

bool shim_slab_push_to(struct kmem_cache *s, void *obj)
{
	return slab_push_to(s, slab_entry(obj), obj);
}

enum shim_entries shim_slab_entries(const struct kmem_cache *s)
{
	return s->token				 ? SHIM_ENTRY_TOKEN
	       : s->entry_first == SLAB_NO_ENTRY ? SHIM_ENTRY_NONE
						 : SHIM_ENTRY_OWN;
}

const char *shim_slab_name(const struct kmem_cache *s)
{
	return s->name;
}

/* NULL, or what is wrong with a slab that nobody works on. */
static const char *slab_wrong(struct kmem_cache *s, struct page *page, size_t *out)
{
	const struct slab_layout *l = slab_layout(s, page);
	uint32_t state = slab_state(page);
	int avail = 0, whole = 0;

	if (page_type(page) != PAGE_SLAB || page->cache != s)
		return "a listed page is no slab of this cache";
	for (unsigned int w = 0; w < slab_words(l); w++) {
		uint64_t word = *slab_bitmap_word(l, page, w), all = slab_word_whole(l, w);

		if (word & ~all)
			return "a bit of no object is set";
		avail += word != 0;
		whole += word == all;
		*out += (size_t)__builtin_popcountll(all & ~word);
	}
	if (slab_state_avail(state) != avail || slab_state_whole(state) != whole)
		return "a slab's state does not tell what its bitmap does";
	if (!avail)
		return "a full slab is on a list";
	return NULL;
}

/* @inuse: objects out of the slabs on lists; @slabs: how many those are. */
static const char *node_wrong(struct kmem_cache *s, struct kmem_cache_node *node, size_t *inuse,
			      size_t *slabs)
{
	const char *wrong = NULL;
	size_t partial = 0;
	struct page *page;

	for (page = node->deferred; page && !wrong; page = page->deferred) {
		++*slabs;
		wrong = slab_wrong(s, page, inuse);
	}
	list_for_each_entry (page, &node->partial, list) {
		partial++;
		if (!wrong)
			wrong = slab_wrong(s, page, inuse);
		if (wrong)
			return wrong;
		if (slab_state_where(slab_state(page)) != SLAB_ON_NODE)
			return "a slab on the node's list does not say so";
		if (page_node(page) != node->index)
			return "a slab is on another node's list";
	}
	*slabs += partial;
	if (partial != node->nr_partial)
		return "nr_partial is not the length of the list";
	if (node->nr_slabs < partial)
		return "more partial slabs than slabs";
	return wrong;
}

static const char *cpu_wrong(struct kmem_cache *s, unsigned int cpu, size_t *inuse,
			     size_t *slabs)
{
	const struct pcpu_array *a = pcpu_ptr(s->partial_array, cpu);
	unsigned int n = pcpu_array_count(pcpu_array_header(a));

	for (unsigned int i = 0; i < n; i++) {
		const char *wrong = slab_wrong(s, a->slot[i], inuse);

		if (wrong)
			return wrong;
		if (slab_state_where(slab_state(a->slot[i])) != SLAB_WITH_CPU)
			return "a slab on a CPU's list does not say so";
	}
	*slabs += n;
	return NULL;
}

const char *shim_slab_wrong(struct kmem_cache *s)
{
	size_t inuse = 0, slabs = 0, all = 0, objects = 0, out = 0;
	const char *wrong = NULL;

	for (unsigned int i = 0; i < page_window.nr_nodes && !wrong; i++) {
		struct kmem_cache_node *node = &s->nodes[i];

		lock(&node->lock);
		wrong = node_wrong(s, node, &inuse, &slabs);
		unlock(&node->lock);
		all += node->nr_slabs;
		objects += slab_node_objects(s, i);
		out += node->inuse;
	}
	for_each_cpu_unit (cpu)
		if (!wrong)
			wrong = cpu_wrong(s, cpu, &inuse, &slabs);
	if (wrong)
		return wrong;
	if (all < slabs)
		return "more slabs on lists than slabs";
	all -= slab_stock_count(s);
	objects -= kmem_cache_stock(s);
	/* Those on no list are full; slabs cut small are not told apart here. */
	if (objects == all * s->layout.objects &&
	    out != inuse + (all - slabs) * s->layout.objects)
		return "inuse is not the sum over the slabs";
	return NULL;
}

struct kmem_cache *shim_slab_cache_of(const void *obj)
{
	return slab_cache_of(obj);
}

bool shim_node_trylock(struct kmem_cache *s, unsigned int node)
{
	return trylock(&s->nodes[node].lock);
}

void shim_node_unlock(struct kmem_cache *s, unsigned int node)
{
	unlock(&s->nodes[node].lock);
}

unsigned int shim_slab_deferred(struct kmem_cache *s)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		for (struct page *p = s->nodes[i].deferred; p; p = p->deferred)
			n++;
	return n;
}

uint64_t shim_slab_event(struct kmem_cache *s, enum shim_event event)
{
	static const enum slab_event events[] = {
		[SHIM_ORDER_FALLBACK] = SLAB_ORDER_FALLBACK,
		[SHIM_FREE_REMOTE] = SLAB_FREE_REMOTE,
		[SHIM_ALLOC_NODE_MISMATCH] = SLAB_ALLOC_NODE_MISMATCH,
		[SHIM_ALLOC_FAIL] = SLAB_ALLOC_FAIL,
	};
	struct slab_counts in;

	slab_count(s, &in);
	return in.events[events[event]];
}

unsigned int shim_object_node(const void *obj)
{
	return page_node(page_of(obj));
}

unsigned int shim_cpu_partial_slabs(const struct kmem_cache *s)
{
	return s->cpu_partial_slabs;
}

bool shim_slab_drain(struct kmem_cache *s)
{
	return slab_drain(s, PCPU_ALL_CPUS);
}

void *shim_slab_base(const void *obj)
{
	return page_to_virt(slab_head(page_of(obj)));
}

void shim_for_each_cache(void (*fn)(struct kmem_cache *s, void *arg), void *arg)
{
	slab_for_each_cache(fn, arg);
}

unsigned int shim_reserve_used(unsigned long *exhausted)
{
	uint64_t n;
	unsigned int used = slab_reserve_used(&n);

	*exhausted = n;
	return used;
}

bool shim_kmalloc_init(void)
{
	return kmalloc_init();
}

size_t shim_class_usable(const void *p)
{
	return kmalloc_class_usable(p);
}

struct kmem_cache *shim_class_cache(size_t size)
{
	return size_class_cache(size);
}

struct kmem_cache *shim_class_aligned(size_t size, size_t align)
{
	return size_class_aligned(size, align);
}

void *shim_class_small(size_t size)
{
	return kmalloc_fast.tables.small[size_small_index(size)];
}

void *shim_class_large(size_t size)
{
	return kmalloc_fast.tables.large[size_large_index(size)];
}

void *shim_cache_array(const struct kmem_cache *s)
{
	return s->cpu_array;
}

void *shim_kmalloc_aligned(size_t size, size_t align, gfp_t flags)
{
	return kmalloc_aligned(size, align, flags, NULL);
}

static void hold(struct alf_queue_side *side, unsigned int cpu)
{
	uint64_t word = side_word(side, __ATOMIC_RELAXED);

	__atomic_store_n(&side->word, word_with(word, SIDE_HELD | (cpu + 1), 0),
			 __ATOMIC_RELEASE);
}

void shim_hold_shared(struct kmem_cache *s, unsigned int cpu)
{
	struct alf_queue *q = atomic_load(&s->nodes[0].shared);

	hold(&q->producer, cpu);
	hold(&q->consumer, cpu);
}

unsigned int shim_no_cpu(void)
{
	return SIDE_MAX_CPUS - 1;
}
