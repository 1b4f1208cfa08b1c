/* SPDX-License-Identifier: MIT */
/*
 * slab_dpdk - the grid of slab bulk for DPDK's rte_mempool.
 *
 * With a cache of 512 objects per lcore, the most it can have, and without any.
 */
#include <benchmark/benchmark.h>

#include "dpdk.h"
#include "run_benchmarks.h"
#include "slab_grid.h"

int main(int argc, char **argv)
{
	start_eal(argv[0]);
	add_grid<mempool_source<RTE_MEMPOOL_CACHE_MAX_SIZE>>("mempool_cache");
	add_grid<mempool_source<0>>("mempool");
	if (!run_benchmarks(argc, argv))
		return 2;
	rte_eal_cleanup();
	return 0;
}
