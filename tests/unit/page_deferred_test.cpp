/* SPDX-License-Identifier: MIT */
/* A free that finds the zone's lock taken leaves its run to the holder, and the program may
 * stand still afterwards: no other thread would list the run, and its memory would stay
 * resident. */
#include "each_instruction.h"
#include "lock_shim.h"
#include "page_util.h"
#include "test_util.h"

namespace
{

constexpr unsigned kOrder = 9; /* past the pagesets */
constexpr size_t kRun = size_t{ 1 } << kOrder;

constexpr const char *kConf = "dirty_max:1g,background_thread:never"; /* all stays as it is */

struct page *run()
{
	struct page *page = alloc_pages(GFP_KERNEL, kOrder);

	EXPECT_NE(page, nullptr);
	return page;
}

#if STEPS

/* After some instructions of a free the handler makes a copy of the process, which frees
 * another run there and then goes on with the free. */
constexpr unsigned kStep = 5 * kSlow; /* some are in the place that matters */
constexpr int kDeferred = 2;

volatile sig_atomic_t is_freeing;
struct page *handlers_run;
unsigned long instructions, deferred, left_by_copies;

void at_an_instruction(int)
{
	int status;

	if (!is_freeing || ++instructions % kStep)
		return;
	if (is_copy(&status)) {
		is_freeing = false;
		__free_pages(handlers_run, kOrder);
		handlers_run = nullptr;
		return;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == kDeferred)
		deferred++;
	else if (status)
		left_by_copies++;
}

void free_and_be_interrupted()
{
	configure(kConf);
	struct page *mine = run();
	handlers_run = run();
	size_t before = limits().used;

	signal(SIGTRAP, at_an_instruction);
	is_freeing = true;
	step(true);
	__free_pages(mine, kOrder);
	step(false);
	is_freeing = false;
	if (!handlers_run) {
		if (limits().used != before - 2 * kRun)
			_exit(1);
		_exit(vmstat("pgfree_deferred") ? kDeferred : 0);
	}
	EXPECT_EQ(left_by_copies, 0u) << "runs were left to nobody";
	EXPECT_GT(deferred, 0u);
	EXPECT_EQ(limits().used, before - kRun);
}

TEST(PageDeferredTest, AFreeInterruptedByAFreeIsListed)
{
	EXPECT_FRESH_PROCESS_PASSES(free_and_be_interrupted);
}

#else

TEST(PageDeferredTest, AFreeInterruptedByAFreeIsListed)
{
	GTEST_SKIP() << "no handler comes after each instruction here";
}

#endif

/* A thread that yields its CPU at once would come too late. */
void wait_for(const std::atomic<unsigned> &number, unsigned value)
{
	for (unsigned n = 0; number != value; n++)
		if (n > 20000)
			std::this_thread::yield();
}

void pass_time(unsigned steps)
{
	for (volatile unsigned n = steps; n; n = n - 1)
		;
}

/* Two threads free a run each at about the same time, again and again: for so long that a
 * machine whose CPUs have other work comes to some thousands. */
void free_beside_each_other()
{
	std::atomic<unsigned> round{ 0 }, done{ 0 };
	std::atomic<struct page *> given{ nullptr };
	auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
	unsigned left = 0;

	configure(kConf);
	std::thread other([&] {
		for (unsigned i = 1;; i++) {
			wait_for(round, i);
			if (!given)
				return;
			pass_time(i % 17);
			__free_pages(given, kOrder);
			done = i;
		}
	});
	for (unsigned i = 1; i <= 20000 && std::chrono::steady_clock::now() < end; i++) {
		struct page *mine = run();

		given = run();
		size_t before = limits().used - 2 * kRun;

		round = i;
		pass_time(i % 61);
		__free_pages(mine, kOrder);
		wait_for(done, i);
		left += limits().used > before;
	}
	given = nullptr;
	round++;
	other.join();
	EXPECT_EQ(left, 0u);
}

TEST(PageDeferredTest, AFreeBesideAFreeIsListed)
{
	EXPECT_FRESH_PROCESS_PASSES(free_beside_each_other);
}

/* Another thread frees a run while a fork holds the zone's lock. */
TEST(PageDeferredTest, AFreeBesideAForkIsListed)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure(kConf);
		struct page *page = run();
		size_t before = limits().used;

		shim_layers_fork_prepare();
		std::thread other([&] { __free_pages(page, kOrder); });
		other.join();
		EXPECT_EQ(limits().used, before) << "the fork holds the lock";
		shim_layers_fork_parent();
		EXPECT_EQ(limits().used, before - kRun) << "nobody has listed the run";
	});
}

} // namespace
