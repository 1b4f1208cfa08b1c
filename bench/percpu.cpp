/* SPDX-License-Identifier: MIT */
/*
 * percpu - what operations on per-CPU variables cost, beside what else one could do.
 *
 * A benchmark is named OPERATION/PATTERN; the pattern is
 *   same         a loop around one operation, on one variable
 *   independent  a loop around eight of them, each on a variable of its own
 * The counter time_per_operation is CPU time of the threads, per operation.
 * Threads are on CPUs of their own.
 *
 * The context says which mechanism the library uses here (percpu_mode). At the end
 * all this_cpu_ adds must be there: a program that lost some exits with 1.
 */
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <sched.h>
#include <string>
#include <utility>
#include <vector>

#include <ukmem/percpu.h>

#include "percpu_tls.h"

namespace
{

constexpr size_t kWords = 8;

struct alignas(64) words {
	uint64_t w[kWords];
};

struct alignas(16) pair_of_words {
	uint64_t first, second;
};

struct pairs {
	pair_of_words p[kWords];
};

/* Seen through a pointer: some CPUs forward stores at once if the address is in a register. */
words *plain_words;
words locked_words, shared_words;
/* Exact: for operations that must not lose anything. */
DEFINE_PER_CPU(words, exact_words);
DEFINE_PER_CPU(words, racy_words);
DEFINE_PER_CPU(words, compared_words);
DEFINE_PER_CPU(pairs, compared_pairs);
/* In memory, like a handle in somebody's structure. */
words *allocated_words;
std::vector<words> slot_of_cpu;
std::atomic<uint64_t> exact_adds;

/* While it lives, each of several threads is on a CPU of its own, if there are enough. */
struct pinned {
	explicit pinned(const benchmark::State &state)
	{
		cpu_set_t mine;
		int left;

		sched_getaffinity(0, sizeof(before), &before);
		if (state.threads() == 1)
			return;
		left = state.thread_index() % CPU_COUNT(&before);
		CPU_ZERO(&mine);
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
			if (CPU_ISSET(cpu, &before) && left-- == 0)
				CPU_SET(cpu, &mine);
		}
		sched_setaffinity(0, sizeof(mine), &mine);
	}
	~pinned()
	{
		sched_setaffinity(0, sizeof(before), &before);
	}
	pinned(const pinned &) = delete;
	pinned &operator=(const pinned &) = delete;

	cpu_set_t before;
};

/* A result is used, in a register: benchmark::DoNotOptimize() would put it in memory. */
template <typename value> UKMEM_INLINE void use(value v)
{
	asm volatile("" : : "r"(v));
}

/* One read-modify-write of memory: nothing the compiler could keep in a register. */
UKMEM_INLINE void add_to_memory(uint64_t &word)
{
#if defined(__x86_64__)
	asm volatile("addq $1, %0" : "+m"(word) : : "cc");
#else
	volatile uint64_t &memory = word;

	memory = memory + 1;
#endif
}

UKMEM_INLINE void plain_add(size_t i)
{
	add_to_memory(plain_words->w[i]);
}

UKMEM_INLINE void locked_add(size_t i)
{
	__atomic_fetch_add(&locked_words.w[i], 1, __ATOMIC_RELAXED);
}

UKMEM_INLINE void shared_add(size_t i)
{
	__atomic_fetch_add(&shared_words.w[i], 1, __ATOMIC_RELAXED);
}

UKMEM_INLINE void raw_add(size_t i)
{
	raw_cpu_add(racy_words.w[i], 1);
}

UKMEM_INLINE void pointer_add(size_t i)
{
	add_to_memory(*this_cpu_ptr(&racy_words.w[i]));
}

UKMEM_INLINE void static_add(size_t i)
{
	this_cpu_add(exact_words.w[i], 1);
}

UKMEM_INLINE void allocated_add(size_t i)
{
	this_cpu_add(allocated_words->w[i], 1);
}

UKMEM_INLINE void add_return(size_t i)
{
	use(this_cpu_add_return(exact_words.w[i], 1));
}

/* 0 becomes 0: always finds what it expects, and always stores. */
UKMEM_INLINE void compare_exchange(size_t i)
{
	use(this_cpu_cmpxchg(compared_words.w[i], 0, 0));
}

UKMEM_INLINE void compare_exchange_double(size_t i)
{
	use(this_cpu_cmpxchg_double(compared_pairs.p[i].first, compared_pairs.p[i].second, 0, 0,
				    0, 0));
}

UKMEM_INLINE void tls_call_add(size_t i)
{
	percpu_tls_add(i);
}

UKMEM_INLINE void tls_extern_add(size_t i)
{
	add_to_memory(percpu_tls_words[i]);
}

UKMEM_INLINE void getcpu_add(size_t i)
{
	const auto cpu = static_cast<size_t>(sched_getcpu());

	__atomic_fetch_add(&slot_of_cpu[cpu].w[i], 1, __ATOMIC_RELAXED);
}

void report(benchmark::State &state, size_t operations)
{
	state.counters["time_per_operation"] =
		benchmark::Counter(static_cast<double>(operations),
				   benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

template <void (*operation)(size_t), size_t... i>
UKMEM_INLINE void on_each(std::index_sequence<i...>)
{
	(operation(i), ...);
}

template <void (*operation)(size_t), size_t variables, bool exact>
void measure(benchmark::State &state)
{
	const pinned here(state);
	size_t operations;

	for (auto _ : state)
		on_each<operation>(std::make_index_sequence<variables>());
	operations = static_cast<size_t>(state.iterations()) * variables;
	if (exact)
		exact_adds += operations;
	report(state, operations);
}

void measure_tls_inline(benchmark::State &state)
{
	for (auto _ : state)
		percpu_tls_add_each();
	report(state, static_cast<size_t>(state.iterations()) * kWords);
}

template <void (*operation)(size_t), bool exact = false>
void add(const std::string &name, int threads = 1)
{
	const std::string names[] = { name + "/same", name + "/independent" };
	benchmark::internal::Benchmark *both[] = {
		benchmark::RegisterBenchmark(names[0].c_str(), measure<operation, 1, exact>),
		benchmark::RegisterBenchmark(names[1].c_str(),
					     measure<operation, kWords, exact>),
	};

	for (auto *one : both) {
		one->Threads(threads);
		/* Contention takes a while to set in. */
		if (threads > 1)
			one->MinTime(0.1);
	}
}

void add_all()
{
	constexpr bool exact = true;

	add<plain_add>("plain add");
	add<raw_add>("raw_cpu_add");
	add<pointer_add>("this_cpu_ptr, plain add");
	add<static_add, exact>("this_cpu_add");
	add<allocated_add, exact>("this_cpu_add, alloc_percpu");
	add<add_return, exact>("this_cpu_add_return");
	add<compare_exchange>("this_cpu_cmpxchg");
	add<compare_exchange_double>("this_cpu_cmpxchg_double");
	add<tls_extern_add>("TLS add, extern __thread");
	add<tls_call_add>("TLS add, function of a .so");
	benchmark::RegisterBenchmark("TLS add, inside a .so/independent", measure_tls_inline);
	add<locked_add>("lock add");
	add<getcpu_add>("sched_getcpu, lock add");
	add<static_add, exact>("this_cpu_add, 2 threads", 2);
	add<shared_add>("lock add, 2 threads", 2);
}

void add_context()
{
	ukmem_percpu_info info;

	percpu_mode(&info);
	benchmark::AddCustomContext("percpu_mode", info.mode_name);
	benchmark::AddCustomContext("percpu_reason", info.reason);
	benchmark::AddCustomContext("percpu_index", info.index_kind);
	slot_of_cpu.resize(info.nr_cpu_ids);
}

bool all_there()
{
	uint64_t sum = 0;

	for (size_t i = 0; i < kWords; i++)
		sum += per_cpu_sum(exact_words.w[i]) + per_cpu_sum(allocated_words->w[i]);
	if (sum == exact_adds)
		return true;
	fprintf(stderr, "percpu: %llu adds were made, %llu are there\n",
		static_cast<unsigned long long>(exact_adds.load()),
		static_cast<unsigned long long>(sum));
	return false;
}

} // namespace

int main(int argc, char **argv)
{
	words memory = {};

	plain_words = &memory;
	allocated_words = alloc_percpu(words);
	if (!allocated_words) {
		fprintf(stderr, "percpu: no memory\n");
		return 1;
	}
	add_all();
	add_context();
	benchmark::Initialize(&argc, argv);
	if (benchmark::ReportUnrecognizedArguments(argc, argv))
		return 1;
	benchmark::RunSpecifiedBenchmarks();
	return all_there() ? 0 : 1;
}
