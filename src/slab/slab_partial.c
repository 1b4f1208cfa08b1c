/* SPDX-License-Identifier: MIT */
/*
 * This CPU's partly used slabs, which it uses without the node's lock: a per-CPU array
 * (percpu/array.h) whose objects are slabs. Taking one out makes it the caller's.
 *
 * Only slabs of the CPU's own node come here (slab_objects.c). Their number is bounded exactly,
 * by s->cpu_partial_slabs: a full array makes room by a batch of slabs at a time. What is in a
 * slab when it comes here says nothing of what it holds later; so objects are not counted.
 */
#include "slab/slab_partial.h"

#include "base/assert.h"
#include "percpu/percpu.h"
#include "percpu/register.h"

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
		debug_assert(want <= SLAB_CPU_PARTIAL_MAX);
		if (atomic_load(&a->capacity) == want)
			break;
		atomic_store(&a->capacity, want);
	} while (atomic_load(&s->cpu_partial_slabs) != want);
}

struct page *slab_partial_pop(struct kmem_cache *s)
{
	struct page *page = pcpu_array_pop(s->partial_array);

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
	open_array(s);
	pushed += pcpu_array_push_bulk(s->partial_array, (void **)slabs + pushed, n - pushed);
	if (pushed == n)
		return 0;
	/* It is full: what it holds makes room. */
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

size_t slab_partial_idle(struct kmem_cache *s)
{
	size_t n = 0;

	for_each_cpu_unit (cpu) {
		const struct pcpu_array *a = pcpu_ptr(s->partial_array, cpu);
		unsigned int count = pcpu_array_count(pcpu_array_header(a));

		for (unsigned int i = 0; i < count; i++)
			n += idle(s, pcpu_array_peek(a, i));
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
