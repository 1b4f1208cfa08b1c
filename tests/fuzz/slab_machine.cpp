/* SPDX-License-Identifier: MIT */
#include "slab_machine.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstring>

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

constexpr int kConstructed = 0xc5;
constexpr size_t kCaches = 6;
constexpr size_t kMail = 64;

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

/* For calls that say on stderr what they should. */
class Quiet
{
      public:
	Quiet() : saved_(dup(2))
	{
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		dup2(null, 2);
		close(null);
	}
	~Quiet()
	{
		dup2(saved_, 2);
		close(saved_);
	}

      private:
	int saved_;
};

unsigned char pattern(const Object &o)
{
	return static_cast<unsigned char>(o.id * 0x9e3779b97f4a7c15ull >> 56 | 1);
}

void fill(const Object &o)
{
	memset(o.p, pattern(o), o.cache->size);
	if (o.cache->size >= sizeof(o.id))
		memcpy(o.p, &o.id, sizeof(o.id));
}

void check_contents(const Object &o)
{
	unsigned size = o.cache->size, i = size >= sizeof(o.id) ? sizeof(o.id) : 0;

	if (i && memcmp(o.p, &o.id, sizeof(o.id)) != 0)
		fail("%p of %u bytes was written by somebody else", static_cast<void *>(o.p),
		     size);
	for (; i<size; i += size> 512 && i + 61 < size ? 61 : 1)
		if (static_cast<unsigned char>(o.p[i]) != pattern(o))
			fail("byte %u of %p, of %u, was written by somebody else", i,
			     static_cast<void *>(o.p), size);
}

void check_all_bytes(const char *p, unsigned size, int value, const char *what)
{
	for (unsigned i = 0; i < size; i++)
		if (static_cast<unsigned char>(p[i]) != value)
			fail("byte %u of %p, of %u, is not %s", i, static_cast<const void *>(p),
			     size, what);
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

SlabMachine::SlabMachine(SlabWorld &world, uint64_t seed, unsigned thread)
    : world_(world), random_(seed * 64 + thread), cpus_(allowed_cpus()),
      next_id_(static_cast<uint64_t>(thread) << 48)
{
}

void SlabMachine::run(uint64_t steps)
{
	failures_random = random_() | 1;
	move();
	for (uint64_t i = 0; i < steps; i++) {
		step_number = i;
		step();
		if (world_.alone_ && i % 512 == 511) {
			auto &c = world_.caches_[random_() % kCaches];

			if (c)
				world_.check(*c);
		}
	}
}

void SlabMachine::free_all()
{
	while (!live_.empty())
		release(leave(live_.size() - 1));
	while (!sheaves_.empty())
		return_sheaf(0);
	std::lock_guard<std::mutex> guard(world_.mailbox_lock_);
	for (const Object &o : world_.mailbox_)
		release(o);
	world_.mailbox_.clear();
}

SlabCache &SlabMachine::pick()
{
	for (;;) {
		auto &c = world_.caches_[random_() % kCaches];

		if (c)
			return *c;
		if (world_.alone_)
			c = world_.make_cache(random_);
	}
}

gfp_t SlabMachine::pick_flags()
{
	uint64_t what = random_() % 16;
	gfp_t flags = what < 3 ? GFP_NOWAIT : what < 5 ? GFP_ATOMIC : GFP_KERNEL;

	return flags | __GFP_NOWARN;
}

bool SlabMachine::may_fail(gfp_t flags) const
{
	return !world_.settings_.roomy || !(flags & __GFP_DIRECT_RECLAIM);
}

void SlabMachine::step()
{
	uint64_t what = random_() % 1024;
	SlabCache &c = pick();
	bool full = live_.size() >= level_;

	if (what < 10)
		rare_step();
	else if (what < 20)
		move();
	else if (what < 24)
		level_ = random_() % 4 ? random_() % 400 : random_() % 4000;
	else if (what < 40)
		sheaf_step(c, pick_flags());
	else if (what < 60)
		exchange();
	else if (what < 70)
		free_bulk();
	else if (what < 80)
		free_mixed();
	else if (what < 90)
		allocate_bulk(c, pick_flags());
	else if (what < 130)
		allocate_node(c, pick_flags());
	else if (what < (full ? 450u : 640u))
		allocate(c, pick_flags());
	else
		for (unsigned n = random_() % 32 ? 1 : random_() % 64; n; n--)
			free_one();
}

void SlabMachine::rare_step()
{
	uint64_t what = random_() % 64;

	if (what < 24) {
		shrink(pick());
	} else if (what < 28) {
		ukmem_trim();
	} else if (what < 36) {
		change_online();
	} else if (what < 40) {
		now_ms += random_() % 3000;
	} else if (world_.alone_ && what < 56) {
		with_lock_taken(pick());
	} else if (world_.alone_) {
		destroy(random_() % kCaches);
	}
}

/* To another CPU, and to the node of yet another one. */
void SlabMachine::move()
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpus_[random_() % cpus_.size()], &set);
	sched_setaffinity(0, sizeof(set), &set);
	cpu_number = static_cast<unsigned>(random_() % kCpus);
}

void SlabMachine::change_online()
{
	unsigned long mask = random_() % ((1ul << kCpus) - 1) + 1;

	online_cpus = random_() % 3 ? mask : (1ul << kCpus) - 1;
	percpu_cpus_update();
}

void SlabMachine::take(SlabCache &c, char *p, bool zeroed)
{
	Object o = { p, &c, ++next_id_ };
	unsigned align = c.align ? c.align : c.size >= 16 ? 16 : 8;

	if (reinterpret_cast<uintptr_t>(p) % align)
		fail("%p is not aligned to %u", static_cast<void *>(p), align);
	world_.claim(o);
	if (c.ctor)
		check_all_bytes(p, c.size, kConstructed, "constructed");
	else if (zeroed)
		check_all_bytes(p, c.size, 0, "zero");
	fill(o);
	live_.push_back(o);
}

void SlabMachine::allocate(SlabCache &c, gfp_t flags)
{
	bool zero = !c.ctor && random_() % 4 == 0;
	void *p;
	{
		NoSystemCalls none(!(flags & __GFP_DIRECT_RECLAIM));

		if (zero && random_() % 2)
			p = kmem_cache_zalloc(c.s, flags);
		else
			p = kmem_cache_alloc(c.s, zero ? flags | __GFP_ZERO : flags);
	}
	if (p)
		take(c, static_cast<char *>(p), zero);
	else if (!may_fail(flags))
		fail("no object of %u bytes", c.size);
}

void SlabMachine::allocate_node(SlabCache &c, gfp_t flags)
{
	unsigned node = static_cast<unsigned>(random_() % world_.settings_.nodes);
	bool strict = random_() % 2;
	void *p;

	if (random_() % 16 == 0) {
		if (kmem_cache_alloc_node(c.s, flags, static_cast<int>(world_.settings_.nodes)))
			fail("an object of a node that there is not");
		return;
	}
	{
		NoSystemCalls none(!(flags & __GFP_DIRECT_RECLAIM));

		p = kmem_cache_alloc_node(c.s, strict ? flags | __GFP_THISNODE : flags,
					  static_cast<int>(node));
	}
	if (!p) {
		if (!may_fail(flags))
			fail("no object of %u bytes of node %u", c.size, node);
		return;
	}
	if (shim_object_node(p) != node && (strict || !may_fail(flags)))
		fail("asked for node %u, got an object of %u", node, shim_object_node(p));
	take(c, static_cast<char *>(p), false);
}

void SlabMachine::allocate_bulk(SlabCache &c, gfp_t flags)
{
	size_t n = random_() % 4 ? 1 + random_() % 60 : 1 + random_() % 1000;
	bool zero = !c.ctor && random_() % 4 == 0;
	std::vector<void *> p;
	int got;

	if (c.size > 2000)
		n = 1 + n % 40;
	p.resize(n);
	{
		NoSystemCalls none(!(flags & __GFP_DIRECT_RECLAIM));

		got = kmem_cache_alloc_bulk(c.s, zero ? flags | __GFP_ZERO : flags, n,
					    p.data());
	}
	if (got && got != static_cast<int>(n))
		fail("%d of %zu objects", got, n);
	if (!got && !may_fail(flags))
		fail("not %zu objects of %u bytes", n, c.size);
	for (int i = 0; i < got; i++)
		take(c, static_cast<char *>(p[static_cast<size_t>(i)]), zero);
}

void SlabMachine::return_sheaf(size_t i)
{
	Sheaf sheaf = sheaves_[i];

	if (kmem_cache_sheaf_size(sheaf.sheaf) != sheaf.size)
		fail("a sheaf of %u has %u", sheaf.size, kmem_cache_sheaf_size(sheaf.sheaf));
	{
		NoSystemCalls none;

		kmem_cache_return_sheaf(sheaf.cache->s, GFP_KERNEL, sheaf.sheaf);
	}
	sheaf.cache->handed -= sheaf.size;
	sheaves_[i] = sheaves_.back();
	sheaves_.pop_back();
}

void SlabMachine::sheaf_step(SlabCache &c, gfp_t flags)
{
	unsigned n = static_cast<unsigned>(1 + random_() % 40);
	uint64_t what = random_() % 8;

	if (sheaves_.empty() || (what == 0 && sheaves_.size() < 5)) {
		struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(c.s, flags, n);

		if (!sheaf && !may_fail(flags))
			fail("no sheaf of %u", n);
		if (!sheaf)
			return;
		c.handed += n;
		sheaves_.push_back({ sheaf, &c, n });
		return;
	}
	size_t i = random_() % sheaves_.size();
	Sheaf &sheaf = sheaves_[i];
	if (what == 1) {
		return_sheaf(i);
	} else if (what == 2) {
		int err = kmem_cache_refill_sheaf(sheaf.cache->s, flags, &sheaf.sheaf, n);

		if (err && !may_fail(flags))
			fail("a sheaf is not refilled to %u: %d", n, err);
		if (!err && n > sheaf.size) {
			sheaf.cache->handed += n - sheaf.size;
			sheaf.size = n;
		}
	} else {
		bool zero = !sheaf.cache->ctor && random_() % 2;
		NoSystemCalls none;
		void *p = kmem_cache_alloc_from_sheaf(
			sheaf.cache->s, GFP_NOWAIT | (zero ? __GFP_ZERO : 0), sheaf.sheaf);

		if (!p != !sheaf.size)
			fail("%p of a sheaf of %u", p, sheaf.size);
		if (p) {
			sheaf.size--;
			sheaf.cache->handed--; /* take() counts it again */
			take(*sheaf.cache, static_cast<char *>(p), zero);
		}
	}
}

Object SlabMachine::leave(size_t i)
{
	Object o = live_[i];

	live_[i] = live_.back();
	live_.pop_back();
	return o;
}

/* As it must be when it is freed. */
void SlabMachine::give_up(const Object &o)
{
	check_contents(o);
	if (o.cache->ctor)
		memset(o.p, kConstructed, o.cache->size);
	if (world_.alone_ && o.cache->flags & SLAB_TYPESAFE_BY_RCU &&
	    o.cache->past.size() < 100)
		o.cache->past.insert(o.p);
	world_.drop(o);
}

void SlabMachine::release(const Object &o)
{
	NoSystemCalls none;

	give_up(o);
	kmem_cache_free(o.cache->s, o.p);
}

void SlabMachine::free_one()
{
	if (!live_.empty())
		release(leave(random_() % live_.size()));
}

/* Objects of one cache, in any order. */
void SlabMachine::free_bulk()
{
	size_t most = random_() % 4 ? random_() % 60 : random_() % 1000;
	std::vector<void *> p;
	SlabCache *c;

	if (live_.empty())
		return;
	c = live_[random_() % live_.size()].cache;
	for (size_t i = live_.size(); i-- > 0 && p.size() < most;) {
		if (live_[i].cache != c)
			continue;
		Object o = leave(i);

		give_up(o);
		p.push_back(o.p);
	}
	if (random_() % 2)
		std::shuffle(p.begin(), p.end(), random_);
	NoSystemCalls none;
	kmem_cache_free_bulk(c->s, p.size(), p.data());
}

/* Objects of any caches, blocks of kmalloc and NULL. */
void SlabMachine::free_mixed()
{
	std::vector<void *> p;

	for (size_t n = random_() % 200; n && !live_.empty(); n--) {
		Object o = leave(random_() % live_.size());

		give_up(o);
		p.push_back(o.p);
		if (random_() % 16 == 0)
			p.push_back(nullptr);
		if (random_() % 16 == 0)
			p.push_back(kmalloc(1 + random_() % 40000, GFP_KERNEL | __GFP_NOWARN));
	}
	NoSystemCalls none;
	kmem_cache_free_bulk(nullptr, p.size(), p.data());
}

/* Some objects of mine to others, and the other way round. */
void SlabMachine::exchange()
{
	std::lock_guard<std::mutex> guard(world_.mailbox_lock_);
	auto &box = world_.mailbox_;

	while (box.size() < kMail && !live_.empty() && random_() % 4)
		box.push_back(leave(random_() % live_.size()));
	for (size_t n = random_() % 16; n && !box.empty(); n--) {
		size_t i = random_() % box.size();

		live_.push_back(box[i]);
		box[i] = box.back();
		box.pop_back();
	}
}

/* Requests and frees while another thread seems to hold a node's lock: none waits, and no
 * object is lost. */
void SlabMachine::with_lock_taken(SlabCache &c)
{
	unsigned node = static_cast<unsigned>(random_() % world_.settings_.nodes);

	if (!shim_node_trylock(c.s, node))
		fail("a node's lock is taken");
	for (unsigned n = random_() % 200; n; n--) {
		uint64_t what = random_() % 16;

		if (what < 8)
			free_one();
		else if (what < 9)
			free_bulk();
		else if (what < 12)
			allocate(random_() % 2 ? c : pick(), GFP_NOWAIT | __GFP_NOWARN);
		else if (what < 13)
			allocate_bulk(c, GFP_NOWAIT | __GFP_NOWARN);
		else if (what < 14)
			move();
		else
			allocate_node(c, GFP_ATOMIC | __GFP_NOWARN);
	}
	shim_node_unlock(c.s, node);
	world_.check(c);
}

void SlabMachine::shrink(SlabCache &c)
{
	kmem_cache_shrink(c.s);
	if (!world_.alone_)
		return;
	shim_counts n;

	shim_slab_count(c.s, &n);
	if (n.cached || n.cpu_partial)
		fail("%" PRIu64 " objects and %" PRIu64 " slabs with CPUs after a shrink",
		     n.cached, n.cpu_partial);
	if (!c.handed && n.slabs && !(c.flags & SLAB_TYPESAFE_BY_RCU))
		fail("%" PRIu64 " slabs after a shrink", n.slabs);
	if (c.handed && static_cast<long>(n.slabs) > c.handed &&
	    !(c.flags & SLAB_TYPESAFE_BY_RCU))
		fail("%" PRIu64 " slabs for %ld objects after a shrink", n.slabs,
		     c.handed.load());
	for (char *p : c.past)
		if (shim_slab_cache_of(p) != c.s)
			fail("%p is no object of its cache any more", static_cast<void *>(p));
	c.past.clear();
	world_.check(c);
}

void SlabMachine::destroy(size_t i)
{
	SlabCache *c = world_.caches_[i].get();

	if (!c)
		return;
	if (c->handed) { /* they stay valid, and the cache goes on */
		Quiet quiet;

		kmem_cache_destroy(c->s);
		if (random_() % 2)
			return;
	}
	/* Now in earnest. */
	for (size_t k = sheaves_.size(); k-- > 0;)
		if (sheaves_[k].cache == c)
			return_sheaf(k);
	for (size_t k = live_.size(); k-- > 0;)
		if (live_[k].cache == c)
			release(leave(k));
	for (size_t k = world_.mailbox_.size(); k-- > 0;)
		if (world_.mailbox_[k].cache == c) {
			release(world_.mailbox_[k]);
			world_.mailbox_[k] = world_.mailbox_.back();
			world_.mailbox_.pop_back();
		}
	world_.check(*c);
	kmem_cache_destroy(c->s);
	world_.caches_[i] = world_.make_cache(random_);
}

} // namespace fuzz
