/* SPDX-License-Identifier: MIT */
/*
 * This CPU's partial slabs, which it uses without a shard's lock: a per-CPU array
 * (percpu/array.h) of slabs. A thread that takes a slab out has it.
 *
 * The array has slabs of the CPU's own node (slab_objects.c), but for those of threads that
 * were moved between the look at the node and the push. s->cpu_partial_slabs bounds their
 * number exactly: a full array makes room by a batch of slabs at a time. Objects are not
 * counted, because the number in a slab changes while it is here.
 */
#include "slab/slab_partial.h"

#include "base/assert.h"
#include "percpu/array_slow.h"
#include "percpu/array_wind.h"

struct page *slab_partial_pop(struct kmem_cache *s)
{
	struct page *page = pcpu_array_pop_winding(s->partial_array);

	debug_assert(!page || slab_state_where(slab_state(page)) == SLAB_WITH_CPU);
	return page;
}

unsigned int slab_partial_push(struct kmem_cache *s, struct page **slabs, unsigned int n,
			       struct page **spilled)
{
	unsigned int pushed, got;

	debug_assert(n && n <= SLAB_PUSH_MAX);
	debug_assert(slab_state_where(slab_state(slabs[0])) == SLAB_WITH_CPU);
	pushed = pcpu_array_push_bulk(s->partial_array, (void **)slabs, n);
	if (pushed == n)
		return 0;
	pcpu_array_open(s->partial_array, &s->cpu_partial_slabs);
	pushed += pcpu_array_push_bulk(s->partial_array, (void **)slabs + pushed, n - pushed);
	if (pushed == n)
		return 0;
	/* The array is full: slabs that lie there make room. */
	got = pcpu_array_pop_bulk(s->partial_array, (void **)spilled, SLAB_PUSH_MAX,
				  PCPU_POP_COUNTED);
	if (got) {
		slab_event(s, SLAB_CPU_PARTIAL_DRAIN);
		pushed += pcpu_array_push_bulk(s->partial_array, (void **)slabs + pushed,
					       n - pushed);
	}
	debug_assert(got + n - pushed <= SLAB_SPILL_MAX);
	while (pushed < n)
		spilled[got++] = slabs[pushed++];
	return got;
}

/*
 * Whether a slab is empty. The page may have left the list by now and be anything; the words
 * that are read of it are written whole.
 */
static noinline no_sanitize_thread size_t idle(void *slab, const void *cache)
{
	const struct kmem_cache *s = cache;
	const struct page *page = slab;
	uint32_t head =
		page_head_order(atomic_load_explicit(&page->head, memory_order_relaxed));
	uint32_t state = atomic_load_explicit(&page->state, memory_order_relaxed);
	const struct slab_layout *l = slab_layout_of(s, head >> 16);

	return (head & 0xff) == PAGE_SLAB &&
	       __atomic_load_n(&page->cache, __ATOMIC_RELAXED) == s &&
	       slab_state_where(state) == SLAB_WITH_CPU && slab_state_empty(l, state);
}

size_t slab_partial_idle(struct kmem_cache *s)
{
	return pcpu_array_sum_of(s->partial_array, PCPU_ALL_CPUS, idle, s);
}

static size_t is_same(void *slab, const void *page)
{
	return slab == page;
}

bool slab_partial_has(struct kmem_cache *s, const struct page *page)
{
	return pcpu_array_sum_of(s->partial_array, PCPU_ALL_CPUS, is_same, page);
}

static size_t free_objects_of(void *slab, const void *node)
{
	const struct kmem_cache_node *home = node;
	struct page *page = slab;

	return page_node(page) == home->index
		       ? slab_page_free_objects(slab_page_cache(page), page)
		       : 0;
}

size_t slab_partial_free_objects(struct kmem_cache *s, unsigned int node)
{
	return pcpu_array_sum_of(s->partial_array, PCPU_ALL_CPUS, free_objects_of,
				 &s->nodes[node]);
}
