/* SPDX-License-Identifier: MIT */
/* What tests of caches' attributes share. */
#ifndef UNIT_SLAB_ATTR_UTIL_H
#define UNIT_SLAB_ATTR_UTIL_H

#include <algorithm>
#include <cstring>
#include <map>

#include "slab_guard.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

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
