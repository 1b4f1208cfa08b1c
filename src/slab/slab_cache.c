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
#include "ukmem/shrinker.h"

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
	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
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

struct kmem_cache *slab_cache_new(const struct slab_params *p)
{
	struct kmem_cache *s;
	struct kmem_cache_node *nodes;

	if (!slab_init())
		return NULL;
	s = kmem_cache_zalloc(&boot_cache, GFP_KERNEL);
	nodes = alloc_nodes();
	if (s && nodes && setup(s, nodes, p))
		return s;
	if (s)
		kmem_cache_free(&boot_cache, s);
	free_nodes(nodes);
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
	return 0; /* the page layer's turn is next */
}

static struct stats_source trim_source = { .trim = trim };

/* Free objects that keep pages: in CPUs' arrays, and in slabs. */
static unsigned long count_free(struct shrinker *unused, struct shrink_control *sc)
{
	unsigned long n = 0;
	struct kmem_cache *s;

	(void)unused;
	(void)sc;
	lock(&caches_lock);
	list_for_each_entry (s, &caches, list) {
		struct slab_counts c;

		slab_count(s, &c);
		n += c.objects - min_size(c.objects, c.inuse);
	}
	unlock(&caches_lock);
	return n;
}

static unsigned long slabs_of(struct kmem_cache *s)
{
	struct slab_counts c;

	slab_count(s, &c);
	return c.slabs;
}

/* Cache after cache, beginning with another one each time, while that is not enough. */
static unsigned long free_some(struct shrinker *unused, struct shrink_control *sc)
{
	static unsigned int turn; /* one shrinker runs at a time */
	unsigned long freed = 0;
	unsigned int n = 0, skip;
	struct kmem_cache *s;

	(void)unused;
	lock(&caches_lock);
	list_for_each_entry (s, &caches, list)
		n++;
	skip = n ? turn++ % n : 0;
	for (unsigned int round = 0; round < 2 && freed < sc->nr_to_scan; round++) {
		unsigned int i = 0;

		list_for_each_entry (s, &caches, list) {
			unsigned long before;

			/* First those from the skipped ones on, then these. */
			if ((i++ < skip) == (round == 0) || freed >= sc->nr_to_scan)
				continue;
			before = slabs_of(s);
			slab_drain(s, PCPU_ALL_CPUS);
			slab_node_shrink(s);
			freed += (before - min_size(before, slabs_of(s))) * s->objects;
		}
	}
	unlock(&caches_lock);
	return freed;
}

static struct shrinker shrinker = {
	.count_objects = count_free,
	.scan_objects = free_some,
	.batch = INT32_MAX,
	.seeks = DEFAULT_SEEKS,
};

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
	node.size = (unsigned int)min_size(nodes_bytes(), SLAB_MAX_SIZE);
	if (!nodes) {
		len = align_up(2 * nodes_bytes(), page_size());
		if (os_map_metadata(len, &mem))
			return false;
		nodes = mem;
		list_init(&caches);
		lock_register(&caches_lock, LOCK_RANK_CACHES);
	}
	if ((!boot_cache.nodes && !setup(&boot_cache, nodes, &cache)) ||
	    (!boot_node.nodes && !setup(&boot_node, nodes + page_window.nr_nodes, &node)))
		return false;
	stats_register(&trim_source);
	register_shrinker(&shrinker, "slab");
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

struct kmem_cache *(kmem_cache_create)(const char *name, unsigned int size, unsigned int align,
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
	for (unsigned int i = 0; i < page_window.nr_nodes; i++) {
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
	for (unsigned int i = 0; i < page_window.nr_nodes; i++)
		lock_unregister(&s->nodes[i].lock);
	pcpu_free(s->cpu_array);
	free_nodes(s->nodes);
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
