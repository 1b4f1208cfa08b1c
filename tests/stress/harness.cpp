/* SPDX-License-Identifier: MIT */
#include "stress/harness.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace stress
{

namespace
{

constexpr unsigned BULK = 150; /* more than an array of a large size holds */
constexpr unsigned char BUILT = 0xc7;

void construct(void *p)
{
	memset(p, BUILT, CTOR_SIZE);
}

struct CacheSpec {
	const char *name;
	unsigned size, align, flags;
	void (*ctor)(void *);
};

const CacheSpec specs[NR_CACHES] = {
	{ "stress-7", 7, 1, 0, nullptr },
	{ "stress-24", 24, 8, 0, nullptr },
	{ "stress-72", 72, 0, SLAB_HWCACHE_ALIGN, nullptr },
	{ "stress-built", CTOR_SIZE, 0, 0, construct },
	{ "stress-1000", 1000, 256, 0, nullptr },
	{ "stress-5000", 5000, 0, 0, nullptr },
	{ "stress-16384", 16384, 4096, 0, nullptr },
};

/* Never returns: damaged memory is no place to go on from. */
[[noreturn]] void die(const char *what, const Block &b, long at)
{
	fprintf(stderr, "stress: %s: block %p, size %u, kind %u/%u, key %llx, at byte %ld\n",
		what, (void *)b.p, b.size, (unsigned)b.kind, b.which, (unsigned long long)b.key,
		at);
	abort();
}

void verify(const Block &b, uint32_t upto)
{
	ptrdiff_t at = damage(b, upto);

	if (at >= 0)
		die("contents damaged", b, (long)at);
}

} // namespace

double seconds(double by_default)
{
	const char *s = getenv("UKMEM_STRESS_SECONDS");

	return s && atof(s) > 0 ? atof(s) : by_default;
}

bool Queue::push(const Block &b)
{
	std::lock_guard<std::mutex> guard(mutex_);

	if (blocks_.size() >= LIMIT)
		return false;
	blocks_.push_back(b);
	return true;
}

bool Queue::pop(Block &b)
{
	std::lock_guard<std::mutex> guard(mutex_);

	if (blocks_.empty())
		return false;
	b = blocks_.front();
	blocks_.pop_front();
	return true;
}

Harness::Harness(const Plan &plan)
    : plan_(plan), queues_(plan.threads), inboxes_(plan.threads), handles_(plan.threads)
{
	kfree(kmalloc(1, GFP_KERNEL)); /* its caches exist from now on */
	for (unsigned i = 0; i < NR_CACHES; i++) {
		const CacheSpec &s = specs[i];

		caches_[i] = kmem_cache_create(s.name, s.size, s.align, s.flags, s.ctor);
		if (!caches_[i])
			abort();
	}
}

/* Give a fresh block its identity and contents. */
void Harness::adopt(Worker &w, Block &b)
{
	b.key = ((uint64_t)w.id << 56 | (uint64_t)++w.sequence << 24 | b.size) *
		0x9e3779b97f4a7c15u;
	if ((uintptr_t)b.p % alignment(b))
		die("misaligned", b, 0);
	fill(b);
}

/* The alignment the interface promises. */
size_t Harness::alignment(const Block &b)
{
	size_t page = ukmem_page_size(), least = b.size >= 16 ? 16 : 8;

	if (b.kind == Kind::pages)
		return page << b.which;
	if (b.kind == Kind::kmalloc)
		return b.size & (b.size - 1) ? least : std::min<size_t>(b.size, page);
	if (specs[b.which].flags & SLAB_HWCACHE_ALIGN)
		return 64;
	return specs[b.which].align ? specs[b.which].align : least;
}

void Harness::adopt_cached(Worker &w, Block &b, unsigned which)
{
	b.kind = Kind::cache;
	b.which = (uint8_t)which;
	b.size = specs[which].size;
	if (specs[which].ctor)
		for (unsigned i = 0; i < CTOR_SIZE; i++)
			if (b.p[i] != BUILT)
				die("not in its constructed state", b, (long)i);
	w.cache_allocs[which]++;
	adopt(w, b);
}

/* Allocate into @b; for bulks into as many empty slots as there are, up to BULK. */
void Harness::make(Worker &w, Block &b)
{
	const Mix &m = plan_.mix;
	unsigned r = w.random.below(m.kmalloc + m.kzalloc + m.cache + m.bulk + m.pages);

	if (r < m.kmalloc + m.kzalloc) {
		bool zero = r >= m.kmalloc;

		b.kind = Kind::kmalloc;
		b.size = skewed_size(w.random, plan_.size_max);
		b.p = (unsigned char *)kmalloc(b.size,
					       zero ? GFP_KERNEL | __GFP_ZERO : GFP_KERNEL);
		if (!b.p)
			die("out of memory", b, 0);
		if (zero && first_nonzero(b.p, b.size) >= 0)
			die("not zeroed", b, (long)first_nonzero(b.p, b.size));
		adopt(w, b);
	} else if (r < m.kmalloc + m.kzalloc + m.cache) {
		unsigned which = any_cache(w.random);

		b.p = (unsigned char *)kmem_cache_alloc(caches_[which], GFP_KERNEL);
		if (!b.p)
			die("out of memory", b, 0);
		adopt_cached(w, b, which);
	} else if (r < m.kmalloc + m.kzalloc + m.cache + m.bulk) {
		make_bulk(w);
	} else {
		b.kind = Kind::pages;
		b.which = (uint8_t)w.random.below(6);
		b.size = (uint32_t)(ukmem_page_size() << b.which);
		b.p = (unsigned char *)__get_free_pages(GFP_KERNEL, b.which);
		if (!b.p)
			die("out of memory", b, 0);
		adopt(w, b);
	}
	w.made++;
}

void Harness::make_bulk(Worker &w)
{
	unsigned which = any_cache(w.random), n = 1 + w.random.below(BULK), used = 0;
	void *p[BULK];

	if (kmem_cache_alloc_bulk(caches_[which], GFP_KERNEL, n, p) != (int)n)
		die("out of memory", Block(), 0);
	for (Block &slot : w.live) {
		if (used == n)
			break;
		if (slot.p)
			continue;
		slot.p = (unsigned char *)p[used++];
		adopt_cached(w, slot, which);
	}
	/* What found no slot goes back at once, in its constructed state. */
	w.cache_allocs[which] += n - used;
	w.cache_frees[which] += n - used;
	kmem_cache_free_bulk(w.random.below(2) ? caches_[which] : nullptr, n - used, p + used);
}

void Harness::release(Worker &w, Block &b)
{
	verify(b, b.size);
	switch (b.kind) {
	case Kind::kmalloc:
		kfree(b.p);
		break;
	case Kind::cache:
		if (specs[b.which].ctor)
			construct(b.p);
		w.cache_frees[b.which]++;
		if (w.random.below(8))
			kmem_cache_free(caches_[b.which], b.p);
		else
			kfree(b.p);
		break;
	case Kind::pages:
		free_pages((unsigned long)b.p, b.which);
		break;
	case Kind::none:
		abort();
	}
	b = Block();
}

/* Several blocks of any kind but pages in one call. */
void Harness::release_bulk(Worker &w)
{
	void *p[BULK];
	unsigned n = 0, want = 1 + w.random.below(BULK);

	for (Block &b : w.live) {
		if (n == want)
			break;
		if (!b.p || b.kind == Kind::pages)
			continue;
		verify(b, b.size);
		if (b.kind == Kind::cache) {
			if (specs[b.which].ctor)
				construct(b.p);
			w.cache_frees[b.which]++;
		}
		p[n++] = b.p;
		b = Block();
	}
	kmem_cache_free_bulk(nullptr, n, p);
}

void Harness::resize(Worker &w, Block &b)
{
	uint32_t size = skewed_size(w.random, plan_.size_max);

	/* Near its size, to half and double of it, or to anything. */
	if (w.random.below(2))
		size = std::max(
			1u, std::min(plan_.size_max, b.size / 2 + w.random.below(2 * b.size)));
	verify(b, b.size);
	b.p = (unsigned char *)krealloc(b.p, size, GFP_KERNEL);
	if (!b.p)
		die("out of memory", b, 0);
	verify(b, std::min(size, b.size));
	if (ksize(b.p) < size)
		die("usable size too small", b, (long)ksize(b.p));
	/* Resized in place a block keeps its place, and with it the old alignment. */
	b.size = size;
	b.key = ((uint64_t)w.id << 56 | (uint64_t)++w.sequence << 24 | b.size) *
		0x9e3779b97f4a7c15u;
	fill(b);
}

void Harness::step(Worker &w)
{
	const Mix &m = plan_.mix;
	Block &b = w.live[w.random.below((uint32_t)w.live.size())];
	unsigned r;

	if (plan_.signals)
		empty_inbox(w);
	if (!b.p) {
		Block received;

		if (w.random.below(4) || !queues_[w.id].pop(received)) {
			make(w, b);
			return;
		}
		b = received;
		return;
	}
	r = w.random.below(m.free + m.send + m.resize + m.check);
	if (r < m.free) {
		if (m.bulk && !w.random.below(32))
			release_bulk(w);
		else
			release(w, b);
	} else if (r < m.free + m.send) {
		if (queues_[w.random.below(plan_.threads)].push(b))
			b = Block();
		else
			release(w, b);
	} else if (r < m.free + m.send + m.resize && b.kind == Kind::kmalloc) {
		resize(w, b);
	} else {
		verify(b, b.size);
	}
}

/*
 * A worker's life: a thread takes the place of the one before until time is up,
 * with the blocks that one had left in its queue.
 */
void Harness::work(unsigned id)
{
	unsigned generation = 0;

	do {
		std::thread thread([&] {
			Worker w(plan_, id, generation++);

			enter(w);
			for (unsigned i = 0; !stop_.load(std::memory_order_relaxed); i++) {
				step(w);
				if (plan_.life && i == plan_.life)
					break;
			}
			leave(w);
		});

		thread.join();
	} while (!stop_);
}

void Harness::enter(Worker &w)
{
	std::lock_guard<std::mutex> guard(handles_mutex_);

	if (plan_.signals)
		inbox_of_this_thread = &inboxes_[w.id];
	handles_[w.id] = pthread_self();
	present_.insert(w.id);
}

void Harness::leave(Worker &w)
{
	{
		std::lock_guard<std::mutex> guard(handles_mutex_);

		present_.erase(w.id);
	}
	if (plan_.signals) { /* none is sent any more, one may be pending */
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, SIGUSR1);
		pthread_sigmask(SIG_BLOCK, &set, nullptr);
		inbox_of_this_thread = nullptr;
		empty_inbox(w);
	}
	for (Block &b : w.live)
		if (b.p && (!plan_.life || !queues_[w.id].push(b)))
			release(w, b);

	std::lock_guard<std::mutex> guard(handles_mutex_);

	made_ += w.made;
	for (unsigned i = 0; i < NR_CACHES; i++) {
		cache_allocs_[i] += w.cache_allocs[i];
		cache_frees_[i] += w.cache_frees[i];
	}
}

void Harness::check_end(const Snapshot &before)
{
	Snapshot after;
	Worker w(plan_, 0, ~0u);
	Block b;

	for (Queue &q : queues_)
		while (q.pop(b))
			release(w, b);
	uint64_t refused[NR_CACHES] = {};

	for (unsigned i = 0; i < NR_CACHES; i++) {
		cache_frees_[i] += w.cache_frees[i];
		for (const Inbox &inbox : inboxes_) {
			cache_allocs_[i] += inbox.cache_allocs[i];
			refused[i] += inbox.cache_refused[i];
		}
	}

	after.take();
	for (const auto &[name, c] : after.caches) {
		auto old = before.caches.find(name);

		if (name == "kmem_cache_queue") { /* made when missed, kept by their caches */
			EXPECT_LE(c.inuse, after.caches.size() * num_node_state(N_POSSIBLE));
			continue;
		}
		EXPECT_EQ(c.inuse, old == before.caches.end() ? 0 : old->second.inuse) << name;
	}
	EXPECT_EQ(after.large_bytes, before.large_bytes);
	EXPECT_EQ(after.large_allocs - after.large_frees,
		  before.large_allocs - before.large_frees);
	for (unsigned i = 0; i < NR_CACHES; i++) {
		const CacheCounts &c = after.caches[specs[i].name];

		EXPECT_GE(c.allocs, cache_allocs_[i]) << specs[i].name;
		EXPECT_LE(c.allocs, cache_allocs_[i] + refused[i]) << specs[i].name;
		EXPECT_EQ(c.frees - cache_frees_[i], c.allocs - cache_allocs_[i])
			<< specs[i].name;
		EXPECT_EQ(cache_allocs_[i], cache_frees_[i]) << specs[i].name;
	}

	ukmem_trim();
	after.take();
	for (const auto &[name, c] : after.caches) {
		if (!c.inuse) { /* of a cache in use, a trim may leave arrays (D3.26) */
			EXPECT_EQ(c.cached, 0u) << name << ": objects left after a trim";
			EXPECT_EQ(c.slabs, 0u) << name << ": slabs left after a trim";
		}
	}
	EXPECT_EQ(after.gauges.allocated, before.gauges.allocated);
	EXPECT_LE(after.gauges.active, before.gauges.active + (256u << 10));
	EXPECT_LE(after.gauges.resident - after.gauges.metadata,
		  after.gauges.active + (1u << 20))
		<< "purged memory is still resident";
	EXPECT_GT(made_, 0u);
	if (plan_.signals) {
		uint64_t sent = 0, got = 0;

		for (const Inbox &inbox : inboxes_) {
			sent += inbox.signals;
			got += inbox.got;
		}
		printf("%llu signals, %llu blocks from handlers\n", (unsigned long long)sent,
		       (unsigned long long)got);
		EXPECT_GT(got, 0u);
	}
}

void Harness::destroy_caches()
{
	Snapshot end;

	for (unsigned i = 0; i < NR_CACHES; i++) {
		EXPECT_EQ(kmem_cache_shrink(caches_[i]), 0) << specs[i].name;
		kmem_cache_destroy(caches_[i]);
	}
	end.take();
	for (const CacheSpec &s : specs)
		EXPECT_EQ(end.caches.count(s.name), 0u) << s.name << " was not destroyed";
}

void run(const Plan &plan)
{
	double time = seconds(plan.seconds);

	printf("seed %llu, %u threads, %.1f s\n", (unsigned long long)plan.seed, plan.threads,
	       time);
	fflush(stdout);
	alarm((unsigned)(time * 8) + 90); /* a hang ends the test */
	{
		Harness h(plan);

		h.run(time);
	}
	alarm(0);
}

void Harness::run(double time)
{
	std::vector<std::thread> threads;
	Snapshot before;

	before.take();
	for (unsigned i = 0; i < plan_.threads; i++)
		threads.emplace_back([this, i] { work(i); });
	start_disturbers(threads);
	std::this_thread::sleep_for(std::chrono::duration<double>(time));
	stop_ = true;
	for (std::thread &t : threads)
		t.join();
	printf("%llu blocks\n", (unsigned long long)made_);
	EXPECT_EQ(ukmem_verify(stderr), 0) << "before anything is given back";
	check_end(before);
	destroy_caches();
}

} // namespace stress
