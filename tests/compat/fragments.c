/* SPDX-License-Identifier: MIT */
/*
 * Fragments of pages that other threads free; counters with a limit; groups of counters.
 *
 * Mutants that were caught: a fragment that takes no reference; a block that is begun again
 * while fragments are in use, or never; a drain or a last free that keeps the block; no
 * alignment; percpu_counter_limited_add without its lock, or by the common count alone.
 */
#include <linux/gfp.h>
#include <linux/percpu.h>
#include <linux/percpu_counter.h>
#include <linux/slab.h>
#include <linux/u64_stats_sync.h>
#include <ukmem/stats.h>

#include <pthread.h>
#include <stdlib.h>

#include "check.h"

#define NR_THREADS 4
#define NR_PACKETS 20000
#define NR_SLOTS 64
#define MOST_BYTES 3000

int checks_failed;

struct packet {
	unsigned int size, mark;
	unsigned char bytes[];
};

static struct packet *slots[NR_SLOTS];

static void check_and_free(struct packet *packet)
{
	for (unsigned int i = 0; i < packet->size; i++)
		CHECK(packet->bytes[i] == (unsigned char)packet->mark);
	packet->mark = ~0u;
	page_frag_free(packet);
}

/* Puts its packets into slots, from which any thread takes and frees them. */
static void *pass_packets(void *arg)
{
	struct page_frag_cache cache = { 0 };
	unsigned int seed = (unsigned int)(unsigned long)arg;

	for (unsigned int i = 0; i < NR_PACKETS; i++) {
		unsigned int size = (unsigned int)rand_r(&seed) % MOST_BYTES;
		unsigned int align = 8u << rand_r(&seed) % 6;
		struct packet *packet = page_frag_alloc_align(&cache, sizeof(*packet) + size,
							      GFP_KERNEL, align);
		struct packet *old;

		CHECK(packet && !((unsigned long)packet & (align - 1)));
		if (!packet)
			break;
		packet->size = size;
		packet->mark = i;
		for (unsigned int b = 0; b < size; b++)
			packet->bytes[b] = (unsigned char)i;
		old = __atomic_exchange_n(&slots[rand_r(&seed) % NR_SLOTS], packet,
					  __ATOMIC_ACQ_REL);
		if (old)
			check_and_free(old);
	}
	page_frag_cache_drain(&cache);
	return NULL;
}

static size_t pages_in_use(void)
{
	struct ukmem_gauges gauges;

	ukmem_gauges_read(&gauges);
	return gauges.active;
}

static void check_packets(void)
{
	pthread_t threads[NR_THREADS];
	size_t before = pages_in_use();

	for (unsigned long i = 0; i < NR_THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, pass_packets, (void *)(i + 1)) == 0);
	for (unsigned long i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned int i = 0; i < NR_SLOTS; i++)
		if (slots[i])
			check_and_free(slots[i]);
	/* Threads and libc may have taken some; a block that is lost for each of the thousands
	 * would be much more. */
	CHECK(pages_in_use() < before + (4ul << 20));
}

static void check_sizes(void)
{
	size_t block = 8 * PAGE_SIZE, largest = block - 64, before;
	struct page_frag_cache cache;
	char *first, *second;

	page_frag_cache_init(&cache);
	CHECK(!page_frag_alloc(&cache, (unsigned int)largest + 1, GFP_KERNEL));
	CHECK(!page_frag_alloc(&cache, ~0u, GFP_KERNEL));
	first = page_frag_alloc(&cache, (unsigned int)largest, GFP_KERNEL);
	CHECK(first != NULL);
	second = page_frag_alloc(&cache, 1, GFP_KERNEL);
	CHECK(second && (second < first || second >= first + largest));
	page_frag_free(first);
	page_frag_free(second);
	/* The cache is alone: it begins its block again, and not another one. */
	first = page_frag_alloc(&cache, (unsigned int)largest, GFP_KERNEL);
	CHECK(first == second);
	page_frag_cache_drain(&cache);
	first[largest - 1] = 1; /* still the caller's */
	page_frag_free(first);
	first = page_frag_alloc(&cache, 0, GFP_NOWAIT);
	second = page_frag_alloc(&cache, 0, GFP_NOWAIT);
	CHECK(first && second && first != second);
	page_frag_free(first);
	page_frag_free(second);
	page_frag_cache_drain(&cache);
	before = pages_in_use();
	for (int i = 0; i < 1000; i++) {
		page_frag_free(page_frag_alloc(&cache, 100, GFP_KERNEL));
		page_frag_cache_drain(&cache);
	}
	CHECK(pages_in_use() < before + (1ul << 20));
}

static struct percpu_counter counter;
static unsigned int added;

static void *add_up_to(void *arg)
{
	s64 limit = (s64)(unsigned long)arg;

	for (int i = 0; i < 20000; i++)
		if (percpu_counter_limited_add(&counter, limit, 7))
			__atomic_fetch_add(&added, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void check_limits(void)
{
	const s64 limit = 100000;
	pthread_t threads[NR_THREADS];

	CHECK(percpu_counter_init(&counter, 0, GFP_KERNEL) == 0);
	percpu_counter_add(&counter, 5); /* in a CPU's part */
	for (int i = 0; i < NR_THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, add_up_to,
				     (void *)(unsigned long)limit) == 0);
	for (int i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(added == (limit - 5) / 7);
	CHECK(percpu_counter_sum(&counter) == 5 + 7 * (s64)added);
	CHECK(percpu_counter_limited_add(&counter, -50, 0));
	CHECK(!percpu_counter_limited_add(&counter, 0, -limit - 1));
	CHECK(percpu_counter_limited_add(&counter, 0, -percpu_counter_sum(&counter)));
	CHECK(percpu_counter_sum(&counter) == 0);
	percpu_counter_destroy(&counter);
}

static void check_groups(void)
{
	static struct percpu_counter group[3];
	const s64 *first = NULL;
	unsigned int same = 0;
	u64_stats_t packets = { 0 };
	struct u64_stats_sync sync;

	CHECK(percpu_counter_init_many(group, 9, GFP_KERNEL, 3) == 0);
	percpu_counter_add(&group[1], 1);
	CHECK(percpu_counter_sum(&group[0]) == 9 && percpu_counter_sum(&group[1]) == 10 &&
	      percpu_counter_sum(&group[2]) == 9);
	percpu_counter_destroy_many(group, 3);
	CHECK(!percpu_counter_initialized(&group[0]) && !percpu_counter_initialized(&group[2]));
	for (int i = 0; i < 10000; i++) {
		/* The variable is freed each time, so the next one has its place. */
		s64 *part __free(free_percpu) = alloc_percpu(s64);

		if (!first)
			first = part;
		same += part && part == first;
	}
	CHECK(same == 10000);
	u64_stats_init(&sync);
	u64_stats_update_begin(&sync);
	u64_stats_add(&packets, 5);
	u64_stats_inc(&packets);
	u64_stats_update_end(&sync);
	CHECK(u64_stats_read(&packets) == 6 &&
	      !u64_stats_fetch_retry(&sync, u64_stats_fetch_begin(&sync)));
}

int main(void)
{
	check_packets();
	check_sizes();
	check_limits();
	check_groups();
	printf("fragments: %s\n", checks_failed ? "FAILED" : "ok");
	return checks_failed != 0;
}
