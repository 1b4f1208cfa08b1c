/* SPDX-License-Identifier: MIT */
/*
 * pool - a qmempool, by itself and in an owner context, the bare cache behind it, and malloc:
 * the cells of pool_grid.h. pool_dpdk has the same ones for DPDK's rte_mempool.
 *
 * A CPU's array of the qmempool has as many places as an lcore's cache can have there.
 */
#include <benchmark/benchmark.h>

#include <sched.h>

#include <cstdio>
#include <cstring>

#include <ukmem/percpu.h>
#include <ukmem/qmempool.h>

#include "pool_grid.h"
#include "run_benchmarks.h"
#include "slab_sources.h"
#include "stay_on_cpu.h"

namespace
{

constexpr uint32_t kLocal = 512;

struct pool_base {
	pool_base(size_t size, uint32_t places)
	    : objects(size), q(qmempool_create(kLocal, places, 0, objects.s, GFP_KERNEL))
	{
		if (!q)
			die("no pool");
	}
	~pool_base()
	{
		qmempool_destroy(q);
	}
	pool_base(const pool_base &) = delete;
	pool_base &operator=(const pool_base &) = delete;

	cache objects;
	qmempool *q;
};

struct general_pool : pool_base {
	using user = no_user;
	using pool_base::pool_base;

	[[gnu::always_inline]] void take(void **p, size_t n)
	{
		if (n == 1)
			*p = qmempool_alloc(q, GFP_KERNEL);
		if (n == 1 ? !*p : !qmempool_alloc_bulk(q, GFP_KERNEL, n, p))
			die("no element");
	}
	[[gnu::always_inline]] void give(void **p, size_t n)
	{
		if (n == 1)
			qmempool_free(q, *p);
		else
			qmempool_free_bulk(q, n, p);
	}
};

/* The thread stays where it is for so long, and owns that CPU. */
struct owner {
	owner()
	{
		sched_getaffinity(0, sizeof(before), &before);
		stay_on_cpu(static_cast<unsigned int>(sched_getcpu()));
		error = percpu_owner_enter();
	}
	~owner()
	{
		if (!error)
			percpu_owner_exit();
		sched_setaffinity(0, sizeof(before), &before);
	}
	owner(const owner &) = delete;
	owner &operator=(const owner &) = delete;

	cpu_set_t before;
	int error;
};

struct owner_pool : pool_base {
	using user = owner;
	using pool_base::pool_base;

	[[gnu::always_inline]] void take(void **p, size_t n)
	{
		if (n == 1)
			*p = __qmempool_alloc(q, GFP_KERNEL);
		if (n == 1 ? !*p : !__qmempool_alloc_bulk(q, GFP_KERNEL, n, p))
			die("no element");
	}
	[[gnu::always_inline]] void give(void **p, size_t n)
	{
		if (n == 1)
			__qmempool_free(q, *p);
		else
			__qmempool_free_bulk(q, n, p);
	}
};

struct bare_cache {
	using user = no_user;

	bare_cache(size_t size, uint32_t) : objects(size)
	{
	}
	[[gnu::always_inline]] void take(void **p, size_t n)
	{
		if (n == 1)
			*p = kmem_cache_alloc(objects.s, GFP_KERNEL);
		if (n == 1 ? !*p : !kmem_cache_alloc_bulk(objects.s, GFP_KERNEL, n, p))
			die("no object");
	}
	[[gnu::always_inline]] void give(void **p, size_t n)
	{
		if (n == 1)
			kmem_cache_free(objects.s, *p);
		else
			kmem_cache_free_bulk(objects.s, n, p);
	}

	cache objects;
};

struct malloc_pool : malloc_source {
	using user = no_user;

	malloc_pool(size_t size, uint32_t) : malloc_source(size)
	{
	}
};

/* Threads that outnumber CPUs own none. */
void add_owner()
{
	const int error = owner().error;

	if (error)
		fprintf(stderr, "pool: SKIPPED owner: percpu_owner_enter: %s\n",
			strerror(-error));
	else
		add_one_thread<owner_pool>("owner");
}

} // namespace

int main(int argc, char **argv)
{
	add_pool<general_pool>("qmempool");
	add_owner();
	add_pool<bare_cache>("kmem_cache");
	add_pool<malloc_pool>("malloc");
	return run_benchmarks(argc, argv) ? 0 : 2;
}
