/* SPDX-License-Identifier: MIT */
/* A size class, on one CPU and under a clock that stands still, for tests of how its slabs are
 * cut. */
#ifndef UNIT_SLAB_CLASS_H
#define UNIT_SLAB_CLASS_H

#include <vector>

#include "fake_clock.h"
#include "page_util.h"
#include "slab_util.h"

/* For a fresh process: its class of @size bytes, and the objects it has of it. */
struct SizeClass {
	const size_t size;
	std::vector<void *> p;
	struct kmem_cache *s;
	const OneCpu one; /* whose arrays hold what is freed, and are what grows */

	explicit SizeClass(size_t bytes) : size(bytes)
	{
		os_calls.now_ms = fake_now_ms;
		kfree(kmalloc(1, GFP_KERNEL));
		s = shim_class_cache(size);
	}
	~SizeClass()
	{
		free_all();
		kmem_cache_shrink(s);
		EXPECT_EQ(counts().slabs, 0u);
	}
	void allocate(size_t n)
	{
		while (n--)
			p.push_back(kmalloc(size, GFP_KERNEL));
	}
	/* Allocates until @n slabs more have been made. */
	void make(size_t n)
	{
		for (const size_t until = counts().slabs + n; counts().slabs < until;)
			allocate(1);
	}
	void free_all()
	{
		for (void *q : p)
			kfree(q);
		p.clear();
		EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	}
	/* Slabs of @other objects; the rest have @usual. They follow from the number of all
	 * objects. */
	size_t slabs_of(long other, long usual) const
	{
		const shim_counts c = counts();

		EXPECT_STREQ(shim_slab_wrong(s), nullptr);
		return static_cast<size_t>(
			(static_cast<long>(c.objects) - usual * static_cast<long>(c.slabs)) /
			(other - usual));
	}
	shim_counts counts() const
	{
		return slab_counts_of(s);
	}
};

#endif
