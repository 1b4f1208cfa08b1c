/* SPDX-License-Identifier: MIT */
/*
 * What kmalloc's arrays of one CPU, and the queues made on it, may hold together: a budget of
 * bytes, by capacity (tunable cpu_cache_bytes; less where the process has no whole CPU:
 * percpu/share.c).
 *
 * A class that wants more than is left takes it from those that are not used:
 * a hand goes round the classes, and one whose count of pops has not moved since
 * the hand last came by loses half its capacity, with the objects above it. Busy
 * classes that fit their arrays are spared although they never come here.
 */
#include "base/bits.h"
#include "slab/slab.h"

enum {
	MAX_MEMBERS = 64,
	DRAIN_FAILURES = 8, /* sections that may fail before an array keeps what it has */
};

/* Synchronization: appended to while caches are created; nr_members with release. */
static struct kmem_cache *members[MAX_MEMBERS];
static atomic_uint nr_members;

/* Per CPU. Synchronization: any thread, relaxed; a lost turn of the hand is no harm. */
struct budget {
	_Atomic uint64_t used; /* bytes */
	atomic_uint hand;
};

static void *budget;

bool slab_budget_init(void)
{
	if (!budget)
		budget = pcpu_alloc(sizeof(struct budget), 16);
	return budget != NULL;
}

void slab_budget_join(struct kmem_cache *s)
{
	unsigned int n = atomic_load_explicit(&nr_members, memory_order_relaxed);

	if (n == MAX_MEMBERS)
		return;
	s->budgeted = true;
	members[n] = s;
	atomic_store_explicit(&nr_members, n + 1, memory_order_release);
}

/* Slots that every class has a right to: without any it would lock for each object. Large
 * objects, of which all classes together are too much for a small budget, have none. */
static unsigned int guaranteed(const struct kmem_cache *s)
{
	return s->size > SLAB_MAX_SIZE ? 0 : s->capacity_first;
}

/*
 * A capacity is lowered by a thread on the array's CPU. Seen there afterwards, it has aborted
 * what other sections were about to push, and those that begin later obey the new capacity:
 * what the array holds above that only becomes less. Without restartable sequences a push that
 * is under way may add a batch.
 *
 * Result: the slots that the array needs. That is more than @less where sections fail again and
 * again, as in a storm of signals, and @before for a thread that has moved to another CPU.
 */
static unsigned int drain_above(struct kmem_cache *s, void *array, unsigned int cpu,
				unsigned int less, unsigned int before)
{
	const struct pcpu_array *a = pcpu_ptr(array, cpu);
	void *batch[SLAB_BATCH_FEW];
	unsigned int failures = 0;

	while (pcpu_index() == cpu) {
		unsigned int count = pcpu_array_count(pcpu_array_header(a)), n;

		if (count <= less || failures == DRAIN_FAILURES)
			return max_uint(count, less);
		n = pcpu_array_pop_bulk(array, batch, min_uint(count - less, SLAB_BATCH_FEW),
					PCPU_POP_UNCOUNTED);
		slab_put(s, batch, n, SLAB_PUT_CPU);
		failures += !n;
	}
	return before;
}

/* The array cannot do with less than @slots. Result: how many of them it did not have. */
static unsigned int give_again(struct kmem_cache *s, struct pcpu_array *a, unsigned int cpu,
			       unsigned int slots)
{
	uint16_t now = atomic_load_explicit(&a->capacity, memory_order_seq_cst);

	/* Not if it was closed: who did that empties it. */
	while (now < slots && !slab_is_checked(s))
		if (slab_widen_array(s, a, cpu, &now, (uint16_t)slots))
			return slots - now;
	return 0;
}

/*
 * Halve the capacity of @s on @cpu if it is idle, or @even_busy. Result: bytes given back; less
 * than none if others, who had them, gave back what the array needs.
 */
static int64_t take_from(struct kmem_cache *s, unsigned int node, unsigned int cpu,
			 bool even_busy)
{
	void *array = slab_array(s, node);
	struct pcpu_array *a = pcpu_ptr(array, cpu);
	uint16_t capacity = atomic_load_explicit(&a->capacity, memory_order_relaxed), less;
	uint32_t pops = (uint32_t)pcpu_array_pops(pcpu_array_header(a));
	unsigned int needed;
	int64_t slots;

	if (capacity <= guaranteed(s))
		return 0;
	if (atomic_exchange_explicit(&a->seen_pops, pops, memory_order_relaxed) != pops &&
	    !even_busy)
		return 0;
	less = (uint16_t)max_uint(capacity / 2, guaranteed(s));
	/* Whoever changes a capacity pays or is paid for exactly that change. */
	if (!atomic_compare_exchange_strong_explicit(
		    &a->capacity, &capacity, less, memory_order_relaxed, memory_order_relaxed))
		return 0;
	slots = capacity - less;
	needed = drain_above(s, array, cpu, less, capacity);
	if (unlikely(needed > less))
		slots -= give_again(s, a, cpu, needed);
	return slots * s->size;
}

static void reclaim(struct budget *b, unsigned int cpu, const struct kmem_cache *wants,
		    uint64_t bytes, bool even_busy)
{
	unsigned int n = atomic_load_explicit(&nr_members, memory_order_acquire);
	int64_t got = 0;

	/* Once round at most: between two looks at a class the program must have run. */
	for (unsigned int i = 0; i < n && got < (int64_t)bytes; i++) {
		unsigned int hand =
			atomic_fetch_add_explicit(&b->hand, 1, memory_order_relaxed);
		struct kmem_cache *s = members[hand % n];

		for (unsigned int node = 0; s != wants && node < page_window.nr_nodes; node++)
			got += take_from(s, node, cpu, even_busy);
	}
	atomic_fetch_sub_explicit(&b->used, (uint64_t)got, memory_order_relaxed);
}

/* While no more than @max are used. */
static bool try_charge(struct budget *b, uint64_t bytes, uint64_t max)
{
	if (atomic_fetch_add_explicit(&b->used, bytes, memory_order_relaxed) + bytes <= max)
		return true;
	atomic_fetch_sub_explicit(&b->used, bytes, memory_order_relaxed);
	return false;
}

void slab_budget_uncharge(struct kmem_cache *s, unsigned int cpu, unsigned int objects)
{
	struct budget *b = pcpu_ptr(budget, cpu);

	if (s->budgeted)
		atomic_fetch_sub_explicit(&b->used, (uint64_t)objects * s->size,
					  memory_order_relaxed);
}

bool slab_budget_charge(struct kmem_cache *s, unsigned int cpu, unsigned int objects,
			enum slab_budget_of of)
{
	uint64_t bytes = (uint64_t)objects * s->size;
	struct budget *b = pcpu_ptr(budget, cpu);

	if (!s->budgeted)
		return true;
	/* The other half is for those who take it anyhow. */
	if (of == SLAB_BUDGET_SPARE)
		return try_charge(b, bytes, pcpu_cache_bytes() / 2);
	if (try_charge(b, bytes, pcpu_cache_bytes()))
		return true;
	reclaim(b, cpu, s, bytes, false);
	if (try_charge(b, bytes, pcpu_cache_bytes()))
		return true;
	if (of == SLAB_BUDGET_OF_IDLE || !guaranteed(s))
		return false;
	/* From whoever has more than these few himself. */
	reclaim(b, cpu, s, bytes, true);
	atomic_fetch_add_explicit(&b->used, bytes, memory_order_relaxed);
	return true;
}
