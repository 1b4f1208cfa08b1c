/* SPDX-License-Identifier: MIT */
/* The queue between the CPUs' arrays of one node: what comes through it, what it may hold,
 * what takes its place where it cannot be had. */
#include <sched.h>

#include <algorithm>
#include <atomic>

#include "matched.h"
#include "percpu_util.h"
#include "printed.h"
#include "slab_attr_util.h"
#include "slab_util.h"

namespace
{

constexpr size_t kMany = 4096;

/* Until there is a queue: an array was emptied, and after that filled. */
void fill(struct kmem_cache *s)
{
	for (int i = 0; i < 2; i++) {
		auto p = take_objects(s, kMany);
		free_objects(s, p);
	}
}

#define SKIP_WITHOUT_QUEUE()                                                                   \
	do {                                                                                   \
		if (percpu_info().mode != UKMEM_PERCPU_RSEQ)                                   \
			GTEST_SKIP() << "nobody uses it without restartable sequences";        \
	} while (0)

/* Both run all the time, so that neither has the other's index (mm_cid). */
TEST(SlabSharedTest, WhatOneCpuFreesAnotherOneGets)
{
	constexpr unsigned kRounds = 300;
	auto cpus = allowed_cpus();
	std::atomic<unsigned> step{ 0 };
	std::vector<void *> passed;
	Cache s("passed", 128);

	SKIP_WITHOUT_QUEUE();
	if (cpus.size() < 2)
		GTEST_SKIP() << "one CPU";
	Threads threads(2, [&](unsigned t) {
		run_on(cpus[t]);
		for (unsigned round = 0; round < kRounds; round++) {
			while (step != 2 * round + t)
				sched_yield();
			if (t == 0)
				passed = take_objects(s, 500);
			else
				free_objects(s, passed);
			step++;
		}
	});
	threads.join();
	EXPECT_GT(number(s, "barn_put"), kRounds);
	EXPECT_GT(number(s, "barn_get"), kRounds);
	EXPECT_EQ(slab_counts_of(s).inuse, 0u);
	EXPECT_EQ(slab_counts_of(s).allocs, slab_counts_of(s).frees);
}

/* No object twice, and each with what its owner wrote, on whichever CPU it is freed. */
TEST(SlabSharedTest, ObjectsStayOnesOwn)
{
	constexpr unsigned kThreads = 4, kRounds = 300, kBatch = 400;
	std::vector<std::vector<uint64_t *>> passed(kThreads);
	std::atomic<unsigned> wrong{ 0 };
	Cache s("own", 64);

	for (unsigned round = 0; round < kRounds; round++) {
		Threads threads(kThreads, [&](unsigned t) {
			auto &mine = passed[t];

			for (uint64_t *p : mine) {
				wrong +=
					p[0] != reinterpret_cast<uintptr_t>(p) || p[7] != round;
				kmem_cache_free(s, p);
			}
			mine.clear();
			for (unsigned i = 0; i < kBatch; i++) {
				auto *p = static_cast<uint64_t *>(
					kmem_cache_alloc(s, GFP_KERNEL));

				p[0] = reinterpret_cast<uintptr_t>(p);
				p[7] = round + 1;
				mine.push_back(p);
			}
		});
		threads.join();
		std::rotate(passed.begin(), passed.begin() + 1, passed.end());
	}
	EXPECT_EQ(wrong, 0u);
	EXPECT_EQ(slab_counts_of(s).inuse, kThreads * kBatch);
	for (auto &mine : passed)
		for (auto *p : mine)
			kmem_cache_free(s, p);
	EXPECT_EQ(slab_counts_of(s).inuse, 0u);
}

TEST(SlabSharedTest, HoldsNoMoreThanItMay)
{
	SKIP_WITHOUT_QUEUE();
	for (unsigned size : { 8u, 64u, 128u, 1000u, 4096u }) {
		Cache s("bounded", size);
		unsigned long bound = std::min(256u, 32768 / geometry_of(s).size);

		fill(s);
		EXPECT_GT(number(s, "barn_put"), 0u) << size;
		EXPECT_GT(slab_counts_of(s).shared, 0u) << size;
		EXPECT_LE(slab_counts_of(s).shared, bound) << size;
		EXPECT_EQ(slab_counts_of(s).inuse, 0u) << size;
	}
}

TEST(SlabSharedTest, LargeObjectsGoToTheirSlabs)
{
	Cache s("large", 8192);

	fill(s);
	EXPECT_EQ(number(s, "barn_put"), 0u);
	EXPECT_EQ(slab_counts_of(s).shared, 0u);
}

TEST(SlabSharedTest, ShrinkAndTrimEmptyIt)
{
	Cache s("emptied", 256);

	SKIP_WITHOUT_QUEUE();
	fill(s);
	ASSERT_GT(slab_counts_of(s).shared, 0u);
	EXPECT_EQ(kmem_cache_shrink(s), 0);
	EXPECT_EQ(slab_counts_of(s).shared, 0u);
	EXPECT_EQ(slab_counts_of(s).slabs, 0u);
	fill(s);
	ASSERT_GT(slab_counts_of(s).shared, 0u);
	ukmem_trim();
	EXPECT_EQ(slab_counts_of(s).shared, 0u);
	EXPECT_EQ(slab_counts_of(s).slabs, 0u);
}

TEST(SlabSharedTest, SlabinfoTellsWhatItHolds)
{
	Cache s("slabinfo_shared", 192);

	fill(s);
	const std::string text = printed(ukmem_slabinfo_print);
	const auto found = matched(text, "^slabinfo_shared .* ([0-9]+)$");
	ASSERT_FALSE(found.empty()) << text;
	EXPECT_EQ(std::stoul(found[1]), slab_counts_of(s).shared);
}

/* Its side is a section's that was on another CPU when it was interrupted. */
TEST(SlabSharedTest, NobodyWaitsForIt)
{
	Cache s("held", 128);

	SKIP_WITHOUT_QUEUE();
	fill(s);
	unsigned long put_before = number(s, "barn_put"), get_before = number(s, "barn_get");
	shim_hold_shared(s, shim_no_cpu());
	auto p = take_objects(s, kMany);
	free_objects(s, p);
	EXPECT_EQ(number(s, "barn_put"), put_before);
	EXPECT_EQ(number(s, "barn_get"), get_before);
	EXPECT_GT(number(s, "barn_put_fail"), 0u);
	EXPECT_EQ(slab_counts_of(s).inuse, 0u);
	/* A caller that may enter the kernel takes the objects out of the queue. */
	EXPECT_EQ(kmem_cache_shrink(s), 0);
	EXPECT_EQ(slab_counts_of(s).shared, 0u);
	EXPECT_EQ(slab_counts_of(s).slabs, 0u);
}

int refused_membarrier(int, unsigned, int)
{
	return -EPERM;
}

/* CPUs that cannot be stopped keep what they have; this one gives back its own. */
TEST(SlabSharedTest, ShrinkWhereCpusCannotBeStopped)
{
	OsCallsGuard guard;
	Cache s("refused", 128);

	run_on(allowed_cpus()[0]);
	fill(s);
	ASSERT_GT(slab_counts_of(s).cached, 0u);
	os_calls.membarrier = refused_membarrier;
	kmem_cache_shrink(s);
	EXPECT_EQ(slab_counts_of(s).cached, 0u);
	EXPECT_EQ(slab_counts_of(s).shared, 0u);
	EXPECT_EQ(slab_counts_of(s).slabs, 0u);
	auto p = take_objects(s, kMany);
	EXPECT_EQ(slab_counts_of(s).inuse, kMany);
	free_objects(s, p);
	EXPECT_EQ(slab_counts_of(s).inuse, 0u);
	os_calls.membarrier = os_calls_linux.membarrier;
	kmem_cache_shrink(s);
	EXPECT_EQ(slab_counts_of(s).slabs, 0u);
}

/* If CPUs cannot be stopped, a request that finds nothing else still empties the queues that
 * can be emptied without a stop. */
TEST(SlabSharedTest, TakenAtTheLimitWhereCpusCannotBeStopped)
{
	Cache s("limited", 128);
	OsCallsGuard guard;

	auto cpus = allowed_cpus();

	SKIP_WITHOUT_QUEUE();
	if (cpus.size() < 2)
		GTEST_SKIP() << "one CPU";
	run_on(cpus[0]);
	fill(s);
	ASSERT_GT(slab_counts_of(s).shared, 0u);
	ASSERT_EQ(slab_counts_of(s).inuse, 0u);
	kmem_cache_set_limit(s, slab_counts_of(s).objects, 60);
	shim_hold_shared(s, cpus[1]);
	os_calls.membarrier = refused_membarrier;
	auto p = take_objects(s, slab_counts_of(s).objects);
	for (void *obj : p)
		ASSERT_NE(obj, nullptr) << p.size() << " objects";
	free_objects(s, p);
}

int refuse_one_cpu(int cmd, unsigned flags, int cpu)
{
	return flags ? -ENOSYS : os_calls_linux.membarrier(cmd, flags, cpu);
}

void expect_destroyed(struct kmem_cache *s, const char *name)
{
	::testing::internal::CaptureStderr();
	kmem_cache_destroy(s);
	EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
	EXPECT_EQ(kmem_cache_find(name), nullptr);
	EXPECT_EQ(ukmem_verify(nullptr), 0);
}

/*
 * The objects left in the queue belong to no thread, so the program has nothing to put right,
 * and a cache that nobody uses needs no thread to be stopped.
 */
TEST(SlabSharedTest, DestroyingTakesWhatOthersHold)
{
	struct kmem_cache *s = kmem_cache_create("stuck", 128, 0, 0, nullptr);
	OsCallsGuard guard;

	SKIP_WITHOUT_QUEUE();
	fill(s);
	ASSERT_GT(slab_counts_of(s).shared, 0u);
	shim_hold_shared(s, shim_no_cpu());
	os_calls.membarrier = refuse_one_cpu;
	expect_destroyed(s, "stuck");
}

TEST(SlabSharedTest, DestroyingTakesWhatOtherCpusHold)
{
	auto cpus = allowed_cpus();

	if (cpus.size() < 2)
		GTEST_SKIP() << "one CPU";
	EXPECT_FRESH_PROCESS_PASSES([cpus] {
		struct kmem_cache *s = kmem_cache_create("elsewhere", 128, 0, 0, nullptr);

		run_on(cpus[1]);
		auto p = take_objects(s, kMany);

		free_objects(s, p);
		ASSERT_GT(slab_counts_of(s).cached, 0u);
		run_on(cpus[0]);
		os_calls.membarrier = refused_membarrier;
		expect_destroyed(s, "elsewhere");
	});
}

/* The library's own memory is not the program's. */
TEST(SlabSharedTest, ItsMemoryIsNotCounted)
{
	struct ukmem_gauges before, after;
	Cache s("uncounted", 96);

	ukmem_gauges_read(&before);
	fill(s);
	ukmem_gauges_read(&after);
	EXPECT_EQ(before.allocated, after.allocated);
}

} // namespace
