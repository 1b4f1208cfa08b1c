/* SPDX-License-Identifier: MIT */
/* A cache for one test, which must be empty and whole at the test's end. */
#ifndef UNIT_SLAB_GUARD_H
#define UNIT_SLAB_GUARD_H

#include "slab_util.h"

class Cache
{
      public:
	Cache(const char *name, unsigned size, unsigned align = 0, slab_flags_t flags = 0,
	      void (*ctor)(void *) = nullptr)
	    : s_(kmem_cache_create(name, size, align, flags, ctor))
	{
	}
	~Cache()
	{
		if (!s_)
			return;
		EXPECT_STREQ(shim_slab_wrong(s_), nullptr);
		EXPECT_EQ(slab_counts_of(s_).inuse, 0u);
		kmem_cache_destroy(s_);
	}
	operator struct kmem_cache *() const
	{
		return s_;
	}

      private:
	struct kmem_cache *s_;
};

#endif
