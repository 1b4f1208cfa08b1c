/* SPDX-License-Identifier: MIT */
/*
 * DPDK's rte_mempool, for the programs that measure it.
 *
 * They are programs of their own: EAL takes over memory and threads when it starts. It gets
 * no huge pages and no devices, and the thread may go where the other programs' may: EAL
 * pins it, which is undone.
 */
#ifndef BENCH_DPDK_H
#define BENCH_DPDK_H

#include <sched.h>

#include <cstddef>
#include <iterator>
#include <string>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mempool.h>

#include "die.h"

[[noreturn]] inline void die_of_dpdk(const char *why)
{
	die(std::string(why) + ": " + rte_strerror(rte_errno));
}

inline void start_eal(char *program)
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
		die_of_dpdk("EAL does not start");
	sched_setaffinity(0, sizeof(allowed), &allowed);
}

/* One less than a power of two suits its ring. */
template <unsigned int cache_size> struct mempool_source {
	mempool_source(size_t size, unsigned int objects)
	    : pool(rte_mempool_create("bench", objects, static_cast<unsigned int>(size),
				      cache_size, 0, nullptr, nullptr, nullptr, nullptr,
				      SOCKET_ID_ANY, 0))
	{
		if (!pool)
			die_of_dpdk("no pool");
	}
	explicit mempool_source(size_t size) : mempool_source(size, 4095)
	{
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

#endif
