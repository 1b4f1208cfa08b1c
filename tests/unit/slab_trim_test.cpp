/* SPDX-License-Identifier: MIT */
/* A trim empties the arrays that keep memory, and leaves the others to their CPUs. */
#include "slab_class.h"

namespace
{

constexpr size_t kSize = 1024; /* slabs of whole pages */
constexpr size_t kPages = 64;  /* of objects: of these, one may be left to arrays */

/* The largest class, with objects that fill so many pages. */
struct FilledPages : SizeClass {
	explicit FilledPages(size_t pages) : SizeClass(16 * 4096)
	{
		allocate(pages / 16);
	}
};

/* Allocates all objects of so many slabs, and frees those for which @goes says so. */
template <typename Goes> void scatter(SizeClass &c, size_t slabs, Goes goes)
{
	std::vector<void *> stay;

	c.make(slabs);
	while (c.counts().cached)
		c.allocate(1);
	for (size_t i = 0; i < c.p.size(); i++)
		if (goes(i, reinterpret_cast<uintptr_t>(c.p[i])))
			kfree(c.p[i]);
		else
			stay.push_back(c.p[i]);
	c.p = stay;
}

bool is_inside_page(size_t, uintptr_t address)
{
	return address % 4096;
}

/* Each slab has an object that stays: to empty the arrays would give nothing back. */
TEST(SlabTrimTest, LeavesArraysThatKeepNothing)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(kSize);

		scatter(c, 40, is_inside_page);
		const auto before = c.counts();

		ASSERT_GT(before.cached, 0u);
		ukmem_trim();
		EXPECT_EQ(c.counts().cached, before.cached);
		EXPECT_EQ(shim_slab_wrong(c.s), nullptr);
	});
}

/* Some slabs have none, and they are more than may be left. */
TEST(SlabTrimTest, EmptiesArraysThatKeepSlabs)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(16384);
		FilledPages other(kPages);

		scatter(c, 40, [](size_t i, uintptr_t) { return i >= 2; });
		ASSERT_GT(c.counts().cached, 0u);
		ukmem_trim();
		EXPECT_EQ(c.counts().cached, 0u);
		EXPECT_LE(c.counts().slabs, 2u);
	});
}

/* A 64th of the pages that objects fill may stay, as long as the program has objects of the
 * cache. */
TEST(SlabTrimTest, LeavesLittle)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(kSize);
		FilledPages other(16 * kPages);

		scatter(c, 3, [](size_t i, uintptr_t) { return i >= 1; });
		const auto before = c.counts();

		ASSERT_GT(before.cached, 0u);
		ASSERT_GT(before.slabs, 1u);
		ukmem_trim();
		EXPECT_EQ(c.counts().cached, before.cached);
		EXPECT_GT(c.counts().slabs, 1u);
		/* The last object goes. */
		c.free_all();
		ukmem_trim();
		EXPECT_EQ(c.counts().cached, 0u);
		EXPECT_EQ(c.counts().slabs, 0u);
	});
}

/* A trim leaves a part of what the program's objects fill. It counts neither large blocks nor
 * what arrays have, so a second trim leaves as much as the first. */
TEST(SlabTrimTest, LeavesAsMuchAgain)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(kSize), others(512);
		void *large = kmalloc(64 << 20, GFP_KERNEL);

		for (int i = 0; i < 12; i++) {
			others.allocate(16000);
			others.free_all();
		}
		ASSERT_GT(others.counts().cached, 8192u);
		scatter(c, 2, [](size_t i, uintptr_t) { return i >= 1; });
		ASSERT_GT(c.counts().cached, 0u);
		ukmem_trim();
		EXPECT_EQ(c.counts().cached, 0u);
		EXPECT_EQ(ukmem_trim(), 0u);
		kfree(large);
	});
}

/* That is for all caches together. */
TEST(SlabTrimTest, LeavesLittleTogether)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c[] = { SizeClass(2048), SizeClass(3072), SizeClass(4096),
				  SizeClass(5120), SizeClass(6144), SizeClass(8192) };
		FilledPages other(4 * kPages);
		size_t slabs = 0, left = 0;

		for (SizeClass &one : c) {
			scatter(one, 3, [](size_t i, uintptr_t) { return i >= 1; });
			slabs += one.counts().slabs;
		}
		ukmem_trim();
		for (SizeClass &one : c)
			left += one.counts().slabs - 1;
		EXPECT_GT(slabs, 12u);
		EXPECT_LE(left, 6u);
	});
}

/* Many objects are not looked at one by one. */
TEST(SlabTrimTest, EmptiesFullArrays)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(64);
		void *large = kmalloc(64 << 20, GFP_KERNEL);

		for (int i = 0; i < 12; i++) {
			c.allocate(40000);
			c.free_all();
		}
		c.allocate(1);
		ASSERT_GT(c.counts().cached, 1024u);
		ukmem_trim();
		EXPECT_EQ(c.counts().cached, 0u);
		EXPECT_EQ(c.counts().slabs, 1u);
		kfree(large);
	});
}

/* kmem_cache_shrink() empties all. */
TEST(SlabTrimTest, ShrinkLeavesNothing)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(kSize);

		scatter(c, 40, is_inside_page);
		ASSERT_GT(c.counts().cached, 0u);
		kmem_cache_shrink(c.s);
		EXPECT_EQ(c.counts().cached, 0u);
	});
}

} // namespace
