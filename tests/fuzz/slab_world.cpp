/* SPDX-License-Identifier: MIT */
/* The caches that threads work on, and the model of what they have handed out. */
#include "slab_machine.h"

#include <cinttypes>
#include <cstring>
#include <iterator>

#include "faults.h"
#include "ukmem/ukmem.h"

extern "C" {
#include "page_shim.h"
}

namespace fuzz
{

std::atomic<unsigned long> online_cpus{ ~0ul };

namespace
{

void construct(void *)
{
}

/* One constructor for all sizes: each cache's objects are as large as one of these. */
template <unsigned Size> void construct_bytes(void *p)
{
	memset(p, kConstructed, Size);
}

struct Constructor {
	unsigned size;
	void (*run)(void *);
};

const Constructor constructors[] = {
	{ 8, construct_bytes<8> },
	{ 96, construct_bytes<96> },
	{ 700, construct_bytes<700> },
	{ 5000, construct_bytes<5000> },
};

unsigned pick_size(Random &random)
{
	static const unsigned sizes[] = { 1,   8,   9,	 16,   17,   24,   63,	 64,	96,
					  128, 200, 256, 1000, 1024, 4095, 5000, 10000, 16384 };

	return random() % 4 ? sizes[random() % (sizeof(sizes) / sizeof(sizes[0]))]
			    : static_cast<unsigned>(1 + random() % 3000);
}

} // namespace

SlabWorld::SlabWorld(const SlabSettings &settings, uint64_t seed, unsigned threads)
    : settings_(settings), alone_(threads == 1)
{
	Random random(seed * 2 + 3);

	online_cpus = (1ul << kCpus) - 1;
	for (int cpu : allowed_cpus())
		online_cpus |= 1ul << (cpu % 64);
	while (caches_.size() < kCaches)
		caches_.push_back(make_cache(random));
	for (unsigned i = 0; i < threads; i++)
		machines_.push_back(std::make_unique<SlabMachine>(*this, seed, i));
}

SlabWorld::~SlabWorld() = default;

void SlabWorld::run(unsigned thread, uint64_t steps)
{
	machines_[thread]->run(steps);
}

std::unique_ptr<SlabCache> SlabWorld::make_cache(Random &random)
{
	auto c = std::make_unique<SlabCache>();
	std::string name = "fuzz-" + std::to_string(names_++);
	void (*ctor)(void *) = nullptr;
	struct kmem_cache_args args = {};
	unsigned before = failures;

	c->size = pick_size(random);
	c->ctor = random() % 5 == 0;
	if (c->ctor) {
		const Constructor &k = constructors[random() % 4];

		c->size = k.size;
		ctor = k.run;
	} else if (random() % 8 == 0) {
		ctor = construct; /* leaves them as they are */
	}
	c->align = random() % 3 ? 0 : 1u << random() % 13;
	if (c->align > 1 && (c->size + c->align - 1) / c->align * c->align > 16384)
		c->align = 0;
	c->flags = random() % 4 ? 0 : SLAB_HWCACHE_ALIGN;
	if (random() % 6 == 0)
		c->flags |= SLAB_TYPESAFE_BY_RCU;
	if (random() % 10 == 0)
		c->flags |= random() % 2 ? SLAB_CACHE_DMA32 : SLAB_CACHE_DMA;
	args.align = c->align;
	args.ctor = ctor;
	args.sheaf_capacity = random() % 3 ? 0 : static_cast<unsigned>(1 + random() % 600);
	if (args.sheaf_capacity)
		c->s = kmem_cache_create(name.c_str(), c->size, &args, c->flags);
	else
		c->s = kmem_cache_create(name.c_str(), c->size, c->align, c->flags, ctor);
	if (!c->s) {
		if (settings_.roomy && failures == before)
			fail("no cache of %u bytes", c->size);
		return nullptr;
	}
	if (kmem_cache_find(name.c_str()) != c->s)
		fail("%s is not found", name.c_str());
	return c;
}

/* Everything of a cache is as the model says. Nothing else may go on. */
void SlabWorld::check(SlabCache &c)
{
	const char *wrong = shim_slab_wrong(c.s);
	unsigned long count = kmem_cache_nr_allocated(c.s);

	if (wrong)
		fail("cache of %u bytes: %s", c.size, wrong);
	if (count != static_cast<unsigned long>(c.handed))
		fail("cache of %u bytes: %lu objects in use, %ld were handed out", c.size,
		     count, c.handed.load());
}

void SlabWorld::claim(const Object &o)
{
	o.cache->handed++;
	if (!alone_)
		return;
	auto next = owned_.lower_bound(o.p);

	if (next != owned_.end() && next->first < o.p + o.cache->size)
		fail("%p is handed out, and %p in use", static_cast<void *>(o.p),
		     static_cast<void *>(next->first));
	if (next != owned_.begin() && std::prev(next)->first + std::prev(next)->second > o.p)
		fail("%p is handed out, and %p in use", static_cast<void *>(o.p),
		     static_cast<void *>(std::prev(next)->first));
	owned_.emplace_hint(next, o.p, o.cache->size);
}

void SlabWorld::drop(const Object &o)
{
	o.cache->handed--;
	if (alone_ && !owned_.erase(o.p))
		fail("the model lost %p", static_cast<void *>(o.p));
}

void SlabWorld::end()
{
	for (auto &m : machines_)
		m->free_all();
	for (auto &c : caches_) {
		shim_counts n;

		if (!c)
			continue;
		check(*c);
		if (c->handed)
			fail("the model is wrong by %ld objects", c->handed.load());
		kmem_cache_shrink(c->s);
		check(*c);
		shim_slab_count(c->s, &n);
		if (n.allocs != n.frees)
			fail("%" PRIu64 " allocations, %" PRIu64 " frees", n.allocs, n.frees);
		if (n.cached || n.cpu_partial)
			fail("%" PRIu64 " objects and %" PRIu64 " slabs with CPUs after a "
			     "shrink",
			     n.cached, n.cpu_partial);
		if (n.slabs && !(c->flags & SLAB_TYPESAFE_BY_RCU))
			fail("%" PRIu64 " slabs after a shrink", n.slabs);
		kmem_cache_destroy(c->s);
	}
	caches_.clear();
}

} // namespace fuzz
