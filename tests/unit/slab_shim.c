/* SPDX-License-Identifier: MIT */
#include "slab_shim.h"

#include <limits.h>

#include "kmalloc/kmalloc.h"
#include "kmalloc/large.h"
#include "percpu/array_stop.h"
#include "queue/queue.h"
#include "slab/debug/record.h"
#include "slab/slab_array.h"
#include "slab/slab_budget.h"
#include "slab/slab_cache.h"
#include "slab/slab_capacity.h"
#include "slab/slab_count.h"
#include "slab/slab_create.h"
#include "slab/slab_drain.h"
#include "slab/slab_hand.h"
#include "slab/slab_list.h"
#include "slab/slab_node.h"
#include "slab/slab_page.h"
#include "slab/slab_profile.h"
#include "slab/slab_reserve.h"
#include "slab/slab_verify.h"

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
		.bitmap_in_slab = s->layout.bitmap_in_slab,
		.capacity_first = slab_first_capacity(s),
		.capacity_max = s->capacity_max,
	};
}

bool shim_slab_push_to(struct kmem_cache *s, void *obj)
{
	return slab_push_to(s, slab_entry(obj), obj);
}

const char *shim_slab_name(const struct kmem_cache *s)
{
	return s->name;
}

const char *shim_slab_wrong(struct kmem_cache *s)
{
	static _Thread_local struct verify v;

	v.n = 0;
	slab_verify(s, &v);
	return v.n ? v.text[0] : NULL;
}

struct kmem_cache *shim_slab_cache_of(const void *obj)
{
	return slab_cache_of(obj);
}

bool shim_shard_trylock(struct kmem_cache *s, unsigned int node, unsigned int shard)
{
	return shard < s->nodes[node].nr_shards && trylock(&s->nodes[node].shards[shard].lock);
}

void shim_shard_unlock(struct kmem_cache *s, unsigned int node, unsigned int shard)
{
	unlock(&s->nodes[node].shards[shard].lock);
}

bool shim_node_trylock(struct kmem_cache *s, unsigned int node)
{
	for (unsigned int i = 0; i < s->nodes[node].nr_shards; i++)
		if (!shim_shard_trylock(s, node, i)) {
			while (i--)
				shim_shard_unlock(s, node, i);
			return false;
		}
	return true;
}

void shim_node_unlock(struct kmem_cache *s, unsigned int node)
{
	slab_node_unlock_all(&s->nodes[node]);
}

unsigned int shim_nr_shards(struct kmem_cache *s, unsigned int node)
{
	return s->nodes[node].nr_shards;
}

size_t shim_shard_partial(struct kmem_cache *s, unsigned int node, unsigned int shard)
{
	return s->nodes[node].shards[shard].nr_partial;
}

unsigned int shim_node_take(struct kmem_cache *s, unsigned int node, void **obj)
{
	struct slab_node_take take = {
		.out = obj, .n = 1, .need = 1, .anyhow = true, .may_block = true
	};

	slab_node_take(s, node, &take);
	if (take.got)
		s->nodes[node].inuse += take.got;
	return take.got;
}

unsigned int shim_slab_shard(const void *obj)
{
	uint32_t state = slab_state(slab_head(page_of(obj)));

	return slab_state_where(state) == SLAB_ON_NODE ? slab_state_shard(state) : UINT_MAX;
}

unsigned int shim_slab_deferred(struct kmem_cache *s)
{
	struct page *page;
	unsigned int n = 0;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		for_each_deferred (page, deferred_look(&s->nodes[i].deferred), deferred)
			n += page != NULL;
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

bool shim_while_stopped(struct kmem_cache *s, void (*meanwhile)(void *arg), void *arg)
{
	void *array = slab_array(s, 0);

	if (!pcpu_use_rseq() || !pcpu_arrays_stop(&array, 1, PCPU_ALL_CPUS, false))
		return false;
	meanwhile(arg);
	pcpu_arrays_start(&array, 1, PCPU_ALL_CPUS);
	return true;
}

unsigned int shim_above_capacity(struct kmem_cache *s)
{
	unsigned int above = 0;

	for_each_cpu_unit (cpu) {
		const struct pcpu_array *a = pcpu_ptr(slab_array(s, 0), cpu);
		unsigned int count = pcpu_array_count(pcpu_array_header(a));

		above += count - min_uint(count, a->capacity);
	}
	return above;
}

size_t shim_capacity_bytes(struct kmem_cache *s, unsigned int cpu)
{
	const struct pcpu_array *a = pcpu_ptr(slab_array(s, 0), cpu);

	return (size_t)a->capacity * s->size;
}

size_t shim_budget_used(void)
{
	return slab_budget_used();
}

bool shim_slab_is_scattered(const struct kmem_cache *s)
{
	return atomic_load_explicit(&s->scattered, memory_order_relaxed);
}

unsigned int shim_cpu_partial_slabs(const struct kmem_cache *s)
{
	return s->cpu_partial_slabs;
}

bool shim_slab_drain(struct kmem_cache *s)
{
	return slab_drain(s, false);
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

size_t shim_kmalloc_room(const void *p)
{
	return kmalloc_room(p);
}

struct kmem_cache *shim_class_cache(size_t size)
{
	return size_class_cache(size);
}

const void *shim_slab_allocated_by(void *obj)
{
	return slab_record(slab_cache_of(obj), obj)->alloc.caller;
}

uint64_t shim_large_pretend(int64_t blocks)
{
	uint64_t all;
	size_t bytes;

	this_cpu_add(*large_in_use, (uint64_t)blocks * (LARGE_BLOCK + 1));
	large_count(&all, &bytes);
	return all;
}

struct kmem_cache *shim_class_aligned(size_t size, size_t align)
{
	return size_class_aligned(size, align);
}

bool shim_kmalloc_pop(size_t size, void **p)
{
	return kmalloc_pop(size, p);
}

bool shim_kmalloc_push(void *p)
{
	return kmalloc_push(p);
}

bool shim_hard_pair(size_t size, unsigned int *node)
{
	const struct slab_hard_class *c = kmalloc_hard_class(size), *found;
	unsigned int shut = kmalloc_is_shut();
	bool fast = shut == KMALLOC_HARD_CPU || shut == KMALLOC_HARD_CID, popped, pushed;
	void *p = NULL;

	popped = fast && kmalloc_pop_hard(c, shut, &p);
	p = popped ? slab_hard_hand_out(c, p) : kmalloc(size, GFP_KERNEL);
	*node = p ? page_node(page_of(p)) : UINT32_MAX;
	if (!p || !slab_canary_take(p, c, &found))
		return false;
	slab_hard_wipe(c, p);
	pushed = fast && kmalloc_push_hard(c, shut, p);
	if (!pushed)
		slab_hard_put_wiped(c, p);
	return popped && pushed;
}

bool shim_kmalloc_by_cpu(void)
{
	return kmalloc_fast.by_cpu.small_end;
}

void *shim_class_small(size_t size)
{
	return pcpu_first_unit() + kmalloc_fast.tables.small[size_small_index(size)];
}

void *shim_class_large(size_t size)
{
	return pcpu_first_unit() + kmalloc_fast.tables.large[size_large_index(size)];
}

void *shim_cache_array(const struct kmem_cache *s)
{
	return s->cpu_array;
}

void *shim_kmalloc_aligned(size_t size, size_t align, gfp_t flags)
{
	return kmalloc_aligned(size, align, flags, __builtin_return_address(0));
}

static void hold(struct alf_queue_side *side, unsigned int cpu)
{
	uint64_t word = side_word(side, __ATOMIC_RELAXED);

	__atomic_store_n(&side->word, word_with(word, SIDE_HELD | (cpu + 1), 0),
			 __ATOMIC_RELEASE);
}

void shim_hold_queue(struct alf_queue *q, unsigned int cpu)
{
	hold(&q->producer, cpu);
	hold(&q->consumer, cpu);
}

void shim_hold_shared(struct kmem_cache *s, unsigned int cpu)
{
	shim_hold_queue(atomic_load(&s->nodes[0].shared), cpu);
}

unsigned int shim_no_cpu(void)
{
	return SIDE_MAX_CPUS - 1;
}

unsigned int shim_profile_level(void)
{
	return slab_profile_level();
}

void shim_profile_set_level(unsigned int level)
{
	atomic_store(&slab_profile.level, level);
}

struct slab_hand *shim_hand_take(struct kmem_cache *s)
{
	return slab_hand_take(s);
}

void shim_hand_drop(struct slab_hand *hand)
{
	slab_hand_drop(hand);
}

bool shim_hand_is_mine(void)
{
	return slab_hand_is_mine();
}
