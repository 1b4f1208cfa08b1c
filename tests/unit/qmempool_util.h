/* SPDX-License-Identifier: MIT */
/* What the tests of qmempools share. */
#ifndef UNIT_QMEMPOOL_UTIL_H
#define UNIT_QMEMPOOL_UTIL_H

#include "slab_util.h"

inline struct qmempool_stats stats_of(const struct qmempool *pool)
{
	struct qmempool_stats s;

	qmempool_stats_read(pool, &s);
	return s;
}

/* A pool with its cache, used on one CPU. At the end nothing of it is left. */
class Pool
{
      public:
	explicit Pool(uint32_t local = 64, uint32_t shared = 128, uint32_t prealloc = 0,
		      unsigned size = 256)
	{
		sched_getaffinity(0, sizeof(before_), &before_);
		run_on(allowed_cpus()[0]);
		cache = kmem_cache_create("pooled", size, 0, 0, nullptr);
		pool = qmempool_create(local, shared, prealloc, cache, GFP_KERNEL);
		EXPECT_NE(pool, nullptr);
	}
	~Pool()
	{
		EXPECT_EQ(stats().outstanding, 0);
		EXPECT_EQ(stats().allocs, stats().frees);
		qmempool_destroy(pool);
		expect_nothing_left(cache);
		kmem_cache_destroy(cache);
		sched_setaffinity(0, sizeof(before_), &before_);
	}
	struct qmempool_stats stats() const
	{
		return stats_of(pool);
	}
	/* What the cache says is what the pool says. */
	void check(size_t outstanding)
	{
		auto s = stats();

		EXPECT_EQ(s.outstanding, static_cast<int64_t>(outstanding));
		EXPECT_EQ(kmem_cache_nr_allocated(cache), s.local + s.shared + outstanding);
	}
	std::vector<void *> take(size_t n, gfp_t gfp = GFP_KERNEL)
	{
		std::vector<void *> p;

		for (size_t i = 0; i < n; i++) {
			void *elem = qmempool_alloc(pool, gfp);

			if (!elem)
				break;
			p.push_back(elem);
		}
		expect_distinct(p);
		return p;
	}
	void give(std::vector<void *> &p)
	{
		for (void *elem : p)
			qmempool_free(pool, elem);
		p.clear();
	}
	static void expect_distinct(const std::vector<void *> &p)
	{
		EXPECT_EQ(std::set<void *>(p.begin(), p.end()).size(), p.size());
	}

	struct kmem_cache *cache;
	struct qmempool *pool;

      private:
	cpu_set_t before_;
};

#endif
