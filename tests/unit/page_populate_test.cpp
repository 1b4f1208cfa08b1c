/* SPDX-License-Identifier: MIT */
/* Pages that a growing program will use soon are populated a batch at a time. */
#include <errno.h>
#include <sys/mman.h>

#include <algorithm>

#include "page_util.h"
#include "test_util.h"

namespace
{

constexpr int kPopulateWrite = 23; /* MADV_POPULATE_WRITE, not in all headers */
constexpr size_t kEnough = 96 * kMiB;

unsigned calls, refusal;
size_t populated;

int counting_madvise(void *addr, size_t len, int advice)
{
	if (advice == MADV_HUGEPAGE) /* a kernel without huge pages: page_huge_test.cpp */
		return -EINVAL;
	if (advice == kPopulateWrite) {
		calls++;
		if (refusal)
			return -static_cast<int>(refusal);
		populated += len;
	}
	return os_calls_linux.madvise(addr, len, advice);
}

class PagePopulateTest : public testing::Test
{
      protected:
	void SetUp() override
	{
		os_calls.madvise = counting_madvise;
	}

	/* Uses @bytes in single pages, which are counted as the program's from then on. */
	void use(size_t bytes)
	{
		Pages more = fill(GFP_KERNEL, 0, to_pages(bytes));

		ASSERT_EQ(more.size(), to_pages(bytes));
		pages_.insert(pages_.end(), more.begin(), more.end());
	}

	void TearDown() override
	{
		free_all(pages_, 0);
	}

	Pages pages_;
};

TEST_F(PagePopulateTest, NotInASmallProgram)
{
	use(8 * kMiB);
	EXPECT_EQ(calls, 0u);
}

TEST_F(PagePopulateTest, ALargeOneByTheBatch)
{
	use(kEnough);
	calls = 0;
	populated = 0;
	use(16 * kMiB);
	EXPECT_GT(populated, 15 * kMiB);
	EXPECT_LE(calls, to_pages(16 * kMiB) / 8) << "a call for fewer than eight pages";
	/* What is populated in vain is little: the rest of a batch. */
	EXPECT_LE(populated, 16 * kMiB + to_pages(kMiB));
}

TEST_F(PagePopulateTest, NotLargerRuns)
{
	use(kEnough);
	calls = 0;
	Pages runs = fill(GFP_KERNEL, 2, 1000);
	EXPECT_EQ(runs.size(), 1000u);
	EXPECT_EQ(calls, 0u);
	free_all(runs, 2);
}

TEST_F(PagePopulateTest, NotWithoutWaiting)
{
	use(kEnough);
	calls = 0;
	Pages nowait = fill(GFP_NOWAIT, 0, 1000);
	EXPECT_EQ(calls, 0u);
	free_all(nowait, 0);
}

TEST_F(PagePopulateTest, ReadsAsZeros)
{
	use(kEnough);
	populated = 0;
	for (unsigned i = 0; i < 1000; i++) {
		struct page *page = alloc_pages(GFP_KERNEL | __GFP_ZERO, 0);

		ASSERT_NE(page, nullptr);
		const auto *bytes = static_cast<const char *>(page_address(page));
		ASSERT_TRUE(std::all_of(bytes, bytes + ukmem_page_size(),
					[](char c) { return c == 0; }));
		touch(page, 0, 0x5a);
		pages_.push_back(page);
	}
	EXPECT_GT(populated, 0u);
}

/* Pages that go back to the zone unused have memory: they are dirty, and can be purged. */
TEST_F(PagePopulateTest, WhatIsNotUsedIsDirty)
{
	configure("dirty_max:0");
	use(kEnough);
	populated = 0;
	for (unsigned i = 0; i < 64 && !populated; i++)
		use(ukmem_page_size());
	ASSERT_GT(populated, ukmem_page_size());
	const size_t unused = populated - ukmem_page_size();
	EXPECT_GE(ukmem_trim(), unused);
}

TEST_F(PagePopulateTest, AKernelThatCannotIsAskedOnce)
{
	refusal = EINVAL;
	use(kEnough);
	use(kEnough);
	EXPECT_EQ(calls, 1u);
}

TEST_F(PagePopulateTest, ARefusalIsNoFailure)
{
	refusal = ENOMEM;
	use(kEnough);
	calls = 0;
	use(kMiB);
	EXPECT_GT(calls, 0u);
	for (auto *page : pages_)
		touch(page, 0);
}

TEST_F(PagePopulateTest, NotWithHugePages)
{
	configure("thp:always");
	use(kEnough);
	EXPECT_EQ(calls, 0u);
}

} // namespace
