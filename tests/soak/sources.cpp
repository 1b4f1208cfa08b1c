/* SPDX-License-Identifier: MIT */
#include "soak/soak.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace soak
{

using stress::Kind;
using stress::skewed_size;

namespace
{

constexpr uint32_t MALLOC_MAX = 1u << 20;

void must_be_zero(const Block &b)
{
	ptrdiff_t at = stress::first_nonzero(b.p, b.size);

	if (at >= 0)
		die("not zeroed", b, (long)at);
}

/* The program's malloc: the drop-in's when it is preloaded. */
class Malloc : public Source
{
      public:
	bool make(Random &random, Block &b) override
	{
		uint32_t size = skewed_size(random, MALLOC_MAX), how = random.below(16);
		size_t align = (size_t)16 << random.below(9);
		void *p;

		if (how == 0)
			p = calloc(1, size);
		else if (how == 1)
			p = aligned_alloc(align, (size + align - 1) & ~(align - 1));
		else
			p = malloc(size);
		if (!p)
			return false;
		b.p = (unsigned char *)p;
		b.size = size;
		b.kind = Kind::kmalloc;
		if (how == 0)
			must_be_zero(b);
		if (how == 1 && (uintptr_t)p % align)
			die("not aligned", b, (long)align);
		return true;
	}
	void free(Random &, Block &b) override
	{
		::free(b.p);
	}
	bool resize(Block &b, uint32_t size) override
	{
		void *p = realloc(b.p, size);

		if (!p)
			return false;
		b.p = (unsigned char *)p;
		return true;
	}
};

/* kmalloc and, now and then, runs of pages. */
class Kmalloc : public Source
{
      public:
	explicit Kmalloc(uint32_t size_max) : size_max_(size_max)
	{
	}
	bool make(Random &random, Block &b) override
	{
		if (random.below(32) == 0)
			return make_pages(random, b);
		uint32_t size = skewed_size(random, size_max_);
		bool zero = random.below(16) == 0;
		void *p = kmalloc(size, GFP_KERNEL | __GFP_NOWARN | (zero ? __GFP_ZERO : 0));

		if (!p)
			return false;
		b.p = (unsigned char *)p;
		b.size = size;
		b.kind = Kind::kmalloc;
		if (zero)
			must_be_zero(b);
		return true;
	}
	void free(Random &, Block &b) override
	{
		if (b.kind == Kind::pages)
			free_pages((unsigned long)b.p, b.which);
		else
			kfree(b.p);
	}
	bool resize(Block &b, uint32_t size) override
	{
		if (b.kind != Kind::kmalloc)
			return false;
		void *p = krealloc(b.p, size, GFP_KERNEL | __GFP_NOWARN);

		if (!p)
			return false;
		b.p = (unsigned char *)p;
		return true;
	}

      private:
	static bool make_pages(Random &random, Block &b)
	{
		unsigned order = random.below(6);
		unsigned long p = __get_free_pages(GFP_KERNEL | __GFP_NOWARN, order);

		if (!p)
			return false;
		b.p = (unsigned char *)p;
		b.size = (uint32_t)(ukmem_page_size() << order);
		b.kind = Kind::pages;
		b.which = (uint8_t)order;
		return true;
	}

	const uint32_t size_max_;
};

constexpr unsigned BUILT_SIZE = 136, NR_CACHES = 6;
constexpr unsigned char BUILT = 0xc7;

void construct(void *p)
{
	memset(p, BUILT, BUILT_SIZE);
}

struct CacheSpec {
	const char *name;
	unsigned size, align;
	void (*ctor)(void *);
};

const CacheSpec specs[NR_CACHES] = {
	{ "soak-7", 7, 1, nullptr },	     { "soak-24", 24, 8, nullptr },
	{ "soak-72", 72, 64, nullptr },	     { "soak-built", BUILT_SIZE, 0, construct },
	{ "soak-1000", 1000, 256, nullptr }, { "soak-5000", 5000, 0, nullptr },
};

/* Caches whose debugging is switched on and off while all goes on. */
class Caches : public Source
{
      public:
	Caches()
	{
		for (unsigned i = 0; i < NR_CACHES; i++) {
			const CacheSpec &s = specs[i];

			caches_[i] = kmem_cache_create(s.name, s.size, s.align, 0, s.ctor);
			if (!caches_[i])
				die("no cache", Block(), i);
		}
	}
	~Caches() override
	{
		for (struct kmem_cache *cache : caches_)
			kmem_cache_destroy(cache);
	}
	Caches(const Caches &) = delete;
	Caches &operator=(const Caches &) = delete;

	bool make(Random &random, Block &b) override
	{
		unsigned which = random.below(NR_CACHES);
		void *p = kmem_cache_alloc(caches_[which], GFP_KERNEL | __GFP_NOWARN);

		if (!p)
			return false;
		b.p = (unsigned char *)p;
		b.size = specs[which].size;
		b.kind = Kind::cache;
		b.which = (uint8_t)which;
		for (unsigned i = 0; specs[which].ctor && i < BUILT_SIZE; i++)
			if (b.p[i] != BUILT)
				die("not in its constructed state", b, i);
		return true;
	}
	void free(Random &random, Block &b) override
	{
		if (specs[b.which].ctor)
			construct(b.p);
		if (random.below(8))
			kmem_cache_free(caches_[b.which], b.p);
		else
			kfree(b.p);
	}
	void disturb(Random &random) override
	{
		static const slab_flags_t flags[] = { SLAB_CONSISTENCY_CHECKS, SLAB_RED_ZONE,
						      SLAB_POISON, SLAB_STORE_USER };
		struct kmem_cache *cache = caches_[random.below(NR_CACHES)];
		slab_flags_t wanted = 0;

		if (random.below(2))
			for (slab_flags_t flag : flags)
				wanted |= random.below(2) ? flag : 0;
		if (kmem_cache_debug(cache, wanted))
			die("debugging refused", Block(), (long)wanted);
		if (!random.below(8))
			kmem_cache_shrink(cache);
	}

      private:
	struct kmem_cache *caches_[NR_CACHES];
};

constexpr unsigned POOL_SIZE = 200, POOL_MIN = 64, NR_POOLS = 4;

/* Three mempools that are resized meanwhile, of a cache, of kmalloc and of pages; a qmempool.
 */
class Pools : public Source
{
      public:
	Pools()
	{
		struct kmem_cache_args args = {};

		args.sheaf_capacity = 64;
		cache_ = kmem_cache_create("soak-pool", POOL_SIZE, &args, 0);
		qcache_ = kmem_cache_create("soak-qpool", POOL_SIZE, &args, 0);
		if (!cache_ || !qcache_)
			die("no cache", Block(), 0);
		pools_[0] = mempool_create_slab_pool(POOL_MIN, cache_);
		pools_[1] = mempool_create_kmalloc_pool(POOL_MIN, POOL_SIZE);
		pools_[2] = mempool_create_page_pool(POOL_MIN / 8, 0);
		qpool_ = qmempool_create(32, 128, POOL_MIN, qcache_, GFP_KERNEL);
		if (!pools_[0] || !pools_[1] || !pools_[2] || !qpool_)
			die("no pool", Block(), 0);
	}
	~Pools() override
	{
		for (mempool_t *pool : pools_)
			mempool_destroy(pool);
		qmempool_destroy(qpool_);
		kmem_cache_destroy(cache_);
		kmem_cache_destroy(qcache_);
	}
	Pools(const Pools &) = delete;
	Pools &operator=(const Pools &) = delete;

	bool make(Random &random, Block &b) override
	{
		unsigned which = random.below(NR_POOLS);
		void *p = which == 3 ? qmempool_alloc(qpool_, GFP_KERNEL)
				     : mempool_alloc(pools_[which], GFP_NOWAIT);

		if (!p)
			return false;
		b.p = (unsigned char *)(which == 2 ? page_address((struct page *)p) : p);
		b.size = which == 2 ? (uint32_t)ukmem_page_size() : POOL_SIZE;
		b.kind = Kind::cache;
		b.which = (uint8_t)which;
		return true;
	}
	void free(Random &, Block &b) override
	{
		if (b.which == 3)
			qmempool_free(qpool_, b.p);
		else if (b.which == 2)
			mempool_free(virt_to_page(b.p), pools_[2]);
		else
			mempool_free(b.p, pools_[b.which]);
	}
	void disturb(Random &random) override
	{
		unsigned which = random.below(3);

		mempool_resize(pools_[which], (int)random.below(POOL_MIN * 2));
	}

      private:
	struct kmem_cache *cache_, *qcache_;
	mempool_t *pools_[3];
	struct qmempool *qpool_;
};

constexpr unsigned MAKERS = 64, QUEUE_SIZE = 256, QUEUE_BULK = 16, TEXT_MAX = 2000;

/* What is on its way: who made it, its number among that thread's, and a text. */
struct Message {
	uint32_t maker, size;
	uint64_t number;
	unsigned char text[];

	Block block()
	{
		Block b;

		b.p = text;
		b.size = size;
		b.key = (number << 8 | maker) * 0x9e3779b97f4a7c15u;
		return b;
	}
};

/* A queue that all threads use from both sides. */
class Queue : public Source
{
      public:
	explicit Queue(unsigned threads) : made_(threads), last_((size_t)threads * MAKERS)
	{
		if (threads > MAKERS)
			die("too many threads", Block(), threads);
		q_ = alf_queue_alloc(QUEUE_SIZE, GFP_KERNEL);
		if (IS_ERR(q_))
			die("no queue", Block(), PTR_ERR(q_));
	}
	~Queue() override
	{
		void *p[QUEUE_BULK];
		unsigned n;

		while ((n = alf_mc_dequeue(q_, p, QUEUE_BULK)))
			for (unsigned i = 0; i < n; i++) {
				check((Message *)p[i]);
				got_++;
				kfree(p[i]);
			}
		for (uint64_t made : made_)
			got_ -= made;
		if (got_)
			die("messages lost or twice", Block(), (long)got_);
		alf_queue_free(q_);
	}
	Queue(const Queue &) = delete;
	Queue &operator=(const Queue &) = delete;

	bool make(Random &, Block &) override
	{
		return false;
	}
	void free(Random &, Block &) override
	{
	}
	bool move(Random &random, unsigned thread, uint64_t &bytes) override
	{
		if (random.below(2))
			send(random, thread, bytes);
		else
			receive(random, thread);
		return true;
	}

      private:
	static void check(Message *m)
	{
		Block b = m->block();
		ptrdiff_t at = stress::damage(b, b.size);

		if (at >= 0)
			die("message damaged", b, (long)at);
	}
	void send(Random &random, unsigned thread, uint64_t &bytes)
	{
		unsigned n = 1 + random.below(QUEUE_BULK), have = 0, sent;
		void *p[QUEUE_BULK];

		for (; have < n; have++) {
			uint32_t size = skewed_size(random, TEXT_MAX);
			auto *m = (Message *)kmalloc(sizeof(Message) + size,
						     GFP_KERNEL | __GFP_NOWARN);

			if (!m)
				break;
			m->maker = thread;
			m->size = size;
			m->number = made_[thread] + have + 1;
			stress::fill(m->block());
			bytes += size;
			p[have] = m;
		}
		sent = random.below(2) ? alf_mp_enqueue(q_, p, have)
				       : alf_mp_enqueue_burst(q_, p, have);
		made_[thread] += sent;
		for (unsigned i = sent; i < have; i++)
			kfree(p[i]);
	}
	void receive(Random &random, unsigned thread)
	{
		unsigned n = 1 + random.below(QUEUE_BULK);
		void *p[QUEUE_BULK];

		n = random.below(2) ? alf_mc_dequeue(q_, p, n) : alf_mc_dequeue_bulk(q_, p, n);
		for (unsigned i = 0; i < n; i++) {
			auto *m = (Message *)p[i];
			uint64_t &before = last_[thread * MAKERS + m->maker];

			check(m);
			/* One consumer sees one producer's messages in their order. */
			if (m->number <= before)
				die("message out of order", m->block(), (long)m->number);
			before = m->number;
			kfree(m);
		}
		got_ += n;
	}

	struct alf_queue *q_;
	std::vector<uint64_t> made_, last_; /* each thread its own places */
	std::atomic<uint64_t> got_{ 0 };
};

class Cpus : public Source
{
      public:
	~Cpus() override
	{
		for (unsigned cpu = 1; set_online(cpu, true); cpu++)
			;
		percpu_cpus_update();
	}
	bool make(Random &, Block &) override
	{
		return false;
	}
	void free(Random &, Block &) override
	{
	}
	bool move(Random &, unsigned, uint64_t &) override
	{
		return true; /* it has no work for other threads */
	}
	void disturb(Random &random) override
	{
		unsigned cpus = (unsigned)sysconf(_SC_NPROCESSORS_CONF);
		unsigned cpu = 1 + random.below(cpus - 1);

		if (!set_online(cpu, random.below(2)))
			die("CPU cannot be switched", Block(), cpu);
		percpu_cpus_update();
	}

      private:
	static bool set_online(unsigned cpu, bool online)
	{
		std::string path =
			"/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/online";
		int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
		bool ok = fd >= 0 && write(fd, online ? "1" : "0", 1) == 1;

		if (fd >= 0)
			close(fd);
		return ok;
	}
};

} // namespace

void die(const char *what, const Block &b, long at)
{
	fprintf(stderr, "soak: %s: block %p, size %u, kind %u/%u, key %llx, at %ld\n", what,
		(void *)b.p, b.size, (unsigned)b.kind, b.which, (unsigned long long)b.key, at);
	abort();
}

std::unique_ptr<Source> malloc_source()
{
	return std::make_unique<Malloc>();
}

std::unique_ptr<Source> kmalloc_source(uint32_t size_max)
{
	return std::make_unique<Kmalloc>(size_max);
}

std::unique_ptr<Source> cache_source()
{
	return std::make_unique<Caches>();
}

std::unique_ptr<Source> pool_source()
{
	return std::make_unique<Pools>();
}

std::unique_ptr<Source> queue_source(unsigned threads)
{
	return std::make_unique<Queue>(threads);
}

std::unique_ptr<Source> cpu_source()
{
	return std::make_unique<Cpus>();
}

} // namespace soak
