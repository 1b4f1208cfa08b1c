// SPDX-License-Identifier: MIT
// The heap profile: its estimates beside exact counts, of each size, of each site, in each way
// of allocating.
#include <ukmem/kmalloc.h>
#include <ukmem/slab.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "profile_sites.h"
#include "profile_util.h"
#include "test_util.h"

extern "C" {
#include "base/config.h"
}

namespace
{
TEST_F(Profile, EstimatesOfEachSize)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	for (size_t size :
	     { 8, 16, 64, 200, 1024, 3000, 4096, 9000, 16384, 40000, 70000, 300000 }) {
		size_t n = 64 * 1024 * 1024 / size / (size < 64 ? 8 : 1);
		std::vector<void *> p(n);
		counts was = estimate(sites(), any);

		for (void *&q : p)
			q = kmalloc(size, GFP_KERNEL);
		double exact = (double)(n * ksize(p[0]));
		// A sample's own size is that of pages.
		for (void *q : p)
			exact = std::min(exact, (double)(n * ksize(q)));
		counts is = difference(estimate(sites(), any), was);
		SCOPED_TRACE(size);
		expect_near(is.alloc_bytes, exact, is.variance);
		expect_near(is.live_bytes, exact, is.variance);
		for (void *q : p)
			kfree(q);
		is = difference(estimate(sites(), any), was);
		EXPECT_LT(std::abs(is.live_bytes), 1);
	}
}

// One object at a time, which its array serves without a slow path.
TEST_F(Profile, LastInFirstOut)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	const int n = 1000000;

	for (int i = 0; i < n; i++) {
		void *volatile p = kmalloc(128, GFP_KERNEL);
		kfree(p);
	}
	counts is = grown();
	expect_near(is.alloc_bytes, 128.0 * n, is.variance);
	EXPECT_LT(std::abs(is.live_bytes), 1);
}

// Young caches have small arrays, which are often empty.
TEST_F(Profile, EmptyArrays)
{
	const size_t size = 11008, n = 60, rounds = 150;
	std::vector<void *> p(n);

	for (size_t round = 0; round < rounds; round++) {
		struct kmem_cache *s = kmem_cache_create("young", size, 0, 0, nullptr);

		for (void *&q : p)
			q = kmem_cache_alloc(s, GFP_KERNEL);
		for (void *q : p)
			kmem_cache_free(s, q);
		kmem_cache_destroy(s);
	}
	counts is = grown();
	expect_near(is.alloc_bytes, (double)(size * n * rounds), is.variance);
}

// Between two samples there are more small objects than a countdown has.
TEST(ProfileLong, Countdowns)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	EXPECT_FRESH_PROCESS_PASSES([] {
		const int n = 8000000;

		interval = 1 << 20;
		ASSERT_EQ(ukmem_profile_start(interval), 0);
		counts before = estimate(sites(), any);
		for (int i = 0; i < n; i++) {
			void *volatile p = kmalloc(1, GFP_KERNEL);
			kfree(p);
		}
		counts is = difference(estimate(sites(), any), before);
		expect_near(is.alloc_bytes, 8.0 * n, is.variance);
		EXPECT_GT(is.allocs, 0);
	});
}

// A profile that begins finds arrays in use: an array has a countdown from then on, though this
// program allocates less from each of its caches than a countdown without a draw would take.
TEST(ProfileLong, BeginsWithArraysInUse)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	EXPECT_FRESH_PROCESS_PASSES([] {
		const int n = 1000;
		const size_t size = 256;
		std::vector<struct kmem_cache *> caches(100);
		auto turn = [](struct kmem_cache *s) {
			void *volatile p = kmem_cache_alloc(s, GFP_KERNEL);
			kmem_cache_free(s, p);
		};
		OneCpu stay;

		for (auto *&s : caches) {
			s = kmem_cache_create("early", size, 0, SLAB_NO_MERGE, nullptr);
			for (int i = 0; i < 10; i++)
				turn(s);
		}
		ASSERT_EQ(ukmem_profile_start(interval), 0);
		counts before = estimate(sites(), any);
		for (auto *s : caches)
			for (int i = 0; i < n; i++)
				turn(s);
		counts is = difference(estimate(sites(), any), before);
		expect_near(is.alloc_bytes, (double)(size * n * caches.size()), is.variance);
		EXPECT_GT(is.allocs, 0);
	});
}

// Two sites take turns in one class, in a fixed pattern: each must get its part.
TEST_F(Profile, EachSiteItsPart)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	at_site rare = { (uintptr_t)seldom, (uintptr_t)seldom + site_bytes };
	at_site many = { (uintptr_t)often, (uintptr_t)often + site_bytes };
	const int rounds = 200000;
	std::vector<void *> kept;

	for (int i = 0; i < rounds; i++) {
		void *p[4];

		kept.push_back(seldom());
		for (void *&q : p)
			q = often();
		for (int k = 3; k >= 0; k--)
			kfree(p[k]);
	}
	counts a = estimate(sites(), rare), b = estimate(sites(), many);
	expect_near(a.alloc_bytes, 256.0 * rounds, a.variance);
	expect_near(a.live_bytes, 256.0 * rounds, a.variance);
	expect_near(b.alloc_bytes, 4 * 256.0 * rounds, b.variance);
	EXPECT_EQ(b.live, 0);
	for (void *q : kept)
		kfree(q);
	EXPECT_EQ(estimate(sites(), rare).live, 0);
}

__attribute__((noinline, aligned(256))) void *first_of(struct kmem_cache *s)
{
	void *volatile p = kmem_cache_alloc(s, GFP_KERNEL);
	return p;
}
__attribute__((noinline, aligned(256))) void *next_of(struct kmem_cache *s)
{
	void *volatile p = kmem_cache_alloc(s, GFP_KERNEL);
	return p;
}

__attribute__((noinline, aligned(256), used)) void *none_of(struct kmem_cache *)
{
	void *volatile p = nullptr;
	return p;
}

// One site always finds the array empty, the other one what is left of a refill.
TEST_F(Profile, AnEmptyArrayForOneSite)
{
	at_site first = { (uintptr_t)first_of, (uintptr_t)first_of + site_bytes };
	at_site next = { (uintptr_t)next_of, (uintptr_t)next_of + site_bytes };
	struct kmem_cache *s = kmem_cache_create("emptied", 4096, 0, 0, nullptr);
	const int rounds = 5000;

	for (int i = 0; i < rounds; i++) {
		void *p = first_of(s), *q = next_of(s);

		kmem_cache_free(s, q);
		kmem_cache_free(s, p);
		kmem_cache_shrink(s);
	}
	counts a = estimate(sites(), first), b = estimate(sites(), next);
	expect_near(a.alloc_bytes, 4096.0 * rounds, a.variance);
	expect_near(b.alloc_bytes, 4096.0 * rounds, b.variance);
	EXPECT_GT(a.allocs, 0);
	EXPECT_GT(b.allocs, 0);
	kmem_cache_destroy(s);
}

TEST_F(Profile, DrainsDiscardNoSamples)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	const int n = 200000;

	for (int i = 0; i < n; i++) {
		void *volatile p = kmalloc(512, GFP_KERNEL);
		kfree(p);
		if (i % 50 == 0)
			ukmem_trim();
	}
	counts is = grown();
	expect_near(is.alloc_bytes, 512.0 * n, is.variance);
}

void construct(void *p)
{
	memset(p, 0x5a, 96);
}

TEST_F(Profile, CachesAndBulk)
{
	struct kmem_cache *s = kmem_cache_create("profiled", 96, 0, 0, construct);
	const int n = 400000, batch = 32;
	std::vector<void *> p((size_t)n);

	for (int i = 0; i < n / 2; i++)
		p[(size_t)i] = kmem_cache_alloc(s, GFP_KERNEL);
	for (int i = n / 2; i < n; i += batch)
		ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, batch, &p[(size_t)i]), batch);
	for (void *q : p)
		ASSERT_EQ(((unsigned char *)q)[95], 0x5a);
	counts is = grown();
	expect_near(is.alloc_bytes, 96.0 * n, is.variance);
	for (int i = 0; i < n / 4; i++)
		kmem_cache_free(s, p[(size_t)i]);
	kmem_cache_free_bulk(s, (size_t)n - n / 4, &p[n / 4]);
	EXPECT_LT(std::abs(grown().live_bytes), 1);
	kmem_cache_destroy(s);
}

// Few are samples when they are small; in place, each byte that they grow has its chance.
TEST(ProfileLong, BlocksThatGrow)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "one thread, and slow";
	EXPECT_FRESH_PROCESS_PASSES([] {
		const int rounds = 10, n = 1000;
		double exact = 0, found = 0, variance = 0;
		size_t in_place = 0;

		interval = 1 << 20;
		ASSERT_EQ(ukmem_profile_start(interval), 0);
		for (int round = 0; round < rounds; round++) {
			counts before = estimate(sites(), any);
			std::vector<void *> p;

			for (int i = 0; i < n; i++) {
				void *q = kmalloc(70000, GFP_KERNEL);

				for (size_t size = 110000; size <= 310000; size += 40000) {
					void *to = krealloc(q, size, GFP_KERNEL);

					in_place += to == q;
					q = to;
				}
				p.push_back(q);
				exact += (double)ksize(q);
			}
			counts is = difference(estimate(sites(), any), before);
			found += is.live_bytes;
			variance += is.variance;
			for (void *q : p)
				kfree(q);
			is = difference(estimate(sites(), any), before);
			EXPECT_LT(std::abs(is.live_bytes), 1);
		}
		EXPECT_GT(in_place, 0u);
		expect_near(found, exact, variance);
	});
}

// The slow paths zero, and use the arrays themselves.
TEST(ProfileZeroing, Estimates)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		const size_t n = 100000;
		std::vector<unsigned char *> p(n);
		bool zero = true;

		config_init();
		config.init_on_alloc = config.init_on_free = true;
		ASSERT_EQ(ukmem_profile_start(interval), 0);
		counts before = estimate(sites(), any);
		for (int round = 0; round < 2; round++) {
			for (unsigned char *&q : p) {
				q = (unsigned char *)kmalloc(300, GFP_KERNEL);
				zero = zero && !q[0] && !q[299];
				memset(q, 1, 300);
			}
			for (unsigned char *q : p)
				kfree(q);
		}
		EXPECT_TRUE(zero);
		counts is = difference(estimate(sites(), any), before);
		expect_near(is.alloc_bytes, 2 * 320.0 * n, is.variance);
		EXPECT_LT(std::abs(is.live_bytes), 1);
	});
}

TEST_F(Profile, FreedSamplesAreZeroedForTheirCache)
{
	struct kmem_cache *s = kmem_cache_create("zeroed", 512, 0, SLAB_INIT_ON_FREE, nullptr);
	bool zero = true;

	for (int i = 0; i < 20000; i++) {
		volatile unsigned char *p = (unsigned char *)kmem_cache_alloc(s, GFP_KERNEL);

		p[0] = p[511] = 1;
		kmem_cache_free(s, (void *)p);
		zero = zero && !p[0] && !p[511];
	}
	EXPECT_TRUE(zero);
	EXPECT_GT(grown().allocs, 0);
	kmem_cache_destroy(s);
}

TEST(ProfileHardened, Refused)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		config_init();
		config.hardened = true;
		EXPECT_EQ(ukmem_profile_start(0), -EOPNOTSUPP);
		EXPECT_EQ(ukmem_profile_dump(STDERR_FILENO), -ENOENT);
		kfree(kmalloc(300000, GFP_KERNEL));
	});
}

TEST(ProfileDump, OnlyOfAProfileThatBegan)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		EXPECT_EQ(ukmem_profile_start(5), -EINVAL);
		EXPECT_EQ(ukmem_profile_dump(STDERR_FILENO), -ENOENT);
	});
}

/* It has no samples, but is a profile. */
TEST(ProfileDump, OfPassthroughHasAnInterval)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		char text[4096] = "";
		FILE *file = tmpfile();

		config_init();
		config.passthrough = true;
		EXPECT_EQ(ukmem_profile_start(interval), 0);
		EXPECT_EQ(ukmem_profile_dump(fileno(file)), 0);
		EXPECT_GT(pread(fileno(file), text, sizeof(text) - 1, 0), 0);
		EXPECT_NE(std::string(text).find("heap_v2/" + std::to_string(interval) + "\n"),
			  std::string::npos)
			<< text;
	});
}

TEST_F(Profile, RefusesAnotherInterval)
{
	EXPECT_EQ(ukmem_profile_start(2 * interval), -EINVAL);
	EXPECT_EQ(ukmem_profile_start(interval), 0);
	EXPECT_EQ(ukmem_profile_start(0), 0);
}
} // namespace
