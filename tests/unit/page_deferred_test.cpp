/* SPDX-License-Identifier: MIT */
/* A free that finds the zone's lock taken leaves its run to the holder, and the program may
 * stand still afterwards: no other thread would list the run, and its memory would stay
 * resident. */
#include <sys/wait.h>

#include <functional>

#include "page_util.h"
#include "test_util.h"

namespace
{

constexpr unsigned kOrder = 9; /* past the pagesets */

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

/* Another thread frees a run while this one does something, and frees its own. Result: how
 * often a run was left to nobody. */
unsigned left_to_nobody(unsigned rounds, const std::function<void(struct page *)> &something)
{
	std::atomic<unsigned> round{ 0 }, done{ 0 };
	std::atomic<struct page *> given{ nullptr };
	unsigned left = 0;

	configure("dirty_max:1g,background_thread:never");
	std::thread other([&] {
		for (unsigned i = 1; i <= rounds; i++) {
			wait_for(round, i);
			pass_time(i % 17);
			__free_pages(given, kOrder);
			done = i;
		}
	});
	for (unsigned i = 1; i <= rounds; i++) {
		struct page *mine = alloc_pages(GFP_KERNEL, kOrder);

		given = alloc_pages(GFP_KERNEL, kOrder);
		size_t before = limits().used - (size_t{ 2 } << kOrder);

		round = i;
		pass_time(i % 61);
		something(mine);
		wait_for(done, i);
		left += limits().used > before;
	}
	other.join();
	return left;
}

TEST(PageDeferredTest, AFreeBesideAFreeIsListed)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		unsigned left = left_to_nobody(
			50000, [](struct page *mine) { __free_pages(mine, kOrder); });

		EXPECT_EQ(left, 0u);
	});
}

TEST(PageDeferredTest, AFreeBesideAForkIsListed)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		unsigned left = left_to_nobody(300, [](struct page *mine) {
			__free_pages(mine, kOrder);
			pid_t child = fork();

			if (!child)
				_exit(0);
			waitpid(child, nullptr, 0);
		});

		EXPECT_EQ(left, 0u);
	});
}

} // namespace
