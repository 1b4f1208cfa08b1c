/* SPDX-License-Identifier: MIT */
/*
 * Caches give free objects and slabs back to the page allocator when the program shrinks a
 * cache or trims the process, and when memory is short.
 */
#include "slab/slab_reclaim.h"

#include "page/reclaim.h"
#include "slab/slab_count.h"
#include "slab/slab_drain.h"
#include "slab/slab_list.h"
#include "slab/slab_shared.h"
#include "ukmem/shrinker.h"

int kmem_cache_shrink(struct kmem_cache *s)
{
	return slab_shrink(s);
}

static void shrink_one(struct kmem_cache *s, void *unused)
{
	(void)unused;
	slab_shared_drain(s, false);
	slab_shrink_drained(s);
}

size_t slab_trim(void)
{
	slab_for_each_cache(shrink_one, NULL);
	return 0; /* the page layer's turn is next */
}

static size_t free_objects(struct kmem_cache *s)
{
	struct slab_counts c;

	slab_count_held(s, &c);
	return c.objects - min_size(c.objects, c.inuse);
}

static void add_free(struct kmem_cache *s, void *arg)
{
	*(unsigned long *)arg += free_objects(s);
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

/* Two rounds over the caches: from number @skip on, then from the first up to it. */
struct scan {
	unsigned int i, skip, round;
	unsigned long freed, wanted;
};

static void scan_cache(struct kmem_cache *s, void *arg)
{
	struct scan *scan = arg;
	size_t before;

	if ((scan->i++ < scan->skip) == (scan->round == 0) || scan->freed >= scan->wanted)
		return;
	/* A few make no slab empty. But they may be in another CPU's array, and go to where the
	 * request that is short of them finds them. */
	before = free_objects(s);
	if (!before)
		return;
	slab_shrink(s);
	scan->freed += before - min_size(before, free_objects(s));
}

static void count_cache(struct kmem_cache *s, void *arg)
{
	(void)s;
	++*(unsigned int *)arg;
}

/* Shrinks one cache after another until enough is free; begins with another one each time. */
static unsigned long free_some(struct shrinker *unused, struct shrink_control *sc)
{
	static unsigned int turn; /* Synchronization: one shrinker runs at a time */
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

void slab_reclaim_init(void)
{
	reclaim_add(&shrinker, "slab");
}
