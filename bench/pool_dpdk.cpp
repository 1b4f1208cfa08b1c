/* SPDX-License-Identifier: MIT */
/*
 * pool_dpdk - the cells of bench/pool for DPDK's rte_mempool.
 *
 * With a cache of 512 objects per lcore, the most it can have, and in one thread without any:
 * more of them, who all wait in turn for who is preempted, may take minutes to end. Every
 * thread becomes an lcore, or it would have no cache.
 */
#include <benchmark/benchmark.h>

#include "dpdk.h"
#include "pool_grid.h"
#include "run_benchmarks.h"

namespace
{

/* The main thread is one from the start. */
struct lcore {
	lcore() : registered(rte_lcore_id() == LCORE_ID_ANY)
	{
		if (registered && rte_thread_register())
			die_of_dpdk("no lcore");
	}
	~lcore()
	{
		if (registered)
			rte_thread_unregister();
	}
	lcore(const lcore &) = delete;
	lcore &operator=(const lcore &) = delete;

	bool registered;
};

template <unsigned int cache_size> struct mempool : mempool_source<cache_size> {
	using user = lcore;

	mempool(size_t size, unsigned int places) : mempool_source<cache_size>(size, places - 1)
	{
	}
};

} // namespace

int main(int argc, char **argv)
{
	start_eal(argv[0]);
	add_pool<mempool<RTE_MEMPOOL_CACHE_MAX_SIZE>>("mempool_cache");
	add_one_thread<mempool<0>>("mempool");
	if (!run_benchmarks(argc, argv))
		return 2;
	rte_eal_cleanup();
	return 0;
}
