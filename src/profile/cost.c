/* SPDX-License-Identifier: MIT */
/*
 * Keeps the time that samples take within a share of the process's CPU time, the tunable
 * profile_cpu.
 *
 * How many samples there are depends on the bytes that the program allocates per second, of
 * which a loop may allocate terabytes. So in windows of 10 ms of CPU time, or of less if
 * samples took 200 us, the samples' time is compared with the share. Where it is more, the
 * mean distance between samples is doubled as often as it takes (slab_profile.level), and
 * where it is much less, halved. The mean is that of the tunable, or more.
 * slab/slab_profile.c says why estimates stay exact.
 *
 * The level follows from times, in which it does not matter which sites and which cache the
 * samples of the window were of, so it favours none.
 */
#include "profile/cost.h"

#include <stdatomic.h>

#include "base/bits.h"
#include "base/config.h"
#include "os/os.h"
#include "slab/slab_profile.h"

enum {
	WINDOW_US = 10000,
	BURST_US = 200, /* of samples: a window ends at once */
	SAMPLE_US = 50, /* a sample takes no longer: its thread was off its CPU */
	/* The slow path, a sample's free, and the caches after both take some time, too. */
	TIMES = 4,
	PERCENT = 100,
	SLACK = 3, /* the mean is halved where the cost is less than the share by this factor */
};

/*
 * Synchronization: relaxed. The thread that moves @looked on looks, as a rule alone: a second
 * one comes 10 ms later, or when samples have taken BURST_US again. If both looked at once,
 * one would see an empty window.
 */
static struct {
	_Atomic uint64_t looked; /* us, when it was last looked at the CPU time */
	_Atomic uint64_t cpu;	 /* us of CPU time, when the window began */
	_Atomic uint64_t spent;	 /* us in samples since then */
} window;

static unsigned int level_for(unsigned int level, uint64_t cost, uint64_t share)
{
	for (; cost > share && level < SLAB_PROFILE_LEVELS; cost /= 2)
		level++;
	for (; cost < share / SLACK && level; cost *= 2)
		level--;
	return level;
}

/* @share: percent. */
static void look(uint64_t share)
{
	uint64_t now = os_calls.cpu_us();
	uint64_t before = atomic_load_explicit(&window.cpu, memory_order_relaxed);
	uint64_t spent = atomic_load_explicit(&window.spent, memory_order_relaxed);

	/* The CPU time of a child of fork begins anew. */
	if (now >= before && now - before < WINDOW_US && spent < BURST_US)
		return;
	atomic_store_explicit(&window.cpu, now, memory_order_relaxed);
	spent = atomic_exchange_explicit(&window.spent, 0, memory_order_relaxed);
	if (now < before)
		return;
	atomic_store_explicit(&slab_profile.level,
			      level_for(slab_profile_level(), spent * TIMES * PERCENT,
					(now - before) * share),
			      memory_order_relaxed);
}

void cost_begin(void)
{
	atomic_store_explicit(&window.cpu, os_calls.cpu_us(), memory_order_relaxed);
	atomic_store_explicit(&window.looked, os_calls.now_us(), memory_order_relaxed);
	atomic_store_explicit(&window.spent, 0, memory_order_relaxed);
}

void cost_add(uint64_t started)
{
	uint64_t now = os_calls.now_us();
	uint64_t us = min_size(now - started, SAMPLE_US);
	uint64_t spent =
		atomic_fetch_add_explicit(&window.spent, us, memory_order_relaxed) + us;
	uint64_t looked = atomic_load_explicit(&window.looked, memory_order_relaxed);

	if ((now - looked < WINDOW_US && spent < BURST_US) || !config.profile_cpu ||
	    os_is_confined())
		return;
	if (atomic_compare_exchange_strong_explicit(&window.looked, &looked, now,
						    memory_order_relaxed, memory_order_relaxed))
		look(config.profile_cpu);
}
