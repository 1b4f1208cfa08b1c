/* SPDX-License-Identifier: MIT */
/*
 * Blocks of whole pages that are debugged keep what kmalloc promises; those beyond the number
 * of records are checked in other ways. large_quarantine_test has freed blocks, and
 * tests/misuse the reports.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "block_exchange.h"
#include "fake_os.h"
#include "kfence_shim.h"
#include "large_debug_util.h"
#include "page_util.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

namespace
{

TEST(LargeDebugTest, SizesAreThoseAskedFor)
{
	configure(kAll);
	for (size_t size = 66000; size < 90000; size += 997) {
		char *p = get(size);

		EXPECT_EQ(ksize(p), size);
		memset(p, 'x', size);
		p = static_cast<char *>(krealloc(p, size + 1, GFP_KERNEL | __GFP_ZERO));
		EXPECT_EQ(ksize(p), size + 1);
		EXPECT_TRUE(has(p, size, 'x') && !p[size]);
		kfree_sensitive(p);
	}
	for (void *p : { vmalloc(1), vmalloc(5000), kvmalloc(300000, GFP_KERNEL) }) {
		memset(p, 'x', ksize(p));
		kvfree(p);
	}
}

TEST(LargeDebugTest, BlocksAreResizedInPlaceWithinTheirPages)
{
	configure(kAll);
	size_t page = ukmem_page_size(), end = whole_pages(kSize);
	char *p = get(kSize, GFP_KERNEL | __GFP_ZERO), *q = p;

	for (size_t size = end - page + 1; size <= end; size += 13) {
		q = static_cast<char *>(krealloc(q, size, GFP_KERNEL | __GFP_ZERO));
		ASSERT_EQ(q, p);
		EXPECT_EQ(ksize(q), size);
		memset(q, 0, size);
	}
	/* What was the block's is slack now, and what is the block's again is zero. */
	memset(q, 'x', ksize(q));
	q = static_cast<char *>(krealloc(q, end - page + 1, GFP_KERNEL));
	q = static_cast<char *>(krealloc(q, end, GFP_KERNEL | __GFP_ZERO));
	ASSERT_EQ(q, p);
	EXPECT_TRUE(has(q, end - page + 1, 'x') && has(q + end - page + 1, page - 1, 0));
	q = static_cast<char *>(krealloc(q, end + 1, GFP_KERNEL | __GFP_ZERO));
	EXPECT_NE(q, p);
	EXPECT_TRUE(has(q, end - page + 1, 'x') && !q[end]);
	q = static_cast<char *>(krealloc(q, 100, GFP_KERNEL));
	EXPECT_TRUE(has(q, 100, 'x'));
	kfree(q);
}

/* A page that was opened after a report cannot be executed, and the next try would fault again.
 */
TEST(LargeDebugTest, JumpsEndTheProgram)
{
	if (!faults_are_unhandled())
		GTEST_SKIP() << "the signal would not kill";
	configure("slab_debug:FZPU=kmalloc-large,slab_debug_action:warn");
	char *p = get(kSize);

	kfree(p);
	asm volatile("" : "+r"(p));
	EXPECT_EXIT((alarm(20), reinterpret_cast<void (*)()>(p)()),
		    ::testing::KilledBySignal(SIGSEGV),
		    "Use after free: .*\n.*instruction fetch at ");
}

/* A program may protect memory itself, as garbage collectors do to see writes: that is no bug.
 */
TEST(LargeDebugTest, ProtectionOfTheProgramIsItsOwn)
{
	if (!faults_are_unhandled())
		GTEST_SKIP() << "the signal would not kill";
	configure("slab_debug:FZPU=kmalloc-large,slab_debug_action:warn");
	char *p = static_cast<char *>(vmalloc(kSize));
	size_t page = ukmem_page_size();

	for (int access : { PROT_READ, PROT_NONE }) {
		ASSERT_EQ(mprotect(p, page, access), 0);
		EXPECT_EXIT((alarm(20), *static_cast<volatile char *>(p) = 1),
			    ::testing::KilledBySignal(SIGSEGV), "^$");
	}
	ASSERT_EQ(mprotect(p, page, PROT_READ | PROT_WRITE), 0);
	*p = 1;
	vfree(p);
}

/* Large enough for realloc to move memory by the page tables, where that is done. */
void grow_often()
{
	size_t size = (8 << 20) + 10;
	char *p = get(size);

	memset(p, 'x', size);
	for (int n = 0; n < 20; n++) {
		char *q = static_cast<char *>(krealloc(p, size + 10000, GFP_KERNEL));

		ASSERT_NE(q, nullptr);
		ASSERT_NE(q, p);
		ASSERT_TRUE(has(q, size, 'x'));
		memset(q + size, 'x', 10000);
		p = q;
		size += 10000;
	}
	kfree(p);
	ukmem_trim();
}

TEST(LargeDebugTest, LargeBlocksGrow)
{
	configure(kAll);
	grow_often();
}

TEST(LargeDebugTest, LargeBlocksWithoutSlackGrow)
{
	configure("slab_debug:FPU=kmalloc-large");
	grow_often();
}

/* The titles of all reports that @bugs cause. */
std::vector<std::string> titles(const std::function<void()> &bugs)
{
	std::vector<std::string> found;

	::testing::internal::CaptureStderr();
	bugs();
	std::string text = ::testing::internal::GetCapturedStderr();
	const std::string begin = "BUG kmalloc-large: ";
	for (size_t at = 0; (at = text.find(begin, at)) != std::string::npos; at++)
		found.push_back(text.substr(at + begin.size(),
					    text.find(": block", at) - at - begin.size()));
	return found;
}

TEST(LargeDebugTest, WarningsRepairAndGoOn)
{
	configure(std::string(kAll) + ",slab_debug_action:warn");
	char *volatile p = get(kSize);
	std::vector<std::string> found = titles([&] {
		p[kSize] = 'A';
		EXPECT_EQ(krealloc(p, kSize - 1, GFP_KERNEL), p); /* one */
		EXPECT_EQ(krealloc(p, kSize, GFP_KERNEL), p);	  /* repaired */
		p[whole_pages(kSize) - 1] = 'A';
		kfree(p + 16);
		kfree(p); /* two */
		kfree(p);
		kfree(p + kSize - 1);
		EXPECT_EQ(krealloc(p, 10, GFP_KERNEL), nullptr);
		EXPECT_EQ(ksize(p), 0u);
	});
	EXPECT_EQ(found, (std::vector<std::string>{
				 "Right guard overwritten", "Not the start of a block",
				 "Right guard overwritten", "Block already free",
				 "Not the start of a block", "Block already free",
				 "Block already free" }));
	EXPECT_TRUE(titles([&] {
			    for (int n = 0; n < 100; n++)
				    kfree(get(kSize + static_cast<size_t>(n)));
			    ukmem_trim();
		    }).empty());
	EXPECT_EQ(counted("bytes"), 0u);
}

/* Of two threads that free a block, one does, and the other one is reported. */
TEST(LargeDebugTest, TwoThreadsFreeABlock)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "the program's bug is a race";
	configure(std::string(kAll) + ",slab_debug_action:warn,invalid_free:warn");
	constexpr unsigned kRounds = 200;
	std::atomic<unsigned> ready{ 0 };
	std::vector<void *> blocks(kRounds);
	auto free_all = [&] {
		for (unsigned n = 0; n < kRounds; n++) {
			ready++;
			while (ready < 2 * n + 2)
				sched_yield();
			vfree(blocks[n]);
		}
	};

	for (auto &p : blocks)
		p = vmalloc(1);
	::testing::internal::CaptureStderr();
	std::thread other(free_all);
	free_all();
	other.join();
	std::string text = ::testing::internal::GetCapturedStderr();
	unsigned reports = 0;
	for (const char *title : { "Block already free", "invalid pointer" })
		for (size_t at = 0; (at = text.find(title, at)) != std::string::npos; at++)
			reports++;
	EXPECT_EQ(reports, kRounds);
	EXPECT_EQ(counted("bytes"), 0u);
	EXPECT_EQ(counted("frees"), counted("allocs"));
}

constexpr unsigned kWriters = 4;

/* A pipe in the place of stderr that is full: who reports something waits until it is read. */
class full_stderr
{
      public:
	full_stderr() : saved(dup(STDERR_FILENO))
	{
		EXPECT_EQ(pipe(ends), 0);
		for (int end : ends)
			fcntl(end, F_SETFL, O_NONBLOCK);
		while (write(ends[1], ".", 1) > 0)
			;
		fcntl(ends[1], F_SETFL, 0);
		dup2(ends[1], STDERR_FILENO);
	}

	~full_stderr()
	{
		dup2(saved, STDERR_FILENO);
		for (int fd : { saved, ends[0], ends[1] })
			close(fd);
	}

	/* Reads what there is. */
	void read()
	{
		char piece[4096];
		ssize_t n;

		while ((n = ::read(ends[0], piece, sizeof(piece))) > 0)
			text.append(piece, static_cast<size_t>(n));
	}

	std::string text;

      private:
	int saved, ends[2] = {};
};

void pause_ms(int ms)
{
	std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

/* Threads write to the same place while it is reported that one of them did. @ends:
 * whether they have come to their end. Result: what was reported. */
std::string write_at_once(char *p, const std::function<bool()> &ends)
{
	std::vector<std::thread> threads;
	std::atomic<unsigned> begun{ 0 }, done{ 0 };
	full_stderr reports;

	for (unsigned t = 0; t < kWriters; t++)
		threads.emplace_back([&] {
			begun++;
			reinterpret_cast<std::atomic<char> *>(p)->store(
				1, std::memory_order_relaxed);
			done++;
		});
	while (begun < kWriters)
		pause_ms(1);
	pause_ms(30);
	while (done < kWriters && !ends()) {
		reports.read();
		pause_ms(1);
	}
	reports.read();
	for (auto &t : threads)
		done < kWriters ? t.detach() : t.join();
	return reports.text;
}

/* Each bug is reported once, whoever comes upon it, and all of them go on. */
TEST(LargeDebugTest, OneOfTheThreadsThatFaultReports)
{
	configure(std::string(kAll) + ",slab_debug_action:warn");
	for (int n = 0; n < 3; n++) {
		char *p = get(kSize);
		std::string text =
			write_at_once(p + whole_pages(kSize) + 100, [] { return false; });

		EXPECT_EQ(count(text, "BUG kmalloc-large: Out of bounds"), 1u) << text;
		kfree(p);
		text = write_at_once(p, [] { return false; });
		EXPECT_EQ(count(text, "BUG kmalloc-large: Use after free"), 1u) << text;
	}
	ukmem_trim();
}

std::atomic<unsigned> passed_on;

void stay_here(int)
{
	passed_on++;
	for (;;)
		pause();
}

/* Where the page stays closed there is one report, too, and each thread's signal is passed on.
 */
TEST(LargeDebugTest, OneReportBeforeTheEnd)
{
	if (!faults_are_unhandled())
		GTEST_SKIP() << "another test has installed the library's handler";
	struct sigaction now = {};

	now.sa_handler = stay_here;
	sigaction(SIGSEGV, &now, nullptr);
	configure(std::string(kAll) + ",slab_debug_action:abort");

	pid_t child = fork();
	int status = 0;

	if (!child) {
		alarm(20);
		std::string text = write_at_once(get(kSize) + whole_pages(kSize),
						 [] { return passed_on == kWriters; });
		_exit(static_cast<int>(count(text, "BUG kmalloc-large: Out of bounds")));
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_TRUE(WIFEXITED(status)) << status;
	EXPECT_EQ(WEXITSTATUS(status), 1);
}

/* Guard regions are as many as a process wants. */
TEST(LargeDebugTest, ManyBlocksHaveGuards)
{
	configure(std::string(kAll) + ",slab_debug_action:warn");
	if (!has_guard_regions(vmalloc(kSize)))
		GTEST_SKIP() << "no guard regions here";
	std::vector<char *> blocks(13000);

	for (auto &p : blocks)
		p = get(66000);
	char *last = blocks.back();

	EXPECT_FALSE(shim_kfence_is_readable(last + whole_pages(66000)));
	EXPECT_FALSE(shim_kfence_is_readable(last - 1));
	kfree(last);
	EXPECT_FALSE(shim_kfence_is_readable(last));
	blocks.pop_back();
	for (auto *p : blocks)
		kfree(p);
}

/* More blocks than there are records: those beyond have none, and those are used again. */
TEST(LargeDebugTest, MoreBlocksThanRecords)
{
	configure("slab_debug:FU=kmalloc-large,slab_debug_action:warn");
	std::vector<void *> blocks(17000);

	for (auto &p : blocks) {
		p = vmalloc(1);
		ASSERT_NE(p, nullptr);
	}
	::testing::internal::CaptureStderr();
	vfree(blocks.back());
	vfree(blocks.back());
	std::string text = ::testing::internal::GetCapturedStderr();
	EXPECT_NE(text.find("Block already free"), std::string::npos) << text;
	EXPECT_EQ(text.find("allocated at"), std::string::npos);
	blocks.pop_back();
	for (void *p : blocks)
		vfree(p);
	::testing::internal::CaptureStderr();
	void *p = vmalloc(1);
	vfree(p);
	vfree(p);
	text = ::testing::internal::GetCapturedStderr();
	EXPECT_NE(text.find("Block already free"), std::string::npos) << text;
	EXPECT_NE(text.find("allocated at"), std::string::npos);
}

/* Blocks pass between threads, each with its contents, while others trim and fork. */
TEST(LargeDebugTest, Threads)
{
	configure(kAll);
	auto make = [](std::mt19937 &random, unsigned n) {
		size_t size = 66000 + random() % 100000;
		char *p = get(size);

		if (n % 300 == 0)
			ukmem_trim();
		/* While a fork is under way on a busy machine the pages aside may run out. */
		if (!p)
			return p;
		EXPECT_EQ(ksize(p), size);
		memset(p, 'a', 100);
		memset(p + size - 100, 'a', 100);
		return p;
	};
	auto release = [](char *p) {
		EXPECT_TRUE(has(p, 100, 'a') && has(p + ksize(p) - 100, 100, 'a'));
		kfree(p);
	};
	BlockExchange exchange(4, 2000 / kSlow, 20, make, release);

	for (int n = 0; n < 5; n++) {
		pid_t child = fork();
		int status = -1;

		if (!child) {
			for (int i = 0; i < 100; i++)
				kfree(get(kSize));
			ukmem_trim();
			exit_child(counted("quarantined_bytes") ? 1 : 0);
		}
		ASSERT_EQ(waitpid(child, &status, 0), child);
		EXPECT_EQ(status, 0);
	}
	exchange.end();
	EXPECT_EQ(counted("bytes"), 0u);
}

} // namespace
