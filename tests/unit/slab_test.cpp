/* SPDX-License-Identifier: MIT */
/* Object caches: alignment, distinctness, bulk, constructors, shrinking, destruction, counts.
 */
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

#include "percpu_util.h"
#include "slab_guard.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

extern "C" {
#include "base/bits.h"
#include "percpu/percpu.h"
}

namespace
{

TEST(SlabTest, ObjectsAreAlignedDistinctAndInsideTheirSlab)
{
	for (unsigned size :
	     { 1u,   7u,   8u,	 9u,	15u,   16u,   17u,   24u,   31u,    64u,   100u,
	       129u, 256u, 700u, 1000u, 2049u, 4096u, 5000u, 8192u, 10000u, 16384u }) {
		for (unsigned align : { 0u, 1u, 8u, 16u, 64u, 256u, 4096u }) {
			if (align_up(size, align ? align : 1) > 16384)
				continue;
			SCOPED_TRACE(testing::Message()
				     << "size " << size << " align " << align);
			Cache s("distinct", size, align);
			shim_geometry g;
			std::map<char *, int> live;
			unsigned n = 2000000 / (size + 200) / 20;

			ASSERT_NE(s, nullptr);
			shim_slab_geometry(s, &g);
			for (unsigned i = 0; i < n; i++) {
				auto *p = static_cast<char *>(kmem_cache_alloc(s, GFP_KERNEL));
				auto addr = reinterpret_cast<uintptr_t>(p);
				auto base = reinterpret_cast<uintptr_t>(shim_slab_base(p));

				ASSERT_NE(p, nullptr);
				ASSERT_EQ(addr % (align ? align : size >= 16 ? 16 : 8), 0u);
				if (is_pow2(size) && size <= 4096) {
					ASSERT_EQ(addr % size, 0u);
				}
				ASSERT_EQ((addr - base) % g.size, 0u);
				ASSERT_LT((addr - base) / g.size, g.objects);
				ASSERT_EQ(shim_slab_cache_of(p), s);
				memset(p, static_cast<int>(i), size);
				live[p] = static_cast<int>(i);
			}
			char *last = nullptr;
			for (auto [p, i] : live) {
				ASSERT_TRUE(!last || last + size <= p) << "objects overlap";
				last = p;
				ASSERT_EQ(p[0], static_cast<char>(i));
				ASSERT_EQ(p[size - 1], static_cast<char>(i));
			}
			ASSERT_EQ(live.size(), n);
			ASSERT_EQ(slab_counts_of(s).inuse, n);
			for (auto [p, i] : live)
				kmem_cache_free(s, p);
		}
	}
}

TEST(SlabTest, HardwareCacheAlignment)
{
	for (auto [size, align] : { std::pair{ 100u, 64u },
				    { 64u, 64u },
				    { 33u, 64u },
				    { 32u, 32u },
				    { 17u, 32u },
				    { 16u, 16u },
				    { 8u, 8u } }) {
		Cache s("lines", size, 0, SLAB_HWCACHE_ALIGN);
		void *p[50];

		ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, 50, p), 50);
		for (void *q : p)
			EXPECT_EQ(reinterpret_cast<uintptr_t>(q) % align, 0u)
				<< "size " << size;
		kmem_cache_free_bulk(s, 50, p);
	}
}

TEST(SlabTest, SizeIsTheOneAsked)
{
	Cache s("asked", 33, 64);

	EXPECT_EQ(kmem_cache_size(s), 33u);
	EXPECT_STREQ(shim_slab_name(s), "asked");
	std::string name(60, 'n');
	Cache t(name.c_str(), 8);
	EXPECT_EQ(shim_slab_name(t), name.substr(0, 31));
}

TEST(SlabTest, BulkGivesAllOrNothing)
{
	Cache s("bulk", 48);

	for (size_t n : { 0u, 1u, 2u, 127u, 128u, 129u, 1000u, 5000u }) {
		std::vector<void *> p(n + 1, this);
		std::set<void *> distinct;

		ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, n, p.data()),
			  static_cast<int>(n));
		ASSERT_EQ(p[n], this);
		distinct.insert(p.begin(), p.end() - 1);
		ASSERT_EQ(distinct.size(), n);
		ASSERT_EQ(slab_counts_of(s).inuse, n);
		for (void *q : distinct)
			memset(q, 0xff, 48);
		kmem_cache_free_bulk(s, n, p.data());
		ASSERT_EQ(slab_counts_of(s).inuse, 0u);
	}
	EXPECT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, SIZE_MAX, nullptr), 0);
	EXPECT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, static_cast<size_t>(INT32_MAX) + 1,
					nullptr),
		  0);
}

int refuse_mmap(void **, size_t, int, int)
{
	return -ENOMEM;
}

TEST(SlabTest, BulkThatFailsGivesEverythingBack)
{
	Cache s("bulk-fail", 4096);
	OsCallsGuard guard;
	std::vector<void *> p(100000);

	void *one = kmem_cache_alloc(s, GFP_KERNEL);
	os_calls.mmap = refuse_mmap;
	EXPECT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL | __GFP_NOWARN, p.size(), p.data()), 0);
	EXPECT_EQ(slab_counts_of(s).inuse, 1u);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	os_calls.mmap = os_calls_linux.mmap;
	EXPECT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, 1000, p.data()), 1000);
	kmem_cache_free_bulk(s, 1000, p.data());
	kmem_cache_free(s, one);
}

TEST(SlabTest, ZallocIsZeroAlsoWhenReused)
{
	Cache s("zalloc", 200);
	static const char zeros[200] = {};

	for (int round = 0; round < 5; round++) {
		std::vector<void *> p(500);

		for (auto &q : p) {
			q = round % 2 ? kmem_cache_zalloc(s, GFP_KERNEL)
				      : kmem_cache_alloc(s, GFP_KERNEL | __GFP_ZERO);
			ASSERT_NE(q, nullptr);
			ASSERT_EQ(memcmp(q, zeros, 200), 0);
			memset(q, 0x77, 200);
		}
		kmem_cache_free_bulk(s, p.size(), p.data());
		ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL | __GFP_ZERO, 100, p.data()),
			  100);
		for (int i = 0; i < 100; i++) {
			ASSERT_EQ(memcmp(p[i], zeros, 200), 0);
			memset(p[i], 0x66, 200);
		}
		kmem_cache_free_bulk(s, 100, p.data());
	}
}

unsigned constructed;

void construct(void *p)
{
	constructed++;
	memset(p, 0, 96);
	*static_cast<uint64_t *>(p) = 0x1122334455667788;
}

TEST(SlabTest, ConstructorRunsOncePerObjectAndStateIsKept)
{
	constructed = 0;
	Cache s("ctor", 96, 0, 0, construct);
	std::set<void *> ever;
	std::vector<void *> p(100); /* so few that no slab leaves in between */

	for (int round = 0; round < 20; round++) {
		for (auto &q : p) {
			q = kmem_cache_alloc(s, GFP_KERNEL);
			auto *word = static_cast<uint64_t *>(q);

			ASSERT_EQ(word[0], 0x1122334455667788u);
			/* Counts its lives in the second word, as a constructed state may. */
			ASSERT_EQ(word[1] > 0, ever.count(q) > 0);
			word[1]++;
			ever.insert(q);
		}
		for (auto q : p)
			kmem_cache_free(s, q);
	}
	EXPECT_EQ(constructed, slab_counts_of(s).objects);
	kmem_cache_shrink(s);
	EXPECT_EQ(slab_counts_of(s).slabs, 0u);
	unsigned before = constructed;
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	EXPECT_GT(constructed, before) << "a new slab is constructed anew";
}

TEST(SlabTest, ShrinkGivesEmptySlabsBack)
{
	Cache s("shrink", 256);
	std::vector<void *> p(4000);

	ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, p.size(), p.data()), 4000);
	uint64_t full = slab_counts_of(s).slabs;
	ASSERT_GT(full, 100u);
	/* Keep one object in three quarters of the way: some slabs stay. */
	std::vector<void *> keep(p.begin(), p.begin() + 1000);
	kmem_cache_free_bulk(s, 3000, p.data() + 1000);
	EXPECT_EQ(kmem_cache_shrink(s), 1);
	EXPECT_LE(slab_counts_of(s).slabs, full / 2);
	EXPECT_EQ(slab_counts_of(s).cached, 0u);
	EXPECT_EQ(slab_counts_of(s).inuse, 1000u);
	kmem_cache_free_bulk(s, 1000, keep.data());
	EXPECT_EQ(kmem_cache_shrink(s), 0);
	EXPECT_EQ(slab_counts_of(s).slabs, 0u);
}

TEST(SlabTest, EmptySlabsLeaveByThemselves)
{
	Cache s("retire", 1024);
	std::vector<void *> p(20000);

	ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, p.size(), p.data()), 20000);
	uint64_t full = slab_counts_of(s).slabs;
	kmem_cache_free_bulk(s, p.size(), p.data());
	EXPECT_LT(slab_counts_of(s).slabs, full / 10);
}

TEST(SlabTest, DestroyWithLiveObjectsKeepsThem)
{
	struct kmem_cache *s = kmem_cache_create("live", 64, 0, 0, nullptr);
	auto *a = static_cast<char *>(kmem_cache_alloc(s, GFP_KERNEL));
	auto *b = static_cast<char *>(kmem_cache_alloc(s, GFP_KERNEL));

	memset(a, 1, 64);
	::testing::internal::CaptureStderr();
	kmem_cache_destroy(s);
	std::string text = ::testing::internal::GetCapturedStderr();
	char said[200];
	snprintf(said, sizeof(said),
		 "ukmem: kmem_cache_destroy(live): 2 objects still in use, cache kept\n"
		 "ukmem:   object %p\nukmem:   object %p\n",
		 static_cast<void *>(std::min(a, b)), static_cast<void *>(std::max(a, b)));
	EXPECT_EQ(text, said);
	for (int i = 0; i < 64; i++)
		ASSERT_EQ(a[i], 1);
	/* It goes on working, and can be destroyed later. */
	void *c = kmem_cache_alloc(s, GFP_KERNEL);
	ASSERT_NE(c, nullptr);
	ASSERT_NE(c, a);
	ASSERT_NE(c, b);
	kmem_cache_free(s, a);
	kmem_cache_free(s, b);
	kmem_cache_free(s, c);
	::testing::internal::CaptureStderr();
	kmem_cache_destroy(s);
	kmem_cache_destroy(nullptr);
	EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

struct Listed {
	struct kmem_cache *s;
	bool found;
};

bool is_listed(struct kmem_cache *s)
{
	Listed l = { s, false };

	shim_for_each_cache(
		[](struct kmem_cache *c, void *arg) {
			auto *listed = static_cast<Listed *>(arg);

			listed->found = listed->found || c == listed->s;
		},
		&l);
	return l.found;
}

TEST(SlabTest, ThousandCachesComeAndGo)
{
	struct ukmem_gauges before, after;
	unsigned chunks = 0;

	for (int round = 0; round < 3; round++) {
		std::vector<struct kmem_cache *> caches;

		for (unsigned i = 0; i < 1000; i++) {
			auto *s = kmem_cache_create("many", 8 + i * 8, 0, 0, nullptr);

			ASSERT_NE(s, nullptr);
			void *p = kmem_cache_alloc(s, GFP_KERNEL);
			memset(p, 1, 8 + i * 8);
			kmem_cache_free(s, p);
			caches.push_back(s);
		}
		ASSERT_TRUE(is_listed(caches[500]));
		for (auto *s : caches)
			kmem_cache_destroy(s);
		ASSERT_FALSE(is_listed(caches[500]));
		ukmem_trim();
		if (!round) {
			ukmem_gauges_read(&before);
			chunks = percpu_info().chunks;
		}
	}
	ukmem_gauges_read(&after);
	EXPECT_EQ(percpu_info().chunks, chunks);
	EXPECT_LE(after.active, before.active);
	EXPECT_EQ(after.allocated, before.allocated);
}

TEST(SlabTest, CountsAreExactAfterRandomTraffic)
{
	Cache s("counts", 40);
	std::mt19937 random(test_seed());
	std::vector<void *> live;
	uint64_t allocs = 0, frees = 0;

	for (unsigned step = 0; step < 200000 / kSlow; step++) {
		unsigned what = random() % 100, n = random() % 300;

		if (what < 48) {
			live.push_back(kmem_cache_alloc(s, GFP_KERNEL));
			allocs++;
		} else if (what < 96 && !live.empty()) {
			std::swap(live[random() % live.size()], live.back());
			kmem_cache_free(s, live.back());
			live.pop_back();
			frees++;
		} else if (what < 98) {
			live.resize(live.size() + n);
			ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, n,
							live.data() + live.size() - n),
				  static_cast<int>(n));
			allocs += n;
		} else if (live.size() >= n) {
			kmem_cache_free_bulk(s, n, live.data() + live.size() - n);
			live.resize(live.size() - n);
			frees += n;
		}
		if (step % 5000 == 0) {
			shim_counts c = slab_counts_of(s);

			ASSERT_STREQ(shim_slab_wrong(s), nullptr);
			ASSERT_EQ(c.allocs, allocs);
			ASSERT_EQ(c.frees, frees);
			ASSERT_EQ(c.inuse, live.size());
			ASSERT_LE(c.inuse + c.cached, c.objects);
			ASSERT_LE(c.allocs_fast, c.allocs);
			ASSERT_LE(c.frees_fast, c.frees);
		}
		if (step % 20000 == 19999)
			kmem_cache_shrink(s);
	}
	for (void *p : live)
		kmem_cache_free(s, p);
	shim_counts c = slab_counts_of(s);
	EXPECT_EQ(c.inuse, 0u);
	EXPECT_EQ(c.allocs, c.frees);
	EXPECT_EQ(c.allocs, allocs);
	EXPECT_GT(c.allocs_fast, c.allocs / 2);
	EXPECT_GT(c.cached, 0u);
	EXPECT_TRUE(shim_slab_drain(s));
	EXPECT_EQ(slab_counts_of(s).cached, 0u);
}

/* Threads that free what others allocated, with shrinks in between. */
TEST(SlabTest, CountsAreExactAfterThreadsAndShrinks)
{
	Cache s("threads", 72);
	std::atomic<uint64_t> allocs{ 0 }, frees{ 0 };
	std::array<std::atomic<void *>, 512> exchange{};
	std::atomic<bool> stop{ false };
	{
		Threads t(3, [&](unsigned id) {
			std::mt19937 random(id);
			uint64_t a = 0, f = 0;

			while (!stop) {
				void *p = random() % 4 ? kmem_cache_alloc(s, GFP_KERNEL)
						       : nullptr;

				if (p) {
					a++;
					memset(p, static_cast<int>(id), 72);
				}
				p = exchange[random() % exchange.size()].exchange(p);
				f += p != nullptr;
				kmem_cache_free(s, p);
			}
			allocs += a;
			frees += f;
		});
		MigrationStorm storm(t);

		for (int i = 0; i < 40; i++) {
			kmem_cache_shrink(s);
			std::this_thread::sleep_for(std::chrono::milliseconds(10));
		}
		stop = true;
	}
	for (auto &p : exchange)
		if (void *q = p.load()) {
			kmem_cache_free(s, q);
			frees++;
		}
	shim_counts c = slab_counts_of(s);
	EXPECT_EQ(c.allocs, allocs.load());
	EXPECT_EQ(c.frees, frees.load());
	EXPECT_EQ(c.inuse, 0u);
	EXPECT_EQ(kmem_cache_shrink(s), 0);
	EXPECT_EQ(slab_counts_of(s).slabs, 0u);
}

/* Each cache finds memory for it, though the ones before have used theirs up. */
TEST(SlabTest, TheFirstRequestMayBeAtomic)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		for (int i = 0; i < 200; i++) {
			struct kmem_cache *s = kmem_cache_create("first", 8000, 0, 0, nullptr);
			void *p = kmem_cache_alloc(s, i % 2 ? GFP_ATOMIC : GFP_NOWAIT);

			ASSERT_NE(p, nullptr) << i;
			memset(p, 1, 8000);
		}
	});
}

} // namespace
