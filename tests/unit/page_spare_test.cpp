/* SPDX-License-Identifier: MIT */
/* Requests and purges that find the zone's lock taken for long: its holder has lost its CPU.
 * They do not wait. */
#include <linux/mman.h>
#include <sys/mman.h>

#include "page_decay_util.h"
#include "page_util.h"
#include "test_util.h"

namespace
{

/* Another thread holds the lock of the first zone until this object is gone. If that takes
 * long, somebody waits for it. */
class Holder
{
      public:
	Holder() : thread_([this] { hold(); })
	{
		while (!held_)
			usleep(100);
	}

	~Holder()
	{
		done_ = true;
		thread_.join();
	}

      private:
	void hold()
	{
		while (!shim_zone_trylock(0))
			usleep(100);
		held_ = true;
		for (int ms = 0; ms < 5000 && !done_; ms++)
			usleep(1000);
		EXPECT_TRUE(done_) << "a request waits";
		shim_zone_unlock(0);
	}

	std::atomic_bool held_{ false }, done_{ false };
	std::thread thread_;
};

constexpr unsigned kSpare = 24; /* fewer than a zone has in the end */

/* Requests that met a holder before have the zone keep spare runs. */
void learn(Pages &pages)
{
	for (int i = 0; i < 8; i++) {
		struct page *freed = alloc_pages(GFP_KERNEL, 9);
		Holder holder;

		__free_pages(freed, 9);
		pages.push_back(alloc_pages(GFP_KERNEL, 9));
		ASSERT_EQ(pages.back(), freed) << "it was deferred, and is the same";
	}
	Pages more = fill(GFP_KERNEL, 9, 4);
	pages.insert(pages.end(), more.begin(), more.end());
}

void spares()
{
	configure("background_thread:never,dirty_max:1g");
	void *used = kmalloc(64 * kMiB, GFP_KERNEL);
	Pages large, small;

	learn(large);
	unsigned long before = vmstat("pgalloc_spare");
	EXPECT_GE(before, 8u);
	size_t kept = zone().pageset;
	{
		Holder holder;

		for (unsigned i = 0; i < kSpare; i++) {
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
	kfree(used);
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
	void *used = kmalloc(64 * kMiB, GFP_KERNEL);
	Pages large;
	std::vector<void *> odd;

	learn(large);
	{
		Holder holder;

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
	kfree(used);
	expect_all_free();
}

TEST(PageSpareTest, ARunIsCutAndItsRestServesToo)
{
	EXPECT_FRESH_PROCESS_PASSES(cuts);
}

/* Nothing is spare in a process whose requests never met a holder. */
void none()
{
	void *used = kmalloc(64 * kMiB, GFP_KERNEL);
	Pages pages = fill(GFP_KERNEL, 4, 2 * kSpare);

	EXPECT_EQ(vmstat("pgalloc_spare"), 0u);
	EXPECT_LE(zone().pageset, to_pages(kMiB)) << "what a CPU keeps";
	free_all(pages, 4);
	kfree(used);
}

TEST(PageSpareTest, NoneWithoutNeed)
{
	EXPECT_FRESH_PROCESS_PASSES(none);
}

/* A trim gives spare runs back. */
void trimmed()
{
	configure("background_thread:never,dirty_max:1g");
	void *used = kmalloc(64 * kMiB, GFP_KERNEL);
	Pages large;

	learn(large);
	EXPECT_GE(zone().pageset, 16 * 16u);
	ukmem_trim();
	EXPECT_EQ(zone().pageset, 0u);
	free_all(large, 9);
	kfree(used);
	expect_all_free();
}

TEST(PageSpareTest, ATrimGivesThemBack)
{
	EXPECT_FRESH_PROCESS_PASSES(trimmed);
}

/* The deferred runs that do not serve stay deferred, and are listed in the end. */
void deferred_stay()
{
	configure("background_thread:never,dirty_max:1g");
	Pages pages = fill(GFP_KERNEL, 9, 20);
	size_t before = limits().used;
	struct page *larger;
	{
		Holder holder;

		free_all(pages, 9);
		larger = alloc_pages(GFP_KERNEL, 6);
		ASSERT_NE(larger, nullptr) << "the beginning of one";
		EXPECT_EQ(limits().used, before) << "listed";
	}
	EXPECT_EQ(vmstat("pgalloc_spare"), 1u);
	EXPECT_EQ(limits().used, before - 20 * 512 + 64) << "as soon as the lock is free";
	expect_whole();
	__free_pages(larger, 6);
	expect_all_free();
}

TEST(PageSpareTest, WhatDoesNotServeStaysDeferred)
{
	EXPECT_FRESH_PROCESS_PASSES(deferred_stay);
}

/* While a request gives back what it has purged, another thread takes the lock. */
Holder *beside;
unsigned purges;

int held_in_purge(void *addr, size_t len, int advice)
{
	if (advice == MADV_DONTNEED && virt_to_page(addr) && !purges++)
		beside = new Holder;
	return os_calls_linux.madvise(addr, len, advice);
}

/* Runs of 2 MiB with others between them, which a program freed and does not want any more. */
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

	fake_now += 1100;
	shim_page_decay();
	os_calls.madvise = counting_madvise;
	for (int i = 0; i < 500; i++, fake_now += i % 2) {
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
