/* SPDX-License-Identifier: MIT */
/*
 * slow_rounds [--slower]: rounds of the slow paths for bench/instructions, which counts their
 * instructions with callgrind and needs nothing but callgrind's client requests for that: each
 * scenario ends with a dump that has its name. It prints how many operations each has counted.
 *
 * --slower: one more pair in every thirtieth operation, for the check that a growth is noticed.
 *
 * Everything runs on one CPU, in fallback mode (valgrind knows no restartable sequences), and
 * the driver switches off what the clock starts, so that the counts are the same each time.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ukmem/kmalloc.h>
#include <ukmem/page_alloc.h>
#include <ukmem/slab.h>
#include <valgrind/callgrind.h>

enum {
	OBJECT_SIZE = 64,
	OBJECTS = 10000,
	KEPT_OF = 8, /* one of so many objects stays, and its slab with it */
	WARM_UP = 3, /* rounds that are not counted: capacities and lists settle */
	PAIRS = 1000,
	BATCH = 512, /* pages, more than the pagesets keep */
	BULK = 64,
	BLOCK = 300 << 10,
	EXTRA_EVERY = 30,
};

static struct kmem_cache *cache;
static void *objects[OBJECTS];
static bool slower;

static void die(const char *what)
{
	fprintf(stderr, "slow_rounds: %s\n", what);
	exit(1);
}

static void *take(void)
{
	void *object = kmem_cache_alloc(cache, GFP_KERNEL);

	if (!object)
		die("no memory");
	return object;
}

/* What --slower adds to operation @number. */
static void extra(int number)
{
	if (slower && number % EXTRA_EVERY == 0)
		kmem_cache_free(cache, take());
}

static bool stays(int number)
{
	return number % KEPT_OF == 0;
}

static void take_all(void)
{
	for (int i = 0; i < OBJECTS; i++)
		objects[i] = take();
}

static void free_all(void)
{
	for (int i = 0; i < OBJECTS; i++)
		kmem_cache_free(cache, objects[i]);
}

/* The same order each time, on each machine. */
static void shuffle(void)
{
	unsigned long state = 12345;

	for (int i = OBJECTS - 1; i > 0; i--) {
		void *object = objects[i];
		int other;

		state = state * 6364136223846793005U + 1442695040888963407U;
		other = (int)((state >> 33) % (unsigned long)(i + 1));
		objects[i] = objects[other];
		objects[other] = object;
	}
}

/* Each counts its operations between begin() and end(). */
static bool counted;

static void begin(void)
{
	if (counted)
		CALLGRIND_ZERO_STATS;
}

static void end(const char *name, int operations)
{
	if (!counted)
		return;
	CALLGRIND_DUMP_STATS_AT(name);
	printf("%s %d\n", name, operations);
}

/* Objects from slabs that are partly used. */
static void refill(void)
{
	int taken = 0;

	take_all();
	for (int i = 0; i < OBJECTS; i++)
		if (!stays(i))
			kmem_cache_free(cache, objects[i]);
	kmem_cache_shrink(cache);
	begin();
	for (int i = 0; i < OBJECTS; i++) {
		if (!stays(i)) {
			objects[i] = take();
			extra(i);
			taken++;
		}
	}
	end("refill", taken);
	free_all();
}

/* Objects from slabs that are made for them. */
static void fresh(void)
{
	kmem_cache_shrink(cache);
	begin();
	for (int i = 0; i < OBJECTS; i++) {
		objects[i] = take();
		extra(i);
	}
	end("fresh_slab", OBJECTS);
	free_all();
}

static void put(const char *name, bool random)
{
	kmem_cache_shrink(cache);
	take_all();
	if (random)
		shuffle();
	begin();
	for (int i = 0; i < OBJECTS; i++) {
		kmem_cache_free(cache, objects[i]);
		extra(i);
	}
	end(name, OBJECTS);
}

static void flush(void)
{
	put("flush", false);
}

static void random_put(void)
{
	put("random_put", true);
}

static void bulk(void)
{
	begin();
	for (int i = 0; i < PAIRS; i++) {
		if (kmem_cache_alloc_bulk(cache, GFP_KERNEL, BULK, objects) != BULK)
			die("no memory");
		kmem_cache_free_bulk(cache, BULK, objects);
		extra(i);
	}
	end("bulk_64_pair", PAIRS);
}

static void page_pair(const char *name, unsigned int order)
{
	begin();
	for (int i = 0; i < PAIRS; i++) {
		struct page *page = alloc_pages(GFP_KERNEL, order);

		if (!page)
			die("no memory");
		__free_pages(page, order);
		extra(i);
	}
	end(name, PAIRS);
}

static void page_pairs(void)
{
	page_pair("page_pair", 0);
}

static void run_pairs(void)
{
	page_pair("page_pair_order_5", 5);
}

/* Pages in a batch that goes through the pagesets to the zone and back. */
static void page_batch(void)
{
	static struct page *pages[BATCH];

	begin();
	for (int i = 0; i < BATCH; i++) {
		pages[i] = alloc_page(GFP_KERNEL);
		if (!pages[i])
			die("no memory");
		extra(i);
	}
	for (int i = 0; i < BATCH; i++)
		__free_page(pages[i]);
	end("page_batch_pair", BATCH);
}

static void large_pairs(void)
{
	begin();
	for (int i = 0; i < PAIRS; i++) {
		void *block = kmalloc(BLOCK, GFP_KERNEL);

		if (!block)
			die("no memory");
		kfree(block);
		extra(i);
	}
	end("large_block_pair", PAIRS);
}

static void (*const scenarios[])(void) = { refill,     fresh,	  flush,      random_put, bulk,
					   page_pairs, run_pairs, page_batch, large_pairs };

static void stay_here(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET((size_t)sched_getcpu(), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		die("cannot stay on a CPU");
}

int main(int argc, char **argv)
{
	slower = argc == 2 && strcmp(argv[1], "--slower") == 0;
	stay_here();
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		cache = kmem_cache_create("slow_rounds", OBJECT_SIZE, 0, 0, NULL);
		if (!cache)
			die("no cache");
		for (int round = 0; round <= WARM_UP; round++) {
			counted = round == WARM_UP;
			scenarios[i]();
		}
		kmem_cache_shrink(cache);
		kmem_cache_destroy(cache);
	}
	return 0;
}
