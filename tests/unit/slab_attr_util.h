/* SPDX-License-Identifier: MIT */
/* What tests of caches' attributes share. */
#ifndef UNIT_SLAB_ATTR_UTIL_H
#define UNIT_SLAB_ATTR_UTIL_H

#include <algorithm>
#include <cstring>
#include <map>

#include "slab_shim.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

inline shim_counts counts(struct kmem_cache *s)
{
	shim_counts c;

	shim_slab_count(s, &c);
	return c;
}

class Cache
{
      public:
	Cache(const char *name, unsigned size, slab_flags_t flags = 0,
	      void (*ctor)(void *) = nullptr)
	    : s_(kmem_cache_create(name, size, 0, flags, ctor))
	{
	}
	~Cache()
	{
		EXPECT_STREQ(shim_slab_wrong(s_), nullptr);
		kmem_cache_destroy(s_);
	}
	operator struct kmem_cache *() const
	{
		return s_;
	}

      private:
	struct kmem_cache *s_;
};

inline std::string show(struct kmem_cache *s, const std::string &attr)
{
	char buf[4096];
	ssize_t n = kmem_cache_attr_show(s, attr.c_str(), buf, sizeof(buf));

	EXPECT_GE(n, 0) << attr;
	EXPECT_EQ(n < 0 ? 0 : strlen(buf), static_cast<size_t>(n < 0 ? 0 : n)) << attr;
	return n < 0 ? "" : buf;
}

/* The number it begins with. */
inline unsigned long number(struct kmem_cache *s, const std::string &attr)
{
	return strtoul(show(s, attr).c_str(), nullptr, 10);
}

/* Some in use, some in arrays, some partial slabs. */
inline std::vector<void *> busy(struct kmem_cache *s)
{
	std::vector<void *> live;

	for (int i = 0; i < 3000; i++)
		live.push_back(kmem_cache_alloc(s, GFP_KERNEL));
	std::shuffle(live.begin(), live.end(), std::mt19937(7));
	for (int i = 0; i < 2000; i++) {
		kmem_cache_free(s, live.back());
		live.pop_back();
	}
	return live;
}

inline void free_all(struct kmem_cache *s, const std::vector<void *> &live)
{
	for (void *p : live)
		kmem_cache_free(s, p);
}

#endif
