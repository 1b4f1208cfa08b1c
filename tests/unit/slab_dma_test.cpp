/* SPDX-License-Identifier: MIT */
/* Caches of low and pinned memory, and the reserve for those made where nothing may be waited
 * for. */
#include <errno.h>

#include <set>

#include "page_util.h"
#include "slab_util.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

namespace
{

constexpr uintptr_t k4GiB = uintptr_t(1) << 32;

/* Free pages that need no system call to be had. */
void warm_up(gfp_t zone)
{
	Pages pages = fill(GFP_KERNEL | zone, 3, 64, true);

	ASSERT_EQ(pages.size(), 64u);
	free_all(pages, 3);
}

void expect_reserve(unsigned used, unsigned long exhausted)
{
	unsigned long n;

	EXPECT_EQ(shim_reserve_used(&n), used);
	EXPECT_EQ(n, exhausted);
}

TEST(SlabDmaTest, KmallocHasCachesForEachZone)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		OneCpu pinned_thread;
		void *low = kmalloc(100, GFP_KERNEL | GFP_DMA32), *again;
		void *pinned = kmalloc(100, GFP_KERNEL | GFP_DMA);
		void *plain = kmalloc(100, GFP_KERNEL);

		ASSERT_NE(low, nullptr);
		ASSERT_NE(pinned, nullptr);
		EXPECT_LT(reinterpret_cast<uintptr_t>(low), k4GiB);
		EXPECT_STREQ(shim_slab_name(shim_slab_cache_of(low)), "dma32-kmalloc-112");
		EXPECT_STREQ(shim_slab_name(shim_slab_cache_of(pinned)), "dma-kmalloc-112");
		EXPECT_STREQ(shim_slab_name(shim_slab_cache_of(plain)), "kmalloc-112");
		EXPECT_EQ(kmem_cache_find("dma32-kmalloc-112"), shim_slab_cache_of(low));
		EXPECT_EQ(ksize(low), 112u);
		kfree(low);
		again = kmalloc(112, GFP_KERNEL | GFP_DMA32);
		EXPECT_EQ(again, low) << "from this CPU's array";
		kfree(again);
		kfree(pinned);
		kfree(plain);
		expect_reserve(0, 0);
	});
}

TEST(SlabDmaTest, CachesOfTheProgram)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		struct kmem_cache *s =
			kmem_cache_create("low", 200, 0, SLAB_CACHE_DMA32, nullptr);
		std::vector<void *> live;

		ASSERT_NE(s, nullptr);
		for (int i = 0; i < 1000; i++) {
			live.push_back(kmem_cache_alloc(s, GFP_KERNEL));
			ASSERT_NE(live.back(), nullptr);
			ASSERT_LT(reinterpret_cast<uintptr_t>(live.back()), k4GiB);
		}
		for (void *p : live)
			kmem_cache_free(s, p);
		EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
		EXPECT_STREQ(shim_slab_wrong(s), nullptr);
		kmem_cache_destroy(s);
		EXPECT_EQ(kmem_cache_find("low"), nullptr);
	});
}

/* The first request of a class comes from where nothing may be waited for. */
void first_use_is_atomic(gfp_t zone)
{
	struct kmem_cache *s;
	std::vector<void *> live;

	kfree(kmalloc(64, GFP_KERNEL));
	warm_up(zone);
	for (int i = 0; i < 100; i++) {
		live.push_back(kmalloc(64, GFP_NOWAIT | zone));
		ASSERT_NE(live.back(), nullptr);
	}
	expect_reserve(1, 0);
	EXPECT_EQ(std::set<void *>(live.begin(), live.end()).size(), live.size());
	s = shim_slab_cache_of(live[0]);
	EXPECT_EQ(kmem_cache_find(zone == GFP_DMA ? "dma-kmalloc-64" : "dma32-kmalloc-64"), s);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 100u);
	for (void *p : live)
		kfree(p);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	/* Requests that may wait use the same cache. */
	void *p = kmalloc(64, GFP_KERNEL | zone);
	EXPECT_EQ(shim_slab_cache_of(p), s);
	kfree(p);
	EXPECT_EQ(kmem_cache_shrink(s), 0);
}

TEST(SlabDmaTest, FirstUseIsAtomic)
{
	EXPECT_FRESH_PROCESS_PASSES([] { first_use_is_atomic(GFP_DMA); });
	EXPECT_FRESH_PROCESS_PASSES([] { first_use_is_atomic(GFP_DMA32); });
}

/* CPUs keep no slabs of such a cache, whatever its attribute says: there is no place for them.
 */
TEST(SlabDmaTest, ReservesHaveNoListsOfCpus)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		kfree(kmalloc(64, GFP_KERNEL));
		warm_up(GFP_DMA32);
		std::vector<void *> live = { kmalloc(512, GFP_ATOMIC | GFP_DMA32) };
		ASSERT_NE(live[0], nullptr);
		struct kmem_cache *s = shim_slab_cache_of(live[0]);

		expect_reserve(1, 0);
		EXPECT_EQ(kmem_cache_attr_store(s, "cpu_partial", "64"), -EINVAL);
		EXPECT_EQ(kmem_cache_attr_store(s, "cpu_partial", "0"), 0);
		for (int i = 0; i < 1000; i++)
			live.push_back(kmalloc(512, GFP_KERNEL | GFP_DMA32));
		for (size_t i = 0; i < live.size(); i++)
			if (i % 3)
				kfree(live[i]);
		EXPECT_EQ(slab_counts_of(s).cpu_partial, 0u);
		EXPECT_EQ(ukmem_verify(stderr), 0);
		for (size_t i = 0; i < live.size(); i += 3)
			kfree(live[i]);
		EXPECT_EQ(ukmem_verify(stderr), 0);
	});
}

/* Sixteen are set aside, and each is handed out once; then NULL and a count. */
TEST(SlabDmaTest, ReserveUsedUp)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		std::set<struct kmem_cache *> caches;
		std::vector<void *> live;
		unsigned failed = 0;

		kfree(kmalloc(64, GFP_KERNEL));
		warm_up(GFP_DMA32);
		for (size_t size = 16; size <= 1024; size += 16) {
			void *p = kmalloc(size, GFP_ATOMIC | GFP_DMA32);

			if (!p) {
				failed++;
				continue;
			}
			memset(p, 0x11, size);
			live.push_back(p);
			caches.insert(shim_slab_cache_of(p));
		}
		EXPECT_EQ(caches.size(), 16u);
		EXPECT_GT(failed, 0u);
		expect_reserve(16, failed);
		/* A request that may wait makes the class's cache, which then serves all
		 * requests. */
		void *p = kmalloc(1024, GFP_KERNEL | GFP_DMA32);
		ASSERT_NE(p, nullptr);
		live.push_back(p);
		p = kmalloc(1024, GFP_ATOMIC | GFP_DMA32);
		ASSERT_NE(p, nullptr);
		live.push_back(p);
		expect_reserve(16, failed);
		for (void *q : live)
			kfree(q);
		for (struct kmem_cache *s : caches)
			EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	});
}

/* Their arrays are all closed, and still each its own: objects of one are none of another's. */
TEST(SlabDmaTest, BulkFreeOfTheReserves)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		std::set<struct kmem_cache *> caches;
		std::vector<void *> live;

		kfree(kmalloc(64, GFP_KERNEL));
		warm_up(GFP_DMA);
		for (size_t size : { 64, 32, 96, 64, 32 }) {
			live.push_back(kmalloc(size, GFP_ATOMIC | GFP_DMA));
			ASSERT_NE(live.back(), nullptr);
			caches.insert(shim_slab_cache_of(live.back()));
		}
		expect_reserve(3, 0);
		kmem_cache_free_bulk(nullptr, live.size(), live.data());
		for (struct kmem_cache *s : caches) {
			EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
			EXPECT_STREQ(shim_slab_wrong(s), nullptr);
		}
	});
}

/* Threads that all want the first of a class at once get one cache. */
TEST(SlabDmaTest, RacingFirstUse)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		kfree(kmalloc(64, GFP_KERNEL));
		warm_up(GFP_DMA32);
		for (size_t size : { 32, 48, 64, 80, 96 }) {
			void *p[4];
			{
				Threads threads(4, [&](unsigned i) {
					p[i] = kmalloc(size, i % 2 ? GFP_KERNEL | GFP_DMA32
								   : GFP_ATOMIC | GFP_DMA32);
				});
			}
			for (int i = 0; i < 4; i++) {
				if (!p[i])
					continue; /* it may not wait for a lock */
				EXPECT_EQ(shim_slab_cache_of(p[i]), shim_slab_cache_of(p[1]));
				kfree(p[i]);
			}
		}
		unsigned long exhausted;
		EXPECT_LE(shim_reserve_used(&exhausted), 5u) << "losers give theirs back";
		EXPECT_EQ(exhausted, 0u);
	});
}

} /* namespace */
