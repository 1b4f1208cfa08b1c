/* SPDX-License-Identifier: MIT */
/* CPUs have slabs of their own where they can: partial slabs by shard (slab/slab_node.c), and
 * the shared queue for objects that one CPU allocates and another one frees. */
#include <algorithm>
#include <random>
#include <set>

#include "slab_attr_util.h"
#include "two_cpus.h"

namespace
{

class SlabShardTest : public TwoCpus
{
      protected:
	void SetUp() override
	{
		configure_slabs("percpu:cpu_id"); /* else the thread takes its index along */
		TwoCpus::SetUp();
	}

	/* Frees every other object, so that slabs become partial ones of CPU @i. */
	void free_half(struct kmem_cache *s, unsigned i, const std::vector<void *> &all)
	{
		move_to(i);
		for (size_t k = 0; k < all.size(); k += 2)
			kmem_cache_free(s, all[k]);
		ASSERT_TRUE(shim_slab_drain(s));
	}
};

std::set<void *> slabs_of(const std::vector<void *> &objects)
{
	std::set<void *> slabs;

	for (void *p : objects)
		slabs.insert(shim_slab_base(p));
	return slabs;
}

/* How many of @objects are in @slabs. */
size_t count_in(const std::set<void *> &slabs, const std::vector<void *> &objects)
{
	return static_cast<size_t>(std::count_if(objects.begin(), objects.end(), [&](void *p) {
		return slabs.count(shim_slab_base(p));
	}));
}

constexpr size_t kSlabs = 40;

/* Two CPUs have partial slabs. Each gets objects of its own; when it has no more, those of the
 * other one, before a new slab is made. */
TEST_F(SlabShardTest, ACpuTakesItsOwnSlabsFirst)
{
	Cache s("shards", 256);

	ASSERT_EQ(kmem_cache_attr_store(s, "cpu_partial", "0"), 0);
	move_to(0);
	const size_t n = kSlabs * geometry_of(s).objects;
	std::vector<void *> half[2] = { take_objects(s, n), take_objects(s, n) };
	std::set<void *> own[2];

	ASSERT_TRUE(shim_slab_drain(s)); /* what the array has ready is of either's slabs */
	for (unsigned i = 0; i < 2; i++) {
		own[i] = slabs_of(half[i]);
		free_half(s, i, half[i]);
	}
	const uint64_t slabs = slab_counts_of(s).slabs;
	std::vector<void *> got[2];
	for (unsigned i = 0; i < 2; i++) {
		move_to(i);
		got[i] = take_objects(s, n / 4);
		EXPECT_GE(count_in(own[i], got[i]), n / 4 - geometry_of(s).objects) << i;
	}
	auto rest = take_objects(s, n / 3);
	EXPECT_GT(count_in(own[0], rest), 0u);
	EXPECT_EQ(slab_counts_of(s).slabs, slabs) << "made although others had some";
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	free_objects(s, rest);
	for (unsigned i = 0; i < 2; i++) {
		free_objects(s, got[i]);
		for (size_t k = 1; k < half[i].size(); k += 2)
			kmem_cache_free(s, half[i][k]);
	}
	expect_nothing_left(s);
}

/* A CPU that frees as much as it allocates leaves nothing to others. */
TEST_F(SlabShardTest, ObjectsInFlowBothWaysGoToTheirSlabs)
{
	Cache s("both", 2048);
	const size_t batch = 2 * geometry_of(s).capacity_max;
	std::mt19937 random(3);

	move_to(0);
	auto live = take_objects(s, 5000);
	for (unsigned i = 0; i < 2000; i++) {
		std::shuffle(live.begin(), live.end(), random);
		std::vector<void *> some(live.end() - 1 - random() % batch, live.end());
		live.resize(live.size() - some.size());
		free_objects(s, some);
		while (live.size() < 5000)
			live.push_back(kmem_cache_alloc(s, GFP_KERNEL));
	}
	EXPECT_GT(slab_counts_of(s).flushes, 100u) << "the test tests nothing";
	EXPECT_LE(number(s, "barn_put") * 20, slab_counts_of(s).flushes);
	free_objects(s, live);
	expect_nothing_left(s);
}

/* One that only frees does so for others. */
TEST_F(SlabShardTest, ObjectsInFlowOneWayGoToTheQueue)
{
	Cache s("one way", 256);

	for (int round = 0; round < 3; round++) {
		move_to(0);
		auto live = take_objects(s, 5000);
		move_to(1);
		free_objects(s, live);
	}
	EXPECT_GT(number(s, "barn_put"), 0u);
	expect_nothing_left(s);
}

} // namespace
