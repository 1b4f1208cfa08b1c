/* SPDX-License-Identifier: MIT */
/* What the tests of caches share. */
#ifndef UNIT_SLAB_UTIL_H
#define UNIT_SLAB_UTIL_H

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "slab_shim.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

inline shim_counts slab_counts_of(struct kmem_cache *s)
{
	shim_counts c;

	shim_slab_count(s, &c);
	return c;
}

inline shim_geometry geometry_of(struct kmem_cache *s)
{
	shim_geometry g;

	shim_slab_geometry(s, &g);
	return g;
}

/* Nothing of the cache is in use, and it keeps nothing once it is shrunk. */
inline void expect_nothing_left(struct kmem_cache *s)
{
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	EXPECT_EQ(slab_counts_of(s).inuse, 0u);
	EXPECT_EQ(slab_counts_of(s).allocs, slab_counts_of(s).frees);
	EXPECT_EQ(kmem_cache_shrink(s), 0);
	EXPECT_EQ(slab_counts_of(s).slabs, 0u);
	EXPECT_EQ(shim_slab_deferred(s), 0u);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
}

inline void configure_slabs(const char *conf)
{
	setenv("UKMEM_CONF", conf, 1);
}

/* @n objects, all or it is a failure. */
inline std::vector<void *> take_objects(struct kmem_cache *s, size_t n)
{
	std::vector<void *> p(n);

	for (auto &q : p) {
		q = kmem_cache_alloc(s, GFP_KERNEL);
		EXPECT_NE(q, nullptr);
	}
	return p;
}

inline void free_objects(struct kmem_cache *s, std::vector<void *> &p)
{
	for (void *q : p)
		kmem_cache_free(s, q);
	p.clear();
}

#endif
