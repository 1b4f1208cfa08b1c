/* SPDX-License-Identifier: MIT */
/* Slabs of size classes are small while few are made, and large while many are. */
#include <algorithm>

#include "slab_class.h"

namespace
{

constexpr size_t kSize = 3072;		/* 4 objects in 3 pages, or 16 in 12 */
constexpr size_t kFew = 4, kUsual = 16; /* objects in a slab */
constexpr size_t kMostLean = 64;	/* slab_pace.c: small slabs in 8 ms */
constexpr size_t kMany = 400;		/* slabs */
constexpr size_t kLimit = 10 * kUsual;	/* objects */

struct Class : SizeClass {
	Class() : SizeClass(kSize)
	{
	}
	size_t lean() const
	{
		return slabs_of(kFew, kUsual);
	}
};

/* A program that grows slowly has small slabs alone, however large it becomes. */
TEST(SlabLeanTest, SlowGrowthIsInSmallSlabs)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Class c;

		for (size_t i = 0; i < kMany; i++) {
			fake_now += 10;
			c.make(1);
		}
		EXPECT_GE(c.counts().slabs, kMany);
		EXPECT_EQ(c.lean(), c.counts().slabs);
		EXPECT_EQ(shim_slab_wrong(c.s), nullptr);
	});
}

/* One that grows at once has large slabs, save the first ones; and again at its next step. */
TEST(SlabLeanTest, FastGrowthIsInLargeSlabs)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Class c;

		c.make(kMany);
		EXPECT_EQ(c.lean(), kMostLean);
		fake_now += 100;
		c.make(kMany);
		EXPECT_EQ(c.lean(), 2 * kMostLean);
		fake_now += 7;
		c.make(kMany);
		EXPECT_EQ(c.lean(), 2 * kMostLean) << "too soon";
		EXPECT_EQ(shim_slab_wrong(c.s), nullptr);
	});
}

/* A program that frees all and allocates it again, in no time, pays for small slabs once. */
TEST(SlabLeanTest, WhatIsMadeAgainIsLarge)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Class c;

		for (size_t i = 0; i < kMany; i++) {
			fake_now += 10;
			c.make(1);
		}
		c.free_all();
		ukmem_trim();
		const size_t stay = c.counts().slabs;

		EXPECT_LT(stay, kMany / 10);
		c.make(kMany);
		EXPECT_LE(c.lean(), stay + 2 * kMostLean);
	});
}

/* In small slabs of every class, objects are what they are in large ones. */
TEST(SlabLeanTest, EveryClass)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.now_ms = fake_now_ms;
		for (size_t size = 1; size <= KMALLOC_MAX_CACHE_SIZE;
		     size = kmalloc_size_roundup(size) + 1) {
			const size_t bytes = kmalloc_size_roundup(size);
			std::vector<char *> p(40);

			SCOPED_TRACE(testing::Message() << bytes << " bytes");
			for (char *&q : p) {
				fake_now += 10;
				q = static_cast<char *>(kmalloc(size, GFP_KERNEL));
				ASSERT_EQ(ksize(q), bytes);
				ASSERT_EQ(shim_class_usable(q), bytes);
				ASSERT_EQ(shim_slab_cache_of(q), shim_class_cache(size));
				memset(q, 1, bytes);
			}
			std::sort(p.begin(), p.end());
			for (size_t i = 1; i < p.size(); i++)
				ASSERT_GE(p[i], p[i - 1] + bytes);
			ASSERT_EQ(shim_slab_wrong(shim_class_cache(size)), nullptr);
			for (char *q : p)
				kfree(q);
		}
	});
}

/* A limit and a stock are counted in slabs of the usual size, and promise so many objects. */
TEST(SlabLeanTest, LimitsAndStocksAreKept)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Class c;

		ASSERT_EQ(kmem_cache_set_limit(c.s, kLimit, 0), 0);
		for (size_t i = 0; i < kLimit; i++) {
			fake_now += 10;
			c.allocate(1);
			ASSERT_NE(c.p.back(), nullptr) << i;
		}
		EXPECT_EQ(kmalloc(kSize, GFP_KERNEL | __GFP_NOWARN), nullptr);
		ASSERT_EQ(kmem_cache_set_limit(c.s, 0, 0), 0);
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		Class c;

		ASSERT_EQ(kmem_cache_set_stock(c.s, kLimit), 0);
		EXPECT_EQ(c.counts().objects, kLimit);
		ASSERT_EQ(kmem_cache_set_stock(c.s, 0), 0);
	});
}

/* A user who sets the number of objects in a slab gets no smaller slabs. */
TEST(SlabLeanTest, SettingsDecide)
{
	for (const char *conf : { "slab_min_objects:16", "slab_min_order:3" })
		EXPECT_FRESH_PROCESS_PASSES([conf] {
			configure_slabs(conf);
			Class c;

			for (size_t i = 0; i < 20; i++) {
				fake_now += 10;
				c.make(1);
			}
			EXPECT_EQ(c.lean(), 0u);
		});
}

} // namespace
