/* SPDX-License-Identifier: MIT */
/*
 * This CPU's partly used slabs, which it uses without the node's lock: a per-CPU array
 * (percpu/array.h) whose objects are slabs. Taking one out makes it the caller's.
 *
 * Only slabs of the CPU's own node are kept. Their number is bounded exactly,
 * by s->cpu_partial_slabs: a full array moves to the node's list in one go. What is in a slab
 * when it comes here says nothing of what it holds later; so objects are not counted.
 */
#include "percpu/percpu.h"
#include "slab/slab_page.h"

/*
 * The first use on this CPU, or after the bound has changed. The capacity is set and then
 * the bound looked at, where it is changed (slab_set_cpu_partial) the other way round, all
 * in one order: who sets the capacity last has seen the new bound.
 */
static void open_array(struct kmem_cache *s)
{
	unsigned int cpu = pcpu_index();
	struct pcpu_array *a;
	uint16_t want;

	if (cpu >= pcpu.nr_ids)
		return;
	a = pcpu_ptr(s->partial_array, cpu);
	do {
		want = atomic_load(&s->cpu_partial_slabs);
		if (atomic_load(&a->capacity) == want)
			break;
		atomic_store(&a->capacity, want);
	} while (atomic_load(&s->cpu_partial_slabs) != want);
}

unsigned int slab_partial_take(struct kmem_cache *s, unsigned int node, void **out,
			       unsigned int n)
{
	unsigned int got = 0;

	if (page_window.nr_nodes > 1 && node != page_local_node())
		return 0;
	while (got < n) {
		struct page *page = pcpu_array_pop(s->partial_array);

		if (!page)
			break;
		/* Another CPU's by now: it was of that one's node. */
		if (unlikely(page_node(page) != node)) {
			slab_node_add(s, &page, 1);
			break;
		}
		got += slab_page_take(s, page, out + got, n - got);
		slab_event(s, SLAB_CPU_PARTIAL_ALLOC);
		if (!slab_page_leave_if_full(page))
			slab_partial_add(s, &page, 1);
	}
	return got;
}

void slab_partial_add(struct kmem_cache *s, struct page **slabs, unsigned int n)
{
	void *batch[SLAB_CPU_PARTIAL_MAX / 4];
	unsigned int pushed, got;

	if (page_window.nr_nodes > 1 && page_node(slabs[0]) != page_local_node()) {
		slab_node_add(s, slabs, n);
		return;
	}
	pushed = pcpu_array_push_bulk(s->partial_array, (void **)slabs, n);
	if (pushed == n)
		return;
	open_array(s);
	pushed += pcpu_array_push_bulk(s->partial_array, (void **)slabs + pushed, n - pushed);
	if (pushed == n)
		return;
	/* It is full: what it holds makes room. */
	got = pcpu_array_pop_bulk(s->partial_array, batch, SLAB_CPU_PARTIAL_MAX / 4,
				  PCPU_POP_COUNTED);
	if (got) {
		slab_event(s, SLAB_CPU_PARTIAL_DRAIN);
		slab_node_add(s, (struct page **)batch, got);
		pushed += pcpu_array_push_bulk(s->partial_array, (void **)slabs + pushed,
					       n - pushed);
	}
	if (pushed < n)
		slab_node_add(s, slabs + pushed, n - pushed);
}

/*
 * Of a page that may have left the list by now and be anything. What is read of it is words
 * that are written whole.
 */
static noinline no_sanitize_thread bool idle(const struct kmem_cache *s,
					     const struct page *page)
{
	uint32_t head =
		page_head_order(atomic_load_explicit(&page->head, memory_order_relaxed));
	uint32_t state = atomic_load_explicit(&page->state, memory_order_relaxed);
	const struct slab_layout *l = head >> 16 == s->layout.npages ? &s->layout : &s->small;

	return (head & 0xff) == PAGE_SLAB &&
	       __atomic_load_n(&page->cache, __ATOMIC_RELAXED) == s &&
	       slab_state_where(state) == SLAB_WITH_CPU && slab_state_empty(l, state);
}

/* Of CPUs that use their arrays meanwhile: slots below the count are slabs, or were. */
static noinline no_sanitize_thread struct page *listed(const struct pcpu_array *a,
						       unsigned int i)
{
	return *(void *const volatile *)&a->slot[i];
}

size_t slab_partial_idle(struct kmem_cache *s)
{
	size_t n = 0;

	for_each_cpu_unit (cpu) {
		const struct pcpu_array *a = pcpu_ptr(s->partial_array, cpu);
		unsigned int count = pcpu_array_count(pcpu_array_header(a));

		for (unsigned int i = 0; i < count; i++)
			n += idle(s, listed(a, i));
	}
	return n;
}

bool slab_partial_has(struct kmem_cache *s, const struct page *page)
{
	for_each_cpu_unit (cpu) {
		const struct pcpu_array *a = pcpu_ptr(s->partial_array, cpu);
		unsigned int count = pcpu_array_count(pcpu_array_header(a));

		for (unsigned int i = 0; i < count; i++)
			if (a->slot[i] == page)
				return true;
	}
	return false;
}

size_t slab_partial_free_objects(struct kmem_cache *s, unsigned int node)
{
	size_t n = 0;

	for_each_cpu_unit (cpu) {
		const struct pcpu_array *a = pcpu_ptr(s->partial_array, cpu);
		unsigned int count = pcpu_array_count(pcpu_array_header(a));

		for (unsigned int i = 0; i < count; i++)
			if (page_node(a->slot[i]) == node)
				n += slab_page_free_objects(s, a->slot[i]);
	}
	return n;
}
