/* SPDX-License-Identifier: MIT */
/*
 * Caches: geometry, creation, shrinking, destruction, the list of all.
 *
 * Descriptors come from two caches of their own, which are set up statically.
 * Lock: caches_lock, for the list. Node locks are registered for fork before a
 * cache is on the list and unregistered after it has left.
 */
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "os/os.h"
#include "slab/slab.h"
#include "stats/stats.h"

enum {
	CACHE_LINE = 64,
	CAPACITY_BYTES = 1 << 20,  /* free objects of a cache that a CPU holds, at most */
	CAPACITY_MAX = 512,	   /* slots per array */
	CAPACITY_MAX_SCARCE = 512, /* the same of kmalloc where address space is scarce */
};

static struct lock caches_lock;
static struct list_head caches; /* Synchronization: caches_lock */

static struct kmem_cache boot_cache, boot_node;

/* How many objects of @size fit @bytes; with their bitmap at the end if need be. */
static unsigned int fit(unsigned int size, size_t bytes, size_t npages, bool *bitmap_in_slab)
{
	size_t n = bytes / size;

	*bitmap_in_slab = n > npages * PAGE_BITMAP_WORDS * 64;
	if (*bitmap_in_slab)
		while (n * size + (n + 63) / 64 * 8 > bytes)
			n--;
	return (unsigned int)n;
}

/*
 * Pages per slab: the fewest that hold enough objects and waste at most 1/64, or
 * failing that the least wasteful number up to 128 KiB. Sizes that are powers of
 * two get powers of two, so that objects are aligned to their size.
 */
static void set_geometry(struct kmem_cache *s)
{
	unsigned int enough = min_uint(max_uint(65536 / s->size, 4), 16);
	size_t page = page_size(), max = max_size(131072 / page, 1);
	size_t best_waste = SIZE_MAX;

	for (size_t n = 1; n <= max; n++) {
		size_t bytes = n * page, waste;
		bool in_slab;
		unsigned int objects = fit(s->size, bytes, n, &in_slab);

		if (objects < enough || (is_pow2(s->size) && !is_pow2(n)))
			continue;
		waste = (bytes - (size_t)objects * s->size) * 4096 / bytes;
		if (waste >= best_waste)
			continue;
		best_waste = waste;
		s->npages = (uint16_t)n;
		s->objects = (uint16_t)objects;
		s->bitmap_in_slab = in_slab;
		if (waste <= 64)
			break;
	}
	s->reciprocal = reciprocal(s->size);
	s->min_partial = (unsigned int)min_size(max_size(65536 / (s->npages * page), 1), 5);
}

/* Set up a cache in memory of the caller's, zeroed; false without memory. */
static bool setup(struct kmem_cache *s, struct kmem_cache_node *nodes,
		  const struct slab_params *p)
{
	unsigned int align = p->align ? p->align : p->size >= 16 ? 16 : 8;
	unsigned int capacity_max = p->capacity_max;

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
	s->ctor = p->ctor;
	strncpy(s->name, p->name, sizeof(s->name) - 1);
	set_geometry(s);
	if (pcpu_address_space_is_scarce())
		capacity_max = min_uint(capacity_max, CAPACITY_MAX_SCARCE);
	s->capacity_max = (uint16_t)capacity_max;
	s->capacity_first =
		(uint16_t)min_uint(min_uint(max_uint(32768 / s->size, 4), 64), capacity_max);
	s->cpu_array = pcpu_alloc(pcpu_array_size(capacity_max), CACHE_LINE);
	if (!s->cpu_array)
		return false;
	s->array_entry = pcpu_entry(s->cpu_array);
	s->nodes = nodes;
	for (unsigned int i = 0; i < page_window.nr_zones; i++) {
		nodes[i].index = i;
		list_init(&nodes[i].partial);
		lock_register(&nodes[i].lock, LOCK_RANK_NODE);
	}
	if (p->budgeted)
		slab_budget_join(s);
	lock(&caches_lock);
	list_add_tail(&s->list, &caches);
	unlock(&caches_lock);
	return true;
}

struct kmem_cache *slab_cache_new(const struct slab_params *p)
{
	struct kmem_cache *s;
	struct kmem_cache_node *nodes;

	if (!slab_init())
		return NULL;
	s = kmem_cache_zalloc(&boot_cache, GFP_KERNEL);
	nodes = kmem_cache_zalloc(&boot_node, GFP_KERNEL);
	if (s && nodes && setup(s, nodes, p))
		return s;
	if (s)
		kmem_cache_free(&boot_cache, s);
	if (nodes)
		kmem_cache_free(&boot_node, nodes);
	return NULL;
}

static size_t trim(void)
{
	struct kmem_cache *s;

	lock(&caches_lock);
	list_for_each_entry (s, &caches, list) {
		slab_drain(s, PCPU_ALL_CPUS);
		slab_node_shrink(s);
	}
	unlock(&caches_lock);
	return page_trim(true);
}

static struct stats_source trim_source = { .trim = trim };

static void cpu_offline(unsigned int cpu, void *unused)
{
	struct kmem_cache *s;

	(void)unused;
	lock(&caches_lock);
	list_for_each_entry (s, &caches, list)
		slab_drain(s, cpu);
	unlock(&caches_lock);
}

static struct percpu_notifier notifier = { .offline = cpu_offline };

static bool init(void)
{
	struct slab_params cache = {
		.name = "kmem_cache",
		.size = sizeof(struct kmem_cache),
		.flags = SLAB_HWCACHE_ALIGN,
		.capacity_max = 64,
	};
	struct slab_params node = cache;
	static struct kmem_cache_node *nodes; /* kept over a failure: set up once */
	size_t len;
	void *mem;

	if (!page_init() || !slab_budget_init())
		return false;
	node.name = "kmem_cache_node";
	node.size = (unsigned int)(page_window.nr_zones * sizeof(struct kmem_cache_node));
	if (node.size > SLAB_MAX_SIZE)
		return false;
	if (!nodes) {
		len = align_up(2 * (size_t)node.size, page_size());
		if (os_map_metadata(len, &mem))
			return false;
		nodes = mem;
		list_init(&caches);
		lock_register(&caches_lock, LOCK_RANK_CACHES);
	}
	if ((!boot_cache.nodes && !setup(&boot_cache, nodes, &cache)) ||
	    (!boot_node.nodes && !setup(&boot_node, nodes + page_window.nr_zones, &node)))
		return false;
	stats_register(&trim_source);
	percpu_notifier_register(&notifier);
	slab_stats_init();
	return true;
}

static struct once slab_once = ONCE_INITIALIZER;

bool slab_init(void)
{
	return once(&slab_once, init);
}

void slab_for_each_cache(void (*fn)(struct kmem_cache *s, void *arg), void *arg)
{
	struct kmem_cache *s;

	if (!slab_init())
		return;
	lock(&caches_lock);
	list_for_each_entry (s, &caches, list)
		fn(s, arg);
	unlock(&caches_lock);
}

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
	if (flags & ~(SLAB_HWCACHE_ALIGN | SLAB_PANIC))
		return "unknown flags";
	return NULL;
}

struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     slab_flags_t flags, void (*ctor)(void *))
{
	const char *bad = bad_params(name, size, align, flags);
	struct slab_params p = {
		.name = name,
		.size = size,
		.align = align,
		.flags = flags,
		.ctor = ctor,
	};
	struct kmem_cache *s = NULL;

	if (!bad) {
		p.capacity_max = min_uint(max_uint(CAPACITY_BYTES / size, 16), CAPACITY_MAX);
		s = slab_cache_new(&p);
	}

	if (!s) {
		if (flags & SLAB_PANIC)
			log_fatal("kmem_cache_create(%s): %s", name ? name : "NULL",
				  bad ? bad : "out of memory");
		log_warn("kmem_cache_create(%s): %s", name ? name : "NULL",
			 bad ? bad : "out of memory");
	}
	return s;
}

void kmem_cache_destroy(struct kmem_cache *s)
{
	size_t inuse = 0;

	if (!s)
		return;
	slab_drain(s, PCPU_ALL_CPUS);
	for (unsigned int i = 0; i < page_window.nr_zones; i++) {
		lock(&s->nodes[i].lock);
		inuse += s->nodes[i].inuse;
		unlock(&s->nodes[i].lock);
	}
	if (inuse) {
		log_warn("kmem_cache_destroy(%s): %zu objects still in use, cache kept",
			 s->name, inuse);
		return;
	}
	slab_node_shrink(s);
	lock(&caches_lock);
	list_del(&s->list);
	unlock(&caches_lock);
	for (unsigned int i = 0; i < page_window.nr_zones; i++)
		lock_unregister(&s->nodes[i].lock);
	pcpu_free(s->cpu_array);
	kmem_cache_free(&boot_node, s->nodes);
	kmem_cache_free(&boot_cache, s);
}

int kmem_cache_shrink(struct kmem_cache *s)
{
	slab_drain(s, PCPU_ALL_CPUS);
	return slab_node_shrink(s);
}

unsigned int kmem_cache_size(const struct kmem_cache *s)
{
	return s->object_size;
}
