/* SPDX-License-Identifier: MIT */
/*
 * slab - what objects of a kmem_cache cost.
 *
 *   slab bulk      many at once, one by one, and malloc: see slab_grid.h
 *   slab cold      refilling when nothing is in the processor's caches (slab_cold.cpp)
 *   slab bounded   slabs kept after an awkward order of frees (slab_bounded.cpp)
 *   slab pass      one thread allocates, another frees (slab_pass.cpp)
 *
 * The options of bulk are Google Benchmark's. slab_dpdk has the same grid for rte_mempool.
 */
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <vector>

#include <CLI/CLI.hpp>
#include <ukmem/slab.h>

#include "run_benchmarks.h"
#include "slab_bench.h"
#include "slab_grid.h"

namespace
{

struct bulk_source {
	explicit bulk_source(size_t size) : objects(size)
	{
	}
	void take(void **p, size_t n)
	{
		if (!kmem_cache_alloc_bulk(objects.s, GFP_KERNEL, n, p))
			die("no objects");
	}
	void give(void **p, size_t n)
	{
		kmem_cache_free_bulk(objects.s, n, p);
	}

	cache objects;
};

struct single_source {
	explicit single_source(size_t size) : objects(size)
	{
	}
	void take(void **p, size_t n)
	{
		for (size_t i = 0; i < n; i++) {
			p[i] = kmem_cache_alloc(objects.s, GFP_KERNEL);
			if (!p[i])
				die("no object");
		}
	}
	void give(void **p, size_t n)
	{
		for (size_t i = 0; i < n; i++)
			kmem_cache_free(objects.s, p[i]);
	}

	cache objects;
};

void bulk(char *program, const std::vector<std::string> &options)
{
	std::vector<std::string> text(options);
	std::vector<char *> argv{ program };
	int argc;

	for (std::string &option : text)
		argv.push_back(option.data());
	argc = static_cast<int>(argv.size());
	argv.push_back(nullptr);

	add_grid<bulk_source>("alloc_bulk");
	add_grid<single_source>("alloc");
	add_grid<malloc_source>("malloc");
	if (!run_benchmarks(argc, argv.data()))
		exit(2);
}

} // namespace

int main(int argc, char **argv)
{
	CLI::App app("What objects of a kmem_cache cost.");
	auto *grid = app.add_subcommand("bulk", "many at once, one by one, and malloc; options "
						"are Google Benchmark's");

	app.require_subcommand(1);
	grid->prefix_command();
	grid->callback([&] { bulk(argv[0], grid->remaining()); });
	add_cold(app);
	add_bounded(app);
	add_pass(app);
	CLI11_PARSE(app, argc, argv);
	return 0;
}
