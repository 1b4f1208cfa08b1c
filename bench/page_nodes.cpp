/* SPDX-License-Identifier: MIT */
/*
 * page_nodes - what a page costs when the nearest nodes are full.
 *
 * zonelist/LEVEL              a page for a CPU whose own node is full, and others with it
 * zonelist cold/LEVEL         the same, the processor's caches full of something else
 * hog/PERCENT/THREADS/TOUCH   threads take pages until so much of all nodes' memory is in
 *                             use, and write to each if TOUCH is 1. One to a process: the
 *                             memory has to be new
 *
 * All need several nodes of a known size, UKMEM_CONF=numa_fake:N,node_limit:..., and a
 * limit of the process above them all. bench/run starts a process for each setting.
 */
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <random>
#include <sched.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include <ukmem/page_alloc.h>

#include "die.h"

namespace
{

constexpr size_t kColdBytes = 8 << 20;
constexpr size_t kColdTimes = 301;

/* --- nodes that are full ---------------------------------------------------------- */

/* While it lives, the thread is on the first of its CPUs. */
struct pinned {
	pinned()
	{
		cpu_set_t one;
		int cpu = 0;

		sched_getaffinity(0, sizeof(before), &before);
		while (!CPU_ISSET(cpu, &before))
			cpu++;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
	}
	~pinned()
	{
		sched_setaffinity(0, sizeof(before), &before);
	}
	pinned(const pinned &) = delete;
	pinned &operator=(const pinned &) = delete;

	cpu_set_t before;
};

/* All nodes in the order in which requests from the first one look at them. */
std::vector<int> nodes_from(int local)
{
	const auto n = static_cast<int>(num_node_state(N_POSSIBLE));
	std::vector<int> nodes;

	for (int i = 0; i < n; i++)
		nodes.push_back((local + i) % n);
	std::stable_sort(nodes.begin(), nodes.end(), [local](int a, int b) {
		return node_distance(local, a) < node_distance(local, b);
	});
	return nodes;
}

/* Pages that are in use for a while, and make their nodes full. */
class held_pages
{
      public:
	held_pages() = default;
	~held_pages()
	{
		for (auto [run, order] : runs)
			__free_pages(run, order);
	}
	held_pages(const held_pages &) = delete;
	held_pages &operator=(const held_pages &) = delete;

	void hold(page *run, unsigned int order = 0)
	{
		runs.emplace_back(run, order);
	}
	/* Down to the min watermark: below the low one, with which requests begin. */
	bool fill(int node)
	{
		page *one = take(node, 0);
		zone *z = one ? page_zone(one) : nullptr;

		for (unsigned int order = kLargest + 1; z && order-- > 0;) {
			while (zone_free_pages(z) >= min_wmark_pages(z) + (1ul << order)) {
				if (!take(node, order))
					break;
			}
		}
		return z && zone_free_pages(z) <= low_wmark_pages(z);
	}

      private:
	static constexpr unsigned int kLargest = 10;

	page *take(int node, unsigned int order)
	{
		page *run = alloc_pages_node(node, GFP_KERNEL | __GFP_THISNODE | __GFP_NOWARN,
					     order);

		if (run)
			hold(run, order);
		return run;
	}

	std::vector<std::pair<page *, unsigned int>> runs;
};

enum class which { nearest, any };

/* How many nodes are full, the calling CPU's being the first. */
struct level {
	const char *name;
	unsigned int percent; /* but at least one, and one is not */
	which nodes;
};

/* The nodes that are to be full. */
std::vector<int> choose_full(std::vector<int> nodes, const level &l)
{
	const size_t all = nodes.size();
	const size_t wanted = (all * l.percent + 50) / 100;

	if (l.nodes == which::any)
		std::shuffle(nodes.begin() + 1, nodes.end(), std::mt19937(1));
	nodes.resize(std::clamp<size_t>(wanted, 1, all - 1));
	return nodes;
}

double seconds(clockid_t clock)
{
	timespec now;

	clock_gettime(clock, &now);
	return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/* Below dirty_max, so that nothing is given back meanwhile. */
using page_batch = std::array<page *, 256>;

inline void take_batch(page_batch &batch)
{
	for (auto *&one : batch) {
		one = alloc_pages(GFP_KERNEL, 0);
		if (!one)
			die("no page");
	}
}

/* The nodes of a level are full while it lives, and it is known where pages come from. */
class scene
{
      public:
	explicit scene(const level *l)
	{
		const std::vector<int> nodes = nodes_from(numa_node_id());

		if (nodes.size() < 2) {
			fail("one node only: set numa_fake");
			return;
		}
		if (l)
			full = choose_full(nodes, *l);
		for (int nid : full) {
			if (!held.fill(nid)) {
				fail("a node cannot be filled");
				return;
			}
		}
		forget_others();
		node = *std::find_if(nodes.begin(), nodes.end(),
				     [this](int nid) { return !is_full(nid); });
		settle();
	}
	scene(const scene &) = delete;
	scene &operator=(const scene &) = delete;

	/* Back to where they came from. */
	void give(page_batch &batch)
	{
		for (auto *one : batch) {
			strangers += page_to_nid(one) != node;
			__free_pages(one, 0);
		}
	}
	const char *what_failed() const
	{
		if (!failure && strangers)
			return "pages came from other nodes than they should";
		return failure;
	}

      private:
	bool is_full(int nid) const
	{
		return std::find(full.begin(), full.end(), nid) != full.end();
	}
	void fail(const char *why)
	{
		failure = why;
	}
	/* Zonelist caches may know for a second that nodes are full which no longer are. */
	void forget_others()
	{
		static std::vector<int> last;
		const timespec pause = { 1, 100000000 };

		if (!std::all_of(last.begin(), last.end(),
				 [this](int nid) { return is_full(nid); }))
			nanosleep(&pause, nullptr);
		last = full;
	}
	/* What is left in pagesets of nodes that are full is taken, and kept. */
	void settle()
	{
		for (int tries = 0; tries < 100; tries++) {
			page_batch batch;
			bool kept = false;

			take_batch(batch);
			for (auto *one : batch) {
				if (is_full(page_to_nid(one))) {
					held.hold(one);
					kept = true;
				} else {
					__free_pages(one, 0);
				}
			}
			if (!kept)
				return;
		}
		fail("nodes do not stay full");
	}

	const pinned here;
	std::vector<int> full;
	held_pages held;
	int node = -1;
	size_t strangers = 0;
	const char *failure = nullptr;
};

void zonelist(benchmark::State &state, const level *l)
{
	scene now(l);
	page_batch batch;

	if (now.what_failed())
		return state.SkipWithError(now.what_failed());
	for (auto _ : state) {
		const double start = seconds(CLOCK_THREAD_CPUTIME_ID);

		take_batch(batch);
		state.SetIterationTime(seconds(CLOCK_THREAD_CPUTIME_ID) - start);
		now.give(batch);
	}
	state.counters["time_per_page"] = benchmark::Counter(
		static_cast<double>(state.iterations()) * static_cast<double>(batch.size()),
		benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
	if (now.what_failed())
		state.SkipWithError(now.what_failed());
}

/* More than the caches of one processor hold. */
void fill_caches()
{
	static std::vector<char> other(kColdBytes);

	for (size_t i = 0; i < other.size(); i += 64)
		other[i]++;
	benchmark::ClobberMemory();
}

/* The median of single allocations, the clock's own time among it. */
void zonelist_cold(benchmark::State &state, const level *l)
{
	scene now(l);
	std::vector<double> times;
	page_batch batch;
	size_t next = 0;

	if (now.what_failed())
		return state.SkipWithError(now.what_failed());
	for (auto _ : state) {
		double time;

		fill_caches();
		time = seconds(CLOCK_MONOTONIC);
		batch[next] = alloc_pages(GFP_KERNEL, 0);
		time = seconds(CLOCK_MONOTONIC) - time;
		if (!batch[next])
			die("no page");
		times.push_back(time);
		state.SetIterationTime(time);
		if (++next == batch.size()) {
			now.give(batch);
			next = 0;
		}
	}
	for (size_t i = 0; i < next; i++)
		__free_pages(batch[i], 0);
	std::nth_element(times.begin(), times.begin() + kColdTimes / 2, times.end());
	state.counters["time_per_page"] = times[kColdTimes / 2];
	if (now.what_failed())
		state.SkipWithError(now.what_failed());
}

/* A level does not begin with nodes marked as full that are not, if that can be had. */
void add_zonelist()
{
	static const level levels[] = {
		{ "own", 0, which::nearest },	       { "50% nearest", 50, which::nearest },
		{ "95% nearest", 95, which::nearest }, { "50% random", 50, which::any },
		{ "95% random", 95, which::any },
	};

	const auto add = [](const std::string &name, const level *l) {
		const std::string hot = "zonelist/" + name, cold = "zonelist cold/" + name;

		benchmark::RegisterBenchmark(hot.c_str(), zonelist, l)->UseManualTime();
		benchmark::RegisterBenchmark(cold.c_str(), zonelist_cold, l)
			->UseManualTime()
			->Iterations(kColdTimes);
	};
	add("none", nullptr);
	for (const level &l : levels)
		add(l.name, &l);
}

/* --- hog -------------------------------------------------------------------------- */

/* All pages of all nodes. */
size_t pages_of_nodes()
{
	page *one = alloc_pages(GFP_KERNEL, 0);
	size_t pages;

	if (!one)
		die("no page");
	pages = zone_managed_pages(page_zone(one)) * num_node_state(N_POSSIBLE);
	__free_pages(one, 0);
	return pages;
}

struct usage {
	double elapsed, cpu, user, system;
};

double seconds_of(const timeval &t)
{
	return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
}

usage usage_now()
{
	rusage used;

	getrusage(RUSAGE_SELF, &used);
	return { seconds(CLOCK_MONOTONIC), seconds(CLOCK_PROCESS_CPUTIME_ID),
		 seconds_of(used.ru_utime), seconds_of(used.ru_stime) };
}

void take_share(std::vector<page *> &pages, bool touch)
{
	for (auto *&one : pages) {
		one = alloc_pages(GFP_KERNEL, 0);
		if (!one)
			die("no page for the hog");
		if (touch)
			*static_cast<volatile char *>(page_address(one)) = 1;
	}
}

void hog(benchmark::State &state)
{
	const auto percent = static_cast<size_t>(state.range(0));
	const auto threads = static_cast<size_t>(state.range(1));
	const bool touch = state.range(2);
	const size_t each = pages_of_nodes() * percent / 100 / threads;
	const auto pages = static_cast<double>(each * threads);
	std::vector<std::vector<page *>> shares(threads, std::vector<page *>(each));
	std::vector<std::thread> running;
	usage before = {}, after = {};

	for (auto _ : state) {
		before = usage_now();
		for (auto &share : shares)
			running.emplace_back(take_share, std::ref(share), touch);
		for (auto &thread : running)
			thread.join();
		after = usage_now();
		state.SetIterationTime(after.elapsed - before.elapsed);
	}
	state.counters["pages_per_second"] = pages / (after.elapsed - before.elapsed);
	state.counters["cpu_per_page"] = (after.cpu - before.cpu) / pages;
	state.counters["user_per_page"] = (after.user - before.user) / pages;
	state.counters["system_per_page"] = (after.system - before.system) / pages;
	for (auto &share : shares) {
		for (auto *one : share)
			__free_pages(one, 0);
	}
}

void add_hog()
{
	auto *all = benchmark::RegisterBenchmark("hog", hog);

	for (int64_t percent : { 25, 50, 75, 95 }) {
		for (int64_t threads : { 1, 2, 8 }) {
			for (int64_t touch : { 0, 1 })
				all->Args({ percent, threads, touch });
		}
	}
	all->Iterations(1);
	all->UseManualTime();
}

} // namespace

int main(int argc, char **argv)
{
	add_zonelist();
	add_hog();
	benchmark::Initialize(&argc, argv);
	if (benchmark::ReportUnrecognizedArguments(argc, argv))
		return 1;
	benchmark::RunSpecifiedBenchmarks();
	return 0;
}
