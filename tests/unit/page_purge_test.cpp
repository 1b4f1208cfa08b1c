/* SPDX-License-Identifier: MIT */
/* The library purges no part of a huge page in use, no memory that the program uses again, and
 * no remains of runs; and it goes on when the system refuses to take memory back. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <chrono>
#include <future>
#include <set>

#include "page_decay_util.h"

namespace
{

/* Advice of the library's. */
unsigned huge, no_huge, purges, small_purges, refused;

int recording_madvise(void *addr, size_t len, int advice)
{
	bool pages = virt_to_page(addr) != nullptr || len >= 4 * kMiB;

	huge += pages && advice == MADV_HUGEPAGE;
	no_huge += pages && advice == MADV_NOHUGEPAGE && len == 4 * kMiB;
	purges += advice == MADV_DONTNEED;
	small_purges += advice == MADV_DONTNEED && virt_to_page(addr) && len < 2 * kMiB;
	return os_calls_linux.madvise(addr, len, advice);
}

void huge_pages(const char *thp, bool expect_huge, bool expect_none)
{
	os_calls.madvise = recording_madvise;
	os_calls.now_ms = fake_now_ms;
	configure(std::string("dirty_max:0,") + thp);
	ASSERT_TRUE(shim_page_init());
	huge = no_huge = 0;
	Pages pages = fill(GFP_KERNEL, 10, 4, true);
	EXPECT_EQ(huge > 0, expect_huge);
	EXPECT_EQ(no_huge > 0, expect_none);
	free_all(pages, 10);
	/* Runs that lie alone are not given back in pieces smaller than a huge page. */
	pages = fill(GFP_KERNEL, 5, 200, true);
	Pages keep;
	for (size_t i = 0; i < pages.size(); i += 4)
		keep.push_back(pages[i]);
	for (size_t i = 0; i < pages.size(); i++)
		if (i % 4)
			__free_pages(pages[i], 5);
	purges = small_purges = 0;
	little_activity(100);
	if (expect_huge) {
		EXPECT_EQ(small_purges, 0u) << "would split huge pages";
	} else {
		EXPECT_GT(small_purges, 0u);
	}
	free_all(keep, 5);
	purges = 0;
	little_activity(100);
	EXPECT_GT(purges, 0u);
	expect_whole();
}

TEST(PagePurgeTest, HugePages)
{
	EXPECT_FRESH_PROCESS_PASSES([] { huge_pages("thp:always", true, false); });
	EXPECT_FRESH_PROCESS_PASSES([] { huge_pages("thp:never", false, true); });
	EXPECT_FRESH_PROCESS_PASSES([] { huge_pages("thp:auto", false, false); });
}

/* As khugepaged does it: all of the huge page around @addr is resident, and zero where it was
 * not. */
void make_huge(void *addr)
{
	auto *start = reinterpret_cast<volatile char *>(reinterpret_cast<uintptr_t>(addr) &
							~(2 * kMiB - 1));

	for (size_t i = 0; i < 2 * kMiB; i += ukmem_page_size())
		start[i] = start[i];
}

size_t resident_around(void *addr)
{
	return os_resident(
		reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(addr) & ~(2 * kMiB - 1)),
		2 * kMiB);
}

/*
 * Pages that were never touched, or given back, are resident in a huge page. When nothing in
 * it is in use they go, also those that lie between others that are.
 */
void what_is_clean_goes()
{
	configure("thp:auto");
	struct page *page = alloc_pages(GFP_KERNEL, 0), *far;
	void *addr = page_address(page);

	make_huge(addr);
	ASSERT_EQ(resident_around(addr), 2 * kMiB);
	ukmem_trim();
	EXPECT_EQ(resident_around(addr), ukmem_page_size()) << "beside a page in use";
	__free_pages(page, 0);
	ukmem_trim();
	EXPECT_EQ(resident_around(addr), 0u);

	/* The same of pages that were given back before, and merged. */
	page = alloc_pages(GFP_KERNEL, 5);
	far = alloc_pages(GFP_KERNEL, 5);
	__free_pages(far, 5);
	ukmem_trim();
	make_huge(page_address(page));
	__free_pages(page, 5);
	ukmem_trim();
	EXPECT_EQ(resident_around(addr), 0u);
	expect_whole();
}

TEST(PagePurgeTest, WhatIsCleanGoesWithItsHugePage)
{
	EXPECT_FRESH_PROCESS_PASSES(what_is_clean_goes);
}

/* Takes @n pages and frees every other one. Result: those that stay. */
Pages every_other(size_t n)
{
	Pages pages = fill(GFP_KERNEL, 0, n, true), keep;

	for (size_t i = 0; i < pages.size(); i++)
		if (i % 2)
			keep.push_back(pages[i]);
		else
			__free_pages(pages[i], 0);
	return keep;
}

/* A process with many clean blocks that trims after every few frees: not every trim looks at
 * all of them, but one that comes later does. */
void trims_in_a_row()
{
	constexpr size_t kBlocks = 2000;

	os_calls.madvise = recording_madvise;
	os_calls.now_ms = fake_now_ms;
	configure("thp:auto");
	Pages keep = every_other(2 * kBlocks);

	purges = 0;
	ukmem_trim();
	EXPECT_GE(purges, 2 * kBlocks) << "each block is purged, and looked at";
	purges = 0;
	for (int i = 0; i < 100; i++) {
		struct page *page = alloc_pages(GFP_KERNEL, 5);

		memset(page_address(page), 1, ukmem_page_size() << 5);
		__free_pages(page, 5);
		EXPECT_GE(ukmem_trim(), ukmem_page_size() << 5) << "what is freed goes";
	}
	EXPECT_LE(purges, 3 * kBlocks);
	fake_now += 1000;
	purges = 0;
	ukmem_trim();
	EXPECT_GE(purges, kBlocks);
	free_all(keep, 0);
	expect_whole();
}

TEST(PagePurgeTest, TrimsInARow)
{
	EXPECT_FRESH_PROCESS_PASSES(trims_in_a_row);
}

int slow_madvise(void *addr, size_t len, int advice)
{
	fake_now += advice == MADV_DONTNEED;
	return recording_madvise(addr, len, advice);
}

/* A process has so many clean blocks that a look at them takes longer than the time from one
 * look to the next. */
void slow_looks()
{
	constexpr size_t kBlocks = 2000;

	os_calls.madvise = slow_madvise;
	os_calls.now_ms = fake_now_ms;
	configure("thp:auto");
	Pages keep = every_other(2 * kBlocks);

	ukmem_trim();
	purges = 0;
	for (int i = 0; i < 10; i++) {
		ukmem_trim();
		fake_now += 1000;
	}
	EXPECT_LE(purges, kBlocks / 10) << "nothing has changed";
	fake_now += 40 * kBlocks;
	ukmem_trim();
	EXPECT_GE(purges, kBlocks);
	free_all(keep, 0);
	expect_whole();
}

TEST(PagePurgeTest, SlowLooksAreRare)
{
	EXPECT_FRESH_PROCESS_PASSES(slow_looks);
}

/* While a page goes back, another thread's request takes the zone's lock. */
int request_in_purge(void *addr, size_t len, int advice)
{
	if (advice == MADV_DONTNEED && virt_to_page(addr) && purges++ < 100) {
		auto request = std::async(std::launch::async, [] {
			struct page *page = alloc_pages(GFP_KERNEL, 9);

			if (page)
				__free_pages(page, 9);
		});

		if (request.wait_for(std::chrono::seconds(5)) != std::future_status::ready)
			abort();
	}
	return os_calls_linux.madvise(addr, len, advice);
}

void requests_do_not_wait()
{
	configure("thp:auto,dirty_max:1g");
	Pages keep = every_other(64);

	purges = 0;
	os_calls.madvise = request_in_purge;
	ukmem_trim();
	os_calls.madvise = os_calls_linux.madvise;
	EXPECT_GE(purges, 64u) << "each block is purged, and looked at";
	free_all(keep, 0);
	expect_whole();
}

TEST(PagePurgeTest, RequestsDoNotWaitForATrim)
{
	EXPECT_FRESH_PROCESS_PASSES(requests_do_not_wait);
}

int refuse_purges(void *addr, size_t len, int advice)
{
	if (advice == MADV_DONTNEED) {
		refused++;
		return -EINVAL;
	}
	return os_calls_linux.madvise(addr, len, advice);
}

void refused_decay()
{
	os_calls.now_ms = fake_now_ms;
	os_calls.madvise = refuse_purges;
	configure("dirty_max:0");
	auto live = peak(64 * kMiB, kMiB);

	free_peak(live);
	little_activity(60);
	EXPECT_GT(refused, 0u);
	/* In each period the library asks for sixteen blocks, and for parts of four of them. */
	EXPECT_LT(refused, 60u * 64) << "again and again for nothing";
	EXPECT_EQ(vmstat("pgpurged"), 0u);
	EXPECT_EQ(ukmem_trim(), 0u);
	for (int i = 0; i < 64; i++) {
		auto *p = static_cast<char *>(kzalloc(kMiB, GFP_KERNEL));

		ASSERT_NE(p, nullptr);
		ASSERT_TRUE(p[0] == 0 && !memcmp(p, p + 1, kMiB - 1)) << i;
		memset(p, 2, kMiB);
		live.push_back(p);
	}
	free_peak(live);
	os_calls.madvise = os_calls_linux.madvise;
	EXPECT_GE(ukmem_trim(), 60 * kMiB) << "the system agrees again";
	expect_whole();
}

TEST(PagePurgeTest, RefusedPurges)
{
	EXPECT_FRESH_PROCESS_PASSES(refused_decay);
}

/* How many purges are inside each other now; the one in which this thread forks. */
unsigned depth, forks_in;
bool in_child;
pid_t child;

/* A handler interrupts a purge and gives memory back itself; one of them forks, and goes on. */
int fork_in_purge(void *addr, size_t len, int advice)
{
	if (advice != MADV_DONTNEED || !virt_to_page(addr) || child || in_child)
		return os_calls_linux.madvise(addr, len, advice);
	if (++depth == 1)
		ukmem_trim();
	if (depth == forks_in && !child && !in_child) {
		child = fork();
		in_child = !child;
	}
	depth--;
	return os_calls_linux.madvise(addr, len, advice);
}

void purge_in_purge(unsigned forks)
{
	int status = 0;

	configure("dirty_max:1g");
	auto between = peak(64 * kMiB, kMiB);
	/* Blocks that do not merge, one for each purge. */
	for (size_t i = 0; i < between.size(); i += 2) {
		kfree(between[i]);
		between[i] = nullptr;
	}
	forks_in = forks;
	os_calls.madvise = fork_in_purge;
	ukmem_trim();
	EXPECT_TRUE(child || in_child);
	os_calls.madvise = os_calls_linux.madvise;
	free_peak(between);
	expect_whole();
	if (in_child)
		_exit(testing::Test::HasFailure());
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0) << "the child";
}

TEST(PagePurgeTest, ForksInPurgesInsideEachOther)
{
	for (unsigned forks : { 1u, 2u })
		EXPECT_FRESH_PROCESS_PASSES([=] { purge_in_purge(forks); });
}

/* Freed and taken again all the time: kept. */
TEST(PagePurgeTest, WhatIsUsedAgainStays)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.now_ms = fake_now_ms;
		configure("dirty_max:0");
		auto live = peak(64 * kMiB, kMiB);

		free_peak(live);
		for (int i = 0; i < 100; i++) {
			live = peak(64 * kMiB, kMiB);
			fake_now += 300;
			free_peak(live);
		}
		EXPECT_LE(vmstat("pgrefault"), to_pages(100 * 64 * kMiB) / 10);
	});
}

/* Large blocks are taken apart, and this CPU's lists emptied, before memory is touched. */
TEST(PagePurgeTest, ResidentMemoryComesFirst)
{
	SKIP_WHERE_SHADOWS_STAY();
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("dirty_max:64m");
		Pages large = fill(GFP_KERNEL, 8, 16 * kMiB / (ukmem_page_size() << 8), true);
		Pages medium = fill(GFP_KERNEL, 3, 8, true), small;

		free_all(large, 8);
		free_all(medium, 3);
		size_t start = process_resident();
		small = fill(GFP_KERNEL, 0, to_pages(16 * kMiB), true);
		/* Linux counts up to some hundred KiB of each CPU later. */
		EXPECT_LE(process_resident(), start + 2 * kMiB);
		EXPECT_LE(limits().dirty, to_pages(kMiB));
		free_all(small, 0);
		expect_all_free();
	});
}

uintptr_t page_number(struct page *page)
{
	return reinterpret_cast<uintptr_t>(page_address(page)) / ukmem_page_size();
}

/*
 * Decay leaves the smallest blocks resident: the remains, of a page or two, of runs that are no
 * power of two. Single pages must not be taken out of these remains, all over the zone, because
 * then no large run would ever be whole again.
 */
void remains_stay_whole()
{
	configure("pagesets:0");
	Pages pages = fill(GFP_KERNEL, 0, 64 * 300, false), remains;
	std::set<uintptr_t> places;

	for (auto *page : pages)
		if (page_number(page) % 64 == 48)
			remains.push_back(page);
		else
			__free_page(page);
	ASSERT_GE(remains.size(), 299u);
	ukmem_trim();
	free_all(remains, 0);
	EXPECT_GE(vmstat("nr_free_dirty"), 299u);
	pages = fill(GFP_KERNEL, 0, 200, false);
	for (auto *page : pages)
		places.insert(page_number(page) / 64);
	EXPECT_LE(places.size(), 50u) << "of 64 pages each";
	free_all(pages, 0);
	expect_whole();
}

TEST(PagePurgeTest, RemainsStayWhole)
{
	EXPECT_FRESH_PROCESS_PASSES(remains_stay_whole);
}

/* Free pages that a growing block cannot use do not add up. */
TEST(PagePurgeTest, HolesAreGivenBack)
{
	SKIP_WHERE_SHADOWS_STAY();
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.now_ms = fake_now_ms;
		configure("dirty_max:1m");
		Pages between = fill(GFP_KERNEL, 5, 64 * kMiB / (ukmem_page_size() << 5), true),
		      kept;

		for (size_t i = 0; i < between.size(); i++)
			i % 2 ? __free_pages(between[i], 5) : kept.push_back(between[i]);
		size_t start = process_resident();
		ASSERT_GE(limits().dirty, to_pages(24 * kMiB));
		for (int i = 0; i < 32; i++) {
			fake_now++;
			between[i] = alloc_pages(GFP_KERNEL, 7);
			ASSERT_NE(between[i], nullptr);
			touch(between[i], 7);
		}
		EXPECT_GE(vmstat("pgpurged"), to_pages(8 * kMiB));
		EXPECT_LE(process_resident(), start + 10 * kMiB);
		for (int i = 0; i < 32; i++)
			__free_pages(between[i], 7);
		free_all(kept, 5);
		expect_all_free();
	});
}

} // namespace
