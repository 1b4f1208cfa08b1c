/* SPDX-License-Identifier: MIT */
/* The tests of mempools share an allocator, which fails when told to and counts, and a pool of
 * its elements. */
#ifndef UNIT_MEMPOOL_UTIL_H
#define UNIT_MEMPOOL_UTIL_H

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "ukmem/ukmem.h"

/* An element, and who has it: nothing may be handed out twice. */
struct Element {
	std::atomic<int> in_use;
	std::atomic<bool> freed;
};

/* Elements come from a table, so that it is signal-safe and every one is accounted for. */
struct Source {
	static constexpr unsigned kElements = 600000;
	std::vector<Element> elements = std::vector<Element>(kElements);
	std::atomic<unsigned> allocated{ 0 }, freed{ 0 };
	std::atomic<int> succeed_one_in{ 1 }; /* 0: never */
	std::atomic<unsigned> calls{ 0 };
	std::atomic<gfp_t> last_flags{ 0 };

	static void *alloc(gfp_t flags, void *data)
	{
		auto *s = static_cast<Source *>(data);
		int n = s->succeed_one_in;

		s->last_flags = flags;
		if (s->calls++ % (n ? n : 1) || !n || s->allocated >= kElements - 100)
			return nullptr;
		return &s->elements[s->allocated++];
	}
	static void free(void *element, void *data)
	{
		auto *s = static_cast<Source *>(data);

		EXPECT_FALSE(static_cast<Element *>(element)->freed.exchange(true));
		s->freed++;
	}
	unsigned outside() const
	{
		return allocated - freed;
	}
};

struct Pool {
	Source source;
	mempool_t pool;

	explicit Pool(int min_nr)
	{
		EXPECT_EQ(mempool_init(&pool, min_nr, Source::alloc, Source::free, &source), 0);
	}
	~Pool()
	{
		mempool_exit(&pool);
		EXPECT_EQ(source.outside(), 0u) << "elements lost, or freed twice";
	}
	void starve()
	{
		source.succeed_one_in = 0;
	}
	Element *get(gfp_t flags)
	{
		auto *e = static_cast<Element *>(mempool_alloc(&pool, flags));

		if (e) {
			EXPECT_EQ(e->in_use++, 0) << "handed out twice";
			EXPECT_FALSE(e->freed);
		}
		return e;
	}
	void put(Element *e)
	{
		e->in_use--;
		mempool_free(e, &pool);
	}
	/* Everything that is in the reserve; nobody else is at it. */
	unsigned count()
	{
		std::vector<Element *> got;

		starve();
		while (Element *e = get(GFP_NOWAIT))
			got.push_back(e);
		for (Element *e : got)
			put(e);
		return static_cast<unsigned>(got.size());
	}
};

#endif
