/* SPDX-License-Identifier: MIT */
/* Pages in signal handlers, and by threads that may make no system call. */
#include <errno.h>
#include <time.h>

#include <algorithm>
#include <chrono>

#include "gate_shim.h"
#include "lock_shim.h"
#include "page_util.h"
#include "seccomp.h"
#include "ukmem/shrinker.h"

namespace
{

constexpr unsigned kOrders[] = { 0, 1, 2, 3, 4, 9 };

/* A handler that interrupts the thread while it holds the zone's lock. */
struct page *handlers_page[6];

void free_in_handler(int)
{
	for (unsigned i = 0; i < 6; i++)
		__free_pages(handlers_page[i], kOrders[i]);
}

void free_under_the_lock()
{
	configure("pagesets:0");
	for (unsigned i = 0; i < 6; i++) {
		handlers_page[i] = alloc_pages(GFP_KERNEL, kOrders[i]);
		ASSERT_NE(handlers_page[i], nullptr);
		touch(handlers_page[i], kOrders[i]);
	}
	signal(SIGUSR1, free_in_handler);
	size_t used = zone().used;
	ASSERT_TRUE(shim_zone_trylock(0));
	raise(SIGUSR1);
	EXPECT_EQ(alloc_pages(GFP_ATOMIC, 9), nullptr) << "the lock is taken";
	shim_zone_unlock(0);
	EXPECT_EQ(vmstat("pgfree_deferred"), 6u);
	EXPECT_EQ(used - zone().used, 1u + 2 + 4 + 8 + 16 + 512) << "nothing was lost";
	expect_all_free();
	/* Without a holder nothing is deferred. */
	handlers_page[0] = alloc_page(GFP_KERNEL);
	__free_page(handlers_page[0]);
	EXPECT_EQ(vmstat("pgfree_deferred"), 6u);
}

TEST(PageSignalTest, FreeUnderTheLockIsDeferred)
{
	EXPECT_FRESH_PROCESS_PASSES(free_under_the_lock);
}

/* The holder of the lock unlocks as it finds it: what came meanwhile goes in then. */
void free_by_others()
{
	configure("pagesets:0");
	Pages pages = fill(GFP_KERNEL, 0, 2000);

	ASSERT_EQ(pages.size(), 2000u);
	ASSERT_TRUE(shim_zone_trylock(0));
	Threads t(2, [&](unsigned me) {
		for (size_t i = me; i < pages.size(); i += 2)
			__free_page(pages[i]);
	});
	t.join();
	shim_zone_unlock(0);
	EXPECT_EQ(vmstat("pgfree_deferred"), 2000u) << "no free waited";
	EXPECT_EQ(zone().used, 0u);
	expect_all_free();
}

TEST(PageSignalTest, FreesDoNotWaitForTheLock)
{
	EXPECT_FRESH_PROCESS_PASSES(free_by_others);
}

/* A handler that interrupts a holder of the lock, and could wait otherwise. */
void interrupt_the_holder(void (*handler)(int))
{
	signal(SIGUSR1, handler);
	ASSERT_TRUE(shim_zone_trylock(0));
	raise(SIGUSR1);
	shim_zone_unlock(0);
}

struct page *aside[6];

void alloc_in_handler(int)
{
	for (unsigned i = 0; i < 6; i++)
		aside[i] = alloc_pages(GFP_KERNEL, kOrders[i]);
}

void free_aside_in_handler(int)
{
	for (unsigned i = 0; i < 3; i++)
		__free_pages(aside[i], kOrders[i]);
}

void expect_whole(struct page *p, unsigned order)
{
	size_t size = ukmem_page_size() << order;
	auto *c = static_cast<char *>(page_address(p));

	EXPECT_EQ(reinterpret_cast<uintptr_t>(c) % std::min(size, size_t{ 256 } << 10), 0u);
	for (size_t i = 0; i < size; i += ukmem_page_size())
		ASSERT_EQ(c[i], 0) << "order " << order;
	memset(c, 0x5a, size);
	EXPECT_EQ(virt_to_page(c), p);
	EXPECT_EQ(compound_head(p), p);
}

void alloc_under_the_lock()
{
	configure("pagesets:0");
	void *first = nullptr;

	__free_page(alloc_page(GFP_KERNEL)); /* there is an allocator already */
	for (int round = 0; round < 3; round++) {
		interrupt_the_holder(alloc_in_handler);
		EXPECT_EQ(vmstat("pgalloc_aside"), 6u * (round + 1));
		for (unsigned i = 0; i < 6; i++) {
			ASSERT_NE(aside[i], nullptr) << "order " << kOrders[i];
			expect_whole(aside[i], kOrders[i]);
		}
		if (!first)
			first = page_address(aside[0]);
		EXPECT_EQ(page_address(aside[0]), first) << "it begins anew when all is free";
		interrupt_the_holder(free_aside_in_handler);
		for (unsigned i = 3; i < 6; i++)
			__free_pages(aside[i], kOrders[i]);
	}
	EXPECT_EQ(vmstat("pgfree_deferred"), 0u);
	expect_all_free();
}

TEST(PageSignalTest, AllocationsUnderTheLockAreSetAside)
{
	EXPECT_FRESH_PROCESS_PASSES(alloc_under_the_lock);
}

void free_what_stays_mapped()
{
	configure("pagesets:0");
	__free_page(alloc_page(GFP_KERNEL));
	const size_t before = limits().used;

	interrupt_the_holder(alloc_in_handler);
	expect_whole(aside[5], kOrders[5]);
	os_calls.munmap = [](void *, size_t) { return -ENOMEM; };
	for (unsigned i = 0; i < 6; i++)
		__free_pages(aside[i], kOrders[i]);
	EXPECT_EQ(limits().used, before);
	EXPECT_EQ(*static_cast<char *>(page_address(aside[5])), 0) << "the memory is gone";
}

TEST(PageSignalTest, WhatTheSystemDoesNotUnmapIsGivenBack)
{
	EXPECT_FRESH_PROCESS_PASSES(free_what_stays_mapped);
}

void alloc_at_the_limit()
{
	configure("pagesets:0,limit:8m");
	Pages pages = fill(GFP_KERNEL | __GFP_NOWARN, 0, 100000);

	interrupt_the_holder(alloc_in_handler);
	EXPECT_EQ(aside[5], nullptr) << "2 MiB above a limit of 8";
	for (unsigned i = 0; i < 6; i++)
		if (aside[i])
			__free_pages(aside[i], kOrders[i]);
	free_all(pages, 0);
	expect_all_free();
}

TEST(PageSignalTest, WhatIsSetAsideCountsForTheLimit)
{
	EXPECT_FRESH_PROCESS_PASSES(alloc_at_the_limit);
}

/* A fork of this thread that stands still; others go on. */
void alloc_while_a_fork_stands_still()
{
	configure("pagesets:0");
	std::atomic<unsigned> rounds{ 0 };
	__free_page(alloc_page(GFP_KERNEL)); /* there is an allocator already */
	auto begin = std::chrono::steady_clock::now();

	shim_gate_close();
	shim_fork_prepare();
	Threads t(3, [&](unsigned me) {
		std::mt19937 random(me + 1);
		std::vector<std::pair<struct page *, unsigned>> live;

		for (int i = 0; i < 400; i++) {
			unsigned order = kOrders[random() % 6];
			/* Now and then they all have none: the addresses are used again. */
			unsigned most = i % 100 < 20 ? 16 : 1;
			struct page *p = alloc_pages(GFP_KERNEL, order);

			ASSERT_NE(p, nullptr);
			*static_cast<unsigned *>(page_address(p)) = me;
			live.emplace_back(p, order);
			rounds++;
			while (live.size() > random() % most) {
				auto [q, o] = live[random() % live.size()];

				ASSERT_EQ(*static_cast<unsigned *>(page_address(q)), me);
				std::swap(*std::find(live.begin(), live.end(),
						     std::make_pair(q, o)),
					  live.back());
				live.pop_back();
				__free_pages(q, o);
			}
		}
		for (auto [q, o] : live)
			__free_pages(q, o);
	});
	t.join();
	shim_fork_parent();
	shim_gate_open();
	EXPECT_EQ(rounds, 1200u);
	EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
	EXPECT_GT(vmstat("pgalloc_aside"), 0u);
	expect_all_free();
}

TEST(PageSignalTest, AForkThatStandsStillKeepsNobodyWaiting)
{
	EXPECT_FRESH_PROCESS_PASSES(alloc_while_a_fork_stands_still);
}

std::atomic<unsigned long> handled, served;

void alloc_and_free(int)
{
	struct page *p[6];
	int saved = errno;

	errno = 99;
	handled++;
	for (unsigned i = 0; i < 6; i++) {
		p[i] = alloc_pages(GFP_ATOMIC, kOrders[i]);
		if (p[i]) {
			auto *c = static_cast<char *>(page_address(p[i]));

			c[0] = c[(ukmem_page_size() << kOrders[i]) - 1] = static_cast<char>(i);
			served++;
		}
	}
	for (unsigned i = 0; i < 6; i++)
		if (p[i]) {
			if (static_cast<char *>(page_address(p[i]))[0] != static_cast<char>(i))
				abort();
			__free_pages(p[i], kOrders[i]);
		}
	if (errno != 99)
		abort();
	errno = saved;
}

/* The threads' work meanwhile; each run has its owner's mark written into it. */
void work(unsigned me, const std::atomic<bool> &stop)
{
	std::mt19937 random(me + 1);
	std::vector<std::pair<struct page *, unsigned>> live;

	while (!stop) {
		if (random() % 2 && live.size() < 100) {
			unsigned order = random() % 4 ? random() % 5 : 9;
			struct page *p = alloc_pages(
				random() % 3 ? GFP_KERNEL | __GFP_NOWARN : GFP_NOWAIT, order);

			if (!p)
				continue;
			*static_cast<void **>(page_address(p)) = &live;
			live.emplace_back(p, order);
		} else if (!live.empty()) {
			auto [p, order] = live.back();

			ASSERT_EQ(*static_cast<void **>(page_address(p)), &live);
			__free_pages(p, order);
			live.pop_back();
		}
	}
	for (auto [p, order] : live)
		__free_pages(p, order);
}

void storm(const char *conf)
{
	configure(conf);
	struct page *p = alloc_pages(GFP_KERNEL, 10);
	std::atomic<bool> stop{ false };

	ASSERT_NE(p, nullptr);
	__free_pages(p, 10);
	{
		Threads t(2, [&](unsigned me) { work(me, stop); });
		SignalStorm signals(alloc_and_free, 100);

		/* Where a holder of the lock seldom runs, handlers get little for a while. */
		for (int ms = 0; ms < 1000 || (ms < 30000 && (handled <= 200 || served <= 200));
		     ms += 10)
			std::this_thread::sleep_for(std::chrono::milliseconds(10));
		stop = true;
		t.join();
	}
	EXPECT_GT(handled, 200u);
	EXPECT_GT(served, 200u);
	expect_all_free();
	EXPECT_GT(vmstat("pgalloc_normal"), served);
}

TEST(PageSignalTest, Storm)
{
	EXPECT_FRESH_PROCESS_PASSES([] { storm(""); });
}

TEST(PageSignalTest, StormWithoutPagesets)
{
	EXPECT_FRESH_PROCESS_PASSES([] { storm("pagesets:0,limit:32m"); });
}

TEST(PageSignalTest, StormOnThreeNodes)
{
	EXPECT_FRESH_PROCESS_PASSES([] { storm("numa_fake:3,dirty_decay_ms:20"); });
}

/* More than is left, so that the request reclaims: from all CPUs' arrays, too. */
void ask_for_too_much(int)
{
	int saved = errno;
	struct page *p = alloc_pages(GFP_KERNEL | __GFP_NOWARN, 9);

	/* From the pages aside, which reserves do not keep it from. */
	if (p)
		__free_pages(p, 9);
	handled++;
	errno = saved;
}

/* The thread is in per-CPU arrays most of the time, which in fallback mode are locked. */
void reclaim_in_handlers()
{
	configure("limit:8m");
	struct page *most = alloc_pages(GFP_KERNEL, 10), *more = alloc_pages(GFP_KERNEL, 9);
	std::atomic<bool> stop{ false }, done{ false };

	ASSERT_NE(most, nullptr);
	ASSERT_NE(more, nullptr);
	{
		Threads t(1, [&](unsigned) {
			while (!stop) {
				struct page *p = alloc_pages(GFP_KERNEL | __GFP_NOWARN, 0);

				if (p)
					__free_page(p);
			}
			done = true;
		});
		SignalStorm signals(ask_for_too_much, 200);

		std::this_thread::sleep_for(std::chrono::milliseconds(500));
		stop = true;
		wait_or_abort(done, 10000);
		t.join();
	}
	EXPECT_GT(handled, 20u);
	__free_pages(most, 10);
	__free_pages(more, 9);
	expect_all_free();
}

TEST(PageSignalTest, ReclaimInAHandlerWaitsForNoArray)
{
	EXPECT_FRESH_PROCESS_PASSES(reclaim_in_handlers);
}

/* A thread that keeps the zone's lock busy; it may do what it likes. */
std::atomic<bool> contender_runs;

void contend()
{
	configure("limit:256m");
	__free_pages(alloc_pages(GFP_KERNEL, 12), 12);
	std::thread([] {
		for (unsigned i = 0;; i++) {
			unsigned order = 5 + i % 5;
			struct page *p = alloc_pages(GFP_KERNEL, order);

			if (p)
				__free_pages(p, order);
			if (i == 1000)
				contender_runs = true;
			if (i % 1000 == 999)
				shim_trim(true);
		}
	}).detach();
	while (!contender_runs)
		std::this_thread::yield();
}

/* The holder of the lock may be off its CPU for a while: then every request gets NULL. */
bool loops()
{
	unsigned got = 0;

	for (unsigned i = 0; got < 50000 && i < 100000000; i++) {
		unsigned order = kOrders[i % 6];
		struct page *p = alloc_pages(i % 2 ? GFP_NOWAIT : GFP_ATOMIC, order);

		if (!p)
			continue;
		*static_cast<unsigned *>(page_address(p)) = i;
		__free_pages(p, order);
		got++;
	}
	return got == 50000;
}

TEST(PageSignalTest, NoSystemCallWhileOthersHoldTheLock)
{
	expect_no_system_calls(contend, loops);
}

void warm_up()
{
	Pages pages = fill(GFP_KERNEL, 0, 3000);

	free_all(pages, 0);
}

struct page *held[3000];

bool alloc_many_then_free()
{
	for (int round = 0; round < 20; round++) {
		unsigned n = 0;

		while (n < 3000 && (held[n] = alloc_pages(GFP_ATOMIC, n % 3)))
			n++;
		if (n < 100)
			return false;
		for (unsigned i = 0; i < n; i++)
			__free_pages(held[i], i % 3);
	}
	return true;
}

TEST(PageSignalTest, FreeingMakesNoSystemCall)
{
	expect_no_system_calls(warm_up, alloc_many_then_free);
}

/* At the limit; a shrinker has some pages more. */
Pages spare;

Pages use_up(unsigned held)
{
	static struct shrinker s = {};

	configure("limit:8m");
	spare = fill(GFP_KERNEL, 0, held);
	s.count_objects = [](struct shrinker *, struct shrink_control *) {
		return static_cast<unsigned long>(spare.size());
	};
	s.scan_objects = [](struct shrinker *, struct shrink_control *) {
		unsigned long n = spare.size();

		free_all(spare, 0);
		return n;
	};
	Pages pages = fill(GFP_KERNEL, 0), reserve;
	EXPECT_EQ(register_shrinker(&s, "spare"), 0);
	reserve = fill(GFP_ATOMIC, 0);
	pages.insert(pages.end(), reserve.begin(), reserve.end());
	return pages;
}

/* A fork waits for the thread, which is inside. */
void reclaim_while_a_fork_waits()
{
	Pages pages = use_up(400);
	std::atomic<bool> entered{ false };
	struct page *got = nullptr;
	std::thread t([&] {
		shim_gate_enter(true);
		entered = true;
		while (!shim_gate_is_closed())
			std::this_thread::yield();
		got = alloc_pages(GFP_KERNEL, 0);
		shim_gate_leave();
	});

	while (!entered)
		std::this_thread::yield();
	shim_gate_close();
	shim_gate_open();
	t.join();
	ASSERT_NE(got, nullptr);
	__free_page(got);
	free_all(pages, 0);
	expect_all_free();
}

TEST(PageSignalTest, AForkThatWaitsMakesNoRequestFail)
{
	EXPECT_FRESH_PROCESS_PASSES(reclaim_while_a_fork_waits);
}

void nofail_while_a_fork_stands_still()
{
	Pages pages = use_up(0);
	struct page *got = nullptr;

	shim_gate_close();
	shim_fork_prepare();
	std::thread t([&] { got = alloc_pages(GFP_KERNEL | __GFP_NOFAIL, 0); });
	std::this_thread::sleep_for(std::chrono::milliseconds(150));
	shim_fork_parent();
	shim_gate_open();
	while (pages.size() > 100) {
		__free_page(pages.back());
		pages.pop_back();
	}
	t.join();
	ASSERT_NE(got, nullptr);
	__free_page(got);
	free_all(pages, 0);
	expect_all_free();
}

TEST(PageSignalTest, NofailOutlastsAForkThatStandsStill)
{
	EXPECT_FRESH_PROCESS_PASSES(nofail_while_a_fork_stands_still);
}

/* Reclaim would wait for the locks that the fork holds. */
void reclaim_while_a_fork_stands_still()
{
	configure("numa_fake:2,node_limit:8m,zone_reclaim_mode:1");
	struct kmem_cache *s = kmem_cache_create("held", 64, 0, 0, nullptr);
	void *object = kmem_cache_alloc(s, GFP_KERNEL);
	Pages pages[] = { fill_node(0, GFP_KERNEL, 0), fill_node(1, GFP_KERNEL, 0) };
	std::atomic<bool> done{ false };

	kmem_cache_free(s, object); /* an array holds it, which a reclaim would stop */
	shim_gate_close();
	shim_fork_prepare();
	std::thread t([&] {
		for (unsigned i = 0; i < 20; i++) {
			struct page *p = alloc_pages(GFP_KERNEL | __GFP_NOWARN, 0);

			if (p)
				__free_page(p);
		}
		done = true;
	});
	wait_or_abort(done, 20000);
	shim_fork_parent();
	shim_gate_open();
	t.join();
	free_all(pages[0], 0);
	free_all(pages[1], 0);
	kmem_cache_destroy(s);
	::expect_whole();
}

TEST(PageSignalTest, NoReclaimWaitsForAForkThatStandsStill)
{
	EXPECT_FRESH_PROCESS_PASSES(reclaim_while_a_fork_stands_still);
}

void alloc_compound_in_handler(int)
{
	const unsigned orders[] = { 0, 9, 0 };

	for (unsigned i = 0; i < 3; i++)
		aside[i] = alloc_pages(GFP_KERNEL | __GFP_COMP, orders[i]);
}

/* Pages aside, and those between them that were lost to alignment, have entries. */
void entries_of_pages_aside()
{
	configure("pagesets:0");
	__free_page(alloc_page(GFP_KERNEL));
	interrupt_the_holder(alloc_compound_in_handler);
	ASSERT_EQ(vmstat("pgalloc_aside"), 3u);
	auto *large = static_cast<char *>(page_address(aside[1]));
	size_t page = ukmem_page_size();

	for (char *at = static_cast<char *>(page_address(aside[0])) + page; at < large;
	     at += page) {
		struct page *p = virt_to_page(at);

		ASSERT_NE(p, nullptr);
		ASSERT_EQ(compound_head(p), p) << "in use by nobody";
	}
	for (char *at = large; at < large + 512 * page; at += page)
		ASSERT_EQ(compound_head(virt_to_page(at)), aside[1]);
	EXPECT_EQ(compound_head(aside[2]), aside[2]);
	__free_pages(aside[0], 0);
	__free_pages(aside[1], 9);
	__free_pages(aside[2], 0);
	expect_all_free();
}

TEST(PageSignalTest, PagesAsideHaveEntries)
{
	EXPECT_FRESH_PROCESS_PASSES(entries_of_pages_aside);
}

/* With several nodes their entries are reserved. The system cannot split that mapping: there
 * are no pages aside then. */
void entries_cannot_be_had()
{
	configure("pagesets:0,numa_fake:2");
	__free_page(alloc_page(GFP_KERNEL));
	signal(SIGUSR1, alloc_compound_in_handler);
	for (unsigned i = 0; i < 2; i++)
		ASSERT_TRUE(shim_zone_trylock(i));
	{
		OsCallsGuard guard;

		os_calls.mprotect = [](void *, size_t, int) { return -ENOMEM; };
		raise(SIGUSR1);
	}
	for (unsigned i = 2; i--;)
		shim_zone_unlock(i);
	for (unsigned i = 0; i < 3; i++)
		EXPECT_EQ(aside[i], nullptr);
	EXPECT_EQ(vmstat("pgalloc_aside"), 0u);
	expect_all_free();
}

TEST(PageSignalTest, PagesAsideNeedEntries)
{
	EXPECT_FRESH_PROCESS_PASSES(entries_cannot_be_had);
}

} // namespace
