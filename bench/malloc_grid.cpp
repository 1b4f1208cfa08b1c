/* SPDX-License-Identifier: MIT */
/*
 * malloc_grid - what a malloc+free pair costs, over sizes and batches.
 *
 * Measures whatever malloc the process has: bench/run preloads one allocator
 * after the other. A cell is named malloc_free/SIZE/BATCH; one iteration is
 * BATCH mallocs, each followed by a write to the object's first byte, then
 * BATCH frees in the same order. The counter time_per_pair is the CPU time of
 * the whole process, the allocator's helper threads included, per malloc+free.
 * flat/SIZE/BATCH does the same for larger objects in one to four threads: the
 * price should depend neither on the size nor on the number of threads. Its
 * counters are cpu_per_pair and elapsed_per_pair, in seconds.
 *
 * Built without the compiler's knowledge of malloc and free, which would
 * otherwise let it remove the pair.
 */
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "run_benchmarks.h"

namespace
{

constexpr int64_t kBatches[] = { 1, 256, 10000 };
constexpr int64_t kSmallest = 8;
constexpr int64_t kLargest = 16384;

constexpr int64_t kFlatBatches[] = { 1, 16 };
constexpr int64_t kFlatSmallest = 4096;
constexpr int64_t kFlatLargest = 65536;
constexpr int kFlatMostThreads = 4;

/* Where a batch is kept: allocated and touched before anything is timed. */
std::vector<void *> slots(kBatches[2]);

inline void *allocate_touched(size_t size)
{
	void *object = malloc(size);

	benchmark::DoNotOptimize(object);
	*static_cast<volatile char *>(object) = 1;
	return object;
}

inline void run_batch(void **objects, size_t size, size_t batch)
{
	for (size_t i = 0; i < batch; i++)
		objects[i] = allocate_touched(size);
	benchmark::ClobberMemory();
	for (size_t i = 0; i < batch; i++)
		free(objects[i]);
}

void malloc_free(benchmark::State &state)
{
	void **objects = slots.data();
	const auto size = static_cast<size_t>(state.range(0));
	const auto batch = static_cast<size_t>(state.range(1));

	/* The first pass takes memory from the system; it is not the steady state. */
	run_batch(objects, size, batch);
	if (batch == 1) {
		for (auto _ : state)
			free(allocate_touched(size));
	} else {
		for (auto _ : state)
			run_batch(objects, size, batch);
	}
	state.counters["time_per_pair"] =
		benchmark::Counter(static_cast<double>(state.iterations() * state.range(1)),
				   benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/*
 * When all threads of a benchmark began. Google Benchmark's own figures are means of what each
 * thread sees until it has done its part: what the others do from then on is missing.
 *
 * Synchronization: a thread clears the flags before the barrier at the beginning. The first
 * thread behind each barrier sets a flag; who reads the figures is behind the second one.
 */
struct Span {
	std::atomic_flag begun, ended;
	double cpu, clock;
} span;

void flat(benchmark::State &state)
{
	const auto size = static_cast<size_t>(state.range(0));
	const auto batch = static_cast<size_t>(state.range(1));
	void *objects[kFlatBatches[1]];

	run_batch(objects, size, batch);
	if (state.thread_index() == 0) {
		span.begun.clear();
		span.ended.clear();
	}
	auto pass = state.begin();
	const auto end = state.end(); /* a barrier */

	if (!span.begun.test_and_set()) {
		span.cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
		span.clock = seconds(CLOCK_MONOTONIC);
	}
	if (batch == 1) {
		for (; pass != end; ++pass)
			free(allocate_touched(size));
	} else {
		for (; pass != end; ++pass)
			run_batch(objects, size, batch);
	}
	if (span.ended.test_and_set())
		return;
	const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), clock = seconds(CLOCK_MONOTONIC);
	const double pairs = static_cast<double>(state.iterations()) *
			     static_cast<double>(batch) * state.threads();

	state.counters["cpu_per_pair"] = (cpu - span.cpu) / pairs;
	state.counters["elapsed_per_pair"] = (clock - span.clock) / pairs;
}

void add_flat()
{
	auto *cells = benchmark::RegisterBenchmark("flat", flat);

	for (int64_t size = kFlatSmallest; size <= kFlatLargest; size *= 2) {
		for (int64_t batch : kFlatBatches)
			cells->Args({ size, batch });
	}
	cells->DenseThreadRange(1, kFlatMostThreads);
	cells->MeasureProcessCPUTime();
}

} // namespace

int main(int argc, char **argv)
{
	auto *grid = benchmark::RegisterBenchmark("malloc_free", malloc_free);

	for (int64_t size = kSmallest; size <= kLargest; size *= 2) {
		for (int64_t batch : kBatches)
			grid->Args({ size, batch });
	}
	grid->MeasureProcessCPUTime();
	add_flat();
	return run_benchmarks(argc, argv) ? 0 : 1;
}
