/* SPDX-License-Identifier: MIT */
/*
 * Free objects and slabs of CPUs back to the nodes.
 *
 * CPUs are stopped for the moment in which their arrays are emptied (percpu/array_stop.c);
 * their users take the slow path meanwhile.
 */
#include "slab/slab_drain.h"

#include "base/assert.h"
#include "percpu/array_stop.h"
#include "percpu/gate.h"
#include "slab/debug/twin.h"
#include "slab/slab_geometry.h"
#include "slab/slab_list.h"
#include "slab/slab_node.h"
#include "slab/slab_objects.h"
#include "slab/slab_shared.h"
#include "slab/slab_stock.h"

/* Objects, or slabs, that were in @array. */
static void give_back(struct kmem_cache *s, const void *array, void **batch, unsigned int n)
{
	debug_assert(n && n <= SLAB_BATCH_FEW);
	if (array == s->partial_array)
		slab_node_add(s, (struct page **)batch, n);
	else
		slab_put(s, batch, n, SLAB_PUT_NODE);
}

/* Out of one array of a CPU that is stopped. */
static void drain_array(struct kmem_cache *s, void *array, unsigned int cpu)
{
	void *batch[SLAB_BATCH_FEW];
	unsigned int n;

	while ((n = pcpu_array_take(array, cpu, batch, SLAB_BATCH_FEW)))
		give_back(s, array, batch, n);
}

/* Where CPUs cannot be stopped: what this one has, as its users take it. */
static void drain_own(struct kmem_cache *s, void *array)
{
	void *batch[SLAB_BATCH_FEW];
	unsigned int n;

	do {
		n = pcpu_array_pop_bulk(array, batch, SLAB_BATCH_FEW, PCPU_POP_UNCOUNTED);
		if (n)
			give_back(s, array, batch, n);
	} while (n == SLAB_BATCH_FEW);
}

/* As few stops as possible: each interrupts CPUs. */
struct drain {
	unsigned int cpu, n;
	bool failed;
	void *arrays[64];
	struct kmem_cache *of[64];
};

static void drain_listed(struct drain *d)
{
	if (!d->n)
		return;
	if (!pcpu_arrays_stop(d->arrays, d->n, d->cpu)) {
		d->failed = true;
		for (unsigned int k = 0; d->cpu == PCPU_ALL_CPUS && k < d->n; k++)
			drain_own(d->of[k], d->arrays[k]);
	} else {
		for_each_cpu_unit_of (i, d->cpu)
			for (unsigned int k = 0; k < d->n; k++)
				drain_array(d->of[k], d->arrays[k], i);
		pcpu_arrays_start(d->arrays, d->n, d->cpu);
	}
	d->n = 0;
}

static void drain_later(struct drain *d, struct kmem_cache *s, void *array)
{
	if (d->n == ARRAY_SIZE(d->arrays))
		drain_listed(d);
	debug_assert(array && d->n < ARRAY_SIZE(d->arrays));
	d->of[d->n] = s;
	d->arrays[d->n++] = array;
}

static void drain_cache_later(struct kmem_cache *s, void *arg)
{
	struct drain *d = arg;

	slab_event(s, SLAB_CPUSLAB_FLUSH);
	if (d->cpu == PCPU_ALL_CPUS && slab_twin(s))
		slab_twin_drain(slab_twin(s));
	/* The slabs last: objects may still come into them. */
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		drain_later(d, s, slab_array(s, i));
	drain_later(d, s, s->partial_array);
}

bool slab_drain(struct kmem_cache *s, unsigned int cpu)
{
	struct drain d = { .cpu = cpu };

	drain_cache_later(s, &d);
	drain_listed(&d);
	/* After the arrays, whose users fill it meanwhile. */
	if (cpu == PCPU_ALL_CPUS && !slab_shared_drain(s))
		return false;
	return !d.failed;
}

/* The slabs above @max of a stopped CPU's list. */
static void drain_slabs_above(struct kmem_cache *s, unsigned int cpu, unsigned int max)
{
	struct pcpu_array *a = pcpu_ptr(s->partial_array, cpu);
	void *batch[SLAB_BATCH_FEW];
	unsigned int n, count;

	while ((count = pcpu_array_count(pcpu_array_header(a))) > max) {
		n = pcpu_array_take(s->partial_array, cpu, batch,
				    min_uint(count - max, SLAB_BATCH_FEW));
		if (!n)
			break;
		slab_node_add(s, (struct page **)batch, n);
	}
}

/* Where CPUs cannot be stopped, each of them follows when its list is next added to. */
void slab_set_cpu_partial(struct kmem_cache *s, unsigned int objects)
{
	uint16_t slabs = slab_cpu_partial_slabs(s, objects);
	bool stopped = pcpu_arrays_stop(&s->partial_array, 1, PCPU_ALL_CPUS);

	debug_assert(slabs <= SLAB_CPU_PARTIAL_MAX && s->home == s);
	atomic_store_explicit(&s->cpu_partial, objects, memory_order_relaxed);
	atomic_store(&s->cpu_partial_slabs, slabs);
	for_each_cpu_unit (cpu) {
		struct pcpu_array *a = pcpu_ptr(s->partial_array, cpu);

		if (atomic_load(&a->capacity)) /* those never used stay untouched */
			atomic_store(&a->capacity, slabs);
		if (stopped)
			drain_slabs_above(s, cpu, slabs);
	}
	if (stopped)
		pcpu_arrays_start(&s->partial_array, 1, PCPU_ALL_CPUS);
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

	/* What is in hand under a lock a fork waits for anyway, but not all of it is. */
	pcpu_gate_enter(true);
	slab_drain(s, PCPU_ALL_CPUS);
	remain = slab_shrink_drained(s);
	pcpu_gate_leave();
	return remain;
}

void slab_drain_all(unsigned int cpu)
{
	struct drain d = { .cpu = cpu };

	slab_caches_lock();
	__slab_for_each_cache(drain_cache_later, &d);
	drain_listed(&d);
	slab_caches_unlock();
}
