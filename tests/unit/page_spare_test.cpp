/* SPDX-License-Identifier: MIT */
/* Requests and purges that find the zone's lock taken for long: its holder has lost its CPU.
 * They do not wait. */
#include <linux/mman.h>
#include <sys/mman.h>

#include <memory>
#include <random>

#include "page_decay_util.h"
#include "page_util.h"
#include "test_util.h"

namespace
{

constexpr size_t kSpare = 24; /* fewer than a zone has in the end */

using Used = std::unique_ptr<void, void (*)(void *)>;

/* So much in use that a zone may have spare runs. */
Used much()
{
	return { kmalloc(64 * kMiB, GFP_KERNEL), [](void *p) { kfree(p); } };
}

/* Requests that met a holder before have the zone keep spare runs. */
void learn(Pages &pages)
{
	for (int i = 0; i < 8; i++) {
		ZoneHolder holder;

		ASSERT_EQ(alloc_pages(GFP_NOWAIT | __GFP_NOWARN, 9), nullptr);
	}
	pages = fill(GFP_KERNEL, 9, 4);
}

void spares()
{
	configure("background_thread:never,dirty_max:1g");
	Used used = much();
	Pages large, small;

	learn(large);
	unsigned long before = vmstat("pgalloc_spare");
	size_t kept = zone().pageset;
	{
		ZoneHolder holder;

		for (size_t i = 0; i < kSpare; i++) {
			small.push_back(alloc_pages(GFP_KERNEL | __GFP_ZERO, 4));
			ASSERT_NE(small.back(), nullptr);
			auto *bytes = static_cast<char *>(page_address(small.back()));
			for (size_t at = 0; at < 16 * ukmem_page_size(); at += 64)
				ASSERT_EQ(bytes[at], 0);
			touch(small.back(), 4);
		}
	}
	EXPECT_GE(vmstat("pgalloc_spare"), before + kSpare / 2) << "others are the CPU's";
	EXPECT_LT(zone().pageset, kept);
	expect_whole();
	free_all(small, 4);
	free_all(large, 9);
	used.reset();
	expect_all_free();
}

TEST(PageSpareTest, RequestsBesideAHolder)
{
	EXPECT_FRESH_PROCESS_PASSES(spares);
}

/* One spare run serves several requests of a size that does not fit it. */
void cuts()
{
	configure("background_thread:never,dirty_max:1g");
	Used used = much();
	Pages large;
	std::vector<void *> odd;

	learn(large);
	{
		ZoneHolder holder;

		for (int i = 0; i < 30; i++) {
			odd.push_back(alloc_pages_exact(3 * ukmem_page_size(), GFP_KERNEL));
			ASSERT_NE(odd.back(), nullptr);
			memset(odd.back(), i, 3 * ukmem_page_size());
		}
	}
	for (size_t i = 0; i < odd.size(); i++)
		for (size_t at = 0; at < 3 * ukmem_page_size(); at += 512)
			ASSERT_EQ(static_cast<char *>(odd[i])[at], static_cast<char>(i));
	expect_whole();
	for (void *p : odd)
		free_pages_exact(p, 3 * ukmem_page_size());
	free_all(large, 9);
	used.reset();
	expect_all_free();
}

TEST(PageSpareTest, ARunIsCutAndItsRestServesToo)
{
	EXPECT_FRESH_PROCESS_PASSES(cuts);
}

/* Nothing is spare in a process whose requests never met a holder. */
void none()
{
	Used used = much();
	Pages pages = fill(GFP_KERNEL, 4, 2 * kSpare);

	EXPECT_EQ(vmstat("pgalloc_spare"), 0u);
	EXPECT_LE(zone().pageset, to_pages(kMiB)) << "what a CPU keeps";
	free_all(pages, 4);
	used.reset();
}

TEST(PageSpareTest, NoneWithoutNeed)
{
	EXPECT_FRESH_PROCESS_PASSES(none);
}

/* A trim gives spare runs back. */
void trimmed()
{
	configure("background_thread:never,dirty_max:1g");
	Used used = much();
	Pages large;

	learn(large);
	EXPECT_GE(zone().pageset, 16 * 16u);
	ukmem_trim();
	EXPECT_EQ(zone().pageset, 0u);
	free_all(large, 9);
	used.reset();
	expect_all_free();
}

TEST(PageSpareTest, ATrimGivesThemBack)
{
	EXPECT_FRESH_PROCESS_PASSES(trimmed);
}

/* Requests of some decay times of 1000 ms, which find the zone's lock free. */
std::vector<void *> meet_nobody()
{
	std::vector<void *> objects;

	for (int i = 0; i < 8; i++) {
		fake_now += 1100;
		/* These look at the clock, and take the lock. */
		for (void *p : peak(kMiB, 8192))
			objects.push_back(p);
	}
	return objects;
}

/* A zone whose lock is free for some decay times has none any more. */
void forgotten()
{
	os_calls.now_ms = fake_now_ms;
	configure("background_thread:never,dirty_max:1g,dirty_decay_ms:1000");
	Used used = much();
	Pages large, again;

	learn(large);
	EXPECT_GE(zone().pageset, 16 * 16u);
	std::vector<void *> objects = meet_nobody();
	EXPECT_LE(zone().pageset, 128u) << "what a CPU keeps";
	learn(again);
	EXPECT_GE(zone().pageset, 16 * 16u);
	free_peak(objects);
	free_all(large, 9);
	free_all(again, 9);
	used.reset();
	ukmem_trim();
	expect_all_free();
}

TEST(PageSpareTest, WithoutNeedTheyAreForgotten)
{
	EXPECT_FRESH_PROCESS_PASSES(forgotten);
}

/* A free that finds the lock taken gives its run to the next requests. */
void freed_serve()
{
	configure("background_thread:never,dirty_max:1g");
	Used used = much();
	const size_t npages = 48; /* its list has room for two */
	Pages large, runs;
	std::vector<void *> again;

	learn(large);
	for (int i = 0; i < 60; i++)
		runs.push_back(virt_to_page(
			alloc_pages_exact(npages * ukmem_page_size(), GFP_KERNEL)));
	{
		ZoneHolder holder;

		for (struct page *run : runs)
			free_pages_exact(page_address(run), npages * ukmem_page_size());
		for (int i = 0; i < 8; i++) {
			again.push_back(
				alloc_pages_exact(npages * ukmem_page_size(), GFP_KERNEL));
			ASSERT_NE(again.back(), nullptr);
			memset(again.back(), 1, npages * ukmem_page_size());
		}
	}
	EXPECT_GE(vmstat("pgalloc_spare"), 6u);
	EXPECT_GT(vmstat("pgfree_deferred"), 20u) << "the others";
	expect_whole();
	for (void *p : again)
		free_pages_exact(p, npages * ukmem_page_size());
	free_all(large, 9);
	used.reset();
	expect_all_free();
}

TEST(PageSpareTest, WhatIsFreedBesideAHolderServes)
{
	EXPECT_FRESH_PROCESS_PASSES(freed_serve);
}

/* A run of 2^k pages is aligned to its size, also where no pageset has its order. */
void aligned()
{
	configure("background_thread:never,dirty_max:1g");
	Used used = much();
	const size_t bytes = 32 * ukmem_page_size(), freed = 48 * ukmem_page_size();
	Pages large;
	std::vector<void *> odd, got;

	learn(large);
	ukmem_trim(); /* frees add all spare runs */
	for (int i = 0; i < 30; i++)
		odd.push_back(alloc_pages_exact(freed, GFP_KERNEL));
	{
		ZoneHolder holder;

		for (void *p : odd)
			free_pages_exact(p, freed);
		for (int i = 0; i < 6; i++)
			got.push_back(alloc_pages_exact(bytes, GFP_NOWAIT | __GFP_NOWARN));
	}
	EXPECT_GE(vmstat("pgalloc_spare"), 1u);
	for (void *p : got) {
		EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % bytes, 0u);
		if (p)
			free_pages_exact(p, bytes);
	}
	free_all(large, 9);
	used.reset();
	expect_all_free();
}

TEST(PageSpareTest, ARunIsAlignedAsAnyOther)
{
	EXPECT_FRESH_PROCESS_PASSES(aligned);
}

/* Threads that take and free runs beside others that hold the lock now and then: what one has,
 * no other has. */
void threads_share()
{
	configure("background_thread:never,dirty_max:1g");
	Used used = much();
	Pages large;
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	learn(large);
	for (unsigned t = 0; t < 3; t++)
		threads.emplace_back([&, t] {
			std::minstd_rand random(t);
			std::vector<std::pair<uint64_t *, size_t>> mine(24);

			while (!stop) {
				auto &[p, size] = mine[random() % mine.size()];

				for (size_t at = 0; at < size / 8; at += 64)
					if (p[at] != t)
						abort();
				if (p)
					free_pages_exact(p, size);
				size = (random() % 20 + 1) * ukmem_page_size();
				p = static_cast<uint64_t *>(
					alloc_pages_exact(size, GFP_KERNEL));
				for (size_t at = 0; at < size / 8; at += 64)
					p[at] = t;
			}
			for (auto &[p, size] : mine)
				if (p)
					free_pages_exact(p, size);
		});
	for (int i = 0; i < 300; i++) {
		ZoneHolder holder;

		usleep(300);
	}
	stop = true;
	for (auto &thread : threads)
		thread.join();
	EXPECT_GT(vmstat("pgalloc_spare"), 100u);
	expect_whole();
	free_all(large, 9);
	used.reset();
	expect_all_free();
}

TEST(PageSpareTest, ThreadsShareNoRun)
{
	EXPECT_FRESH_PROCESS_PASSES(threads_share);
}

/* While a request gives back what it has purged, another thread takes the lock. */
ZoneHolder *beside;
unsigned purges;

int held_in_purge(void *addr, size_t len, int advice)
{
	if (advice == MADV_DONTNEED && virt_to_page(addr) && !purges++)
		beside = new ZoneHolder;
	return os_calls_linux.madvise(addr, len, advice);
}

/* A program frees every other one of its runs, and does not want them again. */
Pages unwanted(unsigned order, size_t bytes)
{
	Pages pages = fill(GFP_KERNEL, order, 2 * bytes / (ukmem_page_size() << order), true);
	Pages keep, gone;

	for (size_t i = 0; i < pages.size(); i++)
		(i % 2 ? gone : keep).push_back(pages[i]);
	free_all(gone, order);
	fake_now += 2000;
	shim_page_decay();
	EXPECT_EQ(vmstat("pgpurged"), 0u);
	return keep;
}

void purge_beside_a_holder()
{
	os_calls.now_ms = fake_now_ms;
	configure("background_thread:never,dirty_max:0");
	Pages keep = unwanted(9, 40 * kMiB);
	size_t used = limits().used;

	os_calls.madvise = held_in_purge;
	fake_now += 1100;
	shim_page_decay();
	EXPECT_EQ(purges, 1u) << "it goes on";
	delete beside;
	os_calls.madvise = os_calls_linux.madvise;
	expect_whole();
	EXPECT_EQ(limits().used, used);
	EXPECT_EQ(vmstat("pgpurged"), 512u) << "the block has come back";
	free_all(keep, 9);
	expect_all_free();
}

TEST(PageSpareTest, APurgeDoesNotWaitForAHolder)
{
	EXPECT_FRESH_PROCESS_PASSES(purge_beside_a_holder);
}

int counting_madvise(void *addr, size_t len, int advice)
{
	purges += advice == MADV_DONTNEED && virt_to_page(addr);
	return os_calls_linux.madvise(addr, len, advice);
}

/* A request purges a few blocks of a program that does not stand still, however many there are:
 * each is a system call. */
void few_at_once()
{
	os_calls.now_ms = fake_now_ms;
	configure("background_thread:never,dirty_max:0");
	Pages keep = unwanted(3, 8 * kMiB);
	unsigned most = 0, all = 0;

	os_calls.madvise = counting_madvise;
	for (int i = 0; i < 800; i++, fake_now += 4) {
		purges = 0;
		shim_page_decay();
		most = std::max(most, purges);
		all += purges;
	}
	os_calls.madvise = os_calls_linux.madvise;
	EXPECT_LE(most, 3u);
	EXPECT_GE(all, 100u) << "but goes on";
	EXPECT_GE(vmstat("pgpurged"), to_pages(7 * kMiB));
	free_all(keep, 3);
}

TEST(PageSpareTest, ARequestPurgesFewBlocks)
{
	EXPECT_FRESH_PROCESS_PASSES(few_at_once);
}

/* By how much the zone grows when a request needs more pages than it has. */
size_t growth(Pages &pages, unsigned order)
{
	const size_t before = zone().frontier;

	while (zone().frontier == before)
		pages.push_back(alloc_pages(GFP_KERNEL, order));
	return (zone().frontier - before) * ukmem_page_size();
}

/* Requests meet a holder, as long as this CPU has pages for them, and once more. */
void meet_holder(Pages &pages, unsigned order)
{
	ZoneHolder holder;

	while (struct page *page = alloc_pages(GFP_NOWAIT | __GFP_NOWARN, order))
		pages.push_back(page);
}

/* Requests wait while the zone grows. Once some have met a holder it grows by more at once,
 * until none has for a while. */
void grows_by_more()
{
	os_calls.now_ms = fake_now_ms;
	configure("background_thread:never,dirty_decay_ms:1000");
	Pages pages = fill(GFP_KERNEL, 9, 1);

	EXPECT_EQ(growth(pages, 9), 4 * kMiB);
	meet_holder(pages, 9);
	EXPECT_EQ(growth(pages, 9), 16 * kMiB);
	std::vector<void *> objects = meet_nobody();
	EXPECT_EQ(growth(pages, 9), 4 * kMiB);
	free_peak(objects);
	free_all(pages, 9);
	ukmem_trim();
	expect_all_free();
}

TEST(PageSpareTest, AZoneWithHoldersGrowsByMore)
{
	if (ukmem_page_size() != 4096)
		GTEST_SKIP() << "the orders are those of 4 KiB";
	EXPECT_FRESH_PROCESS_PASSES(grows_by_more);
}

/* Not so where addresses are scarce. */
void grows_by_little()
{
	configure("background_thread:never");
	Pages pages = fill(GFP_KERNEL, 4, 1);

	shim_window_use_small_steps();
	meet_holder(pages, 4);
	EXPECT_EQ(growth(pages, 4), kMiB / 2) << "an eighth of the first step";
	free_all(pages, 4);
	expect_all_free();
}

TEST(PageSpareTest, AZoneOfFewAddressesGrowsByLittle)
{
	if (ukmem_page_size() != 4096)
		GTEST_SKIP() << "the orders are those of 4 KiB";
	EXPECT_FRESH_PROCESS_PASSES(grows_by_little);
}

size_t longest;

int measuring_madvise(void *addr, size_t len, int advice)
{
	if (advice == MADV_DONTNEED && virt_to_page(addr))
		longest = std::max(longest, len);
	return os_calls_linux.madvise(addr, len, advice);
}

/* A large block goes in pieces of 2 MiB. */
void divided()
{
	os_calls.now_ms = fake_now_ms;
	configure("background_thread:never,dirty_max:0");
	Pages keep = unwanted(12, 64 * kMiB);

	os_calls.madvise = measuring_madvise;
	for (int i = 0; i < 1000; i++, fake_now += 8)
		shim_page_decay();
	os_calls.madvise = os_calls_linux.madvise;
	EXPECT_EQ(longest, 2 * kMiB);
	EXPECT_GE(vmstat("pgpurged"), to_pages(60 * kMiB));
	free_all(keep, 12);
	expect_all_free();
}

TEST(PageSpareTest, ALargeBlockGoesInPieces)
{
	if (ukmem_page_size() != 4096)
		GTEST_SKIP() << "the numbers of pages are those of 4 KiB";
	EXPECT_FRESH_PROCESS_PASSES(divided);
}

} // namespace
