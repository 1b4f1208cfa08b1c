/* SPDX-License-Identifier: MIT */
/* What the programs on Google Benchmark share: their end, and threads that run for a while. */
#ifndef BENCH_RUN_BENCHMARKS_H
#define BENCH_RUN_BENCHMARKS_H

#include <benchmark/benchmark.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "malloc_origin.h"

/*
 * Runs the registered benchmarks that the arguments name. False: an argument is not understood.
 */
inline bool run_benchmarks(int argc, char **argv)
{
	benchmark::AddCustomContext("malloc_origin", malloc_origin());
	benchmark::Initialize(&argc, argv);
	if (benchmark::ReportUnrecognizedArguments(argc, argv))
		return false;
	benchmark::RunSpecifiedBenchmarks();
	return true;
}

/* body(i, stop) in @n threads, for 300 ms; what they return are the items. */
template <typename Body>
void time_threads(benchmark::State &state, unsigned int n, const Body &body)
{
	std::atomic<bool> stop{ false };
	std::atomic<uint64_t> sum{ 0 };
	std::vector<std::thread> all;

	auto begin = std::chrono::steady_clock::now();
	for (unsigned int i = 0; i < n; i++)
		all.emplace_back([&, i] { sum += body(i, stop); });
	std::this_thread::sleep_for(std::chrono::milliseconds(300));
	stop = true;
	auto time = std::chrono::steady_clock::now() - begin;
	for (auto &t : all)
		t.join();
	state.SetIterationTime(std::chrono::duration<double>(time).count());
	state.SetItemsProcessed(static_cast<int64_t>(sum));
}

#endif
