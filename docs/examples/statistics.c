/* SPDX-License-Identifier: MIT */
/* What the library knows about itself, and memory given back. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <ukmem/shrinker.h>
#include <ukmem/slab.h>
#include <ukmem/stats.h>
#include <unistd.h>

/* Six numbers. */
static void gauges(void)
{
	struct ukmem_gauges g;

	ukmem_gauges_read(&g);
	printf("ukmem %s: %zu bytes allocated, %zu resident\n", ukmem_version(), g.allocated,
	       g.resident);
	assert(g.allocated <= g.active);
}

/* Tables, in the kernel's formats and in others. */
static void tables(void)
{
	ukmem_stats_print(STDOUT_FILENO, UKMEM_STATS_JSON);
	ukmem_slabinfo_print(STDOUT_FILENO);
	ukmem_zoneinfo_print(STDOUT_FILENO);
	ukmem_buddyinfo_print(STDOUT_FILENO);
	ukmem_vmstat_print(STDOUT_FILENO);
	ukmem_pools_print(STDOUT_FILENO);
	ukmem_layers_print(STDOUT_FILENO);
	ukmem_size_classes_print(STDOUT_FILENO);
	ukmem_slab_print(STDOUT_FILENO, "kmalloc-64");
}

/* The tunables of this program, and those that another one would have. */
static void tunables(void)
{
	ukmem_config_print(STDOUT_FILENO);
	ukmem_config_print_for(STDOUT_FILENO, "postgres");
}

/* All free memory goes back to the system. */
static void give_back(void)
{
	printf("%zu bytes given back\n", ukmem_trim());
}

/* In tests: whether the library's own structures are sound. */
static void verify(void)
{
	int faults = ukmem_verify(stderr);

	assert(!faults);
}

static void *cached[100];
static unsigned long nr_cached;

static unsigned long count_cached(struct shrinker *s, struct shrink_control *sc)
{
	(void)s;
	(void)sc;
	return nr_cached;
}

static unsigned long drop_cached(struct shrinker *s, struct shrink_control *sc)
{
	unsigned long freed = 0;

	(void)s;
	while (nr_cached && freed < sc->nr_to_scan) {
		kfree(cached[--nr_cached]);
		freed++;
	}
	return freed ? freed : SHRINK_STOP;
}

/* A program that could do without some of its memory says so. */
static void with_a_shrinker(void)
{
	static struct shrinker shrinker = {
		.count_objects = count_cached,
		.scan_objects = drop_cached,
		.seeks = DEFAULT_SEEKS,
	};

	int err = register_shrinker(&shrinker, "cached");
	unsigned int saved;

	assert(!err);
	/* This thread's requests do not call the shrinker while it fills what that empties. */
	saved = memalloc_flags_save(PF_MEMALLOC);
	while (nr_cached < 100)
		cached[nr_cached++] = kmalloc(1000, GFP_KERNEL);
	memalloc_flags_restore(saved);
	unregister_shrinker(&shrinker);
	while (nr_cached)
		kfree(cached[--nr_cached]);
}

int main(void)
{
	with_a_shrinker();
	gauges();
	tables();
	tunables();
	give_back();
	verify();
	return 0;
}
