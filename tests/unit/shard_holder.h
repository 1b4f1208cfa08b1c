/* SPDX-License-Identifier: MIT */
#ifndef UNIT_SHARD_HOLDER_H
#define UNIT_SHARD_HOLDER_H

#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "slab_shim.h"

/* A thread that has the locks of some shards, and stands still. */
class Holder
{
      public:
	Holder(struct kmem_cache *s, std::vector<unsigned> shards)
	    : thread_([this, s, shards] {
		      for (unsigned k : shards)
			      EXPECT_TRUE(shim_shard_trylock(s, 0, k));
		      stage_ = 1;
		      while (stage_ != 2)
			      usleep(100);
		      for (unsigned k : shards)
			      shim_shard_unlock(s, 0, k);
	      })
	{
		while (stage_ != 1)
			usleep(100);
	}
	~Holder()
	{
		let_go();
		thread_.join();
	}
	void let_go()
	{
		stage_ = 2;
	}

      private:
	std::atomic<int> stage_{ 0 };
	std::thread thread_;
};

#endif
