/* SPDX-License-Identifier: MIT */
/*
 * Between a CPU's array and the slabs: half an array moves at once.
 *
 * The array's capacity is found by use. It starts small and doubles whenever a
 * refill follows a flush or the other way round: then what the program allocates
 * and frees in turn is more than the array holds. A monotone phase, however
 * long, grows it once. slab_budget.c bounds what
 * kmalloc's arrays hold together.
 *
 * A section that was aborted, an empty array, a stopped one and one without a
 * CPU index all look alike here, and progress never depends on which it was:
 * one more try, then the node's slabs serve the request directly.
 */
#include <string.h>

#include "base/bits.h"
#include "base/report.h"
#include "slab/slab.h"

/* struct pcpu_array.last_move */
enum { MOVED_NONE, MOVED_REFILL, MOVED_FLUSH };

/* By how much a capacity grows that is moved in direction @move now. */
static unsigned int growth(const struct kmem_cache *s, struct pcpu_array *a,
			   unsigned int capacity, uint8_t move)
{
	uint8_t last = atomic_exchange_explicit(&a->last_move, move, memory_order_relaxed);

	if (!capacity)
		return s->capacity_first;
	if (last == move || last == MOVED_NONE)
		return 0;
	return min_uint(capacity, s->capacity_max - capacity);
}

/*
 * This CPU's capacity, opened on first use and grown as said above. Sections read
 * it afresh, so any value up to capacity_max is safe at any time.
 */
static unsigned int tune(struct kmem_cache *s, uint8_t move)
{
	unsigned int cpu = pcpu_index(), more;
	struct pcpu_array *a;
	uint16_t capacity;

	if (cpu >= pcpu.nr_ids)
		return s->capacity_first;
	a = pcpu_ptr(s->cpu_array, cpu);
	capacity = atomic_load_explicit(&a->capacity, memory_order_relaxed);
	more = growth(s, a, capacity, move);
	/* A first few are every class's right: without any it would lock for each object. */
	if (!more || !slab_budget_charge(s, cpu, more, !capacity))
		return capacity;
	if (atomic_compare_exchange_strong_explicit(&a->capacity, &capacity,
						    (uint16_t)(capacity + more),
						    memory_order_relaxed, memory_order_relaxed))
		return capacity + more;
	slab_budget_uncharge(s, cpu, more);
	return capacity;
}

static void reverse(void **p, unsigned int n)
{
	for (unsigned int i = 0, k = n; i + 1 < k; i++) {
		void *t = p[i];

		p[i] = p[--k];
		p[k] = t;
	}
}

/* No node has any: wait until there are the pages of a slab, wherever. */
static cold unsigned int take_waiting(struct kmem_cache *s, void **batch, unsigned int want,
				      gfp_t flags)
{
	unsigned int got = 0;

	while (!got && (flags & __GFP_DIRECT_RECLAIM)) {
		bool zeroed;
		struct page *page = page_alloc_run(PAGE_ANY_NODE, flags, s->npages, &zeroed);

		if (!page)
			break;
		page_free_run(page, s->npages);
		got = slab_node_take(s, page_policy_node(), batch, want, 1, flags);
	}
	return got;
}

void *slab_alloc_slow(struct kmem_cache *s, gfp_t flags)
{
	bool may_block = flags & __GFP_DIRECT_RECLAIM;
	void *batch[SLAB_BATCH_MAX], *obj;
	unsigned int want = 1, got, pushed;

	obj = pcpu_array_pop(s->cpu_array);
	if (obj)
		return obj;
	/* Who may not block could not put back what no longer fits: takes one. */
	if (may_block) {
		want = min_uint(SLAB_BATCH_MAX, tune(s, MOVED_REFILL) / 2 + 1);
		page_decay();
	}
	got = slab_node_take(s, page_policy_node(), batch, want, 1, flags);
	if (unlikely(!got && (flags & __GFP_NOFAIL)))
		got = take_waiting(s, batch, want, flags);
	if (got <= 1)
		return got ? batch[0] : NULL;
	/* The array is a stack: the lowest address is to come out first. */
	reverse(batch + 1, got - 1);
	pushed = pcpu_array_push_bulk(s->cpu_array, batch + 1, got - 1);
	if (pushed < got - 1)
		slab_node_put(s, batch + 1 + pushed, got - 1 - pushed, 0);
	return batch[0];
}

void slab_free_slow(struct kmem_cache *s, void *obj)
{
	void *batch[SLAB_BATCH_MAX];
	unsigned int n;

	if (pcpu_array_push(s->cpu_array, obj))
		return;
	n = tune(s, MOVED_FLUSH) / 2;
	/* After growth, or on a CPU used for the first time, there is room now. */
	if (pcpu_array_push(s->cpu_array, obj))
		return;
	n = pcpu_array_pop_bulk(s->cpu_array, batch, min_uint(n, SLAB_BATCH_MAX),
				PCPU_POP_UNCOUNTED);
	if (n)
		slab_node_put(s, batch, n, 0);
	if (!pcpu_array_push(s->cpu_array, obj))
		slab_node_put(s, &obj, 1, 1);
}

bool slab_drain(struct kmem_cache *s, unsigned int cpu)
{
	void *batch[SLAB_BATCH_MAX];
	unsigned int n;

	if (!pcpu_arrays_stop(&s->cpu_array, 1, cpu))
		return false;
	for_each_cpu_unit_of (i, cpu)
		while ((n = pcpu_array_take(s->cpu_array, i, batch, SLAB_BATCH_MAX)))
			slab_node_put(s, batch, n, 0);
	pcpu_arrays_start(&s->cpu_array, 1, cpu);
	return true;
}

struct kmem_cache *slab_cache_of(const void *obj)
{
	struct page *page = page_lookup(obj);

	if (!page)
		return NULL;
	page = slab_head(page);
	if (page_type(page) != PAGE_SLAB)
		return NULL;
	return page->cache;
}

/*
 * Whether @obj lies in a slab of @s, by the array map alone: cheap enough for every
 * free. (Caches with their array elsewhere look the same; that is found at a flush.)
 */
static always_inline bool is_object_of(const struct kmem_cache *s, const void *obj)
{
	size_t offset = (uintptr_t)obj - page_window.base;

	return offset < page_window.size &&
	       page_window.array_map[offset >> ARRAY_MAP_SHIFT] == s->array_entry;
}

void *kmem_cache_alloc(struct kmem_cache *s, gfp_t flags)
{
	void *obj = slab_alloc(s, flags);

	if (unlikely(flags & __GFP_ZERO) && obj)
		memset(obj, 0, s->object_size);
	return obj;
}

void *kmem_cache_zalloc(struct kmem_cache *s, gfp_t flags)
{
	return kmem_cache_alloc(s, flags | __GFP_ZERO);
}

void kmem_cache_free(struct kmem_cache *s, void *obj)
{
	if (unlikely(!obj))
		return;
	if (likely(is_object_of(s, obj)))
		slab_free(s, obj);
	else
		report_invalid("kmem_cache_free()", obj, "not an object of this cache");
}

static unsigned int alloc_bulk_array(struct kmem_cache *s, unsigned int n, void **p)
{
	return pcpu_array_pop_bulk(s->cpu_array, p, n, PCPU_POP_COUNTED);
}

/* Pieces from the array, completed from the node; what it got if that fails. */
static size_t alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t n, void **p)
{
	size_t got = 0;

	while (got < n) {
		unsigned int piece = (unsigned int)min_size(n - got, SLAB_BATCH_MAX);
		unsigned int k = alloc_bulk_array(s, piece, p + got);

		if (k < piece) {
			tune(s, MOVED_REFILL);
			k += slab_node_take(s, page_policy_node(), p + got + k, piece - k,
					    piece - k, flags);
		}
		got += k;
		if (k < piece)
			break;
	}
	return got;
}

int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t n, void **p)
{
	size_t got;

	if (n > INT32_MAX)
		return 0;
	/* Who may not block could not give a part back: all from the node, or nothing. */
	if (flags & __GFP_DIRECT_RECLAIM)
		got = alloc_bulk(s, flags, n, p);
	else
		got = slab_node_take_all(s, page_policy_node(), p, (unsigned int)n, flags) ? n
											   : 0;
	if (got < n) {
		slab_free_bulk(s, got, p);
		return 0;
	}
	if (unlikely(flags & __GFP_ZERO))
		for (size_t i = 0; i < n; i++)
			memset(p[i], 0, s->object_size);
	return (int)n;
}

void slab_free_bulk(struct kmem_cache *s, size_t n, void **p)
{
	while (n) {
		unsigned int piece = (unsigned int)min_size(n, SLAB_BATCH_MAX);
		unsigned int pushed = pcpu_array_push_bulk(s->cpu_array, p, piece);

		if (pushed < piece) {
			tune(s, MOVED_FLUSH);
			slab_node_put(s, p + pushed, piece - pushed, piece - pushed);
		}
		p += piece;
		n -= piece;
	}
}
