/* SPDX-License-Identifier: MIT */
/*
 * Makes caches for callers that may neither wait nor take memory, so that a first kmalloc()
 * with GFP_ATOMIC and __GFP_DMA need not fail. The descriptors are set aside when the process
 * starts.
 *
 * Such a cache has no arrays except one that is always closed: each request takes an object
 * from the CPU's or node's slabs. That is slower, but as correct.
 */
#include "slab/slab_reserve.h"

#include "base/assert.h"
#include "base/compiler.h"
#include "os/os.h"
#include "page/page.h"
#include "percpu/percpu_alloc.h"
#include "slab/slab_array.h"
#include "slab/slab_cache.h"
#include "slab/slab_list.h"

enum { FREE, TAKEN, USED };

/* Synchronization: the thread that makes state TAKEN has the slot; orders as in the code. */
struct slot {
	struct kmem_cache cache;
	struct kmem_cache_node *nodes;
	uint64_t *events;
	void *array; /* always closed; has an entry of its own in the array map */
	_Atomic int state;
};

static struct slot reserve[SLAB_RESERVE] untouched;
static _Atomic uint64_t nr_exhausted;

static bool init_slot(struct slot *slot, void *nodes)
{
	void *events;

	/* If one fails, the other one stays taken, as in other parts of the start. */
	events = pcpu_alloc_permanent(slab_events_bytes(), sizeof(uint64_t));
	slot->array = pcpu_alloc_permanent(pcpu_array_size(0), PCPU_ENTRY_SIZE);
	if (!events || !slot->array)
		return false;
	slot->events = pcpu_handle(events);
	slot->nodes = nodes;
	slab_set_nodes(&slot->cache, nodes);
	return true;
}

bool slab_reserve_init(void)
{
	size_t bytes = slab_nodes_bytes();
	static char *nodes; /* stays after a failure, for the next call */
	void *mem;

	/* No request of malloc() names a zone. */
	if (os_heap.is_ukmem)
		return true;
	if (!nodes && !os_map_permanent(SLAB_RESERVE * bytes, &mem))
		nodes = mem;
	if (!nodes)
		return false;
	for (unsigned int i = 0; i < SLAB_RESERVE; i++)
		if (!reserve[i].nodes && !init_slot(&reserve[i], nodes + i * bytes))
			return false;
	return true;
}

static struct slot *get_slot(void)
{
	for (unsigned int i = 0; i < SLAB_RESERVE && reserve[i].nodes; i++) {
		int free = FREE;

		/* Acquire: sees what the slot's last holder did to it. */
		if (atomic_compare_exchange_strong_explicit(&reserve[i].state, &free, TAKEN,
							    memory_order_acquire,
							    memory_order_relaxed))
			return &reserve[i];
	}
	atomic_fetch_add_explicit(&nr_exhausted, 1, memory_order_relaxed);
	return NULL;
}

struct kmem_cache *slab_cache_new_nowait(const struct slab_params *p)
{
	struct slot *slot = get_slot();
	struct kmem_cache *s;

	if (!slot)
		return NULL;
	s = &slot->cache;
	slab_describe(s, p);
	debug_assert(s->home == s);
	s->fast_array = s->cpu_array = s->partial_array = slot->array;
	s->entry_first = s->entry_last = slab_entry_to(slot->array);
	s->events = slot->events;
	atomic_store_explicit(&s->cpu_partial_slabs, 0, memory_order_relaxed);
	return s;
}

/* The slot of a cache that slab_cache_new_nowait() made and that is not in use yet. */
static struct slot *slot_of(struct kmem_cache *s)
{
	struct slot *slot = container_of(s, struct slot, cache);

	debug_assert(slot >= reserve && slot < reserve + SLAB_RESERVE);
	debug_assert(atomic_load_explicit(&slot->state, memory_order_relaxed) == TAKEN);
	return slot;
}

void slab_reserve_use(struct kmem_cache *s)
{
	atomic_store_explicit(&slot_of(s)->state, USED, memory_order_relaxed);
	slab_list_add_nowait(s);
}

void slab_reserve_put(struct kmem_cache *s)
{
	atomic_store_explicit(&slot_of(s)->state, FREE, memory_order_release);
}

unsigned int slab_reserve_used(uint64_t *exhausted)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < SLAB_RESERVE; i++)
		n += atomic_load_explicit(&reserve[i].state, memory_order_relaxed) != FREE;
	*exhausted = atomic_load_explicit(&nr_exhausted, memory_order_relaxed);
	return n;
}
