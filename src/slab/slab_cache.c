/* SPDX-License-Identifier: MIT */
/*
 * Caches: creation, destruction, the list of all.
 *
 * Descriptors and nodes' queues come from caches of their own, which are set up statically.
 * Lock: caches_lock, for the list. Node locks are registered for fork before a
 * cache is on the list and unregistered after it has left.
 */
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "os/os.h"
#include "slab/slab_attr.h"
#include "slab/slab_debug.h"

enum {
	CACHE_LINE = 64,
	LIMIT_INTERVAL = 60,	   /* seconds between two lines about a limit */
	CAPACITY_BYTES = 1 << 20,  /* free objects of a cache that a CPU holds, at most */
	CAPACITY_MAX = 2048,	   /* slots per array */
	CAPACITY_MAX_SCARCE = 384, /* the same of kmalloc where address space is scarce */
};

static struct lock caches_lock;
static struct list_head caches; /* Synchronization: caches_lock */

static struct kmem_cache boot_cache, boot_node, boot_queue;

char *slab_arrays;

bool slab_is_own(const struct kmem_cache *s)
{
	return s == &boot_cache || s == &boot_node || s == &boot_queue;
}

static void set_tunables(struct kmem_cache *s)
{
	size_t bytes = s->layout.npages * page_size();
	unsigned int min_partial = (unsigned int)min_size(max_size(65536 / bytes, 1), 5);
	unsigned int cpu_partial = s->home == s ? slab_default_cpu_partial(s) : 0;

	atomic_store_explicit(&s->limit_interval, LIMIT_INTERVAL, memory_order_relaxed);
	atomic_store_explicit(&s->min_partial, min_partial, memory_order_relaxed);
	atomic_store_explicit(&s->cpu_partial, cpu_partial, memory_order_relaxed);
	atomic_store_explicit(&s->cpu_partial_slabs, slab_cpu_partial_slabs(s, cpu_partial),
			      memory_order_relaxed);
}

static void free_arrays(struct kmem_cache *s)
{
	pcpu_free(s->cpu_array);
	pcpu_free(s->partial_array);
	pcpu_free(s->token);
	free_percpu(s->events);
	s->cpu_array = s->partial_array = s->token = NULL;
	s->events = NULL;
}

/* Slots that each CPU's array begins with: 32 KiB of objects and at least four, of the
 * process's share of it, and in little memory less, so that what all classes begin with stays
 * within the budget; of large objects one, the next to be asked for. */
static uint16_t first_capacity(const struct kmem_cache *s, unsigned int capacity_max)
{
	uint64_t budget = pcpu_cache_bytes();
	unsigned int few = (unsigned int)min_size(pcpu_share_of(4), budget >> 19);
	unsigned int bytes = (unsigned int)min_size(pcpu_share_of(32768), budget >> 6);

	if (s->size > SLAB_MAX_SIZE)
		return 1;
	return (uint16_t)min_uint(min_uint(max_uint(bytes / s->size, max_uint(few, 2)), 64),
				  capacity_max);
}

/*
 * What the map says of pages of its slabs: where the node's array is. Arrays that the map
 * cannot name (percpu.h) have a token there, so that no two caches have the same entries, and
 * whoever goes by the map alone (kfree) finds it closed and looks who they are. Who knows the
 * cache gets from the token to the array by free_base; with several nodes not, since arrays
 * are farther apart than what stands for them. Without a token each object is looked up.
 */
static void set_entries(struct kmem_cache *s)
{
	unsigned int nodes = page_window.nr_nodes;
	uint32_t last = pcpu_entry(slab_array(s, nodes - 1));

	s->free_base = slab_arrays;
	s->entry_first = s->entry_last = SLAB_NO_ENTRY;
	/* Nothing of the library's own gets onto an array by what the program frees. */
	if (slab_is_own(s))
		return;
	if (last != PCPU_ENTRY_NONE) {
		s->entry_first = pcpu_entry(s->cpu_array);
		s->entry_last = last;
		s->entry_stride = s->array_stride;
		return;
	}
	s->token = s->home == s ? pcpu_alloc_token(nodes) : NULL;
	if (!s->token)
		return;
	s->entry_first = pcpu_entry(s->token);
	s->entry_stride = PCPU_TOKEN_SIZE;
	s->entry_last = s->entry_first + (nodes - 1) * PCPU_TOKEN_SIZE;
	if (nodes == 1)
		s->free_base = (char *)((uintptr_t)s->cpu_array - s->entry_first);
}

/*
 * An array of objects for each node, one behind the other: what is freed on a CPU goes onto
 * the array of the node it is of, so that objects of several nodes are never mixed. Nodes
 * share the room, since most CPUs use little but their own node's.
 */
static bool alloc_arrays(struct kmem_cache *s, unsigned int capacity_max)
{
	unsigned int nodes = page_window.nr_nodes;

	if (pcpu_address_space_is_scarce())
		capacity_max = min_uint(capacity_max, CAPACITY_MAX_SCARCE);
	if (nodes > 1)
		capacity_max = min_uint(max_uint(capacity_max / nodes, 16), capacity_max);
	s->capacity_max = (uint16_t)capacity_max;
	s->capacity_first = first_capacity(s, capacity_max);
	s->array_stride =
		(unsigned int)align_up(pcpu_array_size(capacity_max), PCPU_ENTRY_SIZE);
	s->cpu_array = pcpu_alloc((size_t)s->array_stride * nodes, CACHE_LINE);
	s->partial_array = pcpu_alloc(pcpu_array_size(s->home == s ? SLAB_CPU_PARTIAL_MAX : 0),
				      CACHE_LINE);
	s->events = __alloc_percpu(SLAB_NR_EVENTS * sizeof(uint64_t), sizeof(uint64_t));
	if (!s->cpu_array || !s->partial_array || !s->events) {
		free_arrays(s);
		return false;
	}
	s->fast_array = nodes == 1 ? s->cpu_array : slab_closed_array();
	set_entries(s);
	return true;
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
	s->object_size = p->size;
	s->align = align;
	s->size = (unsigned int)align_up(max_size(p->size, 8), align);
	s->flags = p->flags;
	s->gfp = p->flags & SLAB_CACHE_DMA     ? __GFP_DMA
		 : p->flags & SLAB_CACHE_DMA32 ? __GFP_DMA32
					       : 0;
	s->keeps_slabs = p->flags & SLAB_TYPESAFE_BY_RCU;
	s->ctor = p->ctor;
	s->mark = p->mark;
	strncpy(s->name, p->name, sizeof(s->name) - 1);
	s->home = p->home ? p->home : s;
	if (p->home)
		slab_debug_lay_out(s);
	slab_set_geometry(s);
	set_tunables(s);
}

void slab_set_nodes(struct kmem_cache *s, struct kmem_cache_node *nodes)
{
	s->nodes = nodes;
	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
		nodes[i].index = i;
		list_init(&nodes[i].partial);
		lock_register(&nodes[i].lock, LOCK_RANK_NODE);
	}
}

/* Set up a cache in memory of the caller's, zeroed; false without memory. */
static bool setup(struct kmem_cache *s, struct kmem_cache_node *nodes,
		  const struct slab_params *p)
{
	slab_describe(s, p);
	if (!alloc_arrays(s, p->capacity_max))
		return false;
	slab_set_nodes(s, nodes);
	if (p->home)
		return true;
	lock(&caches_lock);
	list_add_tail(&s->list, &caches);
	unlock(&caches_lock);
	slab_attr_configure(s);
	return true;
}

static size_t nodes_bytes(void)
{
	return page_window.nr_nodes * sizeof(struct kmem_cache_node);
}

/* Descriptors of very many nodes are larger than objects may be: pages. */
static bool nodes_are_pages(void)
{
	return nodes_bytes() > SLAB_MAX_SIZE;
}

static struct kmem_cache_node *alloc_nodes(void)
{
	size_t npages = align_up(nodes_bytes(), page_size()) >> page_window.page_shift;
	struct page *page;
	bool zeroed;

	if (!nodes_are_pages())
		return kmem_cache_zalloc(&boot_node, GFP_KERNEL);
	page = page_alloc_run(PAGE_ANY_NODE, GFP_KERNEL, npages, &zeroed);
	if (!page)
		return NULL;
	return zeroed ? page_to_virt(page) : memset(page_to_virt(page), 0, nodes_bytes());
}

static void free_nodes(struct kmem_cache_node *nodes)
{
	if (!nodes)
		return;
	if (nodes_are_pages())
		page_free_run(page_of(nodes), page_of(nodes)->npages);
	else
		kmem_cache_free(&boot_node, nodes);
}

void *slab_queue_alloc(void)
{
	return kmem_cache_alloc(&boot_queue, GFP_KERNEL);
}

void slab_queue_free(void *q)
{
	kmem_cache_free(&boot_queue, q);
}

struct kmem_cache *slab_cache_new(const struct slab_params *p)
{
	struct kmem_cache *s;
	struct kmem_cache_node *nodes;

	if (!slab_init())
		return NULL;
	s = kmem_cache_zalloc(&boot_cache, GFP_KERNEL);
	nodes = alloc_nodes();
	if (s && nodes && setup(s, nodes, p)) {
		if (p->home)
			return s;
		slab_shared_describe(s);
		if (!slab_check_created(s, p)) {
			slab_cache_delete(s);
			return NULL;
		}
		if (p->budgeted)
			slab_budget_join(s);
		return s;
	}
	if (s)
		kmem_cache_free(&boot_cache, s);
	free_nodes(nodes);
	return NULL;
}

static bool init(void)
{
	struct slab_params cache = {
		.name = "kmem_cache",
		.size = sizeof(struct kmem_cache),
		.flags = SLAB_HWCACHE_ALIGN,
		.capacity_max = 64,
	};
	struct slab_params node = cache, queue = cache;
	static struct kmem_cache_node *nodes; /* kept over a failure: set up once */
	size_t len;
	void *mem;

	if (!page_init() || !slab_budget_init() || !slab_closed_array())
		return false;
	slab_arrays = pcpu_first_unit();
	node.name = "kmem_cache_node";
	node.size = (unsigned int)min_size(nodes_bytes(), SLAB_MAX_SIZE);
	queue.name = "kmem_cache_queue";
	queue.size = SLAB_QUEUE_BYTES;
	if (!nodes) {
		len = align_up(3 * nodes_bytes(), page_size());
		if (os_map_metadata(len, &mem))
			return false;
		nodes = mem;
		list_init(&caches);
		lock_register(&caches_lock, LOCK_RANK_CACHES);
		slab_attr_init();
	}
	if ((!boot_cache.nodes && !setup(&boot_cache, nodes, &cache)) ||
	    (!boot_node.nodes && !setup(&boot_node, nodes + page_window.nr_nodes, &node)) ||
	    (!boot_queue.nodes &&
	     !setup(&boot_queue, nodes + (size_t)2 * page_window.nr_nodes, &queue)))
		return false;
	if (!slab_reserve_init())
		return false;
	slab_reclaim_init();
	slab_stats_init();
	return true;
}

static struct once slab_once = ONCE_INITIALIZER;

bool slab_init(void)
{
	return once(&slab_once, init);
}

void slab_caches_lock(void)
{
	lock(&caches_lock);
}

void slab_caches_unlock(void)
{
	unlock(&caches_lock);
}

void __slab_for_each_cache(void (*fn)(struct kmem_cache *s, void *arg), void *arg)
{
	struct kmem_cache *s;

	__slab_reserve_list(&caches);
	list_for_each_entry (s, &caches, list)
		fn(s, arg);
}

void slab_for_each_cache(void (*fn)(struct kmem_cache *s, void *arg), void *arg)
{
	if (!slab_init())
		return;
	lock(&caches_lock);
	__slab_for_each_cache(fn, arg);
	unlock(&caches_lock);
}

#define KNOWN_FLAGS                                                                            \
	(SLAB_DEBUG_FLAGS | SLAB_HWCACHE_ALIGN | SLAB_CACHE_DMA | SLAB_CACHE_DMA32 |           \
	 SLAB_RECLAIM_ACCOUNT | SLAB_PANIC | SLAB_TYPESAFE_BY_RCU | SLAB_NO_MERGE |            \
	 SLAB_ACCOUNT)

static const char *bad_params(const char *name, unsigned int size, unsigned int align,
			      slab_flags_t flags)
{
	if (!name)
		return "no name";
	if (!size || size > SLAB_MAX_SIZE)
		return "size not in 1 .. 16384";
	if (align && !is_pow2(align))
		return "alignment is no power of two";
	if (align > SLAB_MAX_ALIGN)
		return "alignment above 4096";
	if (align_up(size, align ? align : 1) > SLAB_MAX_SIZE)
		return "size with alignment above 16384";
	if (flags & ~KNOWN_FLAGS)
		return "unknown flags";
	return NULL;
}

struct kmem_cache *__kmem_cache_create_args(const char *name, unsigned int size,
					    const struct kmem_cache_args *args,
					    slab_flags_t flags)
{
	unsigned int align = args ? args->align : 0;
	const char *bad = bad_params(name, size, align, flags);
	struct slab_params p = {
		.name = name,
		.size = size,
		.align = align,
		.flags = flags,
		.ctor = args ? args->ctor : NULL,
	};
	struct kmem_cache *s = NULL;

	if (!bad) {
		p.capacity_max = min_uint(max_uint(CAPACITY_BYTES / size, 16), CAPACITY_MAX);
		if (args && args->sheaf_capacity)
			p.capacity_max = min_uint(args->sheaf_capacity, CAPACITY_MAX);
		s = slab_cache_new(&p);
		/* A first request may come from where nothing can be waited for. */
		if (s)
			page_prepare_run(s->gfp, s->layout.npages);
		bad = "out of memory";
	}
	if (!s) {
		name = name ? name : "NULL";
		if (flags & SLAB_PANIC)
			log_fatal("kmem_cache_create(%s): %s", name, bad);
		log_warn("kmem_cache_create(%s): %s", name, bad);
	}
	return s;
}

struct kmem_cache *(kmem_cache_create)(const char *name, unsigned int size, unsigned int align,
				       slab_flags_t flags, void (*ctor)(void *))
{
	struct kmem_cache_args args = { .align = align, .ctor = ctor };

	return __kmem_cache_create_args(name, size, &args, flags);
}

struct kmem_cache *kmem_cache_find(const char *name)
{
	struct kmem_cache *s, *found = NULL;

	if (!slab_init())
		return NULL;
	lock(&caches_lock);
	__slab_reserve_list(&caches);
	list_for_each_entry (s, &caches, list)
		if (!found && !strncmp(s->name, name, sizeof(s->name) - 1))
			found = s;
	unlock(&caches_lock);
	return found;
}

static size_t objects_out(const struct kmem_cache *s)
{
	struct kmem_cache *twin = slab_twin(s);
	size_t inuse = twin ? objects_out(twin) : 0;

	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		inuse += atomic_load_explicit(&s->nodes[i].inuse, memory_order_relaxed);
	return inuse;
}

void slab_cache_delete(struct kmem_cache *s)
{
	if (slab_twin(s))
		slab_cache_delete(slab_twin(s));
	if (s->home == s) {
		lock(&caches_lock);
		list_del(&s->list);
		unlock(&caches_lock);
	} else {
		slab_debug_delete(s);
	}
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		lock_unregister(&s->nodes[i].lock);
	slab_shared_delete(s);
	slab_stock_delete(s);
	free_arrays(s);
	free_nodes(s->nodes);
	kmem_cache_free(&boot_cache, s);
}

void kmem_cache_destroy(struct kmem_cache *s)
{
	bool keeps, drained, remains = true;
	size_t inuse;

	if (!s)
		return;
	slab_stock_set(s, 0);
	/* Whoever else empties caches has none of this one's objects or slabs in hand then. */
	slab_caches_lock();
	drained = slab_drain(s, PCPU_ALL_CPUS);
	inuse = objects_out(s);
	keeps = s->keeps_slabs;
	if (drained && !inuse) {
		s->keeps_slabs = false;
		if (slab_twin(s))
			slab_twin(s)->keeps_slabs = false;
		remains = slab_shrink(s);
		s->keeps_slabs = keeps;
		if (slab_twin(s))
			slab_twin(s)->keeps_slabs = keeps;
	}
	slab_caches_unlock();
	if (inuse && drained) {
		log_warn("kmem_cache_destroy(%s): %zu objects still in use, cache kept",
			 s->name, inuse);
		slab_report_left(s);
		return;
	}
	if (remains) {
		log_warn("kmem_cache_destroy(%s): CPUs' lists cannot be emptied, cache kept",
			 s->name);
		return;
	}
	slab_cache_delete(s);
}

unsigned int kmem_cache_size(const struct kmem_cache *s)
{
	return s->object_size;
}
