/* SPDX-License-Identifier: MIT */
/* The look at one allocation of many (slab/slab_sample.c), while nobody looks: it is no miss.
 */
#include <sched.h>

#include <functional>
#include <random>

#include "slab_attr_util.h"
#include "slab_util.h"

namespace
{

/* More than three countdowns. */
constexpr unsigned kMany = 100000;

struct Sums {
	uint64_t allocs, slow, refills;
};

Sums sums_of(struct kmem_cache *s)
{
	struct shim_counts c;

	shim_slab_count(s, &c);
	return { c.allocs, c.allocs - c.allocs_fast, c.refills };
}

class SlabSampleTest : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		if (rseq_is_off())
			GTEST_SKIP() << "slots of other CPUs serve requests, too";
		sched_getaffinity(0, sizeof(saved_), &saved_);
		run_on(allowed_cpus().back());
	}
	void TearDown() override
	{
		sched_setaffinity(0, sizeof(saved_), &saved_);
	}

	cpu_set_t saved_;
};

/*
 * @use allocates at least kMany objects of an array that has enough, and frees them. An
 * interrupt may abort a section, which then takes the slow path for a reason of its own: not
 * each time.
 */
void expect_no_misses(struct kmem_cache *s, const std::function<uint64_t()> &use)
{
	for (int tries = 0;; tries++) {
		Sums before = sums_of(s);
		uint64_t made = use();
		Sums after = sums_of(s);

		ASSERT_EQ(after.allocs - before.allocs, made);
		if (after.slow == before.slow && after.refills == before.refills)
			return;
		ASSERT_LT(tries, 10) << "an expired countdown counted as a miss";
	}
}

TEST_F(SlabSampleTest, OneByOne)
{
	Cache s("one", 64);
	void *first = kmem_cache_alloc(s, GFP_KERNEL);

	kmem_cache_free(s, first);
	expect_no_misses(s, [&] {
		for (unsigned i = 0; i < kMany; i++) {
			void *p = kmem_cache_alloc(s, GFP_KERNEL);

			EXPECT_EQ(p, first) << "allocation " << i;
			kmem_cache_free(s, p);
		}
		return kMany;
	});
}

TEST_F(SlabSampleTest, InBulk)
{
	Cache s("bulk", 64);
	std::vector<void *> p(32);
	std::mt19937 random(1);

	auto warm = take_objects(s, 64);
	free_objects(s, warm);
	expect_no_misses(s, [&] {
		uint64_t made = 0;

		while (made < kMany) {
			unsigned n = 1 + random() % 32;

			EXPECT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, n, p.data()),
				  static_cast<int>(n));
			kmem_cache_free_bulk(s, n, p.data());
			made += n;
		}
		return made;
	});
}

/* Whatever happens, the sum is exact. */
TEST(SlabSampleSums, AreExactUnderThreads)
{
	Cache s("threads", 64);
	constexpr unsigned kThreads = 3;

	{
		Threads threads(kThreads, [&](unsigned) {
			void *p[24];

			for (unsigned i = 0; i < kMany / 24 * 3; i++) {
				ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, 24, p), 24);
				kmem_cache_free_bulk(s, 24, p);
			}
		});
		MigrationStorm storm(threads);

		std::this_thread::sleep_for(std::chrono::milliseconds(300));
	}
	EXPECT_EQ(sums_of(s).allocs, uint64_t{ kThreads } * (kMany / 24 * 3) * 24);
	EXPECT_EQ(shim_slab_wrong(s), nullptr);
}

} // namespace
