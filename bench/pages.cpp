/* SPDX-License-Identifier: MIT */
/*
 * pages - what a pair of taking and giving back whole pages costs.
 *
 * SOURCE/ORDER/BATCH/threads:N: take BATCH runs of 2^ORDER * 4 KiB, then free them in the
 * same order. Sources: alloc_pages, of which nobody looks at the memory; the others write
 * to its first byte: get_free_pages, the same in that way; mmap; aligned_alloc of whatever
 * malloc the process has.
 *
 * Pagesets on and off is a setting of the process: bench/run starts one for each.
 */
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <sys/mman.h>
#include <vector>

#include <ukmem/page_alloc.h>

#include "die.h"
#include "run_benchmarks.h"

namespace
{

constexpr int64_t kOrders[] = { 0, 3 };
constexpr int64_t kBatches[] = { 1, 64, 512 };
constexpr int kThreads[] = { 1, 2, 4, 8 };

/* --- sources of memory ------------------------------------------------------------ */

template <typename block> inline block *touched(block *memory)
{
	benchmark::DoNotOptimize(memory);
	*reinterpret_cast<volatile char *>(memory) = 1;
	return memory;
}

inline size_t bytes_of(unsigned int order)
{
	return static_cast<size_t>(4096) << order;
}

/* The run itself: nobody looks at its memory. */
struct alloc_pages_source {
	using block = page;

	static block *take(unsigned int order)
	{
		page *run = alloc_pages(GFP_KERNEL, order);

		if (!run)
			die("no pages");
		return run;
	}
	static void give(block *run, unsigned int order)
	{
		__free_pages(run, order);
	}
};

/* From here on somebody writes to the first byte. */
struct get_free_pages_source {
	using block = void;

	static block *take(unsigned int order)
	{
		return touched(reinterpret_cast<void *>(__get_free_pages(GFP_KERNEL, order)));
	}
	static void give(block *memory, unsigned int order)
	{
		free_pages(reinterpret_cast<unsigned long>(memory), order);
	}
};

struct mmap_source {
	using block = void;

	static block *take(unsigned int order)
	{
		void *memory = mmap(nullptr, bytes_of(order), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			die("mmap failed");
		return touched(memory);
	}
	static void give(block *memory, unsigned int order)
	{
		munmap(memory, bytes_of(order));
	}
};

struct aligned_alloc_source {
	using block = void;

	static block *take(unsigned int order)
	{
		return touched(aligned_alloc(4096, bytes_of(order)));
	}
	static void give(block *memory, unsigned int)
	{
		free(memory);
	}
};

/* --- pairs ------------------------------------------------------------------------ */

template <typename source>
inline void run_batch(std::vector<typename source::block *> &blocks, unsigned int order)
{
	for (auto &block : blocks)
		block = source::take(order);
	benchmark::ClobberMemory();
	for (auto *block : blocks)
		source::give(block, order);
}

template <typename source> void pairs(benchmark::State &state)
{
	const auto order = static_cast<unsigned int>(state.range(0));
	std::vector<typename source::block *> blocks(static_cast<size_t>(state.range(1)));

	/* The first pass takes memory from the system; it is not the steady state. */
	run_batch<source>(blocks, order);
	if (blocks.size() == 1) {
		for (auto _ : state)
			source::give(source::take(order), order);
	} else {
		for (auto _ : state)
			run_batch<source>(blocks, order);
	}
}

template <typename source> void add_pairs(const char *name)
{
	auto *all = benchmark::RegisterBenchmark(name, pairs<source>);

	for (int64_t order : kOrders) {
		for (int64_t batch : kBatches)
			all->Args({ order, batch });
	}
	for (int threads : kThreads)
		all->Threads(threads);
}

} // namespace

int main(int argc, char **argv)
{
	add_pairs<alloc_pages_source>("alloc_pages");
	add_pairs<get_free_pages_source>("get_free_pages");
	add_pairs<mmap_source>("mmap");
	add_pairs<aligned_alloc_source>("aligned_alloc");
	return run_benchmarks(argc, argv) ? 0 : 1;
}
