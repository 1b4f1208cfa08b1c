/* SPDX-License-Identifier: MIT */
/* CPUs have slabs of their own where they can: partial slabs by shard (slab/slab_node.c), and
 * the shared queue for objects that one CPU allocates and another one frees. A thread that has
 * a shard's lock, and does not go on, stops nobody. */
#include <algorithm>
#include <random>
#include <set>

#include "shard_holder.h"
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

	/* Allocates the objects of 2 x @slabs, and frees half of each half on a CPU of its own.
	 */
	void make_partial(struct kmem_cache *s, size_t slabs)
	{
		ASSERT_EQ(kmem_cache_attr_store(s, "cpu_partial", "0"), 0);
		move_to(0);
		for (auto &objects : objects_)
			objects = take_objects(s, slabs * geometry_of(s).objects);
		ASSERT_TRUE(shim_slab_drain(s)); /* what the array has ready is of either's */
		for (unsigned i = 0; i < 2; i++)
			free_half(s, i, objects_[i]);
	}
	void free_rest(struct kmem_cache *s, unsigned i)
	{
		for (size_t k = 1; k < objects_[i].size(); k += 2)
			kmem_cache_free(s, objects_[i][k]);
	}

	/* Frees the other half, too. */
	void finish(struct kmem_cache *s)
	{
		free_rest(s, 0);
		free_rest(s, 1);
		expect_nothing_left(s);
	}

	std::vector<void *> objects_[2];
};

/* The shards on whose lists slabs are. */
std::vector<unsigned> used_shards(struct kmem_cache *s)
{
	std::vector<unsigned> used;

	for (unsigned k = 0; k < shim_nr_shards(s, 0); k++)
		if (shim_shard_partial(s, 0, k))
			used.push_back(k);
	return used;
}

/* Allocates while all lists are taken, for 20 ms: that makes no slab, so it waits. */
void *alloc_waiting(struct kmem_cache *s)
{
	const uint64_t slabs = slab_counts_of(s).slabs;
	Holder holder(s, used_shards(s));
	std::thread later([&] {
		usleep(20000);
		holder.let_go();
	});
	void *p = kmem_cache_alloc(s, GFP_KERNEL);

	EXPECT_NE(p, nullptr);
	EXPECT_EQ(slab_counts_of(s).slabs, slabs);
	later.join();
	return p;
}

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

/* The same where each of the two CPUs has a shard with slabs, and no empty slab stays. */
class SlabTwoShardsTest : public SlabShardTest
{
      protected:
	void make_shards(struct kmem_cache *s, size_t slabs)
	{
		ASSERT_EQ(kmem_cache_attr_store(s, "min_partial", "0"), 0);
		make_partial(s, slabs);
		const auto used = used_shards(s);

		ASSERT_EQ(used.size(), 2u);
		shards_[0] = shim_slab_shard(objects_[0][1]);
		shards_[1] = used[0] == shards_[0] ? used[1] : used[0];
	}

	unsigned shards_[2] = {}; /* by CPU */
};

constexpr size_t kSlabs = 40; /* half of them free: far more than a node needs */
constexpr size_t kFewSlabs = 8;

/* Two CPUs have partial slabs. Each gets objects of its own; when it has no more, those of the
 * other one, before a new slab is made. */
TEST_F(SlabShardTest, ACpuTakesItsOwnSlabsFirst)
{
	Cache s("shards", 256);
	const size_t n = kSlabs * geometry_of(s).objects;

	make_partial(s, kSlabs);
	const uint64_t slabs = slab_counts_of(s).slabs;
	std::vector<void *> got[2];
	for (unsigned i = 0; i < 2; i++) {
		move_to(i);
		got[i] = take_objects(s, n / 4);
		EXPECT_GE(count_in(slabs_of(objects_[i]), got[i]),
			  n / 4 - geometry_of(s).objects)
			<< i;
	}
	auto rest = take_objects(s, n / 3);
	EXPECT_GT(count_in(slabs_of(objects_[0]), rest), 0u);
	EXPECT_EQ(slab_counts_of(s).slabs, slabs) << "made although others had some";
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	free_objects(s, rest);
	for (unsigned i = 0; i < 2; i++)
		free_objects(s, got[i]);
	finish(s);
}

/* Whichever of two shards a thread has that stands still, a request takes from the other one,
 * and makes no slab: not even for what would fill its array. */
TEST_F(SlabShardTest, ARequestPassesByATakenShard)
{
	Cache s("passes", 256);

	make_partial(s, kSlabs);
	const uint64_t slabs = slab_counts_of(s).slabs;
	const auto used = used_shards(s);
	ASSERT_EQ(used.size(), 2u);
	std::vector<void *> got;
	for (unsigned k : used) {
		const size_t before = shim_shard_partial(s, 0, k);
		Holder holder(s, { k });

		for (unsigned i = 0; i < 100; i++)
			got.push_back(kmem_cache_alloc(s, GFP_KERNEL));
		EXPECT_EQ(shim_shard_partial(s, 0, k), before);
		EXPECT_EQ(slab_counts_of(s).slabs, slabs);
		ASSERT_TRUE(shim_slab_drain(s));
	}
	EXPECT_EQ(count_in(slabs_of(objects_[0]), got) + count_in(slabs_of(objects_[1]), got),
		  got.size());
	free_objects(s, got);
	finish(s);
}

/* Where all are taken it makes one slab, for what it needs, and waits for nobody. */
TEST_F(SlabShardTest, MakesASlabRatherThanWait)
{
	Cache s("makes", 256);

	make_partial(s, kFewSlabs);
	const uint64_t slabs = slab_counts_of(s).slabs;
	void *p;
	{
		Holder holder(s, used_shards(s));

		p = kmem_cache_alloc(s, GFP_KERNEL);
		EXPECT_EQ(slab_counts_of(s).slabs, slabs + 1);
		EXPECT_EQ(slab_counts_of(s).cached, 0u) << "there is no hurry for these";
	}
	kmem_cache_free(s, p);
	finish(s);
}

/* Where many objects are free it waits: if each request that finds the shards taken made a
 * slab, the cache would grow without end. */
TEST_F(SlabShardTest, WaitsRatherThanGrow)
{
	Cache s("ample", 256);

	make_partial(s, kSlabs);
	const uint64_t slabs = slab_counts_of(s).slabs;
	void *p = alloc_waiting(s), *q;
	/* A request that may not wait gets a new slab all the same. */
	ASSERT_TRUE(shim_slab_drain(s));
	{
		Holder holder(s, used_shards(s));

		q = kmem_cache_alloc(s, GFP_NOWAIT);
		EXPECT_EQ(slab_counts_of(s).slabs, slabs + 1);
	}
	kmem_cache_free(s, p);
	kmem_cache_free(s, q);
	finish(s);
}

/* Where no slab may be made, it waits, and leaves the stock to those that cannot. */
TEST_F(SlabShardTest, WaitsForATakenShardAtTheLimit)
{
	Cache s("waits", 256);

	make_partial(s, kFewSlabs);
	ASSERT_EQ(kmem_cache_set_stock(s, 1), 0);
	const uint64_t slabs = slab_counts_of(s).slabs;
	ASSERT_EQ(kmem_cache_set_limit(s, slabs * geometry_of(s).objects, 60), 0);
	void *p = alloc_waiting(s);
	EXPECT_GT(kmem_cache_stock(s), 0u) << "taken for want of a lock";
	kmem_cache_free(s, p);
	ASSERT_EQ(kmem_cache_set_stock(s, 0), 0);
	finish(s);
}

/* The shard that it waited for has nothing any more: it goes on to the other one. */
TEST_F(SlabTwoShardsTest, WaitsForOneShardAfterTheOther)
{
	Cache s("other", 256);

	make_shards(s, kFewSlabs);
	Holder first(s, { shards_[0] }), second(s, { shards_[1] });

	move_to(0);
	free_rest(s, 0); /* its slabs are empty, and go when the lock is free */
	ASSERT_TRUE(shim_slab_drain(s));
	std::thread later([&] {
		usleep(20000);
		first.let_go();
		usleep(20000);
		second.let_go();
	});
	void *p = nullptr;
	EXPECT_EQ(shim_node_take(s, 0, &p), 1u);
	later.join();
	kmem_cache_free(s, p);
	free_rest(s, 1);
	expect_nothing_left(s);
}

/* An empty slab leaves as long as nobody has the lock of its own shard; else later. */
TEST_F(SlabTwoShardsTest, EmptySlabsLeaveWhereNobodyHasTheirShard)
{
	Cache s("leaves", 256);

	make_shards(s, kSlabs);
	const size_t own = shim_shard_partial(s, 0, shards_[0]);
	{
		Holder holder(s, { shards_[1] });

		free_rest(s, 0);
		ASSERT_TRUE(shim_slab_drain(s));
		EXPECT_LE(shim_shard_partial(s, 0, shards_[0]), own / 10);
		const size_t others = shim_shard_partial(s, 0, shards_[1]);
		free_rest(s, 1);
		ASSERT_TRUE(shim_slab_drain(s));
		EXPECT_EQ(shim_shard_partial(s, 0, shards_[1]), others);
		EXPECT_GE(others, kSlabs / 2);
	}
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	ASSERT_TRUE(shim_slab_drain(s));
	EXPECT_EQ(slab_counts_of(s).slabs, 0u);
	expect_nothing_left(s);
}

/* Empty slabs that were left while their shard was taken also go if no thread uses the shard
 * any more, and those that do have all they need in their own one. */
TEST_F(SlabTwoShardsTest, EmptySlabsOfAnUnusedShardLeave)
{
	Cache s("unused", 256);

	make_shards(s, kSlabs);
	move_to(1);
	{
		Holder holder(s, { shards_[1] });

		free_rest(s, 1);
		ASSERT_TRUE(shim_slab_drain(s));
	}
	ASSERT_GE(shim_shard_partial(s, 0, shards_[1]), kSlabs / 2);
	move_to(0);
	void *p = kmem_cache_alloc(s, GFP_KERNEL);
	EXPECT_EQ(shim_shard_partial(s, 0, shards_[1]), 0u);
	kmem_cache_free(s, p);
	free_rest(s, 0);
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
