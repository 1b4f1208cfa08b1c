/* SPDX-License-Identifier: MIT */
/*
 * Runs code written for the kernel as a process: the object cache beside a model of it, its
 * tree without memory, by many threads, and under a limit, where its shrinker has to help.
 * Prints a line for each part; status 1 if anything was wrong.
 *
 * Mutants of the code that were caught: no lock in oc_get (many threads: a blob that belongs to
 * nobody, or a crash); the shrinker does nothing (limit); list_move without taking out
 * (basics); a tree that does not prune (model).
 */
#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <pthread.h>
#include <stdlib.h>

#include "check.h"
#include "object_cache.h"

int checks_failed;

#define MODEL_KEYS 3000
#define BLOB_MAX 3000

/* Near each other, and far apart. */
static u64 key_of(unsigned int i)
{
	return i < MODEL_KEYS / 2 ? i : (u64)i << (i % 48);
}

/* A blob's bytes follow from its key and version. */
static size_t fill(u8 *buf, u64 key, u32 version)
{
	u64 state = (key + 1) * 0x9E3779B97F4A7C15ull + version;
	size_t len = next_random(&state) % (BLOB_MAX - 16) + 16;

	memcpy(buf, &key, 8);
	memcpy(buf + 8, &version, 4);
	for (size_t i = 12; i < len; i++)
		buf[i] = (u8)(key * 7 + version * 13 + i);
	return len;
}

/* The version that @buf holds for @key; -1: it is not one. */
static long version_in(const u8 *buf, ssize_t len, u64 key)
{
	u8 wanted[BLOB_MAX];
	u32 version;

	memcpy(&version, buf + 8, 4);
	if (len != (ssize_t)fill(wanted, key, version) || memcmp(buf, wanted, (size_t)len) != 0)
		return -1;
	return version;
}

/* Everything is accounted for when a cache is empty. */
static void check_sums(struct object_cache *oc)
{
	struct oc_stats sum;

	oc_sum(oc, &sum);
	CHECK(sum.inserted == sum.replaced + sum.evicted + sum.deleted + oc->nr);
	CHECK(sum.freed + oc->nr == sum.inserted);
}

/* What a request that could not wait pushed out for lack of memory, the model forgets. */
static void forget_evicted(struct object_cache *oc, u32 *versions, unsigned long *nr)
{
	unsigned long forgotten = 0;
	struct oc_stats sum;
	u8 buf[BLOB_MAX];

	if (oc->nr == *nr)
		return;
	for (unsigned int i = 0; i < MODEL_KEYS; i++) {
		if (!versions[i] || oc_get(oc, key_of(i), buf, sizeof(buf)) != -ENOENT)
			continue;
		versions[i] = 0;
		forgotten++;
	}
	oc_sum(oc, &sum);
	CHECK(forgotten <= sum.evicted);
	*nr -= forgotten;
}

static void beside_a_model(u64 seed)
{
	struct object_cache *oc = oc_create("model", MODEL_KEYS);
	u32 *versions = kcalloc(MODEL_KEYS, sizeof(*versions), GFP_KERNEL);
	unsigned long nr = 0;
	u8 buf[BLOB_MAX];

	if (IS_ERR(oc) || !versions) {
		CHECK(!"memory for the model");
		return;
	}
	for (u32 op = 1; op <= 60000; op++) {
		unsigned int i = next_random(&seed) % MODEL_KEYS;
		u64 key = key_of(i);
		ssize_t len;

		switch (next_random(&seed) % 8) {
		case 0 ... 2:
			nr += !versions[i];
			versions[i] = op;
			CHECK(oc_put(oc, key, buf, fill(buf, key, op)) == 0);
			break;
		case 3:
			CHECK(oc_delete(oc, key) == (versions[i] ? 0 : -ENOENT));
			nr -= versions[i] != 0;
			versions[i] = 0;
			break;
		default:
			len = oc_get(oc, key, buf, sizeof(buf));
			if (versions[i])
				CHECK(version_in(buf, len, key) == versions[i]);
			else
				CHECK(len == -ENOENT);
		}
		forget_evicted(oc, versions, &nr);
		CHECK(oc->nr == nr);
		if (op % 5000 == 0)
			CHECK(oc_check(oc) == NULL);
	}
	/* A range at once, and then only as many as may be. */
	CHECK(oc_put_range(oc, 1ull << 50, 100, "range", 6) == 0);
	CHECK(oc_get(oc, (1ull << 50) + 99, buf, sizeof(buf)) == 6);
	oc->max_nr = 50;
	CHECK(oc_put(oc, 1, buf, fill(buf, 1, 1)) == 0 && oc->nr == 50);
	CHECK(oc_get(oc, 1, buf, sizeof(buf)) > 0 && oc_check(oc) == NULL);
	CHECK(oc_get(oc, 1ull << 50, buf, sizeof(buf)) == -ENOENT);
	check_sums(oc);
	oc_destroy(oc);
	kfree(versions);
}

/* The tree's nodes come from its reserve, and go back to it. */
static void without_memory(void)
{
	struct radix tree;
	unsigned int n = 0;
	u64 index = 0;

	CHECK(radix_init(&tree, 16) == 0);
	CHECK(radix_insert(&tree, 5, &tree) == 0);
	radix_no_memory = true;
	while (radix_insert(&tree, (u64)n << 40, &tree) == 0)
		n++;
	/* Each takes a path of its own, but for the upper nodes. */
	CHECK(n >= 1 && n < 16);
	CHECK(radix_check(&tree) == NULL && tree.nr_nodes <= 17);
	CHECK(radix_insert(&tree, 5, &tree) == -EEXIST);
	CHECK(radix_insert(&tree, 6, &tree) == 0);
	CHECK(radix_lookup(&tree, (u64)n << 40) == NULL);
	for (unsigned int i = 1; i < n; i++)
		CHECK(radix_delete(&tree, (u64)i << 40) == &tree);
	CHECK(radix_check(&tree) == NULL);
	/* All of the reserve is there again, for 14 new nodes. */
	CHECK(radix_insert(&tree, 1ull << 47, &tree) == 0);
	CHECK(radix_next(&tree, &index) && index == 0);
	index = 7;
	CHECK(radix_next(&tree, &index) && index == 1ull << 47);
	radix_no_memory = false;
	radix_exit(&tree);
	CHECK(atomic_long_read(&radix_nodes_allocated) == 0);
}

#define NR_THREADS 4
#define OWN_KEYS 200

static struct object_cache *shared;
static unsigned int rounds = 30000;

static u64 own_key(unsigned long id, unsigned int i)
{
	return ((u64)(id + 1) << 32) + (u64)i * 1000003;
}

/* What is its own it knows exactly, but that it may be dropped; of others', that it is whole.
 */
static void *worker(void *arg)
{
	unsigned long id = (unsigned long)arg;
	u64 seed = (id + 1) * 0x1234567;
	u32 versions[OWN_KEYS] = { 0 };
	u8 buf[BLOB_MAX];
	ssize_t len;

	for (u32 op = 1; op <= rounds; op++) {
		unsigned int i = next_random(&seed) % OWN_KEYS;
		unsigned long other = next_random(&seed) % NR_THREADS;
		u64 key = own_key(id, i);

		switch (next_random(&seed) % 16) {
		case 0 ... 4:
			versions[i] = op;
			CHECK(oc_put(shared, key, buf, fill(buf, key, op)) == 0);
			break;
		case 5:
			oc_delete(shared, key);
			CHECK(oc_get(shared, key, buf, sizeof(buf)) == -ENOENT);
			versions[i] = 0;
			break;
		case 6:
			oc_evict(shared, next_random(&seed) % 8);
			break;
		case 7:
			CHECK(oc_put_range(shared, next_random(&seed) % 500, 20, "shared", 7) ==
			      0);
			break;
		case 8 ... 10:
			len = oc_get(shared, next_random(&seed) % 520, buf, sizeof(buf));
			CHECK(len == -ENOENT || (len == 7 && memcmp(buf, "shared", 7) == 0));
			break;
		case 11 ... 12:
			key = own_key(other, i);
			len = oc_get(shared, key, buf, sizeof(buf));
			CHECK(len == -ENOENT || version_in(buf, len, key) > 0);
			break;
		default:
			len = oc_get(shared, key, buf, sizeof(buf));
			CHECK(len == -ENOENT || version_in(buf, len, key) == versions[i]);
		}
	}
	return NULL;
}

static void by_many_threads(void)
{
	pthread_t threads[NR_THREADS];

	shared = oc_create("shared", 600);
	if (IS_ERR(shared)) {
		CHECK(!"memory");
		return;
	}
	for (unsigned long i = 0; i < NR_THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, worker, (void *)i) == 0);
	for (int i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(oc_check(shared) == NULL);
	check_sums(shared);
	oc_destroy(shared);
	CHECK(atomic_long_read(&radix_nodes_allocated) == 0);
}

/* Four times as much as the limit: the shrinker drops what was used longest ago. */
static void under_a_limit(unsigned long limit_mib)
{
	struct object_cache *oc = oc_create("limited", 1ul << 30);
	unsigned long blobs = limit_mib * 4 * 16;
	u8 *data = kvmalloc(SZ_64K, GFP_KERNEL);
	struct oc_stats sum;

	if (IS_ERR(oc) || !data) {
		CHECK(!"memory");
		return;
	}
	memset(data, 0x77, SZ_64K);
	for (unsigned long i = 0; i < blobs; i++)
		if (oc_put(oc, i, data, SZ_64K - 64)) {
			CHECK(!"a put failed");
			break;
		}
	oc_sum(oc, &sum);
	CHECK(sum.evicted > blobs / 4 && oc->nr > limit_mib);
	CHECK(oc_get(oc, blobs - 1, data, SZ_64K) == SZ_64K - 64);
	CHECK(oc_get(oc, 0, data, SZ_64K) == -ENOENT);
	CHECK(oc_check(oc) == NULL);
	check_sums(oc);
	oc_destroy(oc);
	kvfree(data);
}

static void done(const char *part)
{
	static int before;

	printf("%-20s %s\n", part, checks_failed == before ? "ok" : "FAILED");
	before = checks_failed;
}

int main(int argc, char **argv)
{
	unsigned long limit_mib = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	u64 seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 0x5eed;

	check_basics();
	done("basics");
	without_memory();
	done("without memory");
	beside_a_model(seed);
	done("beside a model");
	by_many_threads();
	done("by many threads");
	if (limit_mib) {
		under_a_limit(limit_mib);
		done("under a limit");
	}
	return checks_failed != 0;
}
