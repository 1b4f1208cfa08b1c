/* SPDX-License-Identifier: MIT */
/* A cache as long as it is needed, and malloc in the place of one. */
#ifndef BENCH_SLAB_SOURCES_H
#define BENCH_SLAB_SOURCES_H

#include <cstddef>
#include <cstdlib>

#include <ukmem/slab.h>

#include "die.h"

struct cache {
	explicit cache(size_t size)
	    : s(kmem_cache_create("bench", static_cast<unsigned int>(size), 0u, SLAB_NO_MERGE,
				  nullptr))
	{
		if (!s)
			die("no cache");
	}
	~cache()
	{
		kmem_cache_destroy(s);
	}
	cache(const cache &) = delete;
	cache &operator=(const cache &) = delete;

	kmem_cache *s;
};

struct malloc_source {
	explicit malloc_source(size_t bytes) : size(bytes)
	{
	}
	void take(void **p, size_t n)
	{
		for (size_t i = 0; i < n; i++) {
			p[i] = malloc(size);
			if (!p[i])
				die("no memory");
		}
	}
	void give(void **p, size_t n)
	{
		for (size_t i = 0; i < n; i++)
			free(p[i]);
	}

	size_t size;
};

#endif
