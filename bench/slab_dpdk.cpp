/* SPDX-License-Identifier: MIT */
/*
 * slab_dpdk - the grid of slab bulk for DPDK's rte_mempool.
 *
 * With a cache of 512 objects per lcore, the most it can have, and without any. A program
 * of its own: EAL takes over memory and threads when it starts. It gets no huge pages and
 * no devices, and the thread may go where the other programs' may: EAL pins it, which is
 * undone.
 */
#include <benchmark/benchmark.h>

#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mempool.h>

#include "malloc_origin.h"
#include "slab_grid.h"

namespace
{

constexpr unsigned int kObjects = 4095; /* one less than a power of two suits its ring */

[[noreturn]] void die(const char *why)
{
	fprintf(stderr, "slab_dpdk: %s: %s\n", why, rte_strerror(rte_errno));
	exit(1);
}

template <unsigned int cache_size> struct mempool_source {
	explicit mempool_source(size_t size)
	    : pool(rte_mempool_create("bench", kObjects, static_cast<unsigned int>(size),
				      cache_size, 0, nullptr, nullptr, nullptr, nullptr,
				      SOCKET_ID_ANY, 0))
	{
		if (!pool)
			die("no pool");
	}
	~mempool_source()
	{
		rte_mempool_free(pool);
	}
	mempool_source(const mempool_source &) = delete;
	mempool_source &operator=(const mempool_source &) = delete;

	void take(void **p, size_t n)
	{
		if (rte_mempool_get_bulk(pool, p, static_cast<unsigned int>(n)))
			die("the pool is empty");
	}
	void give(void **p, size_t n)
	{
		rte_mempool_put_bulk(pool, p, static_cast<unsigned int>(n));
	}

	rte_mempool *pool;
};

void start_eal(char *program)
{
	std::string options[] = { "--no-huge",
				  "--no-pci",
				  "-m",
				  "256",
				  "--no-shconf",
				  "--no-telemetry",
				  "--iova-mode=va",
				  "--log-level=error",
				  "-l",
				  "" };
	char *argv[std::size(options) + 2] = { program };
	cpu_set_t allowed;
	int first = 0;

	sched_getaffinity(0, sizeof(allowed), &allowed);
	while (!CPU_ISSET(first, &allowed))
		first++;
	options[std::size(options) - 1] = std::to_string(first);
	for (size_t i = 0; i < std::size(options); i++)
		argv[i + 1] = options[i].data();
	if (rte_eal_init(std::size(options) + 1, argv) < 0)
		die("EAL does not start");
	sched_setaffinity(0, sizeof(allowed), &allowed);
}

} // namespace

int main(int argc, char **argv)
{
	start_eal(argv[0]);
	add_grid<mempool_source<RTE_MEMPOOL_CACHE_MAX_SIZE>>("mempool_cache");
	add_grid<mempool_source<0>>("mempool");
	benchmark::AddCustomContext("malloc_origin", malloc_origin());
	benchmark::Initialize(&argc, argv);
	if (benchmark::ReportUnrecognizedArguments(argc, argv))
		return 2;
	benchmark::RunSpecifiedBenchmarks();
	rte_eal_cleanup();
	return 0;
}
