/* SPDX-License-Identifier: MIT */
/* Low addresses (ZONE_DMA32) and pinned memory (ZONE_DMA). */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "fake_os.h"
#include "page_util.h"

namespace
{

constexpr uintptr_t k4GiB = 1ull << 32;

uintptr_t address(const struct page *page)
{
	return reinterpret_cast<uintptr_t>(page_address(page));
}

/* Counts the requests to lock memory, and refuses them with lock_error. */
int lock_error;
size_t lock_calls, unlock_calls, locked_bytes;

int counting_mlock(void *addr, size_t len)
{
	lock_calls++;
	if (lock_error)
		return lock_error;
	locked_bytes += len;
	return os_calls_linux.mlock(addr, len);
}

int counting_munlock(void *addr, size_t len)
{
	unlock_calls++;
	locked_bytes -= len;
	return os_calls_linux.munlock(addr, len);
}

/* Some sanitizers make mlock() do nothing. */
bool may_lock(size_t bytes)
{
	void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	bool may = p != MAP_FAILED && !mlock(p, bytes) && os_resident(p, bytes) == bytes;

	munmap(p, bytes);
	return may;
}

#define SKIP_WITHOUT_LOCKS()                                                                   \
	do {                                                                                   \
		if (!may_lock(7 * kMiB))                                                       \
			GTEST_SKIP() << "memory cannot be locked here";                        \
	} while (0)

void count_locks()
{
	os_calls.mlock = counting_mlock;
	os_calls.munlock = counting_munlock;
}

/* The low zone's index among all, and the pinned one's; with one node. */
constexpr unsigned kDma = 1, kLow = 2;

void low_addresses()
{
	size_t frontier = 0;

	configure("dirty_max:1g,dirty_decay_ms:3600000"); /* nothing is away to be purged */
	for (int round = 0; round < 2; round++) {
		for (unsigned order = 0; order <= 14; order++) {
			struct page *p = alloc_pages(GFP_KERNEL | GFP_DMA32, order);
			size_t bytes = ukmem_page_size() << order;

			ASSERT_NE(p, nullptr) << "order " << order;
			EXPECT_LE(address(p) + bytes, k4GiB);
			EXPECT_EQ(address(p) % bytes, 0u);
			EXPECT_EQ(page_zonenum(p), ZONE_DMA32);
			EXPECT_EQ(page_to_nid(p), 0);
			auto *last = static_cast<char *>(page_address(p)) + bytes - 1;
			struct page *tail = virt_to_page(last);
			ASSERT_NE(tail, nullptr);
			EXPECT_EQ(address(tail), address(p) + bytes - ukmem_page_size());
			EXPECT_EQ(virt_to_page(page_address(p)), p);
			EXPECT_EQ(page_zone(tail), page_zone(p));
			touch(p, order, 0x5a);
			__free_pages(p, order);
		}
		if (round) {
			EXPECT_EQ(zone(kLow).frontier, frontier) << "freed, but not reused";
		}
		frontier = zone(kLow).frontier;
		expect_whole();
	}
	expect_all_free();
	EXPECT_EQ(shim_zone_resident(kLow), 0u);
}

TEST(PageZonesTest, LowAddressesOfEveryOrder)
{
	EXPECT_FRESH_PROCESS_PASSES(low_addresses);
}

void low_runs_do_not_overlap()
{
	std::vector<std::pair<void *, size_t>> live;

	for (unsigned i = 0; i < 300; i++) {
		size_t bytes = (1 + i * 7 % 40) * ukmem_page_size();
		void *p = alloc_pages_exact(bytes, GFP_KERNEL | GFP_DMA32 | __GFP_ZERO);

		ASSERT_NE(p, nullptr);
		ASSERT_LE(reinterpret_cast<uintptr_t>(p) + bytes, k4GiB);
		for (size_t k = 0; k < bytes; k += 512)
			ASSERT_EQ(static_cast<char *>(p)[k], 0);
		memset(p, static_cast<int>(i), bytes);
		live.emplace_back(p, bytes);
		if (i % 3 == 2) {
			free_pages_exact(live[i / 3].first, live[i / 3].second);
			live[i / 3].first = nullptr;
		}
	}
	for (unsigned i = 0; i < live.size(); i++) {
		if (!live[i].first)
			continue;
		for (size_t k = 0; k < live[i].second; k += 512)
			ASSERT_EQ(static_cast<unsigned char *>(live[i].first)[k], i % 256);
		free_pages_exact(live[i].first, live[i].second);
	}
	expect_all_free();
}

TEST(PageZonesTest, LowRunsOfAnyLength)
{
	EXPECT_FRESH_PROCESS_PASSES(low_runs_do_not_overlap);
}

int low_error;

/* Somebody else has everything below 4 GiB. */
int taken_below(void **addr, size_t len, int prot, int flags)
{
	if (*addr && reinterpret_cast<uintptr_t>(*addr) < k4GiB)
		return low_error;
	return os_calls_linux.mmap(addr, len, prot, flags);
}

void low_space_is_taken(int error)
{
	low_error = error;
	os_calls.mmap = taken_below;
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(alloc_pages(GFP_KERNEL | GFP_DMA32 | __GFP_NOWARN, i), nullptr);
		EXPECT_EQ(kmalloc(kMiB, GFP_KERNEL | GFP_DMA32 | __GFP_NOWARN), nullptr);
		EXPECT_EQ(alloc_pages(GFP_ATOMIC | GFP_DMA32, 0), nullptr);
	}
	struct page *p = alloc_pages(GFP_KERNEL, 3);
	ASSERT_NE(p, nullptr);
	EXPECT_EQ(page_zonenum(p), ZONE_NORMAL);
	__free_pages(p, 3);
	EXPECT_EQ(virt_to_page(reinterpret_cast<void *>(k4GiB - 4096)), nullptr);
	EXPECT_EQ(virt_to_page(nullptr), nullptr);
	os_calls.mmap = os_calls_linux.mmap;
	p = alloc_pages(GFP_KERNEL | GFP_DMA32, 3);
	ASSERT_NE(p, nullptr) << "there is room again";
	EXPECT_LT(address(p), k4GiB);
	touch(p, 3);
	__free_pages(p, 3);
	expect_whole();
}

TEST(PageZonesTest, LowSpaceTakenMeansNull)
{
	EXPECT_FRESH_PROCESS_PASSES([] { low_space_is_taken(-EEXIST); });
	EXPECT_FRESH_PROCESS_PASSES([] { low_space_is_taken(-ENOMEM); });
}

/* Somebody has most of it: the largest part that is free has 256 MiB. */
int crowded_below(void **addr, size_t len, int prot, int flags)
{
	if (*addr && reinterpret_cast<uintptr_t>(*addr) < k4GiB && len > 256 * kMiB)
		return -EEXIST;
	return os_calls_linux.mmap(addr, len, prot, flags);
}

void little_low_space_for_two()
{
	configure("numa_fake:2");
	os_calls.mmap = crowded_below;
	for (int nid : { 0, 1 }) {
		Pages pages = fill_node(nid, GFP_KERNEL | GFP_DMA32, 10, 10);

		EXPECT_EQ(pages.size(), 10u) << "node " << nid;
		for (auto *p : pages)
			EXPECT_EQ(page_to_nid(p), nid);
		free_all(pages, 10);
	}
	expect_all_free();
}

TEST(PageZonesTest, LittleLowSpaceIsForAllNodes)
{
	EXPECT_FRESH_PROCESS_PASSES(little_low_space_for_two);
}

void low_zone_is_not_normal()
{
	configure("limit:64m");
	Pages low = fill(GFP_KERNEL | GFP_DMA32, 5);

	EXPECT_GE(low.size() * 32, to_pages(60 * kMiB));
	for (auto *p : low)
		ASSERT_EQ(page_zonenum(p), ZONE_DMA32);
	EXPECT_EQ(alloc_pages(GFP_KERNEL | GFP_DMA32 | __GFP_NOWARN, 5), nullptr);
	EXPECT_LE(limits().used, limits().limit);
	free_all(low, 5);
	for (auto *p : fill(GFP_KERNEL, 5, 100))
		ASSERT_EQ(page_zonenum(p), ZONE_NORMAL);
	expect_whole();
}

TEST(PageZonesTest, LowZoneHasLimitsToo)
{
	EXPECT_FRESH_PROCESS_PASSES(low_zone_is_not_normal);
}

void low_objects(size_t first, size_t last)
{
	std::vector<std::pair<char *, size_t>> live;

	/* Free objects of normal requests are there, and do not do. */
	for (size_t size = first; size <= last; size += size / 3 + 1)
		kfree(kmalloc(size, GFP_KERNEL));
	for (size_t size = first; size <= last; size += size / 3 + 1)
		for (int i = 0; i < 3; i++) {
			auto *p = static_cast<char *>(kmalloc(size, GFP_KERNEL | GFP_DMA32));

			ASSERT_NE(p, nullptr);
			ASSERT_LE(reinterpret_cast<uintptr_t>(p) + size, k4GiB) << size;
			EXPECT_GE(ksize(p), size);
			memset(p, static_cast<int>(size), size);
			live.emplace_back(p, size);
		}
	for (auto [p, size] : live) {
		ASSERT_EQ(p[0], static_cast<char>(size));
		ASSERT_EQ(p[size - 1], static_cast<char>(size));
		kfree(p);
	}
	/* Nothing that lay there may come out of a normal request now. */
	for (size_t size = first; size <= last; size += size / 3 + 1)
		for (int i = 0; i < 20; i++)
			ASSERT_GT(reinterpret_cast<uintptr_t>(kmalloc(size, GFP_KERNEL)), k4GiB)
				<< size;
	ukmem_trim();
	expect_whole();
}

TEST(PageZonesTest, LargeObjectsAtLowAddresses)
{
	EXPECT_FRESH_PROCESS_PASSES([] { low_objects(200000, 5000000); });
}

TEST(PageZonesTest, SmallObjectsAtLowAddresses)
{
	EXPECT_FRESH_PROCESS_PASSES([] { low_objects(1, 60000); });
}

void pinned_before_touch()
{
	size_t before = process_locked();
	Pages pages;

	count_locks();
	for (unsigned order : { 0u, 1u, 4u, 5u, 8u }) {
		size_t bytes = ukmem_page_size() << order;
		struct page *p = alloc_pages(GFP_KERNEL | GFP_DMA, order);

		ASSERT_NE(p, nullptr) << "order " << order;
		EXPECT_EQ(page_zonenum(p), ZONE_DMA);
		EXPECT_EQ(address(p) % bytes, 0u);
		EXPECT_EQ(os_resident(page_address(p), bytes), bytes) << "order " << order;
		pages.push_back(p);
	}
	EXPECT_GE(process_locked(), before + (ukmem_page_size() << 8));
	EXPECT_EQ(process_locked(), before + locked_bytes);
	unsigned freed = 0;
	for (unsigned order : { 0u, 1u, 4u, 5u, 8u }) {
		touch(pages[freed], order);
		__free_pages(pages[freed++], order);
	}
	expect_whole();
	/* The same again is there already. */
	size_t calls = lock_calls;
	for (unsigned order : { 8u, 0u, 5u, 4u, 1u }) {
		struct page *p = alloc_pages(GFP_KERNEL | GFP_DMA, order);

		ASSERT_NE(p, nullptr);
		EXPECT_EQ(os_resident(page_address(p), ukmem_page_size() << order),
			  ukmem_page_size() << order);
		__free_pages(p, order);
	}
	EXPECT_EQ(lock_calls, calls) << "what was freed is still pinned";
	expect_all_free();
	EXPECT_GT(unlock_calls, 0u);
	EXPECT_EQ(process_locked(), before) << "trim unpins";
	EXPECT_EQ(shim_zone_resident(kDma), 0u);
}

TEST(PageZonesTest, PinnedBeforeItIsTouched)
{
	SKIP_WITHOUT_LOCKS();
	EXPECT_FRESH_PROCESS_PASSES(pinned_before_touch);
}

void refused_lock(int error)
{
	count_locks();
	lock_error = error;
	for (unsigned order : { 0u, 3u, 4u, 7u }) {
		errno = 4711;
		EXPECT_EQ(alloc_pages(GFP_KERNEL | GFP_DMA | __GFP_NOWARN, order), nullptr);
		EXPECT_EQ(errno, 4711);
		shim_zone z = zone(kDma);
		EXPECT_EQ(z.used, 0u);
		EXPECT_EQ(z.nr_free, z.present);
		EXPECT_EQ(z.nr_dirty, 0u);
		expect_whole();
	}
	EXPECT_GT(lock_calls, 0u);
	EXPECT_GT(vmstat("pgpin_fail"), 0u);
	size_t frontier = zone(kDma).frontier;
	for (int i = 0; i < 50; i++)
		EXPECT_EQ(alloc_pages(GFP_KERNEL | GFP_DMA | __GFP_NOWARN, 0), nullptr);
	EXPECT_EQ(zone(kDma).frontier, frontier) << "refusals use up no addresses";
	lock_error = 0;
	struct page *p = alloc_pages(GFP_KERNEL | GFP_DMA, 2);
	ASSERT_NE(p, nullptr);
	EXPECT_EQ(os_resident(page_address(p), ukmem_page_size() << 2), ukmem_page_size() << 2);
	__free_pages(p, 2);
	expect_all_free();
}

TEST(PageZonesTest, RefusedLockMeansNullAndLosesNothing)
{
	SKIP_WITHOUT_LOCKS();
	EXPECT_FRESH_PROCESS_PASSES([] { refused_lock(-EPERM); });
	EXPECT_FRESH_PROCESS_PASSES([] { refused_lock(-ENOMEM); });
}

/* As much as the system locks, then NULL; what was locked stays of use. */
int few_mlocks(void *addr, size_t len)
{
	if (locked_bytes + len > kMiB)
		return -ENOMEM;
	return counting_mlock(addr, len);
}

void scarce_locks()
{
	count_locks();
	os_calls.mlock = few_mlocks;
	Pages pages = fill(GFP_KERNEL | GFP_DMA, 3);

	EXPECT_EQ(pages.size() * 8, to_pages(kMiB)) << "where 2 MiB are refused, less";
	for (int i = 0; i < 5; i++)
		EXPECT_EQ(alloc_pages(GFP_KERNEL | GFP_DMA | __GFP_NOWARN, 3), nullptr);
	free_all(pages, 3);
	pages = fill(GFP_KERNEL | GFP_DMA, 3);
	EXPECT_GE(pages.size() * 8 * 10, to_pages(kMiB) * 9);
	free_all(pages, 3);
	expect_all_free();
}

TEST(PageZonesTest, ScarceLocksAreUsedToTheEnd)
{
	SKIP_WITHOUT_LOCKS();
	EXPECT_FRESH_PROCESS_PASSES(scarce_locks);
}

void nowait_from_pinned_only()
{
	count_locks();
	EXPECT_EQ(alloc_pages(GFP_NOWAIT | GFP_DMA, 0), nullptr) << "nothing is pinned yet";
	ASSERT_TRUE(shim_page_init());
	EXPECT_EQ(alloc_pages(GFP_NOWAIT | GFP_DMA, 0), nullptr);
	EXPECT_EQ(alloc_pages(GFP_ATOMIC | GFP_DMA, 2), nullptr);
	EXPECT_EQ(lock_calls, 0u);
	Pages first = fill(GFP_KERNEL | GFP_DMA, 4, 20);
	ASSERT_EQ(first.size(), 20u);
	size_t calls = lock_calls, bytes = locked_bytes;
	free_all(first, 4);
	Pages pages = fill(GFP_ATOMIC | GFP_DMA, 2);
	EXPECT_GT(pages.size(), 20u);
	EXPECT_LE(pages.size() * 4, to_pages(bytes));
	for (auto *p : pages) {
		ASSERT_EQ(page_zonenum(p), ZONE_DMA);
		ASSERT_EQ(os_resident(page_address(p), ukmem_page_size() * 4),
			  ukmem_page_size() * 4);
		touch(p, 2);
	}
	EXPECT_EQ(lock_calls, calls);
	free_all(pages, 2);
	expect_all_free();
	EXPECT_EQ(alloc_pages(GFP_NOWAIT | GFP_DMA, 0), nullptr) << "trim has unpinned all";
}

TEST(PageZonesTest, NowaitIsServedFromPinnedMemoryOnly)
{
	SKIP_WITHOUT_LOCKS();
	EXPECT_FRESH_PROCESS_PASSES(nowait_from_pinned_only);
}

void pinned_zeroes()
{
	for (int round = 0; round < 6; round++) {
		struct page *p = alloc_pages(GFP_KERNEL | GFP_DMA | __GFP_ZERO, 4);
		auto *c = static_cast<char *>(page_address(p));

		for (size_t i = 0; i < ukmem_page_size() << 4; i++)
			ASSERT_EQ(c[i], 0) << "round " << round;
		touch(p, 4, 0xee);
		__free_pages(p, 4);
		if (round % 3 == 2)
			shim_trim(true);
	}
	void *p = kmalloc(100000, GFP_KERNEL | GFP_DMA);
	ASSERT_NE(p, nullptr);
	EXPECT_EQ(os_resident(p, 100000 / ukmem_page_size() * ukmem_page_size()),
		  100000 / ukmem_page_size() * ukmem_page_size());
	kfree(p);
	expect_whole();
}

TEST(PageZonesTest, PinnedMemoryIsZeroedWhenAskedFor)
{
	SKIP_WITHOUT_LOCKS();
	EXPECT_FRESH_PROCESS_PASSES(pinned_zeroes);
}

int refused_madvise(void *addr, size_t len, int advice)
{
	return advice == MADV_DONTNEED ? -EINVAL : os_calls_linux.madvise(addr, len, advice);
}

/* A trim unpins, may not purge, and may not pin again: then it is not pinned memory. */
void trim_that_fails()
{
	count_locks();
	struct page *p = alloc_pages(GFP_KERNEL | GFP_DMA, 6);
	ASSERT_NE(p, nullptr);
	__free_pages(p, 6);
	os_calls.madvise = refused_madvise;
	lock_error = -ENOMEM;
	shim_trim(true);
	lock_error = 0;
	os_calls.madvise = os_calls_linux.madvise;
	expect_whole();
	size_t before = process_locked();
	p = alloc_pages(GFP_KERNEL | GFP_DMA, 6);
	ASSERT_NE(p, nullptr);
	EXPECT_TRUE(before >= ukmem_page_size() << 6 || process_locked() > before)
		<< "handed out without a lock: " << before << " then " << process_locked();
	__free_pages(p, 6);
}

TEST(PageZonesTest, TrimThatFailsDoesNotCallItPinned)
{
	SKIP_WITHOUT_LOCKS();
	EXPECT_FRESH_PROCESS_PASSES(trim_that_fails);
}

/* Memory locks are not inherited by a child. */
void child_has_no_locks()
{
	struct page *p = alloc_pages(GFP_KERNEL | GFP_DMA, 4);
	int status = 0;

	ASSERT_NE(p, nullptr);
	__free_pages(p, 4);
	pid_t child = fork();
	if (!child) {
		p = alloc_pages(GFP_KERNEL | GFP_DMA, 4);
		_exit(!p ? 2 : process_locked() < ukmem_page_size() << 4 ? 1 : 0);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 0) << "1: not locked, 2: NULL";
}

TEST(PageZonesTest, ChildPinsItsOwnMemory)
{
	SKIP_WITHOUT_LOCKS();
	EXPECT_FRESH_PROCESS_PASSES(child_has_no_locks);
}

bool forking;
pid_t forked = -1;

/* A handler that interrupts a thread which stops CPUs, and forks. */
int fork_in_stop(int cmd, unsigned int flags, int cpu)
{
	if (!forking && forked == -1) {
		forking = true;
		forked = fork();
		forking = false;
	}
	return os_calls_linux.membarrier(cmd, flags, cpu);
}

void fork_in_a_drain()
{
	int status = 0;

	Pages pages = fill(GFP_KERNEL | GFP_DMA, 0, 100, true);
	free_all(pages, 0);
	os_calls.membarrier = fork_in_stop;
	ukmem_trim();
	os_calls.membarrier = os_calls_linux.membarrier;
	if (forked == -1)
		return; /* nothing is stopped by system calls here */
	expect_whole();
	if (!forked)
		_exit(testing::Test::HasFailure());
	ASSERT_EQ(waitpid(forked, &status, 0), forked);
	EXPECT_EQ(status, 0);
}

TEST(PageZonesTest, AChildGoesOnWithItsParentsDrain)
{
	SKIP_WITHOUT_LOCKS();
	SKIP_FORK_IN_HANDLER();
	EXPECT_FRESH_PROCESS_PASSES(fork_in_a_drain);
}

} // namespace
