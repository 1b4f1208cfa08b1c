/* SPDX-License-Identifier: MIT */
/*
 * Threads replace sessions while others look them up with pointers that may be stale, and one
 * gives the cache's memory back and uses pages for something else.
 *
 * Mutants that were caught: no SLAB_TYPESAFE_BY_RCU (memory is constructed again and again, and
 * readers may see no magic); no look at the generation (sessions of others).
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/string.h>

#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "recycle.h"

int checks_failed;

#define NR_IDS 64
#define NR_WRITERS 2
#define NR_READERS 2
#define ROUNDS 100000 /* at least */

static unsigned long seen, stale, rounds;
static int ready, writers_left = NR_WRITERS;

static void start_together(void)
{
	__atomic_fetch_add(&ready, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < NR_WRITERS + NR_READERS + 1)
		sched_yield();
}

/* On a busy machine the readers may come late; how late, is bounded. */
static bool readers_are_late(u64 round)
{
	return round <= 1000ull * ROUNDS && (!__atomic_load_n(&seen, __ATOMIC_RELAXED) ||
					     !__atomic_load_n(&stale, __ATOMIC_RELAXED));
}

/* An owner is told by its session: the id in the lowest bits. */
static void *writer(void *arg)
{
	u64 seed = (unsigned long)arg + 1, i;
	struct slab_sheaf *sheaf = NULL;

	start_together();
	for (i = 1; i <= ROUNDS || readers_are_late(i); i++) {
		u32 id = next_random(&seed) % NR_IDS;

		if (i % 8 == 1) {
			sheaf = session_reserve(sheaf, 8);
			CHECK(sheaf != NULL);
		}
		session_begin(sheaf, id, i * NR_IDS + id);
		if (i % 256 == 0) {
			/* Many at once and back: slabs become empty. */
			sheaf = session_reserve(sheaf, 500);
			session_unreserve(sheaf);
			sheaf = NULL;
		}
	}
	session_unreserve(sheaf);
	__atomic_fetch_add(&rounds, i - 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&writers_left, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *reader(void *arg)
{
	u64 seed = (unsigned long)arg + 77;

	start_together();
	for (int i = 0; __atomic_load_n(&writers_left, __ATOMIC_ACQUIRE); i++) {
		u32 id = next_random(&seed) % NR_IDS;
		u64 owner = session_owner(id, i % 2 == 0);

		CHECK(owner != ~0ull);
		CHECK(!owner || owner % NR_IDS == id);
		__atomic_fetch_add(owner ? &seen : &stale, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Pages that were sessions a moment ago, if they may be anything else. */
static void *churner(void *arg)
{
	start_together();
	while (__atomic_load_n(&writers_left, __ATOMIC_ACQUIRE)) {
		void *pages[16];

		session_shrink();
		for (int i = 0; i < 16; i++) {
			pages[i] = vmalloc(PAGE_SIZE << (i % 3));
			if (pages[i])
				memset(pages[i], 0xff, PAGE_SIZE << (i % 3));
		}
		for (int i = 0; i < 16; i++)
			vfree(pages[i]);
	}
	return arg;
}

int main(void)
{
	pthread_t threads[NR_WRITERS + NR_READERS + 1];
	int constructed;

	CHECK(recycle_init() == 0);
	for (unsigned long i = 0; i < NR_WRITERS + NR_READERS + 1; i++)
		CHECK(pthread_create(&threads[i], NULL,
				     i < NR_WRITERS		   ? writer
				     : i < NR_WRITERS + NR_READERS ? reader
								   : churner,
				     (void *)i) == 0);
	for (int i = 0; i < NR_WRITERS + NR_READERS + 1; i++)
		pthread_join(threads[i], NULL);
	constructed = recycle_exit();
	CHECK(seen > 0 && stale > 0 && constructed > 0 &&
	      (unsigned long)constructed < rounds / NR_WRITERS / 20);
	printf("sessions: %lu seen, %lu gone meanwhile, memory for %d: %s\n", seen, stale,
	       constructed, checks_failed ? "FAILED" : "ok");
	return checks_failed != 0;
}
