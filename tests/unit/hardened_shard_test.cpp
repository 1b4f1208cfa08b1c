/* SPDX-License-Identifier: MIT */
/* The partial slabs of a hardened process: requests choose among all shards, and a thread that
 * has a shard's lock and does not go on stops nobody. */
#include <algorithm>
#include <cstdlib>
#include <set>

#include "shard_holder.h"
#include "slab_shim.h"
#include "two_cpus.h"
#include "ukmem/ukmem.h"

namespace
{

/* Before the library is initialised. */
const bool hardened =
	!setenv("UKMEM_CONF", "hardened:1,percpu:cpu_id,kfence_sample_interval:0", 1);

constexpr size_t kSize = 200, kMany = 20000;

class HardenedShardTest : public TwoCpus
{
      protected:
	/* Leaves slabs of which half is free; each CPU lists half of them. */
	void SetUp() override
	{
		TwoCpus::SetUp();
		if (IsSkipped())
			return;
		std::vector<void *> objects(kMany);

		for (void *&p : objects)
			p = kmalloc(kSize, GFP_KERNEL);
		class_ = shim_slab_cache_of(objects.front());
		std::sort(objects.begin(), objects.end()); /* slab by slab */
		for (size_t k = 0; k < kMany; k++) {
			if (k % (kMany / 2) == 0)
				move_to(k > 0);
			if (k % 2)
				all_.push_back(objects[k]);
			else
				kfree(objects[k]);
			if (k + 1 == kMany / 2)
				ukmem_trim();
		}
		ukmem_trim();
	}
	void TearDown() override
	{
		for (void *p : all_)
			kfree(p);
		TwoCpus::TearDown();
	}

	/* The shards of which a CPU got objects, to begin with. */
	std::set<unsigned> shards_taken_from()
	{
		std::vector<size_t> before;
		std::set<unsigned> taken;

		for (unsigned k = 0; k < shim_nr_shards(class_, 0); k++)
			before.push_back(shim_shard_partial(class_, 0, k));
		for (unsigned n = 0; n < 1000; n++)
			all_.push_back(kmalloc(kSize, GFP_KERNEL));
		for (unsigned k = 0; k < before.size(); k++)
			if (shim_shard_partial(class_, 0, k) < before[k])
				taken.insert(k);
		return taken;
	}

	std::vector<void *> all_;
	struct kmem_cache *class_ = nullptr;
};

TEST_F(HardenedShardTest, BothCpusListSlabs)
{
	unsigned used = 0;

	for (unsigned k = 0; k < shim_nr_shards(class_, 0); k++)
		used += shim_shard_partial(class_, 0, k) > kMany / 1000;
	EXPECT_EQ(used, 2u);
}

TEST_F(HardenedShardTest, OneCpuTakesFromBoth)
{
	EXPECT_EQ(shards_taken_from().size(), 2u);
}

TEST_F(HardenedShardTest, ATakenShardStopsNobody)
{
	for (unsigned k = 0; k < shim_nr_shards(class_, 0); k++) {
		const Holder holder(class_, { k });

		EXPECT_EQ(shards_taken_from().count(k), 0u);
	}
}

} // namespace
