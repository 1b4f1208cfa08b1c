/* SPDX-License-Identifier: MIT */
/* Slabs of size classes are large while many are given back. */
#include <algorithm>

#include "slab_class.h"

namespace
{

constexpr size_t kSize = 128;
constexpr size_t kUsual = 32, kLarge = 128; /* objects in a slab */
constexpr size_t kMany = 40000;		    /* objects: 5 MiB, and 1250 usual slabs */

struct Class : SizeClass {
	Class() : SizeClass(kSize)
	{
	}
	size_t large() const
	{
		return slabs_of(kLarge, kUsual);
	}
};

/* A program that only grows has usual slabs, however fast it does. */
TEST(SlabLargeTest, GrowthIsInUsualSlabs)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Class c;

		c.allocate(kMany);
		EXPECT_GE(c.counts().slabs, kMany / kUsual);
		EXPECT_EQ(c.large(), 0u);
	});
}

/* Objects that died together come again in large slabs, save those that arrays and lists kept.
 */
TEST(SlabLargeTest, WhatDiedTogetherComesInLargeSlabs)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Class c;

		c.allocate(kMany);
		c.free_all();
		EXPECT_LT(c.counts().slabs, kMany / kUsual / 10);
		c.allocate(kMany);
		EXPECT_GE(c.large(), kMany / kLarge * 9 / 10);
		EXPECT_LE(c.large(), kMany / kLarge + 4) << "and the others of a row";
	});
}

/*
 * Classes that take turns, as a program's do that builds a tree: large slabs come four in a
 * row, so the class's objects lie behind each other although the others' slabs are made in
 * between.
 */
TEST(SlabLargeTest, LargeSlabsComeInRows)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		constexpr size_t kSizes[] = { 96, 128 };
		std::vector<char *> p[2];

		os_calls.now_ms = fake_now_ms;
		for (int round = 0; round < 3; round++) {
			for (auto &objects : p) {
				for (char *q : objects)
					kfree(q);
				objects.clear();
			}
			for (size_t i = 0; i < 2 * kMany; i++)
				p[i % 2].push_back(static_cast<char *>(
					kmalloc(kSizes[i % 2], GFP_KERNEL)));
		}
		/* Steps to an object that is not beside the last one. */
		size_t leaps = 0;
		for (size_t i = 1; i < kMany; i++)
			leaps += std::abs(p[1][i] - p[1][i - 1]) != kSize;
		EXPECT_LT(leaps, kMany / kLarge / 2) << "of " << kMany / kLarge << " slabs";
	});
}

/* Where free memory lies in holes as large as one slab, the process does not grow to have a
 * row. */
TEST(SlabLargeTest, NoGrowthForARow)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Class c;
		std::vector<void *> stay, holes;

		for (int round = 0; round < 2; round++) {
			c.allocate(kMany);
			c.free_all();
		}
		/* Of each two runs of 16 KiB one stays. */
		for (size_t i = 0; i < 512; i++) {
			void *run = alloc_pages_exact(16384, GFP_KERNEL);

			memset(run, 1, 16384);
			(i % 2 ? stay : holes).push_back(run);
		}
		for (void *run : holes)
			free_pages_exact(run, 16384);
		const size_t before = process_resident();

		c.allocate(200 * kLarge);
		for (void *q : c.p)
			memset(q, 1, kSize);
		EXPECT_LE(process_resident(), before + kMiB);
		for (void *run : stay)
			free_pages_exact(run, 16384);
	});
}

/* Slabs that were given back long ago do not count, nor do a few in a long time. */
TEST(SlabLargeTest, SlowChangeIsInUsualSlabs)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Class c;

		for (int round = 0; round < 2; round++) {
			c.allocate(kMany);
			c.free_all();
		}
		const size_t kept = c.large();

		fake_now += 1000;
		c.allocate(kMany);
		EXPECT_LE(c.large(), kept) << "long ago";
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		Class c;

		for (int round = 0; round < 200; round++) {
			c.allocate(2000);
			c.free_all();
			fake_now += 64;
		}
		c.allocate(kMany);
		EXPECT_EQ(c.large(), 0u) << "slowly";
	});
}

/* A program that asks for its memory to be given back does not get larger slabs for that. */
TEST(SlabLargeTest, ATrimIsNoChurn)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Class c;

		c.allocate(kMany);
		c.free_all();
		ukmem_trim();
		c.allocate(kMany);
		EXPECT_EQ(c.large(), 0u);
	});
}

/* A limit is counted in usual slabs. */
TEST(SlabLargeTest, NoneUnderALimit)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Class c;

		c.allocate(kMany);
		c.free_all();
		ASSERT_EQ(kmem_cache_set_limit(c.s, 2 * kMany, 60), 0);
		c.allocate(kMany);
		EXPECT_EQ(c.large(), 0u);
		ASSERT_EQ(kmem_cache_set_limit(c.s, 0, 60), 0);
	});
}

/* The large slabs that a class has count by their objects. */
TEST(SlabLargeTest, ALimitCountsTheirObjects)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Class c;

		c.allocate(kMany);
		c.free_all();
		c.allocate(kMany);
		ASSERT_GT(c.large(), 0u);
		const size_t slabs = c.counts().slabs;

		/* More than there are slabs, fewer than there are objects in them. */
		ASSERT_EQ(kmem_cache_set_limit(c.s, kMany / 2, 60), 0);
		ASSERT_GT(kmem_cache_limit(c.s) / kUsual, slabs);
		while (void *p = kmalloc(kSize, GFP_KERNEL | __GFP_NOWARN))
			c.p.push_back(p);
		EXPECT_LE(c.counts().slabs, slabs) << "no more are made";
		c.free_all();
		kmem_cache_shrink(c.s);
		while (void *p = kmalloc(kSize, GFP_KERNEL | __GFP_NOWARN))
			c.p.push_back(p);
		EXPECT_EQ(c.p.size(), kmem_cache_limit(c.s));
		ASSERT_EQ(kmem_cache_set_limit(c.s, 0, 60), 0);
	});
}

/* In large slabs of every class, objects are what they are in usual ones. */
TEST(SlabLargeTest, EveryClass)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.now_ms = fake_now_ms;
		unsigned int some_large = 0, of_large_objects = 0; /* classes */

		kfree(kmalloc(1, GFP_KERNEL));
		for (size_t size = 32; size <= 65536; size = kmalloc_size_roundup(size) + 1) {
			const size_t bytes = kmalloc_size_roundup(size);
			struct kmem_cache *s = shim_class_cache(size);
			/* Of large objects more than an array holds. */
			std::vector<char *> p((size_t{ size < 2048 ? 3u : 24u } << 20) / bytes);

			SCOPED_TRACE(testing::Message() << bytes << " bytes");
			for (int round = 0; round < 2; round++) {
				for (char *&q : p)
					q = static_cast<char *>(kmalloc(size, GFP_KERNEL));
				if (round == 0)
					for (char *q : p)
						kfree(q);
			}
			for (char *q : p) {
				ASSERT_EQ(ksize(q), bytes);
				ASSERT_EQ(shim_class_usable(q), bytes);
				ASSERT_EQ(shim_class_usable(q + bytes / 2), 0u);
				ASSERT_EQ(shim_slab_cache_of(q), s);
				memset(q, 1, bytes);
			}
			std::sort(p.begin(), p.end());
			for (size_t i = 1; i < p.size(); i++)
				ASSERT_GE(p[i], p[i - 1] + bytes);
			(size < 2048 ? some_large : of_large_objects) +=
				slab_counts_of(s).objects >
				slab_counts_of(s).slabs * geometry_of(s).objects;
			ASSERT_STREQ(shim_slab_wrong(s), nullptr);
			for (size_t i = 0; i < p.size(); i += 3)
				kfree(p[i]);
			ASSERT_STREQ(shim_slab_wrong(s), nullptr);
			for (size_t i = 0; i < p.size(); i++)
				if (i % 3)
					kfree(p[i]);
			ASSERT_STREQ(shim_slab_wrong(s), nullptr);
			kmem_cache_shrink(s);
			ASSERT_EQ(slab_counts_of(s).slabs, 0u);
		}
		EXPECT_GE(some_large, 12u) << "32 to 512 bytes";
		EXPECT_GE(of_large_objects, 16u) << "from 2048 bytes on";
	});
}

/* A user who sets how slabs are cut gets no larger ones. */
TEST(SlabLargeTest, SettingsDecide)
{
	for (const char *conf : { "slab_min_objects:16", "slab_max_order:1" })
		EXPECT_FRESH_PROCESS_PASSES([conf] {
			configure_slabs(conf);
			Class c;

			for (int round = 0; round < 2; round++) {
				c.free_all();
				c.allocate(kMany);
			}
			EXPECT_EQ(c.large(), 0u);
		});
}

} // namespace
