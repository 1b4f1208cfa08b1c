/* SPDX-License-Identifier: MIT */
/*
 * Freed blocks of whole pages that are debugged wait in a quarantine: how many, for how long,
 * what they are filled with where there are no guards, and that nobody lacks the memory.
 */
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "fake_os.h"
#include "large_debug_util.h"
#include "page_util.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

namespace
{

size_t pages_in_use()
{
	struct ukmem_gauges g = {};

	ukmem_gauges_read(&g);
	return g.active;
}

TEST(LargeQuarantineTest, CountsAndTrim)
{
	configure(kAll);
	std::vector<char *> blocks(50);

	kfree(get(kSize));
	ukmem_trim();
	size_t before = pages_in_use(), allocs = counted("allocs");
	EXPECT_EQ(counted("quarantined"), 0u);
	for (auto &p : blocks)
		p = get(kSize);
	EXPECT_EQ(counted("bytes"), blocks.size() * whole_pages(kSize));
	for (char *p : blocks)
		kfree(p);
	EXPECT_EQ(counted("allocs"), allocs + blocks.size());
	EXPECT_EQ(counted("frees"), counted("allocs"));
	EXPECT_EQ(counted("bytes"), 0u);
	EXPECT_EQ(counted("quarantined"), blocks.size());
	EXPECT_GE(counted("quarantined_bytes"), blocks.size() * kSize);
	EXPECT_GT(ukmem_trim(), 0u);
	EXPECT_EQ(counted("quarantined"), 0u);
	EXPECT_EQ(counted("quarantined_bytes"), 0u);
	EXPECT_LE(pages_in_use(), before);
}

TEST(LargeQuarantineTest, ZeroesComeBackFromQuarantine)
{
	configure(kAll);
	for (int round = 0; round < 3; round++)
		for (size_t size = 70000; size < 600000; size = size * 3 / 2) {
			char *p = get(size, GFP_KERNEL | __GFP_ZERO);

			ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % ukmem_page_size(), 0u);
			EXPECT_TRUE(has(p, size, 0));
			memset(p, 'x', size);
			kfree(p);
			if (round == 1)
				ukmem_trim(); /* pages come back from the quarantine */
		}
}

/* A block that is larger than what may wait waits until the next one is freed. */
TEST(LargeQuarantineTest, HugeBlockWaits)
{
	configure(kAll);
	kfree(get(kSize));
	kfree(get(100 << 20));
	EXPECT_EQ(counted("quarantined"), 1u);
	EXPECT_GT(counted("quarantined_bytes"), 100u << 20);
	kfree(get(kSize));
	EXPECT_EQ(counted("quarantined"), 1u);
	EXPECT_LT(counted("quarantined_bytes"), 1u << 20);
}

/* All memory that there may be waits in quarantine; pages, objects and blocks get it. */
TEST(LargeQuarantineTest, ScarceMemory)
{
	configure(std::string(kAll) + ",limit:48m");
	struct kmem_cache *s = kmem_cache_create("scarce", 1024, 0, 0, nullptr);

	for (int n = 0; n < 5; n++) {
		std::vector<void *> objects;
		Pages pages;

		for (int i = 0; i < 8; i++)
			kfree(get(5 << 20));
		EXPECT_GT(counted("quarantined_bytes"), 20u << 20);
		char *at_once = get(12 << 20, GFP_NOWAIT);
		EXPECT_NE(at_once, nullptr) << "it cannot reclaim";
		kfree(at_once);
		for (int i = 0; i < 3; i++)
			kfree(get(5 << 20));
		EXPECT_GT(counted("quarantined_bytes"), 25u << 20) << "too many for the pages";
		for (int i = 0; i < 25; i++) {
			pages.push_back(alloc_pages(GFP_KERNEL, 8));
			ASSERT_NE(pages.back(), nullptr);
		}
		for (int i = 0; i < 10000; i++) {
			objects.push_back(kmem_cache_alloc(s, GFP_KERNEL));
			ASSERT_NE(objects.back(), nullptr);
		}
		for (void *p : objects)
			kmem_cache_free(s, p);
		for (auto *page : pages)
			__free_pages(page, 8);
	}
	kmem_cache_destroy(s);
}

/* Older blocks leave for a new one, and no more of them than have to. */
TEST(LargeQuarantineTest, OldestLeaveQuarantine)
{
	configure(kAll);
	for (int n = 0; n < 40; n++)
		kfree(get(1 << 20));
	kfree(get(40 << 20));
	EXPECT_GT(counted("quarantined"), 15u);
	EXPECT_GT(counted("quarantined_bytes"), 60u << 20);
	EXPECT_LE(counted("quarantined_bytes"), 64u << 20);
}

/* The quarantine has a limit: 64 blocks, 64 MiB. */
TEST(LargeQuarantineTest, QuarantineIsBounded)
{
	configure(kAll);
	for (int n = 0; n < 200; n++)
		kfree(get(kSize));
	EXPECT_EQ(counted("quarantined"), 64u);
	for (int n = 0; n < 20; n++) {
		kfree(get(20 << 20));
		EXPECT_LE(counted("quarantined_bytes"), 64u << 20);
	}
}

/* The handler opens the page that is written to. The next block there is zero all the same.
 * @size: so large that no memory lies beside it that has been used. @leave: lets the block
 * leave the quarantine. */
void write_after_a_free(size_t size, void (*leave)())
{
	if (!faults_are_unhandled())
		GTEST_SKIP() << "the signal would not reach the library";
	configure(std::string(kAll) + ",slab_debug_action:warn");
	char *p = get(size), *q = nullptr;
	/* It may begin at pages in front of it that have become free. */
	const auto came_back = [&] { return q && q <= p && p < q + size; };

	kfree(p);
	::testing::internal::CaptureStderr();
	*static_cast<volatile char *>(p) = 'A';
	EXPECT_EQ(count(::testing::internal::GetCapturedStderr(), "Use after free"), 1u);
	leave();
	for (int n = 0; n < 20 && !came_back(); n++) {
		q = static_cast<char *>(kzalloc(size, GFP_KERNEL));
		ASSERT_NE(q, nullptr);
		ASSERT_TRUE(has(q, size, 0));
		if (n % 2)
			kfree(q);
	}
	EXPECT_TRUE(came_back());
}

TEST(LargeQuarantineTest, WhatWasWrittenAfterAFreeIsLost)
{
	write_after_a_free(size_t{ 6 } << 20, [] { ukmem_trim(); });
}

/* The library closes a small block in another way. A trim would purge its memory once more. */
TEST(LargeQuarantineTest, WhatWasWrittenAfterAFreeOfASmallBlockIsLost)
{
	write_after_a_free(size_t{ 1 } << 20, [] {
		for (int n = 0; n < 64; n++)
			kfree(get(kSize));
	});
}

/* On a kernel without guard regions, beyond the number of guards, a freed block is filled, and
 * looked at when it goes. */
TEST(LargeQuarantineTest, WithoutGuardsBlocksArePoisoned)
{
	os_calls.madvise_guard = no_guard_regions;
	configure(std::string(kAll) + ",slab_debug_action:warn");
	std::vector<char *> blocks(6500);

	for (auto &p : blocks) {
		p = get(66000);
		ASSERT_NE(p, nullptr);
	}
	char *last = blocks.back();
	kfree(last);
	EXPECT_TRUE(has(last, 66000, 0x6b)) << "it has no guards, so it can be read";
	last[777] = 'A';
	::testing::internal::CaptureStderr();
	ukmem_trim();
	std::string text = ::testing::internal::GetCapturedStderr();
	EXPECT_NE(text.find("BUG kmalloc-large: Poison overwritten: block "), std::string::npos)
		<< text;
	EXPECT_NE(text.find("wrong bytes: 1, first at +777: 0x41, not 0x6b"),
		  std::string::npos);
	EXPECT_NE(text.find("  freed at "), std::string::npos);
	blocks.pop_back();
	::testing::internal::CaptureStderr();
	for (char *p : blocks)
		kfree(p);
	ukmem_trim();
	EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

} // namespace
