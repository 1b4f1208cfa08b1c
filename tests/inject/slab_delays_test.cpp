/* SPDX-License-Identifier: MIT */
/*
 * Threads that fill and empty slabs of the same caches, each held up between the steps of the
 * slabs' protocol (slab_delays.h). Pages go from cache to cache all the time.
 */
#include <algorithm>

#include "unit/slab_util.h"

namespace
{

constexpr unsigned kCaches = 4;
struct kmem_cache *caches[kCaches];

void mark(void *p, unsigned size)
{
	memset(p, static_cast<int>(reinterpret_cast<uintptr_t>(p) >> 5 & 0xff), size);
}

void expect_mark(const void *p, unsigned size)
{
	auto *c = static_cast<const unsigned char *>(p);

	for (unsigned i = 0; i < size; i++)
		ASSERT_EQ(c[i], reinterpret_cast<uintptr_t>(p) >> 5 & 0xff);
}

void fill_and_empty(unsigned me, unsigned size, unsigned rounds)
{
	std::mt19937 random(me);
	std::vector<void *> p;
	TimeBox box;

	for (unsigned round = 0; round < rounds && !box.is_over(); round++) {
		struct kmem_cache *s = caches[random() % kCaches];

		for (unsigned n = 1 + random() % 300; n; n--) {
			p.push_back(
				kmem_cache_alloc(s, random() % 4 ? GFP_KERNEL : GFP_NOWAIT));
			if (!p.back())
				p.pop_back();
			else
				mark(p.back(), size);
		}
		if (random() % 2)
			std::shuffle(p.begin(), p.end(), random);
		for (void *q : p)
			expect_mark(q, size);
		free_objects(s, p);
	}
}

void caches_of(unsigned size, const char *conf, bool typesafe)
{
	struct kmem_cache_args args = {};

	configure_slabs(conf);
	args.sheaf_capacity = 1;
	for (unsigned i = 0; i < kCaches; i++)
		caches[i] = kmem_cache_create("delays", size, &args,
					      typesafe && i == 0 ? SLAB_TYPESAFE_BY_RCU : 0);
	{
		Threads t(4, [&](unsigned me) { fill_and_empty(me, size, 400 / kSlow); });
	}
	for (unsigned i = 0; i < kCaches; i++) {
		if (!typesafe || i)
			expect_nothing_left(caches[i]);
		EXPECT_STREQ(shim_slab_wrong(caches[i]), nullptr);
		EXPECT_EQ(kmem_cache_nr_allocated(caches[i]), 0u);
		kmem_cache_destroy(caches[i]);
	}
}

TEST(SlabDelaysTest, SlabsOfEightObjects)
{
	EXPECT_FRESH_PROCESS_PASSES([] { caches_of(512, "slab_max_order:0", false); });
}

TEST(SlabDelaysTest, SlabsOfTwoObjects)
{
	EXPECT_FRESH_PROCESS_PASSES([] { caches_of(2048, "slab_max_order:0", false); });
}

TEST(SlabDelaysTest, SlabsOfManyWords)
{
	EXPECT_FRESH_PROCESS_PASSES([] { caches_of(16, "slab_max_order:0", true); });
}

TEST(SlabDelaysTest, OnThreeNodes)
{
	EXPECT_FRESH_PROCESS_PASSES(
		[] { caches_of(512, "slab_max_order:0,numa_fake:3", true); });
}

} // namespace
