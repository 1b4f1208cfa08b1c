/* SPDX-License-Identifier: MIT */
/*
 * queue - the ALF queue beside DPDK's rte_ring, ConcurrencyKit's ck_ring and locked arrays.
 *
 * One thread, ns per element for enqueue and dequeue:
 *   simple     one in, one out
 *   step128    128 in one by one, then 128 out
 *   bulkN      N in at once, N out at once
 * Threads, elements per second (items_per_second) through P producers and C consumers with
 * bulks of B, all of whom yield when there is nothing to do: threads/PxC/B.
 *
 * Of a queue with 512 places. Google Benchmark's options. bench/run --queue interleaves them.
 */
#include <benchmark/benchmark.h>

#include <sched.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "queue_kinds.h"
#include "run_benchmarks.h"

namespace
{

constexpr uint32_t kPlaces = 512;
constexpr unsigned int kStep = 128;

void set_elements(benchmark::State &state, unsigned int each)
{
	state.counters["ns_per_element"] =
		benchmark::Counter(static_cast<double>(state.iterations()) * each * 1e-9,
				   benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

template <typename kind> void step(benchmark::State &state)
{
	kind q(kPlaces);
	void *p[1] = { &q };

	benchmark::DoNotOptimize(&p[0]);
	for (auto _ : state) {
		for (unsigned int i = 0; i < kStep; i++) {
			q.put(p, 1);
			benchmark::ClobberMemory();
		}
		for (unsigned int i = 0; i < kStep; i++) {
			q.get(p, 1);
			benchmark::ClobberMemory();
		}
	}
	set_elements(state, kStep);
}

template <typename kind, unsigned int n> void bulk(benchmark::State &state)
{
	kind q(kPlaces);
	void *p[n];

	for (void *&one : p)
		one = &q;
	benchmark::DoNotOptimize(&p[0]);
	for (auto _ : state) {
		q.put(p, n);
		benchmark::ClobberMemory(); /* pointers come from memory and go there */
		q.get(p, n);
		benchmark::ClobberMemory();
	}
	set_elements(state, n);
}

template <typename kind>
uint64_t produce(kind &q, unsigned int n, const std::atomic<bool> &stop)
{
	std::vector<void *> p(n, &q);

	while (!stop.load(std::memory_order_relaxed)) {
		unsigned int done = 0;

		/* ck_ring may take a part of it */
		while (!stop.load(std::memory_order_relaxed) &&
		       (done += q.put(p.data() + done, n - done)) < n)
			sched_yield();
	}
	return 0;
}

/* The number of elements that came out. */
template <typename kind>
uint64_t consume(kind &q, unsigned int n, const std::atomic<bool> &stop)
{
	std::vector<void *> p(n);
	uint64_t all = 0;

	while (!stop.load(std::memory_order_relaxed)) {
		unsigned int got = q.get(p.data(), n);

		if (!got)
			sched_yield();
		all += got;
	}
	return all;
}

template <typename kind>
void threads(benchmark::State &state, unsigned int pairs, unsigned int n)
{
	for (auto _ : state) {
		kind q(kPlaces);

		time_threads(state, 2 * pairs, [&](unsigned int i, const auto &stop) {
			return i % 2 ? consume(q, n, stop) : produce(q, n, stop);
		});
	}
}

template <typename kind, unsigned int n> void add_bulk(const std::string &name)
{
	benchmark::RegisterBenchmark((name + "/bulk" + std::to_string(n)).c_str(),
				     bulk<kind, n>);
}

template <typename kind> void add_one_thread(const std::string &name)
{
	benchmark::RegisterBenchmark((name + "/simple").c_str(), bulk<kind, 1>);
	benchmark::RegisterBenchmark((name + "/step128").c_str(), step<kind>);
	add_bulk<kind, 2>(name);
	add_bulk<kind, 3>(name);
	add_bulk<kind, 4>(name);
	add_bulk<kind, 6>(name);
	add_bulk<kind, 8>(name);
	add_bulk<kind, 16>(name);
	add_bulk<kind, 32>(name);
	add_bulk<kind, 64>(name);
}

template <typename kind> void add_threads(const std::string &name)
{
	for (unsigned int pairs : { 1u, 2u, 4u, 8u })
		for (unsigned int n : { 1u, 16u }) {
			std::string of = std::to_string(pairs);

			benchmark::RegisterBenchmark(
				(name + "/threads/" + of + "x" + of + "/" + std::to_string(n))
					.c_str(),
				threads<kind>, pairs, n)
				->UseManualTime()
				->Iterations(1);
		}
}

template <typename kind> void add_multi(const std::string &name)
{
	add_one_thread<kind>(name);
	add_threads<kind>(name);
}

} // namespace

int main(int argc, char **argv)
{
	add_one_thread<alf_spsc>("alf_spsc");
	add_multi<alf_mpmc>("alf_mpmc");
	add_multi<alf_ticket>("alf_ticket");
#ifdef HAVE_DPDK
	add_one_thread<rte_spsc>("rte_spsc");
	add_multi<rte_mpmc>("rte_mpmc");
	add_multi<rte_rts>("rte_rts");
	add_multi<rte_hts>("rte_hts");
#endif
#ifdef HAVE_CK
	add_one_thread<ck_spsc>("ck_spsc");
	add_multi<ck_mpmc>("ck_mpmc");
#endif
	add_threads<spin_array>("spin_array");
	add_threads<mutex_array>("mutex_array");
	return run_benchmarks(argc, argv) ? 0 : 2;
}
