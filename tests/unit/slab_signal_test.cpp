/* SPDX-License-Identifier: MIT */
/*
 * Objects in signal handlers, by threads that may make no system call, and while somebody else
 * has the lock of their node.
 */
#include <errno.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "page_shim.h"
#include "seccomp.h"
#include "slab_util.h"

namespace
{

/* So small an array that most requests and frees go to slabs. */
struct kmem_cache *bare(const char *name, unsigned size)
{
	struct kmem_cache_args args = {};

	args.sheaf_capacity = 2;
	return kmem_cache_create(name, size, &args, 0);
}

struct kmem_cache *cache, *second;
std::vector<void *> handlers_objects;

void free_in_handler(int)
{
	for (void *p : handlers_objects)
		kmem_cache_free(cache, p);
}

/* The handler interrupts the thread that has the lock. */
void under_the_lock()
{
	cache = bare("under", 512);
	handlers_objects = take_objects(cache, 2000);
	signal(SIGUSR1, free_in_handler);
	uint64_t slabs = slab_counts_of(cache).slabs;
	ASSERT_TRUE(shim_node_trylock(cache, 0));
	raise(SIGUSR1);
	EXPECT_GT(shim_slab_deferred(cache), 10u);
	/* A request that may not wait does not wait for the lock, either. */
	std::vector<void *> p(1000);
	for (auto &q : p)
		q = kmem_cache_alloc(cache, GFP_ATOMIC);
	for (void *q : p)
		kmem_cache_free(cache, q);
	shim_node_unlock(cache, 0);
	EXPECT_STREQ(shim_slab_wrong(cache), nullptr);
	EXPECT_EQ(slab_counts_of(cache).inuse, 0u);
	EXPECT_EQ(kmem_cache_nr_allocated(cache), 0u);
	/* What was deferred is used before there are new slabs. */
	uint64_t before = slab_counts_of(cache).slabs;
	p = take_objects(cache, 1500);
	EXPECT_LE(slab_counts_of(cache).slabs, std::max(before, slabs));
	EXPECT_EQ(shim_slab_deferred(cache), 0u);
	free_objects(cache, p);
	expect_nothing_left(cache);
	kmem_cache_destroy(cache);
}

TEST(SlabSignalTest, FreesUnderTheLockAreDeferred)
{
	EXPECT_FRESH_PROCESS_PASSES(under_the_lock);
}

/* Empty slabs on the list that their freers could not take off it. */
void empty_under_the_lock()
{
	cache = bare("empty", 1024);
	std::vector<void *> p = take_objects(cache, 8000);

	/* On the list, each with a few objects in use; with CPUs there are none. */
	for (size_t i = 0; i < p.size(); i++)
		if (i % 4)
			kmem_cache_free(cache, p[i]);
	shim_slab_drain(cache);
	uint64_t partial = slab_counts_of(cache).partial;
	EXPECT_GT(partial, 100u);
	ASSERT_TRUE(shim_node_trylock(cache, 0));
	for (size_t i = 0; i < p.size(); i += 4)
		kmem_cache_free(cache, p[i]);
	EXPECT_EQ(slab_counts_of(cache).partial, partial);
	shim_node_unlock(cache, 0);
	/* The next holder of the lock frees the deferred slabs; a few may stay. */
	void *q[200];
	ASSERT_EQ(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 200, q), 200);
	EXPECT_LT(slab_counts_of(cache).slabs, partial / 2);
	kmem_cache_free_bulk(cache, 200, q);
	expect_nothing_left(cache);
	kmem_cache_destroy(cache);
}

TEST(SlabSignalTest, EmptySlabsAreNotForgotten)
{
	EXPECT_FRESH_PROCESS_PASSES(empty_under_the_lock);
}

/* A thread that stands still with the lock: others free, all of them, and go on. */
void holder_stands_still()
{
	cache = bare("still", 256);
	std::vector<void *> p = take_objects(cache, 30000);
	std::atomic<int> stage{ 0 };
	std::thread holder([&] {
		EXPECT_TRUE(shim_node_trylock(cache, 0));
		stage = 1;
		while (stage != 2)
			std::this_thread::yield();
		shim_node_unlock(cache, 0);
	});

	while (stage != 1)
		std::this_thread::yield();
	{
		Threads t(3, [&](unsigned me) {
			for (size_t i = me; i < p.size(); i += 3)
				if (i % 2)
					kmem_cache_free(cache, p[i]);
				else
					kfree(p[i]);
		});
	}
	EXPECT_EQ(kmem_cache_nr_allocated(cache), 0u) << "all came back meanwhile";
	EXPECT_GT(shim_slab_deferred(cache), 100u);
	stage = 2;
	holder.join();
	EXPECT_STREQ(shim_slab_wrong(cache), nullptr);
	expect_nothing_left(cache);
	kmem_cache_destroy(cache);
}

TEST(SlabSignalTest, FreesDoNotWaitForAHolder)
{
	EXPECT_FRESH_PROCESS_PASSES(holder_stands_still);
}

void alloc_in_handler(int)
{
	for (auto &p : handlers_objects)
		p = kmem_cache_alloc(cache, GFP_KERNEL);
}

/* The handler interrupts the thread that has the zone's lock, and no slab has an object left.
 */
void new_slabs_under_the_zone_lock()
{
	configure_slabs("pagesets:0");
	cache = bare("new", 512);
	kmem_cache_shrink(cache);
	ASSERT_EQ(slab_counts_of(cache).slabs, 0u);
	handlers_objects.resize(500);
	signal(SIGUSR1, alloc_in_handler);
	ASSERT_TRUE(shim_zone_trylock(0));
	raise(SIGUSR1);
	shim_zone_unlock(0);
	for (size_t i = 0; i < handlers_objects.size(); i++)
		ASSERT_NE(handlers_objects[i], nullptr) << i;
	EXPECT_GT(slab_counts_of(cache).slabs, 0u);
	for (void *p : handlers_objects)
		kmem_cache_free(cache, p);
	kmem_cache_shrink(cache);
	EXPECT_EQ(slab_counts_of(cache).slabs, 0u);
	EXPECT_STREQ(shim_slab_wrong(cache), nullptr);
}

TEST(SlabSignalTest, WhoInterruptedAHolderGetsNewSlabs)
{
	EXPECT_FRESH_PROCESS_PASSES(new_slabs_under_the_zone_lock);
}

/* Objects on their way from threads to handlers and back: a slot holds one. */
struct Way {
	struct kmem_cache *s;
	std::array<std::atomic<void *>, 64> slot;
};

Way ways[3];
std::atomic<unsigned long> handled, served;
thread_local unsigned way_random = 1;

unsigned next_random()
{
	way_random = way_random * 1664525 + 1013904223;
	return way_random >> 8;
}

constexpr unsigned kSizes[] = { 24, 200, 1000 };

void mark(void *p, unsigned size)
{
	memset(p, static_cast<int>(reinterpret_cast<uintptr_t>(p) >> 4 & 0xff), size);
}

void expect_mark(const void *p, unsigned size)
{
	auto *c = static_cast<const unsigned char *>(p);
	auto want = static_cast<unsigned char>(reinterpret_cast<uintptr_t>(p) >> 4 & 0xff);

	for (unsigned i = 0; i < size; i++)
		if (c[i] != want)
			abort();
}

/* One object each way: a new one there, the one that was there freed. */
void pass_objects(gfp_t flags)
{
	for (unsigned i = 0; i < 3; i++) {
		void *p = next_random() % 3 ? kmem_cache_alloc(ways[i].s, flags) : nullptr;

		if (p) {
			mark(p, kSizes[i]);
			served++;
		}
		p = ways[i].slot[next_random() % ways[i].slot.size()].exchange(p);
		if (!p)
			continue;
		expect_mark(p, kSizes[i]);
		if (next_random() % 2)
			kfree(p);
		else
			kmem_cache_free(ways[i].s, p);
	}
}

void handler(int)
{
	int saved = errno;

	errno = 99;
	handled++;
	for (unsigned n = 0; n < 8; n++)
		pass_objects(GFP_ATOMIC);
	void *p = kmalloc(100, GFP_NOWAIT);
	kfree(p);
	if (errno != 99)
		abort();
	errno = saved;
}

void storm(const char *conf)
{
	std::atomic<bool> stop{ false };

	configure_slabs(conf);
	kfree(kmalloc(8, GFP_KERNEL));
	for (unsigned i = 0; i < 3; i++)
		ways[i].s = bare("storm", kSizes[i]);
	{
		Threads t(2, [&](unsigned me) {
			std::vector<void *> live;

			way_random = me + 1;
			while (!stop) {
				pass_objects(GFP_KERNEL);
				/* Bursts: slabs become full and empty. */
				if (next_random() % 64 == 0) {
					struct kmem_cache *s = ways[next_random() % 3].s;

					for (unsigned n = next_random() % 500; n; n--)
						live.push_back(kmem_cache_alloc(s, GFP_KERNEL));
					for (void *p : live)
						kmem_cache_free(s, p);
					live.clear();
				}
			}
		});
		SignalStorm signals(handler, 100);

		for (int i = 0; i < 50; i++) {
			std::this_thread::sleep_for(std::chrono::milliseconds(20));
			kmem_cache_shrink(ways[i % 3].s);
		}
		stop = true;
		t.join();
	}
	EXPECT_GT(handled, 200u);
	EXPECT_GT(served, handled);
	for (auto &w : ways) {
		for (auto &slot : w.slot)
			kmem_cache_free(w.s, slot.exchange(nullptr));
		expect_nothing_left(w.s);
		kmem_cache_destroy(w.s);
	}
}

TEST(SlabSignalTest, Storm)
{
	EXPECT_FRESH_PROCESS_PASSES([] { storm(""); });
}

TEST(SlabSignalTest, StormOnThreeNodes)
{
	EXPECT_FRESH_PROCESS_PASSES([] { storm("numa_fake:3,slab_max_order:0"); });
}

TEST(SlabSignalTest, StormAtALimit)
{
	EXPECT_FRESH_PROCESS_PASSES([] { storm("limit:6m"); });
}

/*
 * An object of a cache is freed with kfree() by a handler that interrupts the first use of
 * kmalloc(): the free needs nothing of what is being set up.
 */
unsigned looks_at_cpu;

int interrupted_getcpu(unsigned *cpu)
{
	if (++looks_at_cpu == 8)
		raise(SIGUSR1);
	return os_calls_linux.getcpu(cpu);
}

void kfree_in_handler(int)
{
	for (void *p : handlers_objects)
		kfree(p);
}

void kfree_before_kmalloc()
{
	configure_slabs("percpu:fallback"); /* it asks for its CPU all the time */
	cache = bare("before", 64);
	handlers_objects = take_objects(cache, 100);
	signal(SIGUSR1, kfree_in_handler);
	os_calls.getcpu = interrupted_getcpu;
	void *p = kmalloc(64, GFP_KERNEL);
	os_calls.getcpu = os_calls_linux.getcpu;
	EXPECT_GE(looks_at_cpu, 10u) << "while it was set up";
	kfree(p);
	expect_nothing_left(cache);
}

TEST(SlabSignalTest, KfreeNeedsNoKmalloc)
{
	EXPECT_FRESH_PROCESS_PASSES(kfree_before_kmalloc);
}

/* Threads that keep the lock of the node busy; they may do what they like. */
std::atomic<unsigned> contenders;
constexpr unsigned kMany = 20000;
void *many[kMany];

void contend()
{
	cache = bare("contended", 128);
	second = kmem_cache_create("contended-2", 64, 0, 0, nullptr);
	for (unsigned k = 0; k < 2; k++)
		std::thread([] {
			std::vector<void *> p(3000);

			for (unsigned i = 0;; i++) {
				struct kmem_cache *s = i % 2 ? cache : second;

				for (auto &q : p)
					q = kmem_cache_alloc(s, GFP_KERNEL);
				for (void *q : p)
					kmem_cache_free(s, q);
				if (i == 20)
					contenders++;
				if (i % 16 == 0)
					kmem_cache_shrink(s);
			}
		}).detach();
	for (unsigned i = 0; i < kMany; i++)
		many[i] = i % 2 ? kmem_cache_alloc(cache, GFP_KERNEL)
				: kmalloc(1 + i % 3000, GFP_KERNEL);
	while (contenders < 2)
		std::this_thread::yield();
}

/* Frees from many slabs, and then small requests; the others go on meanwhile. */
bool frees_and_requests()
{
	unsigned got = 0;

	for (unsigned i = 0; i < kMany; i++) {
		if (i % 2 && i % 3)
			kmem_cache_free(cache, many[i]);
		else
			kfree(many[i]);
	}
	for (unsigned i = 0; got < 100000 && i < 100000000; i++) {
		struct kmem_cache *s = i % 2 ? cache : second;
		unsigned n = 0, want = i % 100;

		while (n < want &&
		       (many[n] = kmem_cache_alloc(s, i % 3 ? GFP_NOWAIT : GFP_ATOMIC)))
			*static_cast<unsigned *>(many[n++]) = i;
		got += n;
		if (i % 5 == 0) {
			kmem_cache_free_bulk(i % 2 ? s : nullptr, n, many);
			continue;
		}
		while (n--) {
			if (*static_cast<unsigned *>(many[n]) != i)
				return false;
			kmem_cache_free(s, many[n]);
		}
	}
	return got >= 100000;
}

TEST(SlabSignalTest, NoSystemCallWhileOthersHoldTheLock)
{
	expect_no_system_calls(contend, frees_and_requests);
}

} // namespace
