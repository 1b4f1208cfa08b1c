/* SPDX-License-Identifier: MIT */
/*
 * Kernel code while its caches fail: at every allocation of a run in turn, by
 * kmem_cache_fail(). Each time the operation fails as it says or succeeds, nothing is lost, and
 * afterwards everything is as before.
 */
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "check.h"
#include "object_cache.h"

int checks_failed;

#define NR_KEYS 40

static u64 key_of(unsigned int i)
{
	return (u64)i << (i % 40);
}

/* A run of everything; how many of its operations failed. */
static unsigned int run(struct object_cache *oc)
{
	unsigned int failed = 0;
	char buf[64];

	for (unsigned int i = 0; i < NR_KEYS; i++) {
		int error = oc_put(oc, key_of(i), "one", 4);

		CHECK(error == 0 || error == -ENOMEM);
		CHECK(error ? oc_get(oc, key_of(i), buf, sizeof(buf)) == -ENOENT
			    : oc_get(oc, key_of(i), buf, sizeof(buf)) == 4);
		failed += error != 0;
	}
	failed += oc_put_range(oc, 1000, 30, "range", 6) != 0;
	for (unsigned int i = 0; i < NR_KEYS; i += 2)
		oc_delete(oc, key_of(i));
	CHECK(oc_check(oc) == NULL);
	return failed;
}

static void fail_in(const char *name, unsigned long times)
{
	struct kmem_cache *cache = kmem_cache_find(name);
	unsigned int once_failed = 0;

	if (!cache) {
		CHECK(!"the cache is there");
		return;
	}
	for (long after = 0; after < 2 * NR_KEYS; after++) {
		struct object_cache *oc = oc_create("failing", 1000);
		unsigned long before = kmem_cache_nr_allocated(cache);
		unsigned int failed;

		if (IS_ERR(oc)) {
			CHECK(!"memory");
			return;
		}
		kmem_cache_fail(cache, after, times);
		failed = run(oc);
		kmem_cache_fail(cache, -1, 0);
		CHECK(failed <= NR_KEYS + 1);
		once_failed += failed;
		/* It goes on as if nothing had been. */
		CHECK(run(oc) == 0);
		while (oc_evict(oc, 1000))
			;
		CHECK(oc->nr == 0 && oc_check(oc) == NULL);
		CHECK(kmem_cache_nr_allocated(cache) == before);
		oc_destroy(oc);
	}
	printf("%-12s %lu times: %u operations failed\n", name, times, once_failed);
	/* The tree has a reserve for the first few. */
	CHECK(once_failed > 0 || strcmp(name, "radix_node") == 0);
}

int main(void)
{
	fail_in("oc_entry", 1);
	fail_in("oc_entry", 3);
	fail_in("oc_entry", 0);
	fail_in("radix_node", 1);
	fail_in("radix_node", 16);
	fail_in("radix_node", 0);
	printf("failing caches: %s\n", checks_failed ? "FAILED" : "ok");
	return checks_failed != 0;
}
