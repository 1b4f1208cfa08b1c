/* SPDX-License-Identifier: MIT */
/*
 * The budget of each CPU: the bytes that kmalloc's arrays of the CPU, and the shared queues
 * made on it, may hold together, by capacity (tunable cpu_cache_bytes; less if the process has
 * no whole CPU: os/os_share.c). This file keeps the account; slab_capacity.c decides which
 * array gives room.
 */
#include "slab/slab_budget.h"

#include "base/assert.h"
#include "percpu/percpu_alloc.h"

enum { MAX_MEMBERS = 64 };

/* Synchronization: the thread that creates a cache appends to it; nr_members with release. */
static struct kmem_cache *members[MAX_MEMBERS];
static atomic_uint nr_members;

/* Per CPU. Synchronization: any thread, relaxed. */
struct budget {
	_Atomic uint64_t used; /* bytes */
	atomic_uint hand;      /* the next member that is asked for room */
};

static void *budget; /* per-CPU struct budget */

bool slab_budget_init(void)
{
	if (!budget)
		budget = pcpu_alloc(sizeof(struct budget), 16);
	return budget != NULL;
}

void slab_budget_join(struct kmem_cache *s)
{
	unsigned int n = atomic_load_explicit(&nr_members, memory_order_relaxed);

	debug_assert(s->home == s && n <= MAX_MEMBERS);
	if (n == MAX_MEMBERS)
		return;
	s->budgeted = true;
	members[n] = s;
	atomic_store_explicit(&nr_members, n + 1, memory_order_release);
}

unsigned int slab_budget_members(void)
{
	return atomic_load_explicit(&nr_members, memory_order_acquire);
}

struct kmem_cache *slab_budget_member(unsigned int i)
{
	debug_assert(i < atomic_load_explicit(&nr_members, memory_order_relaxed));
	return members[i];
}

unsigned int slab_budget_turn(unsigned int cpu)
{
	struct budget *b = pcpu_ptr(budget, cpu);

	debug_assert(cpu < pcpu.nr_ids);
	return atomic_fetch_add_explicit(&b->hand, 1, memory_order_relaxed);
}

static uint64_t bytes_of(const struct kmem_cache *s, unsigned int objects)
{
	return (uint64_t)objects * s->size;
}

bool slab_budget_charge(struct kmem_cache *s, unsigned int cpu, unsigned int objects,
			uint64_t max)
{
	struct budget *b = pcpu_ptr(budget, cpu);
	uint64_t bytes = bytes_of(s, objects);

	debug_assert(cpu < pcpu.nr_ids && objects);
	if (!s->budgeted ||
	    atomic_fetch_add_explicit(&b->used, bytes, memory_order_relaxed) + bytes <= max)
		return true;
	atomic_fetch_sub_explicit(&b->used, bytes, memory_order_relaxed);
	return false;
}

void slab_budget_exceed(struct kmem_cache *s, unsigned int cpu, unsigned int objects)
{
	struct budget *b = pcpu_ptr(budget, cpu);

	debug_assert(cpu < pcpu.nr_ids);
	if (s->budgeted)
		atomic_fetch_add_explicit(&b->used, bytes_of(s, objects), memory_order_relaxed);
}

void slab_budget_uncharge(struct kmem_cache *s, unsigned int cpu, unsigned int objects)
{
	struct budget *b = pcpu_ptr(budget, cpu);

	uint64_t before;

	debug_assert(cpu < pcpu.nr_ids);
	if (!s->budgeted)
		return;
	before =
		atomic_fetch_sub_explicit(&b->used, bytes_of(s, objects), memory_order_relaxed);
	debug_assert(before >= bytes_of(s, objects));
	(void)before;
}

uint64_t slab_budget_used(void)
{
	uint64_t bytes = 0;

	for_each_cpu_unit (cpu) {
		struct budget *b = pcpu_ptr(budget, cpu);

		bytes += atomic_load_explicit(&b->used, memory_order_relaxed);
	}
	return bytes;
}
