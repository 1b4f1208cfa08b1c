/* SPDX-License-Identifier: MIT */
/*
 * The cells of bench/pool and bench/pool_dpdk: the same loops around every pool.
 *
 * POOL/HELD/BULK/TOUCH: one thread takes HELD elements, BULK at a time, writes to the first
 * byte of each if TOUCH is 1, and gives them back in the same order, BULK at a time. With
 * HELD = BULK it is the same elements again and again. time_per_element is the CPU time of
 * the process per element taken and given back.
 *
 * POOL/threads/N/BULK: N threads do this with 1024 elements each, for a while.
 * items_per_second counts elements taken and given back.
 *
 * A pool has a constructor that is told the size of an element and a power of two that is
 * more than will be in use; take and give for n elements; and a type `user`, of which every
 * thread that uses the pool has one. BULK is a constant, as it is where packets are handled.
 */
#ifndef BENCH_POOL_GRID_H
#define BENCH_POOL_GRID_H

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "run_benchmarks.h"

constexpr size_t kElementSize = 256;
constexpr size_t kHeldMost = 8192;
constexpr unsigned int kPlaces = 16384;
constexpr size_t kThreadHolds = 1024;
constexpr unsigned int kThreadPlaces = 65536;

struct no_user {
};

template <unsigned int bulk, typename pool_type>
inline void pool_pass(pool_type &pool, void **elements, size_t held, bool touch)
{
	for (size_t i = 0; i < held; i += bulk) {
		pool.take(elements + i, bulk);
		benchmark::ClobberMemory(); /* pointers go to memory and come from there */
		if (touch) {
			for (unsigned int j = 0; j < bulk; j++)
				*static_cast<volatile char *>(elements[i + j]) = 1;
		}
	}
	for (size_t i = 0; i < held; i += bulk) {
		pool.give(elements + i, bulk);
		benchmark::ClobberMemory();
	}
}

template <typename pool_type, unsigned int bulk>
void pool_cell(benchmark::State &state, size_t held, bool touch)
{
	pool_type pool(kElementSize, kPlaces);
	typename pool_type::user user;
	/* A few of them do not lie where elements do in their pages: loads would wait for
	 * stores. */
	alignas(4096) static void *memory[8 + kHeldMost];
	void **const elements = memory + 8;

	(void)user;
	/* The first passes take memory from the system. */
	for (int i = 0; i < 16; i++)
		pool_pass<bulk>(pool, elements, held, touch);
	for (auto _ : state)
		pool_pass<bulk>(pool, elements, held, touch);
	state.counters["time_per_element"] = benchmark::Counter(
		static_cast<double>(state.iterations()) * static_cast<double>(held),
		benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

/* Until @stop; the number of elements given back by then. */
template <unsigned int bulk, typename pool_type>
uint64_t take_and_give(pool_type &pool, const std::atomic<bool> &stop)
{
	typename pool_type::user user;
	std::vector<void *> elements(kThreadHolds);
	uint64_t given = 0;
	bool counts = true;
	size_t held;

	(void)user;
	while (counts) {
		for (held = 0; held < kThreadHolds && !stop.load(std::memory_order_relaxed);
		     held += bulk)
			pool.take(elements.data() + held, bulk);
		for (size_t i = 0; i < held; i += bulk) {
			pool.give(elements.data() + i, bulk);
			counts = !stop.load(std::memory_order_relaxed);
			given += counts ? bulk : 0;
		}
		counts = !stop.load(std::memory_order_relaxed);
	}
	return given;
}

template <typename pool_type, unsigned int bulk>
void pool_threads(benchmark::State &state, unsigned int nr_threads)
{
	for (auto _ : state) {
		pool_type pool(kElementSize, kThreadPlaces);

		time_threads(state, nr_threads, [&](unsigned int, const auto &stop) {
			return take_and_give<bulk>(pool, stop);
		});
	}
}

template <typename pool_type, unsigned int bulk>
void add_held(const std::string &name, std::initializer_list<size_t> held_all)
{
	for (size_t held : held_all) {
		for (bool touch : { false, true }) {
			std::string cell = name + "/" + std::to_string(held) + "/" +
					   std::to_string(bulk) + (touch ? "/1" : "/0");

			benchmark::RegisterBenchmark(cell.c_str(), pool_cell<pool_type, bulk>,
						     held, touch)
				->MeasureProcessCPUTime();
		}
	}
}

template <typename pool_type> void add_one_thread(const std::string &name)
{
	add_held<pool_type, 1>(name, { 1, 256, 8192 });
	add_held<pool_type, 2>(name, { 2 });
	add_held<pool_type, 4>(name, { 4 });
	add_held<pool_type, 8>(name, { 8 });
	add_held<pool_type, 16>(name, { 16, 256, 8192 });
	add_held<pool_type, 32>(name, { 32 });
	add_held<pool_type, 64>(name, { 64 });
}

template <typename pool_type, unsigned int bulk> void add_bulk_threads(const std::string &name)
{
	for (unsigned int n : { 1u, 2u, 4u, 16u }) {
		std::string cell =
			name + "/threads/" + std::to_string(n) + "/" + std::to_string(bulk);

		benchmark::RegisterBenchmark(cell.c_str(), pool_threads<pool_type, bulk>, n)
			->UseManualTime()
			->Iterations(1);
	}
}

template <typename pool_type> void add_pool(const std::string &name)
{
	add_one_thread<pool_type>(name);
	add_bulk_threads<pool_type, 1>(name);
	add_bulk_threads<pool_type, 16>(name);
	add_bulk_threads<pool_type, 64>(name);
}

#endif
