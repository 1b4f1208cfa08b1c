/* SPDX-License-Identifier: MIT */
/* One thread's random steps. */
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

namespace
{

constexpr size_t kMail = 64;

/* Throws away what calls print on stderr that should print it. */
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

/* Looks at the id, and at each byte behind it; of a large object at every 61st byte and at the
 * last 61. */
void check_contents(const Object &o)
{
	unsigned size = o.cache->size, i = size >= sizeof(o.id) ? sizeof(o.id) : 0;

	if (i && memcmp(o.p, &o.id, sizeof(o.id)) != 0)
		fail("%p of %u bytes was written by somebody else", static_cast<void *>(o.p),
		     size);
	while (i < size) {
		if (static_cast<unsigned char>(o.p[i]) != pattern(o))
			fail("byte %u of %p, of %u, was written by somebody else", i,
			     static_cast<void *>(o.p), size);
		i += size > 512 && i + 61 < size ? 61 : 1;
	}
}

void check_all_bytes(const char *p, unsigned size, int value, const char *what)
{
	for (unsigned i = 0; i < size; i++)
		if (static_cast<unsigned char>(p[i]) != value)
			fail("byte %u of %p, of %u, is not %s", i, static_cast<const void *>(p),
			     size, what);
}

} // namespace

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

/* Moves the thread to another CPU, and pretends that it runs on the node of yet another. */
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

/* Checks an object, and makes it as it must be when it is freed. */
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

/* Frees objects of one cache, in any order. */
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

/* Frees objects of any caches, blocks of kmalloc and NULL. */
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

/* Gives some objects of this thread to others, and takes some of theirs. */
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

/* Requests and frees while another thread seems to hold a node's locks: none waits, and no
 * object is lost. */
void SlabMachine::with_lock_taken(SlabCache &c)
{
	unsigned node = static_cast<unsigned>(random_() % world_.settings_.nodes);

	if (!shim_node_trylock(c.s, node))
		fail("a lock of a node is taken");
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
	if (c->handed) { /* its objects stay valid, and the cache goes on */
		Quiet quiet;

		kmem_cache_destroy(c->s);
		if (random_() % 2)
			return;
	}
	/* Now nobody has an object of it, and it goes. */
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
