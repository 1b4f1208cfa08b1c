/* SPDX-License-Identifier: MIT */
/*
 * One cache: its descriptor, its arrays, its nodes. Descriptors, nodes and shared queues come
 * from caches of their own, which are set up statically. Node locks are registered for fork
 * before a cache is on the list and unregistered after it has left the list.
 */
#include "slab/slab_cache.h"

#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"
#include "page/page_alloc.h"
#include "percpu/percpu_alloc.h"
#include "queue/queue.h"
#include "slab/debug/hard.h"
#include "slab/slab_array.h"
#include "slab/slab_geometry.h"
#include "slab/slab_list.h"
#include "slab/slab_node.h"
#include "slab/slab_shared.h"
#include "slab/slab_stock.h"

enum {
	LIMIT_INTERVAL = 60,	   /* seconds between two log lines about a limit */
	CAPACITY_MAX_SCARCE = 384, /* slots per array where address space is scarce */
	NODE_CAPACITY_MIN = 64,	   /* slots of each node's array, unless a CPU has fewer */
};

struct kmem_cache slab_boot_cache, slab_boot_node;

static void *closed_array; /* per-CPU struct pcpu_array without a capacity */

/* Synchronization: first called while the layer is initialised. */
void *slab_closed_array(void)
{
	if (!closed_array)
		closed_array = pcpu_alloc(pcpu_array_size(0), PCPU_ENTRY_SIZE);
	return closed_array;
}

bool slab_is_own(const struct kmem_cache *s)
{
	return s == &slab_boot_cache || s == &slab_boot_node || s == &slab_queues;
}

static void set_tunables(struct kmem_cache *s)
{
	size_t bytes = s->layout.npages * page_size();
	unsigned int min_partial = (unsigned int)min_size(max_size(65536 / bytes, 1), 5);
	unsigned int cpu_partial = s->home == s && !s->hard ? slab_default_cpu_partial(s) : 0;

	atomic_store_explicit(&s->limit_interval, LIMIT_INTERVAL, memory_order_relaxed);
	atomic_store_explicit(&s->min_partial, min_partial, memory_order_relaxed);
	atomic_store_explicit(&s->cpu_partial, cpu_partial, memory_order_relaxed);
	atomic_store_explicit(&s->cpu_partial_slabs, slab_cpu_partial_slabs(s, cpu_partial),
			      memory_order_relaxed);
}

/* Permanent ones stay taken. */
static void free_arrays(struct kmem_cache *s, bool permanent)
{
	if (!permanent) {
		pcpu_free(s->cpu_array);
		pcpu_free(s->partial_array);
		free_percpu(s->events);
	}
	s->cpu_array = s->partial_array = NULL;
	s->events = NULL;
}

pcpu_entry_t slab_entry_to(const void *array)
{
	pcpu_entry_t entry = pcpu_entry(array);

	return entry != PCPU_ENTRY_NONE ? entry : SLAB_FAR_ENTRY;
}

/*
 * Sets the array map's entries for pages of the cache's slabs. No two caches have the same
 * entries. The library's own caches have none, since a program that frees a wrong pointer must
 * not push one of their objects; nor have caches whose objects are zeroed when they are freed,
 * hardened caches, and those whose arrays lie too far away.
 */
static void set_entries(struct kmem_cache *s, bool given)
{
	s->entry_first = s->entry_last = SLAB_NO_ENTRY;
	if (slab_is_own(s) || s->init & SLAB_INIT_FREE || s->hard)
		return;
	s->entry_first = slab_entry_to(s->cpu_array);
	s->entry_last = slab_entry_to(slab_array(s, page_window.nr_nodes - 1));
	if (s->entry_last == SLAB_FAR_ENTRY)
		s->entry_first = SLAB_FAR_ENTRY;
	/* Arrays of other caches lie between those in a caller's memory. Then kmem_cache_free()
	 * looks objects of other nodes up. */
	if (given)
		s->entry_last = s->entry_first;
	debug_assert(s->entry_first <= s->entry_last && s->entry_last != SLAB_NO_ENTRY);
}

/* The slots of one node's array, of @capacity_max that a CPU has of a cache. */
static unsigned int node_capacity(unsigned int capacity_max)
{
	unsigned int nodes = page_window.nr_nodes;

	if (pcpu_address_space_is_scarce())
		capacity_max = min_uint(capacity_max, CAPACITY_MAX_SCARCE);
	if (nodes > 1)
		capacity_max = min_uint(max_uint(capacity_max / nodes, NODE_CAPACITY_MIN),
					capacity_max);
	return capacity_max;
}

unsigned int slab_array_bytes(unsigned int capacity_max)
{
	/* A multiple of two lines: several begin in the second lines of pairs if the first
	 * does. */
	return (unsigned int)align_up(pcpu_array_size(node_capacity(capacity_max)),
				      (size_t)2 * PCPU_ENTRY_SIZE);
}

size_t slab_cpu_bytes(void)
{
	return align_up(pcpu_array_size(SLAB_CPU_PARTIAL_MAX) + slab_events_bytes(),
			CACHE_LINE);
}

/*
 * Each CPU has an array for each node, one behind the other. An object that is freed goes onto
 * the array of its node, so that objects of several nodes are never mixed. The arrays share the
 * room of one, down to NODE_CAPACITY_MIN, since most CPUs use mainly objects of their own node.
 */
static bool alloc_arrays(struct kmem_cache *s, const struct slab_params *p)
{
	unsigned int nodes = page_window.nr_nodes;
	unsigned int capacity_max = node_capacity(p->capacity_max);
	size_t partial = pcpu_array_size(s->home == s ? SLAB_CPU_PARTIAL_MAX : 0), bytes;
	void *events;

	s->capacity_max = (uint16_t)capacity_max;
	debug_assert(capacity_max <= PCPU_ARRAY_MAX_SLOTS && (capacity_max || s->home != s));
	s->array_stride = p->arrays ? p->array_stride : slab_array_bytes(p->capacity_max);
	bytes = (size_t)s->array_stride * nodes;
	s->cpu_array = p->arrays      ? p->arrays
		       : p->permanent ? pcpu_alloc_permanent_arrays(bytes)
				      : pcpu_alloc(bytes, CACHE_LINE);
	if (p->permanent) { /* in one piece */
		events = p->cpu_place ? p->cpu_place
				      : pcpu_alloc_permanent(partial + slab_events_bytes(),
							     CACHE_LINE);
		s->partial_array = events;
		events = events ? (char *)events + partial : NULL;
	} else {
		s->partial_array = pcpu_alloc(partial, CACHE_LINE);
		events = pcpu_alloc(slab_events_bytes(), sizeof(uint64_t));
	}
	s->events = events ? pcpu_handle(events) : NULL;
	if (!s->cpu_array || !s->partial_array || !s->events) {
		free_arrays(s, p->permanent);
		return false;
	}
	s->fast_array =
		nodes == 1 && !slab_alloc_is_shut(s) ? s->cpu_array : slab_closed_array();
	set_entries(s, p->arrays);
	return true;
}

/* As in the kernel, the tunables leave out caches whose free objects keep what they hold. */
static uint8_t init_of(const struct kmem_cache *s)
{
	unsigned int init = 0;

	/* Objects of hardened caches are zero while they are free. */
	if (s->ctor || s->keeps_slabs || s->home != s || slab_is_own(s) || s->hard)
		return 0;
	if (config.init_on_alloc || s->flags & SLAB_INIT_ON_ALLOC)
		init |= SLAB_INIT_ALLOC;
	if (config.init_on_free || s->flags & SLAB_INIT_ON_FREE)
		init |= SLAB_INIT_FREE;
	return (uint8_t)init;
}

void slab_describe(struct kmem_cache *s, const struct slab_params *p)
{
	unsigned int align = p->align ? p->align : p->size >= 16 ? 16 : 8;

	if (p->flags & SLAB_HWCACHE_ALIGN) {
		unsigned int line = CACHE_LINE;

		while (p->size <= line / 2)
			line /= 2;
		align = max_uint(align, line);
	}
	align = max_uint(align, 8);
	s->object_size = p->nothing ? 0 : p->size;
	s->align = align;
	s->hard = p->hard && slab_hardened;
	s->size = s->hard ? (unsigned int)align_up(
				    max_uint(p->size + SLAB_CANARY_BYTES, SLAB_HARD_MIN),
				    max_uint(align, 16))
			  : (unsigned int)align_up(max_size(p->size, 8), align) + p->colour;
	s->colour = p->colour;
	debug_assert(!s->colour || (!s->hard && p->colour % align == 0));
	debug_assert(p->size && is_pow2(align) && !(p->home && !p->ops));
	s->flags = p->flags;
	s->gfp = p->flags & SLAB_CACHE_DMA     ? __GFP_DMA
		 : p->flags & SLAB_CACHE_DMA32 ? __GFP_DMA32
					       : 0;
	s->keeps_slabs = p->flags & SLAB_TYPESAFE_BY_RCU;
	s->ctor = p->ctor;
	s->class_mark = p->class_mark;
	s->large_mark = p->large_mark;
	text_copy(s->name, p->name, sizeof(s->name));
	s->home = p->home ? p->home : s;
	s->ops = p->ops;
	s->init = init_of(s);
	if (s->ops)
		s->ops->lay_out(s);
	slab_set_geometry(s);
	/* Before other threads see the cache: an array that one of them opens is charged. */
	s->budgeted = p->budgeted;
	if (p->budgeted)
		slab_set_lean(s);
	if (p->large_mark)
		slab_set_large(s);
	set_tunables(s);
}

/* On a single CPU two: while a thread that lost it has the lock of the first, what is freed
 * goes to the second, and requests find it there. */
static unsigned int nr_shards(void)
{
	return 1u << max_uint(min_uint(ilog2_up(pcpu.nr_ids), ilog2(SLAB_SHARDS_MAX)), 1);
}

size_t slab_nodes_bytes(void)
{
	return page_window.nr_nodes *
	       (sizeof(struct kmem_cache_node) + nr_shards() * sizeof(struct slab_shard));
}

void slab_set_nodes(struct kmem_cache *s, void *mem)
{
	struct kmem_cache_node *nodes = mem;
	struct slab_shard *shards = (struct slab_shard *)(nodes + page_window.nr_nodes);

	debug_assert(nodes && page_window.nr_nodes);
	s->nodes = nodes;
	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		nodes[i].index = (uint16_t)i;
		nodes[i].nr_shards = (uint16_t)nr_shards();
		nodes[i].shards = shards + (size_t)i * nr_shards();
		for_each_shard (shard, &nodes[i]) {
			shard->index = (uint16_t)(shard - nodes[i].shards);
			list_init(&shard->partial);
			lock_register(&shard->lock, LOCK_RANK_SHARD);
		}
	}
}

/* Sets up a cache in zeroed memory of the caller. False: no memory for arrays. */
static bool setup(struct kmem_cache *s, void *nodes, const struct slab_params *p)
{
	slab_describe(s, p);
	if (!alloc_arrays(s, p))
		return false;
	if (s->hard && !slab_hard_prepare(s)) {
		free_arrays(s, p->permanent);
		return false;
	}
	slab_set_nodes(s, nodes);
	return true;
}

/* The descriptors of very many nodes are larger than an object may be, so they are pages. */
static bool nodes_are_pages(void)
{
	return slab_nodes_bytes() > SLAB_MAX_SIZE;
}

/* A zeroed object of one of the library's own caches; never a guarded one, since it is not the
 * program's. */
static void *zalloc_own(struct kmem_cache *own)
{
	void *obj = slab_alloc(own, GFP_KERNEL, NULL);

	return obj ? memset(obj, 0, own->object_size) : NULL;
}

static void *alloc_nodes(void)
{
	size_t npages = align_up(slab_nodes_bytes(), page_size()) >> page_window.page_shift;
	struct page *page;
	bool zeroed;

	if (!nodes_are_pages())
		return zalloc_own(&slab_boot_node);
	page = page_alloc_run(PAGE_ANY_NODE, GFP_KERNEL, npages, &zeroed);
	if (!page)
		return NULL;
	return zeroed ? page_to_virt(page) : memset(page_to_virt(page), 0, slab_nodes_bytes());
}

static void free_nodes(void *nodes)
{
	if (!nodes)
		return;
	if (nodes_are_pages())
		page_free_run(page_of(nodes), page_of(nodes)->npages);
	else
		kmem_cache_free(&slab_boot_node, nodes);
}

size_t slab_descriptor_bytes(void)
{
	return align_up(align_up(sizeof(struct kmem_cache), CACHE_LINE) + slab_nodes_bytes(),
			CACHE_LINE);
}

/*
 * The size classes' descriptors lie in the library's own data, where they fit. There they are
 * one piece, which the start faults in with the rest (malloc/bootstrap.c), and no work for
 * slabs. If such a cache cannot be made, its piece stays taken.
 */
static struct kmem_cache *new_permanent(const struct slab_params *p)
{
	char *piece = p->place		  ? p->place
		      : nodes_are_pages() ? NULL
					  : os_permanent_piece(slab_descriptor_bytes());
	struct kmem_cache *s = (struct kmem_cache *)(void *)piece;
	size_t size = align_up(sizeof(*s), CACHE_LINE);

	if (!s || !setup(s, piece + size, p))
		return NULL;
	if (!s->hard)
		slab_shared_describe(s);
	return s;
}

struct kmem_cache *slab_cache_new(const struct slab_params *p)
{
	struct kmem_cache *s = p->permanent ? new_permanent(p) : NULL;
	void *nodes;

	if (s)
		return s;
	s = zalloc_own(&slab_boot_cache);
	nodes = alloc_nodes();
	if (s && nodes && setup(s, nodes, p)) {
		if (!p->home && !s->hard)
			slab_shared_describe(s);
		return s;
	}
	if (s)
		kmem_cache_free(&slab_boot_cache, s);
	free_nodes(nodes);
	return NULL;
}

/*
 * Marks the descriptor of a destroyed cache, until another cache is made there: the fast paths
 * find an empty array and no entry, and the slow paths report.
 */
static void bury(struct kmem_cache *s)
{
	s->home = NULL; /* for slab_cache_was_made() */
	s->fast_array = s->cpu_array = slab_closed_array();
	s->array_stride = 0;
	s->entry_first = s->entry_last = SLAB_NO_ENTRY;
	atomic_store_explicit(&s->checked, SLAB_CHECK_GONE, memory_order_relaxed);
}

static void delete_one(struct kmem_cache *s)
{
	debug_assert(!slab_is_own(s));
	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		void *queue = slab_shared_detach(s, i);

		for_each_shard (shard, &s->nodes[i]) {
			debug_assert(list_empty(&shard->partial) && !shard->nr_partial);
			lock_unregister(&shard->lock);
		}
		debug_assert(!s->nodes[i].nr_slabs && !deferred_any(&s->nodes[i].deferred));
		if (queue)
			kmem_cache_free(&slab_queues, queue);
	}
	slab_stock_delete(s);
	slab_hard_release(s);
	free_arrays(s, false);
	free_nodes(s->nodes);
	bury(s);
	kmem_cache_free(&slab_boot_cache, s);
}

bool slab_cache_was_made(const struct kmem_cache *s)
{
	const struct kmem_cache *of = slab_cache_of(s);

	return of && of->home == &slab_boot_cache && s->home == s; /* or of its twin */
}

void slab_cache_delete(struct kmem_cache *s)
{
	if (slab_twin(s))
		slab_cache_delete(slab_twin(s));
	if (s->ops)
		s->ops->release(s);
	delete_one(s);
}

static bool boot(struct kmem_cache *s, void *nodes, const char *name, size_t size)
{
	struct slab_params p = {
		.name = name,
		.size = (unsigned int)size,
		.flags = SLAB_HWCACHE_ALIGN,
		.capacity_max = 64,
	};

	if (s->nodes) /* an earlier call did this one, and failed later */
		return true;
	if (!setup(s, nodes, &p))
		return false;
	slab_list_add(s);
	return true;
}

bool slab_cache_boot(void)
{
	static char *nodes; /* stays after a failure, for the next call */
	size_t bytes = slab_nodes_bytes();
	void *mem;

	if (!slab_closed_array())
		return false;
	slab_arrays = pcpu_first_unit();
	if (!nodes) {
		if (os_map_permanent(3 * bytes, &mem))
			return false;
		nodes = mem;
	}
	return boot(&slab_boot_cache, nodes, "kmem_cache", sizeof(struct kmem_cache)) &&
	       boot(&slab_boot_node, nodes + bytes, "kmem_cache_node",
		    min_size(bytes, SLAB_MAX_SIZE)) &&
	       boot(&slab_queues, nodes + 2 * bytes, "kmem_cache_queue",
		    queue_bytes(SLAB_QUEUE_SLOTS));
}
