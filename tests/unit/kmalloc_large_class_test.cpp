/* SPDX-License-Identifier: MIT */
/* Size classes above 16 KiB: as fast as those below, and no memory wasted for that. */
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include "page_shim.h"
#include "slab_util.h"

extern "C" {
#include "os/os.h"
}

namespace
{

constexpr size_t kMiB = 1u << 20;

std::vector<size_t> large_classes()
{
	std::vector<size_t> sizes;

	for (size_t size = 16385; size <= KMALLOC_MAX_CACHE_SIZE; size = sizes.back() + 1)
		sizes.push_back(kmalloc_size_roundup(size));
	return sizes;
}

char *get(size_t size, gfp_t flags = GFP_KERNEL)
{
	auto *p = static_cast<char *>(kmalloc(size, flags));

	EXPECT_NE(p, nullptr) << size;
	return p;
}

/* @n blocks are allocated, and freed in the same order. */
void cycle(size_t size, size_t n, size_t rounds)
{
	std::vector<char *> p(n);

	while (rounds--) {
		for (auto &q : p)
			q = get(size);
		for (auto *q : p)
			kfree(q);
	}
}

size_t active()
{
	struct ukmem_gauges g;

	ukmem_gauges_read(&g);
	return g.active;
}

/* One, some and many at once: the CPU's array has room for them. The clock stands still: a
 * slow machine is not taken for a calm CPU, whose arrays hold less. */
TEST(KmallocLargeClassTest, BatchesAreServedByTheArray)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.now_ms = [] { return uint64_t{ 1000000 }; };
		run_on(allowed_cpus().front());
		kfree(get(1));
		for (size_t size : large_classes())
			for (size_t n : { size_t{ 1 }, size_t{ 8 }, 10 * kMiB / size }) {
				struct kmem_cache *s = shim_class_cache(size);

				cycle(size, n, 100);
				shim_counts before = slab_counts_of(s);
				cycle(size, n, 20);
				shim_counts after = slab_counts_of(s);
				EXPECT_EQ(after.allocs - before.allocs, 20 * n);
				EXPECT_GE(after.allocs_fast - before.allocs_fast,
					  20 * n * 99 / 100)
					<< n << " of " << size;
			}
	});
}

/* A block that is used now and then costs hardly more than itself. */
TEST(KmallocLargeClassTest, OneBlockNeedsOneSlab)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		run_on(allowed_cpus().front());
		kfree(get(1));
		for (size_t size : large_classes()) {
			size_t before = active();

			cycle(size, 1, 10);
			EXPECT_LE(active() - before, std::max<size_t>(65536, ukmem_page_size()))
				<< size;
			EXPECT_EQ(slab_counts_of(shim_class_cache(size)).slabs, 1u);
		}
	});
}

TEST(KmallocLargeClassTest, MemoryComesBack)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		std::vector<char *> p;
		size_t before;

		run_on(allowed_cpus().front());
		kfree(get(1));
		ukmem_trim();
		before = active();
		for (size_t size : large_classes())
			for (size_t n = 8 * kMiB / size; n--;)
				p.push_back(static_cast<char *>(memset(get(size), 1, size)));
		EXPECT_GE(active() - before, 60 * kMiB);
		for (auto *q : p)
			kfree(q);
		/* A MiB for each class, if the CPU only freed, and slabs. */
		EXPECT_LE(active() - before, 12 * kMiB) << "before anybody asks for it";
		ukmem_trim();
		EXPECT_EQ(active(), before);
		for (auto *q : p)
			EXPECT_EQ(os_resident(q, 16384), 0u);
		for (size_t size : large_classes())
			expect_nothing_left(shim_class_cache(size));
	});
}

/* Pages that nobody used are zeros without being written to. */
TEST(KmallocLargeClassTest, ZeroedBlocksOfFreshPagesStayUntouched)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		for (size_t size = 16385; size <= 70000; size += 997) {
			char *p = get(size, GFP_KERNEL | __GFP_ZERO);

			EXPECT_EQ(os_resident(p, size), 0u) << size;
			EXPECT_EQ(ksize(p), kmalloc_size_roundup(size));
			p[size - 1] = 1;
		}
	});
}

TEST(KmallocLargeClassTest, ZeroedBlocksOfUsedPagesAreZero)
{
	for (int round = 0; round < 3; round++)
		for (size_t size = 16000; size <= 70000; size += 997) {
			char *p = get(size, GFP_KERNEL | __GFP_ZERO), *q = get(size);

			for (size_t i = 0; i < ksize(p); i++)
				ASSERT_EQ(p[i], 0) << size << " at " << i;
			memset(p, 0xff, ksize(p));
			memset(q, 0xff, ksize(q));
			kfree(p);
			kfree(q);
		}
}

/* The first time it moves, to whole pages; then not, if nothing lies behind it. */
TEST(KmallocLargeClassTest, BlocksThatGrowDoSoInPlace)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		size_t page = ukmem_page_size();
		auto *first = static_cast<char *>(krealloc(get(10000), 17000, GFP_KERNEL));

		EXPECT_TRUE(is_vmalloc_addr(first));
		for (size_t size = 17000; size <= 300000; size += page) {
			auto *p = static_cast<char *>(krealloc(first, size, GFP_KERNEL));

			ASSERT_EQ(p, first) << size;
			EXPECT_LT(ksize(p) - size, size / 4 + page);
			memset(p, 7, size);
		}
		/* And back. */
		EXPECT_EQ(krealloc(first, 20000, GFP_KERNEL), first);
		EXPECT_LT(ksize(first), 20000 + page);
		kfree(first);
	});
}

/* Where there is no memory for a class, free objects of larger ones serve. */
TEST(KmallocLargeClassTest, LargerClassesServeWhatIsShort)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		std::vector<void *> all;
		size_t served = 0;

		setenv("UKMEM_CONF", "limit:32m", 1);
		while (void *p = kmalloc(300, GFP_KERNEL | __GFP_NOWARN))
			all.push_back(p);
		for (size_t i = 0; i < all.size(); i += 2)
			kfree(all[i]);
		for (size_t i = 0; i < all.size(); i += 2) {
			all[i] = kmalloc(260 + i % 40, GFP_KERNEL | __GFP_NOWARN | __GFP_ZERO);
			served += all[i] != nullptr;
			if (all[i]) {
				EXPECT_EQ(*static_cast<char *>(all[i]), 0);
			}
		}
		EXPECT_EQ(served, (all.size() + 1) / 2);
		/* kmalloc() promises powers of two their alignment. */
		kfree(all[0]);
		auto *p = kmalloc(256, GFP_KERNEL | __GFP_NOWARN);
		EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 256, 0u);
		kfree(p);
		all[0] = kmalloc(280, GFP_KERNEL);
		/* Not where somebody wants the class to fail. */
		kmem_cache_fail(shim_class_cache(288), 0, 1);
		kfree(all[0]);
		EXPECT_EQ(kmalloc(280, GFP_KERNEL | __GFP_NOWARN), nullptr);
		kmem_cache_fail(shim_class_cache(288), -1, 0);
		EXPECT_NE(kmalloc(280, GFP_KERNEL | __GFP_NOWARN), nullptr);
	});
}

/* Blocks of many sizes have few numbers of pages, so that they fit into each other's holes. */
TEST(KmallocLargeClassTest, BlocksAreRoomy)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		std::set<size_t> sizes;
		size_t page = ukmem_page_size();

		for (size_t size = 65537; size <= 16 << 20; size += 2 * page) {
			auto *p = get(size);
			size_t has = ksize(p);

			EXPECT_EQ(has, kmalloc_size_roundup(size));
			EXPECT_LT(has - size, size / (size <= 1 << 20 ? 4 : 8) + page);
			sizes.insert(has);
			kfree(p);
		}
		/* 4 for each doubling up to a MiB, 8 beyond. */
		EXPECT_EQ(sizes.size(), 4u * 4 + 8 * 4);
	});
	/* Near the limit they get what they ask for, and as many of them fit. */
	EXPECT_FRESH_PROCESS_PASSES([] {
		std::vector<void *> all;

		setenv("UKMEM_CONF", "limit:64m", 1);
		while (void *p = kmalloc(1060000, GFP_KERNEL | __GFP_NOWARN))
			all.push_back(p);
		EXPECT_GE(all.size(), 56u);
		EXPECT_LT(ksize(all.back()), 1060000 + ukmem_page_size());
		for (void *p : all)
			kfree(p);
	});
}

TEST(KmallocLargeClassTest, WhichBlocksAreWholePages)
{
	const std::pair<size_t, gfp_t> objects[] = { { 16384, __GFP_ZERO },
						     { 16385, 0 },
						     { 65536, 0 } };
	const std::pair<size_t, gfp_t> pages[] = { { 16385, __GFP_ZERO }, { 65537, 0 } };

	for (auto [size, flags] : objects) {
		char *p = get(size, GFP_KERNEL | flags);

		EXPECT_FALSE(is_vmalloc_addr(p)) << size;
		kfree(p);
	}
	for (auto [size, flags] : pages) {
		char *p = get(size, GFP_KERNEL | flags);

		EXPECT_TRUE(is_vmalloc_addr(p)) << size;
		kfree(p);
	}
}

TEST(KmallocLargeClassTest, MemoryOfAZoneIsWholePages)
{
	for (gfp_t zone : { __GFP_DMA, __GFP_DMA32 }) {
		auto *p = static_cast<char *>(kmalloc(40000, GFP_KERNEL | zone | __GFP_NOWARN));

		if (!p)
			continue; /* pinned memory is limited */
		EXPECT_TRUE(is_vmalloc_addr(p));
		memset(p, 1, 40000);
		kfree(p);
	}
}

} // namespace
