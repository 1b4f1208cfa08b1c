/* SPDX-License-Identifier: MIT */
/*
 * slab pass - one thread allocates and passes on, another frees; in pairs.
 *
 * Every object is freed by another thread, and where threads are pinned on another CPU,
 * than allocated it. Shown are the share of allocations and frees on the fast path, and
 * the slabs over time: a cache that does not find its way back to the allocating CPU's
 * memory grows. An hour or more of it: slab pass --pairs 1 --ops 9e10
 *
 * The number of an object is written into it; the consumer wants them in order, so that
 * a lost object or one handed out twice ends the program.
 */
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "malloc_origin.h"
#include "slab_bench.h"

namespace
{

struct pass_options {
	unsigned int pairs = 0; /* 0: both of kScenarios */
	bool unpinned = false, with_malloc = false, json = false;
	double ops = 5e7;
	size_t size = 256;
	unsigned int samples = 10;
};

struct scenario {
	unsigned int pairs;
	bool pinned;
};

constexpr scenario kScenarios[] = { { 1, true }, { 4, false } };

struct kmem_source {
	explicit kmem_source(size_t size) : objects(size)
	{
	}
	void *take()
	{
		return kmem_cache_alloc(objects.s, GFP_KERNEL);
	}
	void give(void *object)
	{
		kmem_cache_free(objects.s, object);
	}
	unsigned long count(const char *attribute_name)
	{
		return attribute(objects.s, attribute_name);
	}

	cache objects;
};

struct malloc_source {
	explicit malloc_source(size_t bytes) : size(bytes)
	{
	}
	void *take()
	{
		return malloc(size);
	}
	void give(void *object)
	{
		free(object);
	}
	unsigned long count(const char *)
	{
		return 0;
	}

	size_t size;
};

/*
 * One producer, one consumer.
 *
 *	[head, tail)			filled, the consumer's
 *	[tail, head + kSlots)		empty, the producer's
 *
 * Synchronization: head is written by the consumer, tail by the producer; a release of
 * either pairs with the other side's acquire. Each side knows an older value of the
 * other's index and looks again only when that leaves it nothing to do. Who has to wait
 * gives way: there may be more threads than CPUs.
 */
class ring
{
      public:
	void push(void *object)
	{
		const uint64_t at = tail.load(std::memory_order_relaxed);

		while (at - head_seen == kSlots) {
			head_seen = head.load(std::memory_order_acquire);
			if (at - head_seen == kSlots)
				sched_yield();
		}
		slots[at % kSlots] = object;
		tail.store(at + 1, std::memory_order_release);
	}
	void *pop()
	{
		const uint64_t at = head.load(std::memory_order_relaxed);
		void *object;

		while (at == tail_seen) {
			tail_seen = tail.load(std::memory_order_acquire);
			if (at == tail_seen)
				sched_yield();
		}
		object = slots[at % kSlots];
		head.store(at + 1, std::memory_order_release);
		return object;
	}
	uint64_t passed() const
	{
		return head.load(std::memory_order_relaxed);
	}

      private:
	static constexpr size_t kSlots = 1024;

	alignas(64) std::atomic<uint64_t> head{ 0 };
	uint64_t tail_seen = 0;
	alignas(64) std::atomic<uint64_t> tail{ 0 };
	uint64_t head_seen = 0;
	alignas(64) void *slots[kSlots];
};

template <typename source> void produce(source &from, ring &to, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		auto *object = static_cast<uint64_t *>(from.take());

		if (!object)
			die("no object");
		*object = i;
		to.push(object);
	}
}

template <typename source> void consume(source &into, ring &from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		auto *object = static_cast<uint64_t *>(from.pop());

		if (*object != i)
			die("an object was lost or handed out twice");
		into.give(object);
	}
}

struct sample {
	double seconds;
	uint64_t passed;
	unsigned long slabs;
};

struct result {
	std::vector<sample> samples; /* the first before the start, the last at the end */
	unsigned long slabs_max = 0;
	double seconds = 0;
	uint64_t ops = 0;
	double alloc_fast = 0, free_fast = 0; /* percent */
};

double percent(unsigned long fast, unsigned long slow)
{
	return fast + slow
		       ? 100.0 * static_cast<double>(fast) / static_cast<double>(fast + slow)
		       : 0;
}

/* Reports as it goes: an hour is long. */
void print_sample(const sample &now)
{
	printf("%10.1f  %14llu  %8lu\n", now.seconds,
	       static_cast<unsigned long long>(now.passed), now.slabs);
	fflush(stdout);
}

template <typename source> result run(const pass_options &options, const scenario &how)
{
	using clock = std::chrono::steady_clock;
	constexpr auto kPause = std::chrono::milliseconds(20);
	source objects(options.size);
	const std::unique_ptr<ring[]> rings(new ring[how.pairs]);
	const uint64_t each = static_cast<uint64_t>(options.ops) / how.pairs + 1;
	std::vector<std::thread> threads;
	result found;
	const auto start = clock::now();
	const auto add_sample = [&](uint64_t passed) {
		const std::chrono::duration<double> elapsed = clock::now() - start;

		found.samples.push_back({ elapsed.count(), passed, objects.count("slabs") });
		found.slabs_max = std::max(found.slabs_max, found.samples.back().slabs);
		if (!options.json)
			print_sample(found.samples.back());
	};

	found.ops = each * how.pairs;
	add_sample(0);
	for (unsigned int i = 0; i < 2 * how.pairs; i++) {
		threads.emplace_back([&, i] {
			if (how.pinned)
				stay_on_cpu(i);
			if (i % 2 == 0)
				produce(objects, rings[i / 2], each);
			else
				consume(objects, rings[i / 2], each);
		});
	}
	for (uint64_t passed = 0; passed < found.ops;) {
		std::this_thread::sleep_for(kPause);
		passed = 0;
		for (unsigned int i = 0; i < how.pairs; i++)
			passed += rings[i].passed();
		found.slabs_max = std::max(found.slabs_max, objects.count("slabs"));
		if (passed * options.samples >= found.samples.size() * found.ops)
			add_sample(passed);
	}
	found.seconds = std::chrono::duration<double>(clock::now() - start).count();
	for (std::thread &thread : threads)
		thread.join();
	found.samples.back() = { found.seconds, found.ops, objects.count("slabs") };
	found.slabs_max = std::max(found.slabs_max, found.samples.back().slabs);
	found.alloc_fast =
		percent(objects.count("alloc_fastpath"), objects.count("alloc_slowpath"));
	found.free_fast =
		percent(objects.count("free_fastpath"), objects.count("free_slowpath"));
	return found;
}

void print_json(const scenario &how, const result &r)
{
	printf("{\"pairs\": %u, \"pinned\": %s, \"ops_per_second\": %.0f, ", how.pairs,
	       how.pinned ? "true" : "false", static_cast<double>(r.ops) / r.seconds);
	printf("\"alloc_fast\": %.3f, \"free_fast\": %.3f, \"slabs_start\": %lu, ",
	       r.alloc_fast, r.free_fast, r.samples.front().slabs);
	printf("\"slabs_early\": %lu, \"slabs_max\": %lu, \"slabs_end\": %lu, ",
	       r.samples[1].slabs, r.slabs_max, r.samples.back().slabs);
	printf("\"malloc_origin\": \"%s\"}\n", malloc_origin().c_str());
}

void print_summary(const pass_options &options, const result &r)
{
	printf("%.2f million objects per second\n",
	       1e-6 * static_cast<double>(r.ops) / r.seconds);
	if (!options.with_malloc)
		printf("fast path: %.2f%% of allocations, %.2f%% of frees (goal: over 95%%)\n"
		       "slabs: %lu at the start, %lu at most, %lu at the end\n",
		       r.alloc_fast, r.free_fast, r.samples.front().slabs, r.slabs_max,
		       r.samples.back().slabs);
	puts("");
}

void measure(const pass_options &options, const scenario &how)
{
	result found;

	if (!options.json)
		printf("%u+%u threads, %s; objects of %zu bytes, %s\n%10s  %14s  %8s\n",
		       how.pairs, how.pairs, how.pinned ? "pinned" : "not pinned", options.size,
		       options.with_malloc ? "malloc" : "kmem_cache_alloc", "seconds",
		       "objects", "slabs");
	found = options.with_malloc ? run<malloc_source>(options, how)
				    : run<kmem_source>(options, how);
	options.json ? print_json(how, found) : print_summary(options, found);
}

} // namespace

void add_pass(CLI::App &app)
{
	static pass_options options;
	auto *pass = app.add_subcommand("pass", "one thread allocates, another frees");

	pass->add_option("--pairs", options.pairs,
			 "pairs of threads (default: one pinned, then four unpinned)")
		->check(CLI::Range(1, 1024));
	pass->add_flag("--unpinned", options.unpinned, "let the threads run anywhere");
	pass->add_option("--ops", options.ops, "objects to pass in all, such as 2e10")
		->check(CLI::PositiveNumber)
		->capture_default_str();
	pass->add_option("--size", options.size, "bytes of an object")
		->check(CLI::Range(8, 16384))
		->capture_default_str();
	pass->add_option("--samples", options.samples, "how often to look at the slabs")
		->check(CLI::Range(1, 100000))
		->capture_default_str();
	pass->add_flag("--malloc", options.with_malloc, "malloc and free instead");
	pass->add_flag("--json", options.json, "print JSON, a line for each run");
	pass->callback([] {
		if (options.pairs)
			return measure(options, { options.pairs, !options.unpinned });
		for (const scenario &how : kScenarios)
			measure(options, how);
	});
}
