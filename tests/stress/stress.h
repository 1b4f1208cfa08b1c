/* SPDX-License-Identifier: MIT */
/*
 * The stress harness: threads that allocate, check, pass on and free, while
 * others disturb them. A variant is a Plan and a few lines; the harness checks
 * the properties that hold for all:
 *
 *   - an object's contents are what its owner wrote, from allocation to free;
 *   - an object is aligned as promised; zeroed and constructed ones are so;
 *   - every object allocated is freed once, and the statistics say so: in use is
 *     what it was, allocations and frees of the harness's own caches are exact;
 *   - after ukmem_trim() no array holds anything and no slab is left over.
 *
 * Only the public interface is used. UKMEM_STRESS_SECONDS lengthens each variant.
 */
#ifndef STRESS_STRESS_H
#define STRESS_STRESS_H

#include <cstdint>

namespace stress
{

/* What a worker does next, in relative frequencies. */
struct Mix {
	/* how a block is made */
	unsigned kmalloc = 0, kzalloc = 0, cache = 0, bulk = 0, pages = 0;
	/* what becomes of it */
	unsigned free = 40, send = 20, resize = 0, check = 10;
};

struct Plan {
	uint64_t seed = 1;
	unsigned threads = 8;
	unsigned slots = 192; /* blocks a worker holds at most */
	Mix mix;
	int one_cache = -1;	 /* not all seven, but this one */
	uint32_t size_max = 512; /* of kmalloc; small ones are far more frequent */
	/* disturbers, each a thread of its own */
	unsigned trim_pause = 2000; /* between trims, microseconds at most */
	bool trim = false;	    /* ukmem_trim, kmem_cache_shrink */
	bool observe = false;	    /* statistics and gauges */
	bool migrate = false;	    /* change workers' CPUs */
	bool signals = false;	    /* 10 kHz, with a handler that allocates */
	bool fork = false;	    /* children allocate, free and exit */
	bool caches = false;	    /* create, use and destroy caches */
	unsigned life = 0;	    /* steps after which a worker is replaced by a new thread */
	double seconds = 3;
};

/* Run the plan and check the properties; failures are gtest's. */
void run(const Plan &plan);

/* The library's first use by many threads at once, in a child process; its exit status. */
int first_use(uint64_t seed, unsigned threads);

double seconds(double by_default);

} // namespace stress

#endif
