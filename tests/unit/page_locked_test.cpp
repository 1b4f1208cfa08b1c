/* SPDX-License-Identifier: MIT */
/* Memory that the program has locked, and freed: what lies beside it goes back to the system
 * all the same, and the system is not asked for ever. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>

#include "page_decay_util.h"

namespace
{

struct Range {
	uintptr_t from, to;
};

/* The ranges that the program has locked, for refuse_locked(): some sanitizers make mlock() do
 * nothing, and the system may allow a process to lock little. */
std::vector<Range> locked;
std::atomic<unsigned> asked; /* by the background thread, too */
void (*when_asked)();

/* As Linux does it: purges what lies before the first locked page, and refuses. */
int refuse_locked(void *addr, size_t len, int advice)
{
	auto from = reinterpret_cast<uintptr_t>(addr);
	uintptr_t to = from + len;

	if (advice != MADV_DONTNEED || !virt_to_page(addr))
		return os_calls_linux.madvise(addr, len, advice);
	asked++;
	if (when_asked)
		when_asked();
	for (const Range &range : locked)
		if (range.from < to && range.to > from)
			to = std::max(range.from, from);
	if (to > from && os_calls_linux.madvise(addr, to - from, advice))
		abort();
	return to == from + len ? 0 : -EINVAL;
}

void lock_pages(void *addr, size_t len)
{
	auto from = reinterpret_cast<uintptr_t>(addr);

	locked.push_back({ from, from + len });
}

/* The library purges when a test asks for it, and not before. */
constexpr const char *kOnDemand = "dirty_max:1g,thp:auto,background_thread:never";

void start(const char *tunables)
{
	configure(tunables);
	os_calls.madvise = refuse_locked;
}

/* Blocks with others between them that stay in use, so that no two of them merge. */
struct Apart {
	std::vector<void *> blocks, between;

	Apart(size_t n, size_t size)
	{
		for (size_t i = 0; i < 2 * n; i++)
			(i % 2 ? between : blocks).push_back(peak(size, size).at(0));
	}
};

/* Frees @blocks of @size, which the program has locked. */
void free_locked(std::vector<void *> &blocks, size_t size)
{
	for (void *block : blocks)
		lock_pages(block, size);
	free_peak(blocks);
}

/* When nothing is locked any more, all goes. */
void expect_unlocked_goes()
{
	locked.clear();
	ukmem_trim();
	EXPECT_EQ(limits().dirty, 0u);
	expect_whole();
}

void pages_in_a_block(const std::vector<size_t> &pages, size_t most_dirty, unsigned most_asked)
{
	const size_t page = ukmem_page_size(), size = 16 * kMiB;

	start(kOnDemand);
	auto *block = static_cast<char *>(peak(size, size).at(0));

	for (size_t at : pages)
		lock_pages(block + at * page, page);
	kfree(block);
	size_t dirty = limits().dirty;
	ASSERT_GE(dirty, to_pages(size));
	asked = 0;
	size_t purged = ukmem_trim();
	EXPECT_LE(asked, most_asked) << asked;
	EXPECT_LE(limits().dirty, most_dirty) << limits().dirty;
	EXPECT_GE(limits().dirty, pages.size());
	EXPECT_EQ(purged, (dirty - limits().dirty) * page);
	EXPECT_LE(os_resident(block, size), limits().dirty * page);
	expect_unlocked_goes();
}

/* A page of a block that is given back as a whole otherwise. */
TEST(PageLockedTest, OnePageKeepsNoBlockResident)
{
	for (size_t at :
	     { size_t{ 0 }, size_t{ 1 }, to_pages(5 * kMiB), to_pages(16 * kMiB) - 1 })
		EXPECT_FRESH_PROCESS_PASSES([=] { pages_in_a_block({ at }, 8, 60); });
}

TEST(PageLockedTest, ManyPagesOfABlock)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		std::vector<size_t> pages;

		for (size_t i = 0; i < 100; i++)
			pages.push_back(20 + i * 37);
		pages_in_a_block(pages, 800, 2000);
	});
}

/* A part of a block: what lies before it and behind it goes. */
TEST(PageLockedTest, ALargePartOfABlock)
{
	for (size_t from : { 0 * kMiB, 4 * kMiB, 15 * kMiB })
		EXPECT_FRESH_PROCESS_PASSES([=] {
			start(kOnDemand);
			auto *block = static_cast<char *>(peak(16 * kMiB, 16 * kMiB).at(0));

			lock_pages(block + from, kMiB);
			kfree(block);
			asked = 0;
			size_t dirty = limits().dirty, purged = ukmem_trim();
			EXPECT_EQ(limits().dirty, to_pages(kMiB));
			EXPECT_EQ(purged, (dirty - limits().dirty) * ukmem_page_size());
			EXPECT_LE(asked, 200u);
			expect_unlocked_goes();
		});
}

/* Blocks that are locked as a whole, and larger than others. */
TEST(PageLockedTest, LargerBlocksThatAreLockedKeepNoOthers)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		start(kOnDemand);
		Apart large(20, kMiB), small(100, 64 << 10);

		free_locked(large.blocks, kMiB);
		free_peak(small.blocks);
		EXPECT_GE(ukmem_trim(), 100u * (64 << 10));
		EXPECT_LE(limits().dirty, to_pages(21 * kMiB));
		free_peak(large.between);
		free_peak(small.between);
		expect_unlocked_goes();
	});
}

/* The same while the program goes on, and what is locked comes first each time. */
TEST(PageLockedTest, DecayGoesOnBesideBlocksThatAreLocked)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.now_ms = fake_now_ms;
		start("dirty_max:0,thp:auto,background_thread:never");
		Apart large(6, 2 * kMiB), equal(6, kMiB), blocks(40, kMiB);

		free_locked(large.blocks, 2 * kMiB);
		free_locked(equal.blocks, kMiB);
		free_peak(blocks.blocks);
		little_activity(60);
		EXPECT_LE(limits().dirty, to_pages(19 * kMiB));
		free_peak(large.between);
		free_peak(equal.between);
		free_peak(blocks.between);
		expect_unlocked_goes();
	});
}

/* Where the system grants no more addresses, dirty pages merge with clean ones. */
TEST(PageLockedTest, WhereThereIsNoMoreMemory)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		start(kOnDemand);
		auto *block = static_cast<char *>(peak(16 * kMiB, 16 * kMiB).at(0));
		Apart others(20, kMiB);

		os_calls.mmap = [](void **, size_t, int, int) { return -ENOMEM; };
		os_calls.mprotect = [](void *, size_t, int) { return -ENOMEM; };
		ASSERT_EQ(kmalloc(512 * kMiB, GFP_KERNEL | __GFP_NOWARN), nullptr);
		lock_pages(block + 10 * kMiB, ukmem_page_size());
		kfree(block);
		free_peak(others.blocks);
		asked = 0;
		size_t purged = ukmem_trim();
		EXPECT_GE(purged, 35 * kMiB);
		EXPECT_LE(purged, 40 * kMiB) << "each page once";
		EXPECT_LE(limits().dirty, to_pages(17 * kMiB));
		EXPECT_LE(asked, 200u);
		os_calls.mmap = os_calls_linux.mmap;
		os_calls.mprotect = os_calls_linux.mprotect;
		free_peak(others.between);
		expect_unlocked_goes();
	});
}

/* A limit counts free pages that may be resident: they must go for a request's sake. */
TEST(PageLockedTest, ALimitServesWhatCanBePurged)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		start("dirty_max:1g,limit:64m,thp:auto,background_thread:never");
		auto *block = static_cast<char *>(peak(24 * kMiB, 24 * kMiB).at(0));
		Apart others(8, kMiB);

		lock_pages(block + 10 * kMiB, ukmem_page_size());
		kfree(block);
		free_peak(others.blocks);
		void *next = kmalloc(30 * kMiB, GFP_KERNEL);
		EXPECT_NE(next, nullptr);
		kfree(next);
		free_peak(others.between);
		expect_unlocked_goes();
	});
}

/* Single free pages, with others between them that stay in use: half of them the system has
 * taken back, the others the program has locked since. */
struct Single {
	Pages between;

	explicit Single(size_t n)
	{
		Pages all = fill(GFP_KERNEL, 0, 4 * n, true), clean, dirty;

		for (size_t i = 0; i < all.size(); i++)
			(i % 2 == 0 ? between : i < 2 * n ? clean : dirty).push_back(all[i]);
		free_all(clean, 0);
		shim_trim(false);
		locked.push_back({ 0, UINTPTR_MAX });
		free_all(dirty, 0);
	}
};

double seconds_of(const std::function<void()> &f)
{
	auto start = std::chrono::steady_clock::now();

	f();
	return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/* A trim looks at each clean block. It must not go by all that are locked each time, because
 * the zone's lock is held meanwhile. */
TEST(PageLockedTest, ALookAtCleanBlocksGoesByNoLockedOnes)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		const size_t n = 30000;

		start(kOnDemand);
		Single pages(n);

		asked = 0;
		double trim = seconds_of([] { ukmem_trim(); });
		ASSERT_GE(asked, n - 1000) << "the look";
		ASSERT_GE(limits().dirty, n - 1000);
		double calls = seconds_of([&] {
			for (size_t i = 0; i < n; i++)
				os_calls_linux.madvise(page_address(pages.between[i]),
						       ukmem_page_size(), MADV_DONTNEED);
		});
		EXPECT_LE(trim, 0.3 + 20 * calls);
		free_all(pages.between, 0);
		expect_unlocked_goes();
	});
}

/* The program takes all the dirty ones after a while. */
TEST(PageLockedTest, ALookAtCleanBlocksWhileDirtyOnesAreTaken)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		static std::set<void *> looked_at;
		static Pages taken;

		start(kOnDemand);
		Single pages(1000);

		os_calls.madvise = [](void *addr, size_t len, int advice) {
			if (virt_to_page(addr) && looked_at.insert(addr).second &&
			    looked_at.size() == 500)
				taken = fill(GFP_KERNEL, 0, 1100);
			return refuse_locked(addr, len, advice);
		};
		ukmem_trim();
		os_calls.madvise = refuse_locked;
		EXPECT_GE(looked_at.size(), 850u);
		EXPECT_EQ(limits().dirty, 0u);
		free_all(taken, 0);
		free_all(pages.between, 0);
		expect_unlocked_goes();
	});
}

/* All memory is locked (mlockall): each purge is given up after a few calls. */
TEST(PageLockedTest, WhereAllIsLockedTheSystemIsAskedLittle)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.now_ms = fake_now_ms;
		start("dirty_max:0,thp:auto,background_thread:never");
		Apart blocks(50, kMiB);

		locked.push_back({ 0, UINTPTR_MAX });
		free_peak(blocks.blocks);
		little_activity(30);
		asked = 0;
		little_activity(1000);
		EXPECT_GT(asked, 0u);
		EXPECT_LE(asked, 1000u * 4 * 16) << "four blocks for parts";
		asked = 0;
		EXPECT_EQ(ukmem_trim(), 0u);
		EXPECT_GT(asked, 0u);
		EXPECT_LE(asked, 32u * 16) << "32 blocks for parts";
		free_peak(blocks.between);
		expect_unlocked_goes();
	});
}

/* It starts at a request past the CPU's caches. */
void wait_for_thread(std::vector<void *> &pieces)
{
	for (int i = 0; i < 2000 && !shim_background_is_running(); i++) {
		free_peak(pieces);
		pieces = peak(kMiB, kMiB);
		usleep(1000);
	}
	EXPECT_TRUE(shim_background_is_running());
}

void wait_for_end()
{
	for (int i = 0; i < 5000 && shim_background_is_running(); i++)
		usleep(1000);
	EXPECT_FALSE(shim_background_is_running());
}

/* The thread that decays memory ends when the system takes nothing back. */
void ends(bool all)
{
	start("dirty_decay_ms:40,dirty_max:0,background_thread:always");
	Apart blocks(40, kMiB);

	locked.push_back({ 0, all ? UINTPTR_MAX : 0 });
	if (!all)
		lock_pages(blocks.blocks[3], ukmem_page_size());
	free_peak(blocks.blocks);
	wait_for_thread(blocks.between);
	wait_for_end();
	EXPECT_LE(limits().dirty, all ? SIZE_MAX : 8u);
}

/* No period ends here, so only the thread's start shows what a request thinks of the zone. */
void starts_again()
{
	start("dirty_decay_ms:3600000,dirty_max:0,background_thread:always");
	Apart blocks(40, kMiB), others(40, kMiB);

	free_locked(blocks.blocks, kMiB);
	EXPECT_EQ(ukmem_trim(), 0u);
	for (int i = 0; i < 50; i++) {
		kfree(kmalloc(300000, GFP_KERNEL));
		usleep(1000);
	}
	EXPECT_FALSE(shim_background_is_running()) << "for memory that nobody takes back";
	free_peak(others.blocks);
	wait_for_thread(others.between);
}

/* The thread that starts again gives back what is not locked. */
void decays_again()
{
	start("dirty_decay_ms:40,dirty_max:0,background_thread:always");
	Apart blocks(40, kMiB), others(40, kMiB);

	free_locked(blocks.blocks, kMiB);
	wait_for_thread(blocks.between);
	wait_for_end();
	free_peak(others.blocks);
	wait_for_thread(others.between);
	wait_for_end();
	EXPECT_LE(limits().dirty, to_pages(42 * kMiB));
}

/* The program frees more while a period goes on, and the thread leaves that for the next one.
 * Then the system refuses all, and the thread ends. */
void ends_later(unsigned ms)
{
	start("dirty_decay_ms:40,dirty_max:0,background_thread:always");
	Apart blocks(24, kMiB), others(16, kMiB);

	for (void *block : others.blocks)
		lock_pages(block, kMiB);
	free_locked(blocks.blocks, kMiB);
	wait_for_thread(blocks.between);
	usleep(ms * 1000);
	free_peak(others.blocks);
	wait_for_thread(others.between);
	wait_for_end();
}

/* The program takes what the system refused to purge, unlocks it, and frees it again: now the
 * system takes it. */
void starts_for_the_same_memory()
{
	start("dirty_decay_ms:3600000,dirty_max:0,background_thread:always");
	Apart blocks(7, kMiB);

	free_locked(blocks.blocks, kMiB);
	EXPECT_EQ(ukmem_trim(), 0u);
	blocks.blocks = peak(7 * kMiB, kMiB);
	EXPECT_EQ(limits().dirty, 0u);
	locked.clear();
	free_peak(blocks.blocks);
	std::vector<void *> none;
	wait_for_thread(none);
}

/* A period of decay ends in the middle of a purge in which the system refuses everything: what
 * is free is as free in the next one. */
void period_ends_in_a_purge()
{
	start("dirty_max:0,dirty_decay_ms:1000,thp:auto,background_thread:never");
	os_calls.now_ms = fake_now_ms;
	Apart blocks(40, kMiB);

	locked.push_back({ 0, UINTPTR_MAX });
	free_peak(blocks.blocks);
	asked = 0;
	when_asked = [] {
		if (asked == 1)
			std::thread([] { little_activity(2); }).join();
	};
	ukmem_trim();
	when_asked = nullptr;
	locked.clear();
	ASSERT_GE(limits().dirty, to_pages(39 * kMiB));
	little_activity(1);
	for (int i = 0; i < 200; i++)
		kfree(kmalloc(300000, GFP_KERNEL));
	EXPECT_LE(limits().dirty, to_pages(4 * kMiB));
}

TEST(PageLockedTest, APeriodThatEndsInAPurge)
{
	EXPECT_FRESH_PROCESS_PASSES(period_ends_in_a_purge);
}

/* Where there are no more addresses, parts that were purged merge with a locked page again. */
void ends_at_the_end()
{
	start("dirty_decay_ms:40,dirty_max:0,background_thread:always");
	Apart blocks(40, kMiB);

	os_calls.mmap = [](void **, size_t, int, int) { return -ENOMEM; };
	os_calls.mprotect = [](void *, size_t, int) { return -ENOMEM; };
	EXPECT_EQ(kmalloc(512 * kMiB, GFP_KERNEL | __GFP_NOWARN), nullptr);
	for (void *block : blocks.blocks)
		lock_pages(static_cast<char *>(block) + kMiB / 2, ukmem_page_size());
	free_peak(blocks.blocks);
	wait_for_thread(blocks.between);
	wait_for_end();
}

TEST(PageLockedTest, TheBackgroundThreadEnds)
{
	EXPECT_FRESH_PROCESS_PASSES([] { ends(true); });
	EXPECT_FRESH_PROCESS_PASSES([] { ends(false); });
	EXPECT_FRESH_PROCESS_PASSES(ends_at_the_end);
}

TEST(PageLockedTest, TheBackgroundThreadStartsAgain)
{
	EXPECT_FRESH_PROCESS_PASSES(starts_again);
	EXPECT_FRESH_PROCESS_PASSES(decays_again);
	for (unsigned ms : { 5, 15, 25, 35 })
		EXPECT_FRESH_PROCESS_PASSES([&] { ends_later(ms); });
	EXPECT_FRESH_PROCESS_PASSES(starts_for_the_same_memory);
}

/* A large run that would take clean memory has dirty holes purged first. Where the system
 * refuses all of them, the library asks once a period. */
TEST(PageLockedTest, AProgramThatGrowsAsksLittle)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.now_ms = fake_now_ms;
		start("dirty_max:0,thp:auto,background_thread:never");
		Apart holes(200, 64 << 10);

		free_locked(holes.blocks, 64 << 10);
		asked = 0;
		std::vector<void *> grown = peak(300 * 200 * 1024, 200 * 1024);
		EXPECT_LE(asked, 100u);
		free_peak(grown);
		free_peak(holes.between);
		expect_unlocked_goes();
	});
}

/* A process that forks in the middle of a purge, when blocks have been refused already. */
pid_t child;
bool in_child;

void fork_when_refused()
{
	if (asked < 20 || child || in_child)
		return;
	child = fork();
	in_child = !child;
}

void forks()
{
	int status = 0;

	start(kOnDemand);
	Apart blocks(20, kMiB);

	for (int i : { 0, 1, 2 })
		lock_pages(blocks.blocks[i], kMiB);
	free_peak(blocks.blocks);
	asked = 0;
	when_asked = fork_when_refused;
	EXPECT_GE(ukmem_trim(), 17 * kMiB);
	when_asked = nullptr;
	EXPECT_TRUE(child || in_child);
	free_peak(blocks.between);
	expect_unlocked_goes();
	if (in_child)
		_exit(testing::Test::HasFailure());
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0) << "the child";
}

TEST(PageLockedTest, AForkAmongRefusals)
{
	EXPECT_FRESH_PROCESS_PASSES(forks);
}

/* Another thread forks then: in the child nobody purges, and all blocks are back. */
void another_thread_forks()
{
	int status = 0;

	start(kOnDemand);
	Apart blocks(20, kMiB);

	for (int i : { 0, 1, 2 })
		lock_pages(blocks.blocks[i], kMiB);
	free_peak(blocks.blocks);
	asked = 0;
	when_asked = [] {
		if (asked != 50)
			return;
		std::thread([] {
			child = fork();
			if (child)
				return;
			when_asked = nullptr;
			expect_unlocked_goes();
			_exit(testing::Test::HasFailure());
		}).join();
	};
	ukmem_trim();
	when_asked = nullptr;
	ASSERT_GT(child, 0);
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0) << "the child";
	free_peak(blocks.between);
	expect_unlocked_goes();
}

TEST(PageLockedTest, AnotherThreadForksAmongRefusals)
{
	EXPECT_FRESH_PROCESS_PASSES(another_thread_forks);
}

/* The system itself: as much as a process may lock without a privilege. */
TEST(PageLockedTest, MemoryThatLinuxHasLocked)
{
	SKIP_WHERE_SHADOWS_STAY();
	EXPECT_FRESH_PROCESS_PASSES([] {
		const size_t page = ukmem_page_size();

		configure(kOnDemand);
		auto *block = static_cast<char *>(peak(16 * kMiB, 16 * kMiB).at(0));

		if (mlock(block + 7 * kMiB, page) ||
		    os_resident(block, 16 * kMiB) < 16 * kMiB) {
			fprintf(stderr, "nothing can be locked here: not tested\n");
			return;
		}
		kfree(block);
		ukmem_trim();
		EXPECT_LE(os_resident(block, 16 * kMiB), 8 * page);
		munlock(block + 7 * kMiB, page);
		ukmem_trim();
		EXPECT_EQ(os_resident(block, 16 * kMiB), 0u);
		expect_whole();
	});
}

} // namespace
