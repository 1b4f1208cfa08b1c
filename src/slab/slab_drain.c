/* SPDX-License-Identifier: MIT */
/* Puts free objects and slabs of CPUs back to the nodes. percpu/drain.h empties the arrays. */
#include "slab/slab_drain.h"

#include "base/assert.h"
#include "percpu/drain.h"
#include "percpu/gate.h"
#include "slab/debug/twin.h"
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

static void list_arrays(struct kmem_cache *s, void *drain)
{
	struct pcpu_drain *d = drain;

	slab_event(s, SLAB_CPUSLAB_FLUSH);
	if (d->cpu == PCPU_ALL_CPUS && slab_twin(s))
		slab_twin_drain(slab_twin(s));
	if (s->hard)
		pcpu_drain_add(d, s->hard_waiting, put_objects, s);
	/* The slabs come last, because objects may still be put into them. */
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		pcpu_drain_add(d, slab_array(s, i), put_objects, s);
	pcpu_drain_add(d, s->partial_array, put_slabs, s);
}

bool slab_drain(struct kmem_cache *s)
{
	struct pcpu_drain d = { .cpu = PCPU_ALL_CPUS };

	list_arrays(s, &d);
	pcpu_drain_end(&d);
	/* The queue is drained after the arrays: while these are stopped, threads flush to the
	 * shared queue. */
	return slab_shared_drain(s) && !d.refused;
}

void slab_drain_all(struct pcpu_drain *d)
{
	slab_caches_lock();
	__slab_for_each_cache(list_arrays, d);
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
	slab_drain(s);
	remain = slab_shrink_drained(s);
	pcpu_gate_leave();
	return remain;
}
