/* SPDX-License-Identifier: MIT */
/*
 * Free objects and slabs back to the page allocator: when somebody shrinks a cache or trims
 * the process, when memory is short, and from CPUs that go offline.
 *
 * CPUs are stopped for the moment in which their arrays are emptied (percpu/array_stop.c);
 * their users take the slow path meanwhile.
 */
#include "percpu/gate.h"
#include "slab/slab_debug.h"
#include "stats/stats.h"
#include "ukmem/shrinker.h"

/* Objects, or slabs, that were in @array. */
static void give_back(struct kmem_cache *s, const void *array, void **batch, unsigned int n)
{
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
	d->of[d->n] = s;
	d->arrays[d->n++] = array;
}

static void drain_cache_later(struct kmem_cache *s, void *arg)
{
	struct drain *d = arg;

	slab_event(s, SLAB_CPUSLAB_FLUSH);
	if (d->cpu == PCPU_ALL_CPUS && slab_twin(s))
		slab_debug_drain(slab_twin(s));
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
	void *batch[SLAB_BATCH_MAX];
	unsigned int n, count;

	while ((count = pcpu_array_count(pcpu_array_header(a))) > max) {
		n = pcpu_array_take(s->partial_array, cpu, batch,
				    min_uint(count - max, SLAB_BATCH_MAX));
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

static bool shrink_drained(struct kmem_cache *s)
{
	struct kmem_cache *twin = slab_twin(s);
	bool remain = slab_node_shrink(s);

	return (twin && slab_node_shrink(twin)) || remain;
}

bool slab_shrink(struct kmem_cache *s)
{
	bool remain;

	/* What is in hand under a lock a fork waits for anyway, but not all of it is. */
	pcpu_gate_enter(true);
	slab_drain(s, PCPU_ALL_CPUS);
	remain = shrink_drained(s);
	pcpu_gate_leave();
	return remain;
}

int kmem_cache_shrink(struct kmem_cache *s)
{
	return slab_shrink(s);
}

static void shrink_one(struct kmem_cache *s, void *unused)
{
	(void)unused;
	slab_shared_drain(s);
	shrink_drained(s);
}

/* The arrays of all caches. */
static void drain_all(unsigned int cpu)
{
	struct drain d = { .cpu = cpu };

	slab_caches_lock();
	__slab_for_each_cache(drain_cache_later, &d);
	drain_listed(&d);
	slab_caches_unlock();
}

static size_t trim(void)
{
	drain_all(PCPU_ALL_CPUS);
	slab_for_each_cache(shrink_one, NULL);
	return 0; /* the page layer's turn is next */
}

static struct stats_source trim_source = { .trim = trim };

static void add_free(struct kmem_cache *s, void *arg)
{
	struct slab_counts c;

	slab_count(s, &c);
	*(unsigned long *)arg += c.objects - min_size(c.objects, c.inuse);
}

/* Free objects that keep pages: in CPUs' arrays, and in slabs. */
static unsigned long count_free(struct shrinker *unused, struct shrink_control *sc)
{
	unsigned long n = 0;

	(void)unused;
	(void)sc;
	slab_for_each_cache(add_free, &n);
	return n;
}

static unsigned long objects_of(struct kmem_cache *s)
{
	struct slab_counts c;

	slab_count(s, &c);
	return c.objects;
}

/* A walk through the caches, from the @skip-th on and then from the first to it. */
struct scan {
	unsigned int i, skip, round;
	unsigned long freed, wanted;
};

static void scan_cache(struct kmem_cache *s, void *arg)
{
	struct scan *scan = arg;
	unsigned long before;

	if ((scan->i++ < scan->skip) == (scan->round == 0) || scan->freed >= scan->wanted)
		return;
	before = objects_of(s);
	slab_shrink(s);
	scan->freed += before - min_size(before, objects_of(s));
}

static void count_cache(struct kmem_cache *s, void *arg)
{
	(void)s;
	++*(unsigned int *)arg;
}

/* Cache after cache, beginning with another one each time, while that is not enough. */
static unsigned long free_some(struct shrinker *unused, struct shrink_control *sc)
{
	static unsigned int turn; /* one shrinker runs at a time */
	struct scan scan = { .wanted = sc->nr_to_scan };
	unsigned int n = 0;

	(void)unused;
	slab_for_each_cache(count_cache, &n);
	scan.skip = n ? turn++ % n : 0;
	for (; scan.round < 2; scan.round++) {
		scan.i = 0;
		slab_for_each_cache(scan_cache, &scan);
	}
	return scan.freed;
}

static struct shrinker shrinker = {
	.count_objects = count_free,
	.scan_objects = free_some,
	.batch = INT32_MAX,
	.seeks = DEFAULT_SEEKS,
};

static void cpu_offline(unsigned int cpu, void *unused)
{
	(void)unused;
	drain_all(cpu);
}

static struct percpu_notifier notifier = { .offline = cpu_offline };

void slab_reclaim_init(void)
{
	stats_register(&trim_source);
	register_shrinker(&shrinker, "slab");
	pcpu_notifier_register(&notifier);
}
