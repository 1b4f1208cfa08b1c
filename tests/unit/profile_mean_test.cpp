// SPDX-License-Identifier: MIT
// The heap profile while its mean changes, and what changes it: the time that samples take.
#include <ukmem/kmalloc.h>
#include <ukmem/slab.h>

#include <random>

#include "profile_sites.h"
#include "profile_util.h"
#include "slab_shim.h"
#include "test_util.h"

extern "C" {
#include "base/config.h"
#include "os/os.h"
}

namespace
{
// At least the variance of the bytes of @n allocations, sampled with the mean of a level.
double variance_at(unsigned int level, double n, double size)
{
	return n * size * size / (1 - std::exp(-size / (double)(interval << level)));
}

// The mean is 16 times as long whenever one of two sites allocates. A countdown that was drawn
// for the other mean is under way each time.
TEST_F(Profile, MeanChangesBetweenSites)
{
	OneCpu stay;
	at_site rare = { (uintptr_t)seldom, (uintptr_t)seldom + site_bytes };
	at_site many = { (uintptr_t)often, (uintptr_t)often + site_bytes };
	counts rare_before = estimate(sites(), rare), many_before = estimate(sites(), many);
	const int rounds = 600, each = 1000;

	for (int round = 0; round < rounds; round++) {
		shim_profile_set_level(0);
		for (int i = 0; i < each; i++)
			kfree(often());
		shim_profile_set_level(4);
		for (int i = 0; i < each; i++)
			kfree(seldom());
	}
	shim_profile_set_level(0);
	counts a = difference(estimate(sites(), rare), rare_before);
	counts b = difference(estimate(sites(), many), many_before);
	expect_near(a.alloc_bytes, 256.0 * rounds * each, variance_at(4, rounds * each, 256));
	expect_near(b.alloc_bytes, 256.0 * rounds * each, variance_at(4, rounds * each, 256));
	EXPECT_LT(std::abs(a.live_bytes) + std::abs(b.live_bytes), 1);
}

// Sizes for which a sample of a longer mean stands for a broken number of samples; large
// blocks; requests for many at once; young caches, whose arrays are empty.
TEST_F(Profile, MeanWanders)
{
	const unsigned int highest = 5;
	std::minstd_rand random(1);

	for (size_t size : { 64, 1024, 8192, 14336, 40000, 300000 }) {
		const int n = (int)(64 * 1024 * 1024 / size), batch = 8;
		struct kmem_cache *s =
			size < 16384 ? kmem_cache_create("wanders", size, 0, 0, nullptr)
				     : nullptr;
		counts was = estimate(sites(), any);
		double exact = 0, each = 0;

		for (int i = 0; i < n; i += batch) {
			void *p[batch];

			if (random() % 8 == 0)
				shim_profile_set_level(random() % (highest + 1));
			if (s && random() % 2)
				ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, batch, p),
					  batch);
			else
				for (void *&q : p)
					q = s ? kmem_cache_alloc(s, GFP_KERNEL)
					      : kmalloc(size, GFP_KERNEL);
			for (void *q : p) {
				each = s ? (double)size : (double)ksize(q);
				exact += each;
				if (s)
					kmem_cache_free(s, q);
				else
					kfree(q);
			}
			if (s && random() % 64 == 0)
				kmem_cache_shrink(s);
		}
		counts is = difference(estimate(sites(), any), was);
		SCOPED_TRACE(size);
		expect_near(is.alloc_bytes, exact, variance_at(highest, n, each));
		EXPECT_LT(std::abs(is.live_bytes), 1);
		kmem_cache_destroy(s);
	}
	shim_profile_set_level(0);
}

// A program whose every allocation takes so long, and every look at the clock: a sample.
double test_us, look_us;

uint64_t test_clock()
{
	test_us += look_us;
	return (uint64_t)test_us;
}

// The part of the time that samples took.
double time_in_samples(int n, double us_each)
{
	const double begin = test_us;

	for (int i = 0; i < n; i++) {
		void *volatile p = kmalloc(8192, GFP_KERNEL);
		kfree(p);
		test_us += us_each;
	}
	return 1 - n * us_each / (test_us - begin);
}

TEST(ProfileCost, StaysBelowItsShare)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		OneCpu stay;

		interval = 65536;
		look_us = 3;
		os_calls.now_us = test_clock;
		os_calls.cpu_us = [] { return (uint64_t)test_us; };
		ASSERT_EQ(ukmem_profile_start(interval), 0);
		EXPECT_GT(time_in_samples(200000, 1), 0.2) << "without a bound";
		EXPECT_EQ(shim_profile_level(), 0u);

		config.profile_cpu = 1;
		time_in_samples(100000, 1);
		EXPECT_GE(shim_profile_level(), 4u);
		EXPECT_LT(shim_profile_level(), 12u);

		counts before = estimate(sites(), any);
		const int n = 700000;
		const double part = time_in_samples(n, 1);
		counts is = difference(estimate(sites(), any), before);

		EXPECT_LT(part, 0.01);
		EXPECT_GT(part, 0.001);
		expect_near(is.alloc_bytes, 8192.0 * n,
			    variance_at(shim_profile_level() + 1, n, 8192));
		// It allocates less, so the mean may be that of before.
		time_in_samples(30000, 1000);
		EXPECT_EQ(shim_profile_level(), 0u);
	});
}
} // namespace
