/* SPDX-License-Identifier: MIT */
/* CPUs do not share a line of the processor's cache for long (slab/slab_line.c). */
#include <sys/single_threaded.h>

#include "slab_guard.h"
#include "two_cpus.h"

namespace
{

constexpr uintptr_t kLine = 64;
constexpr unsigned kSoon = 1024 + 64;  /* pops of a new array; an interrupt may add some */
constexpr unsigned kCountdown = 32768; /* of any other */

class SlabLineTest : public TwoCpus
{
};

bool share_a_line(const void *a, const void *b, size_t size)
{
	auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);

	return x / kLine <= (y + size - 1) / kLine && y / kLine <= (x + size - 1) / kLine;
}

/* Allocates and frees one object again and again. Result: how often it shared a line with @a.
 */
unsigned shares_in(struct kmem_cache *s, const void *a, unsigned times)
{
	unsigned shares = 0;

	for (unsigned i = 0; i < times; i++) {
		void *p = kmem_cache_alloc(s, GFP_KERNEL);

		EXPECT_NE(p, nullptr);
		shares += share_a_line(p, a, kmem_cache_size(s));
		kmem_cache_free(s, p);
	}
	return shares;
}

/* Neighbours are passed to another CPU, which frees all of them but keeps none of their line.
 */
TEST_F(SlabLineTest, ACpuLeavesTheLineOfAnObjectThatItWasGiven)
{
	for (unsigned size : { 8, 16, 24, 40, 48, 96, 160 }) {
		Cache s("given", size, 8);

		move_to(0);
		auto given = take_objects(s, 6);
		void *kept = given[4];
		given.erase(given.begin() + 4);
		move_to(1);
		free_objects(s, given);
		EXPECT_GT(shares_in(s, kept, 10), 0u) << size << ": the test tests nothing";
		shares_in(s, kept, kSoon);
		EXPECT_EQ(shares_in(s, kept, 3 * kCountdown), 0u) << size;
		EXPECT_EQ(slab_counts_of(s).inuse, 1u) << size;
		EXPECT_EQ(slab_counts_of(s).allocs, 6u + 10 + kSoon + 3 * kCountdown) << size;
		kmem_cache_free(s, kept);
		expect_nothing_left(s);
	}
}

/* The array had been in use before, so the countdown is a long one. */
TEST_F(SlabLineTest, ALongCountdownEndsToo)
{
	Cache s("late", 8);

	move_to(1);
	for (void *p : take_objects(s, 8))
		kmem_cache_free(s, p);
	shares_in(s, nullptr, kSoon);
	move_to(0);
	auto two = take_objects(s, 2);
	move_to(1);
	kmem_cache_free(s, two[1]);
	EXPECT_TRUE(share_a_line(two[0], two[1], 8)) << "the test tests nothing";
	shares_in(s, two[0], kCountdown);
	EXPECT_EQ(shares_in(s, two[0], kCountdown), 0u);
	kmem_cache_free(s, two[0]);
}

/* Whole lines are nobody else's. */
TEST_F(SlabLineTest, ObjectsOfWholeLinesStay)
{
	Cache s("whole", kLine);

	move_to(0);
	auto two = take_objects(s, 2);
	move_to(1);
	kmem_cache_free(s, two[1]);
	EXPECT_EQ(shares_in(s, two[1], 2 * kCountdown), 2 * kCountdown);
	kmem_cache_free(s, two[0]);
}

/* A request is served by what there is, and does not wait for another line. */
TEST_F(SlabLineTest, WithoutOtherObjectsTheLineStays)
{
	Cache s("last", 8);

	move_to(0);
	std::vector<void *> all = take_objects(s, 1);
	const auto objects = geometry_of(s).objects;
	ASSERT_EQ(kmem_cache_set_limit(s, 1, 60), 0);
	while (all.size() < objects)
		all.push_back(kmem_cache_alloc(s, GFP_KERNEL));
	void *last = all.back();
	all.pop_back();
	move_to(1);
	kmem_cache_free(s, last);
	EXPECT_EQ(shares_in(s, last, 2 * kCountdown), 2 * kCountdown);
	EXPECT_EQ(slab_counts_of(s).slabs, 1u);
	free_objects(s, all);
	expect_nothing_left(s);
}

TEST(SlabLineAlone, AProgramOfOneThreadKeepsItsObject)
{
	if (!__libc_single_threaded || rseq_is_off())
		GTEST_SKIP() << "threads run";
	OneCpu cpu;
	Cache s("alone", 8);
	auto two = take_objects(s, 2);

	kmem_cache_free(s, two[1]);
	EXPECT_EQ(shares_in(s, two[0], 3 * kCountdown), 3 * kCountdown);
	kmem_cache_free(s, two[0]);
}

} // namespace
