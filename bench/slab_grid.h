/* SPDX-License-Identifier: MIT */
/*
 * The grid of bench/slab bulk and of bench/slab_dpdk: the same loop around every source.
 *
 * SOURCE/SIZE/BATCH/TOUCH: take BATCH objects of SIZE bytes, write to the first byte of
 * each if TOUCH is 1, give them back. time_per_object is the CPU time of the process per
 * object taken and given back.
 *
 * A source has a constructor that is told the size, and take and give for n objects.
 */
#ifndef BENCH_SLAB_GRID_H
#define BENCH_SLAB_GRID_H

#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>

constexpr int64_t kGridSizes[] = { 64, 256, 1024 };
constexpr int64_t kGridBatches[] = { 1, 16, 64, 256, 1024 };
constexpr size_t kGridLargest = 1024;

template <typename source>
inline void grid_pass(source &from, void **objects, size_t n, bool touch)
{
	from.take(objects, n);
	benchmark::ClobberMemory();
	if (touch) {
		for (size_t i = 0; i < n; i++)
			*static_cast<volatile char *>(objects[i]) = 1;
	}
	from.give(objects, n);
}

template <typename source> void grid_cell(benchmark::State &state)
{
	source from(static_cast<size_t>(state.range(0)));
	const auto batch = static_cast<size_t>(state.range(1));
	const bool touch = state.range(2) != 0;
	std::vector<void *> objects(batch);

	/* The first passes take memory from the system, and find the capacities. */
	for (int i = 0; i < 16; i++)
		grid_pass(from, objects.data(), batch, touch);
	for (auto _ : state)
		grid_pass(from, objects.data(), batch, touch);
	state.counters["time_per_object"] =
		benchmark::Counter(static_cast<double>(state.iterations() * state.range(1)),
				   benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

template <typename source> void add_grid(const char *name)
{
	auto *grid = benchmark::RegisterBenchmark(name, grid_cell<source>);

	for (int64_t size : kGridSizes) {
		for (int64_t batch : kGridBatches) {
			for (int64_t touch : { 0, 1 })
				grid->Args({ size, batch, touch });
		}
	}
	grid->MeasureProcessCPUTime();
}

#endif
