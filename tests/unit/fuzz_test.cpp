/* SPDX-License-Identifier: MIT */
/*
 * A state machine over the whole library, one step a random call, beside a shadow
 * model of what is allocated. Every object is filled with bytes that follow from
 * its number and checked when it is touched again; overlaps, counts and the
 * invariants of caches and zones are checked as it goes.
 */
#include <algorithm>
#include <cstring>
#include <map>

#include "page_shim.h"
#include "slab_shim.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

namespace
{

enum Kind { KMALLOC, CACHE, PAGES };

struct Object {
	Kind kind;
	char *p;
	size_t size; /* bytes that carry the pattern */
	size_t room; /* bytes that are nobody else's */
	unsigned number;
	unsigned which; /* CACHE: its index; PAGES: the order */
};

constexpr unsigned kCaches = 6;

void construct(void *p)
{
	memset(p, 0x42, 88);
}

class Machine
{
      public:
	explicit Machine(uint64_t seed) : random_(seed)
	{
		static const struct {
			unsigned size, align;
			slab_flags_t flags;
			void (*ctor)(void *);
		} kinds[kCaches] = {
			{ 8, 0, 0, nullptr },	    { 88, 0, 0, construct },
			{ 200, 64, 0, nullptr },    { 1000, 0, SLAB_HWCACHE_ALIGN, nullptr },
			{ 4096, 4096, 0, nullptr }, { 12345, 0, 0, nullptr }
		};

		for (unsigned i = 0; i < kCaches; i++) {
			caches_[i] = kmem_cache_create("fuzz", kinds[i].size, kinds[i].align,
						       kinds[i].flags, kinds[i].ctor);
			ctor_[i] = kinds[i].ctor;
		}
	}

	void run(unsigned steps)
	{
		for (unsigned i = 0; i < steps && !::testing::Test::HasFailure(); i++) {
			step();
			if (i % 4096 == 0)
				check_invariants();
		}
		while (!live_.empty() && !::testing::Test::HasFailure())
			release(live_.size() - 1);
		if (::testing::Test::HasFailure())
			return;
		check_invariants();
		for (auto *s : caches_) {
			EXPECT_EQ(kmem_cache_shrink(s), 0);
			kmem_cache_destroy(s);
		}
		ukmem_trim();
		for (unsigned i = 0; i < shim_nr_zones(); i++)
			EXPECT_STREQ(shim_zone_wrong(i), nullptr);
	}

      private:
	size_t pick_size()
	{
		switch (random_() % 32) {
		case 0:
			return 16384 + random_() % 200000;
		case 1:
			return random_() % 64 ? 1 + random_() % 16384 : 1 + random_() % 6000000;
		case 2:
		case 3:
			return static_cast<size_t>(1) << random_() % 15;
		default:
			return 1 + random_() % 700;
		}
	}

	static char pattern(const Object &o, size_t i)
	{
		return static_cast<char>(o.number * 31 + i * 7);
	}

	/* Ends and a middle: large objects would make this a test of memset. */
	void fill(const Object &o)
	{
		for (size_t i = 0; i < std::min<size_t>(o.size, 64); i++)
			o.p[i] = pattern(o, i);
		for (size_t i = o.size - std::min<size_t>(o.size, 64); i < o.size; i++)
			o.p[i] = pattern(o, i);
		o.p[o.size / 2] = pattern(o, o.size / 2);
	}

	void check(const Object &o, size_t upto)
	{
		bool same = true;

		for (size_t i = 0; i < std::min<size_t>(upto, 64); i++)
			same = same && o.p[i] == pattern(o, i);
		if (upto == o.size)
			for (size_t i = o.size - std::min<size_t>(o.size, 64); i < o.size; i++)
				same = same && o.p[i] == pattern(o, i);
		if (o.size / 2 < upto)
			same = same && o.p[o.size / 2] == pattern(o, o.size / 2);
		if (!same)
			ADD_FAILURE() << "contents of object " << o.number << " of " << o.size
				      << " bytes at " << static_cast<void *>(o.p) << " changed";
	}

	void claim(const Object &o)
	{
		auto next = ranges_.lower_bound(o.p);

		if ((next != ranges_.end() && next->first < o.p + o.room) ||
		    (next != ranges_.begin() &&
		     std::prev(next)->first + std::prev(next)->second > o.p))
			ADD_FAILURE()
				<< "object " << o.number << " of " << o.room << " bytes at "
				<< static_cast<void *>(o.p) << " overlaps another";
		ranges_[o.p] = o.room;
	}

	void adopt(Object o)
	{
		if (!o.p) {
			ADD_FAILURE() << "no memory for " << o.size << " bytes";
			return;
		}
		o.number = ++numbers_;
		claim(o);
		fill(o);
		bytes_ += o.room;
		live_.push_back(o);
	}

	void add_kmalloc()
	{
		size_t size = pick_size();
		bool zero = random_() % 4 == 0;
		auto *p = static_cast<char *>(zero ? kzalloc(size, GFP_KERNEL)
						   : kmalloc(size, GFP_KERNEL));

		if (zero && p && (p[0] || p[size - 1] || p[size / 2]))
			ADD_FAILURE() << "kzalloc of " << size << " bytes is not zero";
		adopt({ KMALLOC, p, size, ksize(p), 0, 0 });
	}

	void add_cached()
	{
		unsigned which = random_() % kCaches;
		auto *p = static_cast<char *>(kmem_cache_alloc(caches_[which], GFP_KERNEL));
		size_t size = kmem_cache_size(caches_[which]);

		if (ctor_[which] && p)
			for (size_t i = 0; i < size; i++)
				if (p[i] != 0x42) {
					ADD_FAILURE() << "the constructed state was lost";
					break;
				}
		inuse_[which]++;
		adopt({ CACHE, p, size, size, 0, which });
	}

	void add_bulk()
	{
		unsigned which = random_() % kCaches, n = random_() % 150;
		void *p[150];

		EXPECT_EQ(kmem_cache_alloc_bulk(caches_[which], GFP_KERNEL, n, p),
			  static_cast<int>(n));
		for (unsigned i = 0; i < n; i++) {
			size_t size = kmem_cache_size(caches_[which]);

			inuse_[which]++;
			adopt({ CACHE, static_cast<char *>(p[i]), size, size, 0, which });
		}
	}

	void add_pages()
	{
		unsigned order = random_() % (random_() % 8 ? 4 : 10);
		auto *p = reinterpret_cast<char *>(__get_free_pages(GFP_KERNEL, order));
		size_t size = ukmem_page_size() << order;

		if (reinterpret_cast<uintptr_t>(p) % size)
			ADD_FAILURE() << "order " << order << " at " << static_cast<void *>(p);
		adopt({ PAGES, p, size, size, 0, order });
	}

	void forget(size_t i)
	{
		ranges_.erase(live_[i].p);
		bytes_ -= live_[i].room;
		live_[i] = live_.back();
		live_.pop_back();
	}

	void release(size_t i)
	{
		Object o = live_[i];

		check(o, o.size);
		forget(i);
		if (o.kind == PAGES) {
			free_pages(reinterpret_cast<unsigned long>(o.p), o.which);
		} else if (o.kind == KMALLOC) {
			kfree(o.p);
		} else {
			if (ctor_[o.which])
				ctor_[o.which](o.p);
			inuse_[o.which]--;
			kmem_cache_free(caches_[o.which], o.p);
		}
	}

	void release_bulk()
	{
		std::vector<void *> p;
		unsigned n = random_() % 100;

		while (!live_.empty() && n--) {
			size_t i = random_() % live_.size();
			Object o = live_[i];

			if (o.kind == PAGES)
				continue;
			check(o, o.size);
			if (o.kind == CACHE) {
				if (ctor_[o.which])
					ctor_[o.which](o.p);
				inuse_[o.which]--;
			}
			p.push_back(o.p);
			forget(i);
		}
		kmem_cache_free_bulk(nullptr, p.size(), p.data());
	}

	void resize(size_t i)
	{
		Object o = live_[i];
		size_t size = random_() % 8 ? pick_size() : o.size / 2 + 1;

		if (o.kind != KMALLOC)
			return;
		check(o, o.size);
		forget(i);
		auto *p = static_cast<char *>(krealloc(o.p, size, GFP_KERNEL));
		if (!p) {
			ADD_FAILURE() << "krealloc to " << size;
			return;
		}
		Object moved = o;
		moved.p = p;
		/* The number, so the pattern, is still the old one's. */
		check(moved,
		      std::min(size, o.size) == o.size ? o.size : std::min(size, o.size));
		adopt({ KMALLOC, p, size, ksize(p), 0, 0 });
	}

	void step()
	{
		unsigned what = random_() % 1000;
		bool full = live_.size() > 4000 || bytes_ > (48u << 20);

		if (what < 5)
			ukmem_trim();
		else if (what < 10)
			kmem_cache_shrink(caches_[random_() % kCaches]);
		else if (what < 14)
			release_bulk();
		else if (full || (what < 470 && !live_.empty()))
			release(live_.empty() ? 0 : random_() % live_.size());
		else if (what < 560 && !live_.empty())
			resize(random_() % live_.size());
		else if (what < 780)
			add_kmalloc();
		else if (what < 960)
			add_cached();
		else if (what < 962)
			add_bulk();
		else
			add_pages();
	}

	void check_invariants()
	{
		struct ukmem_gauges g;

		for (unsigned i = 0; i < kCaches; i++) {
			shim_counts c;

			shim_slab_count(caches_[i], &c);
			EXPECT_EQ(c.inuse, inuse_[i]) << "cache " << i;
			EXPECT_STREQ(shim_slab_wrong(caches_[i]), nullptr) << "cache " << i;
		}
		for (unsigned i = 0; i < shim_nr_zones(); i++)
			EXPECT_STREQ(shim_zone_wrong(i), nullptr);
		ukmem_gauges_read(&g);
		EXPECT_LE(g.allocated, g.active);
		EXPECT_EQ(g.mapped, g.active + g.retained);
	}

	std::mt19937_64 random_;
	struct kmem_cache *caches_[kCaches];
	void (*ctor_[kCaches])(void *);
	uint64_t inuse_[kCaches] = {};
	std::vector<Object> live_;
	std::map<char *, size_t> ranges_;
	size_t bytes_ = 0;
	unsigned numbers_ = 0;
};

TEST(FuzzTest, RandomCallsAgreeWithTheModel)
{
	Machine(test_seed()).run(600000 / kSlow);
}

/* Seeds that found something stay: a shrunk large block's end, handed on unaligned. */
TEST(FuzzTest, Regressions)
{
	for (uint64_t seed : { 1937134306u }) {
		SCOPED_TRACE(testing::Message() << "seed " << seed);
		Machine(seed).run(600000 / kSlow);
	}
}

/* Under signals, which abort critical sections in the middle of everything. */
TEST(FuzzTest, RandomCallsUnderSignals)
{
	uint64_t seed = test_seed();
	{
		Threads t(1, [&](unsigned) { Machine(seed).run(150000 / kSlow); });
		SignalStorm storm([](int) {});

		t.join();
	}
}

} // namespace
