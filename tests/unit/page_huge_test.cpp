/* SPDX-License-Identifier: MIT */
/* Huge pages for what a large program's small runs grow by. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>

#include "fake_os.h"
#include "gate_shim.h"
#include "lock_shim.h"
#include "page_util.h"
#include "test_util.h"

namespace
{

constexpr int kPopulateWrite = 23; /* MADV_POPULATE_WRITE, not in all headers */
constexpr size_t kHuge = 2 * kMiB;
constexpr size_t kGrown = 64 * kMiB;
constexpr uint64_t kUsual = 250, kUsualSmall = 500, kSlow = 5000; /* us */

struct Call {
	void *addr;
	size_t len;
	int advice;
};

std::vector<Call> calls; /* those for the length of a huge page */
std::vector<uintptr_t> asked;
int advice_error, populate_error;
bool advised;
uint64_t clock_us, populate_us = kUsual, small_us = kUsualSmall;

int counting_madvise(void *addr, size_t len, int advice)
{
	if (len == kHuge)
		calls.push_back({ addr, len, advice });
	if (advice == MADV_HUGEPAGE && len == kHuge) {
		asked.push_back(reinterpret_cast<uintptr_t>(addr));
		if (advice_error)
			return -advice_error;
	}
	if (len == kHuge && advice != kPopulateWrite)
		advised = advice == MADV_HUGEPAGE;
	if (advice == kPopulateWrite && len == kHuge) {
		clock_us += advised ? populate_us : small_us;
		if (populate_error)
			return -populate_error;
	}
	return os_calls_linux.madvise(addr, len, advice);
}

class PageHugeTest : public testing::Test
{
      protected:
	void SetUp() override
	{
		if (sysconf(_SC_PAGESIZE) != 4096)
			GTEST_SKIP() << "huge pages are not 2 MiB";
		os_calls.madvise = counting_madvise;
		os_calls.now_us = [] { return clock_us; };
	}

	/* Takes @bytes in single pages. */
	void use(size_t bytes)
	{
		Pages more = fill(GFP_KERNEL, 0, to_pages(bytes));

		ASSERT_EQ(more.size(), to_pages(bytes));
		pages_.insert(pages_.end(), more.begin(), more.end());
	}

	/* The number of huge pages that are asked for while @bytes are taken. */
	size_t asked_for(size_t bytes)
	{
		const size_t before = asked.size();

		use(bytes);
		return asked.size() - before;
	}

	void TearDown() override
	{
		free_all(pages_, 0);
		expect_whole();
	}

	Pages pages_;
};

bool in_huge_page(const struct page *page)
{
	const auto at = reinterpret_cast<uintptr_t>(page_address(page));

	return std::any_of(asked.begin(), asked.end(),
			   [&](uintptr_t from) { return at - from < kHuge; });
}

/* The rest of the space ahead is dirty, and the program has no use for it. */
TEST_F(PageHugeTest, TheSpaceAheadDecaysAndTheThreadEnds)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("dirty_decay_ms:100,background_thread:always");
		os_calls.madvise = counting_madvise;
		os_calls.now_us = [] { return clock_us; };
		Pages small, runs;

		while (asked.empty()) {
			Pages more = fill(GFP_KERNEL, 0, 64);

			small.insert(small.end(), more.begin(), more.end());
		}
		runs = fill(GFP_KERNEL, 7, 3); /* 1.5 MiB */
		free_all(runs, 7);
		__free_pages(alloc_pages(GFP_KERNEL, 7), 7);
		usleep(200 * 1000);
		size_t dirty = limits().dirty;
		for (int i = 0; i < 40; i++) {
			usleep(100 * 1000);
		}
		EXPECT_LE(limits().dirty, to_pages(2 * kMiB)) << dirty;
		EXPECT_FALSE(shim_background_is_running());
	});
}

TEST_F(PageHugeTest, NotInASmallProgram)
{
	EXPECT_EQ(asked_for(kGrown - kMiB), 0u);
}

/* On each of @cpus CPUs a page is taken, and with it a batch for the pageset; then @bytes on
 * the first one. */
void use_on(unsigned cpus, size_t bytes)
{
	static thread_local unsigned cpu;
	Pages pages;

	fake_files["/sys/devices/system/cpu/possible"] = "0-" + std::to_string(cpus - 1) + "\n";
	fake_files["/proc/meminfo"] = "MemTotal:        8000000 kB\n";
	os_calls.read_file = fake_read_file;
	os_calls.getcpu = [](unsigned *now) {
		*now = cpu;
		return 0;
	};
	configure("percpu:fallback");
	for (; cpu < cpus; cpu++)
		pages.push_back(alloc_pages(GFP_KERNEL, 0));
	cpu = 0;
	for (size_t i = 0; i < to_pages(bytes); i++)
		pages.push_back(alloc_pages(GFP_KERNEL, 0));
	EXPECT_EQ(std::count(pages.begin(), pages.end(), nullptr), 0);
	free_all(pages, 0);
}

/* Each CPU has slabs that are used in part. */
TEST_F(PageHugeTest, ManyCpusMustGrowMore)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.madvise = counting_madvise;
		use_on(96, 86 * kMiB);
		EXPECT_EQ(asked.size(), 0u);
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.madvise = counting_madvise;
		use_on(96, 96 * kMiB);
		EXPECT_NE(asked.size(), 0u);
	});
}

TEST_F(PageHugeTest, ALargeOneGrowsByHugePages)
{
	use(kGrown);
	const size_t n = asked_for(64 * kMiB);
	EXPECT_GE(n, 30u);
	EXPECT_LE(n, 33u) << "more is populated than is used";
	for (uintptr_t at : asked)
		EXPECT_EQ(at % kHuge, 0u);
	for (size_t i = 0; i < 1000; i++)
		EXPECT_TRUE(in_huge_page(pages_[pages_.size() - 2000 + i])) << i;
}

TEST_F(PageHugeTest, TheAdviceIsTakenBack)
{
	use(kGrown + 16 * kMiB);
	ASSERT_GE(calls.size(), 6u);
	for (size_t i = 0; i + 2 < calls.size(); i += 3) {
		EXPECT_EQ(calls[i].advice, MADV_HUGEPAGE);
		EXPECT_EQ(calls[i + 1].advice, kPopulateWrite);
		EXPECT_EQ(calls[i + 2].advice, MADV_NOHUGEPAGE);
		EXPECT_EQ(calls[i + 1].addr, calls[i].addr);
		EXPECT_EQ(calls[i + 2].addr, calls[i].addr);
	}
}

TEST_F(PageHugeTest, RunsOfSeveralPagesToo)
{
	use(kGrown);
	const size_t before = asked.size();
	Pages runs = fill(GFP_KERNEL, 2, to_pages(16 * kMiB) / 4);
	EXPECT_GE(asked.size() - before, 6u);
	for (auto *page : runs)
		EXPECT_EQ(reinterpret_cast<uintptr_t>(page_address(page)) % (4 * 4096), 0u);
	free_all(runs, 2);
}

/* Programs take large runs to use in part: these get no memory that is resident already. */
TEST_F(PageHugeTest, LargeRunsGetNothingOfIt)
{
	use(kGrown + kMiB);
	const size_t before = asked.size();
	ASSERT_GT(before, 0u);
	for (unsigned i = 0; i < 20; i++) {
		bool zeroed;
		struct page *run = shim_alloc_run(GFP_KERNEL, 40, &zeroed);

		ASSERT_NE(run, nullptr);
		EXPECT_FALSE(in_huge_page(run));
		shim_free_run(run, 40);
	}
	EXPECT_EQ(asked.size(), before);
}

TEST_F(PageHugeTest, WhatIsAheadCountsAsDirtyAndIsTrimmed)
{
	use(kGrown + kMiB);
	const size_t before = limits().dirty;
	EXPECT_GE(before, to_pages(kHuge) / 2 - to_pages(kMiB) / 8);
	EXPECT_GE(ukmem_trim(), (before - 16) * 4096);
	EXPECT_EQ(limits().dirty, 0u);
	expect_whole();
	EXPECT_GE(asked_for(8 * kMiB), 3u) << "nothing is asked for after a trim";
}

/* Each of these requests takes a batch for the pageset, and the trim puts it back. */
TEST_F(PageHugeTest, WhatIsPutBackUnusedIsNoGrowth)
{
	for (size_t i = 0; i < to_pages(kGrown) / 4; i++) {
		use(4096);
		free_all(pages_, 0);
		ukmem_trim();
	}
	EXPECT_TRUE(asked.empty());
	EXPECT_GE(asked_for(kGrown + 4 * kMiB), 1u);
}

TEST_F(PageHugeTest, ReadsAsZeros)
{
	use(kGrown);
	for (unsigned i = 0; i < 1500; i++) {
		struct page *page = alloc_pages(GFP_KERNEL | __GFP_ZERO, 0);

		ASSERT_NE(page, nullptr);
		const auto *bytes = static_cast<const char *>(page_address(page));
		ASSERT_TRUE(std::all_of(bytes, bytes + 4096, [](char c) { return c == 0; }));
		touch(page, 0, 0x5a);
		pages_.push_back(page);
	}
	EXPECT_GT(asked.size(), 1u);
}

TEST_F(PageHugeTest, WhatIsFreeIsTakenFirst)
{
	use(kGrown + 32 * kMiB);
	for (size_t i = 0; i < to_pages(8 * kMiB); i++, pages_.pop_back())
		__free_pages(pages_.back(), 0);
	EXPECT_EQ(asked_for(7 * kMiB), 0u);
}

/* Where huge pages take long, more and more is done without them. */
TEST_F(PageHugeTest, ASlowSystemIsAskedLessAndLess)
{
	populate_us = kSlow;
	use(kGrown + kMiB);
	EXPECT_EQ(asked.size(), 1u);
	EXPECT_EQ(asked_for(12 * kMiB), 0u);
	EXPECT_EQ(asked_for(8 * kMiB), 1u);
	EXPECT_EQ(asked_for(50 * kMiB), 0u);
	EXPECT_EQ(asked_for(16 * kMiB), 1u);
	EXPECT_EQ(asked_for(128 * kMiB), 0u);
}

/* A host that has to find the memory takes long for small pages, too. */
TEST_F(PageHugeTest, ASystemThatIsSlowForSmallPagesTooIsAsked)
{
	populate_us = kSlow;
	small_us = kSlow / 4;
	use(kGrown + 20 * kMiB);
	EXPECT_EQ(asked.size(), 2u);
	EXPECT_EQ(asked_for(62 * kMiB), 0u);
	/* 2 MiB of small pages are compared first. */
	EXPECT_GE(asked_for(64 * kMiB), 28u);
	/* Slower than that is slow. */
	populate_us = 10 * kSlow;
	EXPECT_LE(asked_for(64 * kMiB), 3u);
	/* Where both are fast again, what was slow is forgotten. */
	populate_us = kUsual;
	use(300 * kMiB);
	EXPECT_GE(asked_for(64 * kMiB), 30u);
}

TEST_F(PageHugeTest, AComparisonThatTookVeryLongDoesNotCount)
{
	populate_us = 2 * kSlow;
	small_us = 10 * kSlow;
	use(kGrown + 82 * kMiB);
	EXPECT_EQ(asked_for(64 * kMiB), 1u);
}

TEST_F(PageHugeTest, AComparisonIsMadeAnewAfterAWhile)
{
	populate_us = kSlow;
	small_us = 10 * kSlow; /* the thread loses its CPU */
	use(kGrown + 82 * kMiB);
	EXPECT_GE(asked_for(16 * kMiB), 6u) << "small pages seem to be slow, too";
	small_us = kUsualSmall;
	EXPECT_LE(asked_for(200 * kMiB), 40u);
}

TEST_F(PageHugeTest, AComparisonThatFailsDoesNotCount)
{
	populate_us = kSlow;
	small_us = 10 * kSlow; /* the system looks for memory for long, and then refuses */
	use(kGrown + 78 * kMiB);
	populate_error = ENOMEM;
	use(12 * kMiB);
	EXPECT_EQ(asked.size(), 2u) << "small pages alone";
	populate_error = 0;
	small_us = kUsualSmall;
	EXPECT_LE(asked_for(100 * kMiB), 1u);
}

TEST_F(PageHugeTest, SmallPagesAreComparedOnceAfterALongWait)
{
	const auto compared = [] {
		size_t n = 0;

		for (size_t i = 0; i < calls.size(); i++)
			n += calls[i].advice == kPopulateWrite &&
			     (i == 0 || calls[i - 1].advice != MADV_HUGEPAGE);
		return n;
	};

	populate_us = kSlow;
	use(kGrown + 82 * kMiB);
	EXPECT_EQ(asked.size(), 2u);
	EXPECT_EQ(compared(), 0u);
	use(10 * kMiB);
	EXPECT_EQ(asked.size(), 3u) << "it is still slow";
	EXPECT_EQ(compared(), 1u);
	use(300 * kMiB);
	EXPECT_EQ(compared(), 2u);
}

TEST_F(PageHugeTest, ASystemThatIsFastAgainIsAskedAsBefore)
{
	populate_us = kSlow;
	use(kGrown + kMiB);
	ASSERT_EQ(asked.size(), 1u);
	populate_us = kUsual;
	use(18 * kMiB);
	EXPECT_GE(asked_for(16 * kMiB), 7u);
	/* One slow call is forgiven, two are not, and older ones do not count. */
	populate_us = kSlow;
	EXPECT_EQ(asked_for(14 * kMiB), 2u);
	EXPECT_EQ(asked_for(8 * kMiB), 1u);
}

TEST_F(PageHugeTest, AfterAForkBothGoOnWithSmallPages)
{
	use(kGrown + 8 * kMiB);
	ASSERT_GT(asked.size(), 2u);
	pid_t child = fork();
	if (child == 0) {
		const bool none = asked_for(48 * kMiB) == 0;

		_exit(none && shim_zone_wrong(0) == nullptr ? 0 : 1);
	}
	int status = -1;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0) << "the child asks for huge pages";
	EXPECT_EQ(asked_for(48 * kMiB), 0u);
	EXPECT_GE(asked_for(32 * kMiB), 4u);
}

TEST_F(PageHugeTest, AProgramThatForksMuchNeverAsks)
{
	use(kGrown - kMiB);
	for (unsigned i = 0; i < 8; i++) {
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		ASSERT_EQ(waitpid(child, nullptr, 0), child);
		use(16 * kMiB);
	}
	EXPECT_EQ(asked.size(), 0u);
}

TEST_F(PageHugeTest, AKernelThatCannotIsAskedOnce)
{
	advice_error = EINVAL;
	use(kGrown + kMiB);
	EXPECT_EQ(asked.size(), 1u);
	EXPECT_EQ(asked_for(128 * kMiB), 0u);
}

TEST_F(PageHugeTest, ARefusalIsNoFailure)
{
	populate_error = ENOMEM;
	use(kGrown + 8 * kMiB);
	EXPECT_EQ(asked.size(), 1u);
	/* What was populated of it goes back. */
	EXPECT_EQ(calls.back().advice, MADV_DONTNEED);
	for (auto *page : pages_)
		touch(page, 0);
}

TEST_F(PageHugeTest, NotAboveTheLimit)
{
	configure("limit:80m");
	Pages all = fill(GFP_KERNEL, 0);
	EXPECT_GT(asked.size(), 0u);
	EXPECT_GE(all.size(), to_pages(72 * kMiB));
	EXPECT_LE(limits().used + limits().dirty, limits().limit);
	free_all(all, 0);
}

TEST_F(PageHugeTest, NotWithNever)
{
	configure("thp:never");
	EXPECT_EQ(asked_for(kGrown + 16 * kMiB), 0u);
}

TEST_F(PageHugeTest, NotWithAlways)
{
	configure("thp:always");
	EXPECT_EQ(asked_for(kGrown + 16 * kMiB), 0u);
}

/* The fork holds the zone's lock; a request waits for it no longer than for others. */
TEST_F(PageHugeTest, NotWhileAForkStandsStill)
{
	std::atomic<bool> done{ false };

	use(kGrown - kMiB);
	while (!zone().huge_wanted)
		use(ukmem_page_size());
	shim_gate_close();
	shim_fork_prepare();
	std::thread t([&] {
		Pages more = fill(GFP_KERNEL, 0, 100);

		EXPECT_EQ(more.size(), 100u);
		free_all(more, 0);
		done = true;
	});
	wait_or_abort(done, 20000);
	shim_fork_parent();
	shim_gate_open();
	t.join();
	EXPECT_TRUE(zone().huge_wanted);
	EXPECT_EQ(asked_for(kMiB), 1u) << "afterwards";
}

} // namespace
