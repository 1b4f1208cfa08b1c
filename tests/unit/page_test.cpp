/* SPDX-License-Identifier: MIT */
/* The page allocator: alignment, overlap, zeroing, merging, reuse, purging, misuse. */
#include <errno.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "page_shim.h"
#include "test_util.h"

extern "C" {
#include "base/config.h"
}

namespace
{

class PageTest : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		ASSERT_TRUE(shim_page_init());
		page_ = ukmem_page_size();
	}
	void TearDown() override
	{
		for (unsigned i = 0; i < shim_nr_zones(); i++)
			EXPECT_STREQ(shim_zone_wrong(i), nullptr);
	}
	static shim_zone zone(unsigned i = 0)
	{
		shim_zone z;

		shim_zone_read(i, &z);
		return z;
	}
	size_t frontiers()
	{
		size_t sum = 0;

		for (unsigned i = 0; i < shim_nr_zones(); i++)
			sum += zone(i).frontier;
		return sum;
	}
	/* Everything was given back, so everything is free, in the fewest blocks. */
	void expect_all_free()
	{
		shim_trim(true);
		for (unsigned i = 0; i < shim_nr_zones(); i++) {
			shim_zone z = zone(i);
			size_t pages = z.frontier - z.start;

			EXPECT_EQ(z.nr_free, pages);
			EXPECT_EQ(z.pageset, 0u);
			EXPECT_EQ(z.carve, 0u);
			EXPECT_EQ(z.nr_dirty, 0u);
			/* Blocks as the binary digits of the number of pages. */
			EXPECT_EQ(z.blocks, static_cast<size_t>(__builtin_popcountll(pages)));
			EXPECT_EQ(z.orders, pages);
		}
	}
	bool is_zero(const void *p, size_t n)
	{
		auto *c = static_cast<const unsigned char *>(p);

		return n == 0 || (c[0] == 0 && memcmp(c, c + 1, n - 1) == 0);
	}

	size_t page_;
};

struct PageRun {
	struct page *page;
	size_t pages;
};

/* Runs by address; two that overlap are found when the second is added. */
class Shadow
{
      public:
	bool add(uintptr_t start, size_t bytes)
	{
		auto next = runs_.lower_bound(start);

		if (next != runs_.end() && next->first < start + bytes)
			return false;
		if (next != runs_.begin() &&
		    std::prev(next)->first + std::prev(next)->second > start)
			return false;
		runs_[start] = bytes;
		return true;
	}
	void remove(uintptr_t start)
	{
		runs_.erase(start);
	}

      private:
	std::map<uintptr_t, size_t> runs_;
};

TEST_F(PageTest, OrdersAreAlignedAndDoNotOverlap)
{
	std::mt19937 random(test_seed());
	std::vector<std::pair<struct page *, unsigned>> live;
	Shadow shadow;

	for (unsigned step = 0; step < 60000 / kSlow; step++) {
		if (live.size() < 200 && random() % 2) {
			unsigned order = random() % 11;
			struct page *p = alloc_pages(GFP_KERNEL, order);
			auto addr = reinterpret_cast<uintptr_t>(p ? page_address(p) : nullptr);

			ASSERT_NE(p, nullptr);
			ASSERT_EQ(addr % (page_ << order), 0u) << "order " << order;
			ASSERT_TRUE(shadow.add(addr, page_ << order));
			ASSERT_EQ(virt_to_page(reinterpret_cast<void *>(addr)), p);
			/* Both ends are writable and carry the run's mark. */
			*reinterpret_cast<uintptr_t *>(addr) = addr;
			*reinterpret_cast<uintptr_t *>(addr + (page_ << order) - sizeof(addr)) =
				addr;
			live.emplace_back(p, order);
		} else if (!live.empty()) {
			size_t i = random() % live.size();
			auto [p, order] = live[i];
			auto addr = reinterpret_cast<uintptr_t>(page_address(p));

			ASSERT_EQ(*reinterpret_cast<uintptr_t *>(addr), addr);
			ASSERT_EQ(*reinterpret_cast<uintptr_t *>(addr + (page_ << order) -
								 sizeof(addr)),
				  addr);
			shadow.remove(addr);
			__free_pages(p, order);
			live[i] = live.back();
			live.pop_back();
		}
		if (step % 500 == 0) {
			for (unsigned i = 0; i < shim_nr_zones(); i++) {
				ASSERT_STREQ(shim_zone_wrong(i), nullptr);
			}
		}
	}
	for (auto [p, order] : live)
		__free_pages(p, order);
	expect_all_free();
}

TEST_F(PageTest, RunsOfAnyNumberOfPages)
{
	std::mt19937 random(test_seed());
	std::vector<PageRun> live;
	Shadow shadow;
	bool zeroed;

	for (unsigned step = 0; step < 60000 / kSlow; step++) {
		if (live.size() < 150 && random() % 2) {
			size_t n = random() % 20 ? 1 + random() % 70 : 1 + random() % 3000;
			struct page *p = shim_alloc_run(GFP_KERNEL, n, &zeroed);
			auto addr = reinterpret_cast<uintptr_t>(p ? page_address(p) : nullptr);

			ASSERT_NE(p, nullptr);
			ASSERT_EQ(addr % page_, 0u);
			if (!(n & (n - 1)) && n * page_ <= 256 * 1024) {
				ASSERT_EQ(addr % (n * page_), 0u) << n << " pages";
			}
			ASSERT_TRUE(shadow.add(addr, n * page_));
			if (zeroed) {
				ASSERT_TRUE(is_zero(page_address(p), page_));
			}
			*reinterpret_cast<char *>(addr) = 1;
			*reinterpret_cast<char *>(addr + n * page_ - 1) = 1;
			live.push_back({ p, n });
		} else if (!live.empty()) {
			size_t i = random() % live.size();

			shadow.remove(reinterpret_cast<uintptr_t>(page_address(live[i].page)));
			shim_free_run(live[i].page, live[i].pages);
			live[i] = live.back();
			live.pop_back();
		}
	}
	for (auto &r : live)
		shim_free_run(r.page, r.pages);
	expect_all_free();
}

TEST_F(PageTest, RunsAlignedBeyondTheirSize)
{
	for (unsigned order = 0; order <= 12; order++)
		for (size_t n : { 1u, 3u, 17u, 1000u, 1025u }) {
			struct page *p = shim_alloc_aligned(GFP_KERNEL, n, order);

			ASSERT_NE(p, nullptr);
			EXPECT_EQ(reinterpret_cast<uintptr_t>(page_address(p)) %
					  (page_ << order),
				  0u);
			memset(page_address(p), 0xff, n * page_);
			shim_free_run(p, n);
		}
	expect_all_free();
}

/* A CPU serves an aligned request by the run that it freed last, if that has as many pages and
 * is aligned. */
TEST_F(PageTest, AlignedRunsAreUsedAgain)
{
	for (size_t n : { 1u, 2u, 3u, 16u, 17u, 32u, 100u, 256u })
		for (unsigned order : { 1u, 5u, 9u }) {
			struct page *p = shim_alloc_aligned(GFP_KERNEL, n, order), *q;

			ASSERT_NE(p, nullptr);
			shim_free_run(p, n);
			q = shim_alloc_aligned(GFP_KERNEL, n, order);
			EXPECT_EQ(q, p) << n << " " << order;
			shim_free_run(q, n);
		}
	expect_all_free();
}

/* A program may ask for no run of the orders that batches fill. Alone in its process, this test
 * is such a program. */
TEST_F(PageTest, LargeRunsAloneAreKeptByTheirCpu)
{
	bool zeroed;
	struct page *p = shim_alloc_run(GFP_KERNEL, 100, &zeroed);

	ASSERT_NE(p, nullptr);
	shim_free_run(p, 100);

	size_t kept = 0;

	for (unsigned i = 0; i < shim_nr_zones(); i++)
		kept += zone(i).pageset;
	EXPECT_GE(kept, 100u);
	expect_all_free();
}

TEST_F(PageTest, ZeroedPagesAreZeroWhenReused)
{
	for (unsigned order : { 0u, 3u, 4u, 5u, 10u }) {
		size_t bytes = page_ << order;

		for (int round = 0; round < 20; round++) {
			auto *p = reinterpret_cast<char *>(
				__get_free_pages(GFP_KERNEL | __GFP_ZERO, order));

			ASSERT_NE(p, nullptr);
			ASSERT_TRUE(is_zero(p, bytes))
				<< "order " << order << " round " << round;
			memset(p, 0xa5, bytes);
			free_pages(reinterpret_cast<unsigned long>(p), order);
			if (round % 4 == 3)
				shim_trim(round % 8 == 3);
		}
	}
	auto *p = reinterpret_cast<char *>(get_zeroed_page(GFP_KERNEL));
	EXPECT_TRUE(is_zero(p, page_));
	free_page(reinterpret_cast<unsigned long>(p));
}

/*
 * Pages that the allocator calls zero are zero, also after splits and merges with dirty blocks.
 */
TEST_F(PageTest, ZeroStateSurvivesSplitAndMerge)
{
	std::mt19937 random(test_seed());
	std::vector<PageRun> live;
	unsigned told_zero = 0;
	bool zeroed;

	for (unsigned step = 0; step < 4000 / kSlow; step++) {
		if (live.size() < 40 && random() % 2) {
			size_t n = 33 + random() % 500;
			struct page *p = shim_alloc_run(GFP_KERNEL, n, &zeroed);

			ASSERT_NE(p, nullptr);
			if (zeroed) {
				told_zero++;
				ASSERT_TRUE(is_zero(page_address(p), n * page_));
			}
			if (random() % 4)
				memset(page_address(p), 0x5a, n * page_);
			live.push_back({ p, n });
		} else if (!live.empty()) {
			size_t i = random() % live.size();

			shim_free_run(live[i].page, live[i].pages);
			live[i] = live.back();
			live.pop_back();
		}
		if (step % 300 == 0)
			shim_trim(false);
	}
	for (auto &r : live)
		shim_free_run(r.page, r.pages);
	EXPECT_GT(told_zero, 0u);
	expect_all_free();
}

TEST_F(PageTest, LargeRunsAreReusedWithoutGrowth)
{
	size_t pages = (130u << 20) / page_ + 3, frontier = 0;
	bool zeroed;

	for (int i = 0; i < 50; i++) {
		struct page *p = shim_alloc_run(GFP_KERNEL, pages, &zeroed);

		ASSERT_NE(p, nullptr);
		static_cast<char *>(page_address(p))[0] = 1;
		shim_free_run(p, pages);
		/* The second one may make up the reserve. */
		if (i < 2)
			frontier = frontiers();
		ASSERT_EQ(frontiers(), frontier) << "round " << i;
	}
	expect_all_free();
}

TEST_F(PageTest, TrimGivesMemoryBack)
{
	size_t bytes = 64u << 20, pages = bytes / page_;
	OsCallsGuard guard;
	bool zeroed;

	config.dirty_max = bytes * 4;
	struct page *p = shim_alloc_run(GFP_KERNEL, pages, &zeroed);
	ASSERT_NE(p, nullptr);
	void *addr = page_address(p);
	memset(addr, 1, bytes);
	ASSERT_EQ(os_resident(addr, bytes), bytes);
	shim_free_run(p, pages);
	EXPECT_EQ(os_resident(addr, bytes), bytes) << "kept for reuse below dirty_max";
	EXPECT_GE(zone(0).nr_dirty, pages);
	EXPECT_GE(shim_trim(true), bytes);
	EXPECT_EQ(os_resident(addr, bytes), 0u);
	EXPECT_EQ(zone(0).nr_dirty, 0u);
	EXPECT_GE(zone(0).nr_purged, pages);
	config.dirty_max = 64u << 20;
	expect_all_free();
}

uint64_t fake_now;

uint64_t fake_now_ms()
{
	return fake_now;
}

/* Pages that are not used for the decay time go back at the next frees, down to dirty_max. */
TEST_F(PageTest, UnusedDirtyPagesDecay)
{
	OsCallsGuard guard;
	std::vector<std::pair<struct page *, unsigned>> live;
	size_t limit = 8u << 20;

	os_calls.now_ms = fake_now_ms;
	fake_now = 1000000000;
	config.dirty_max = limit;
	for (unsigned order : { 6u, 3u, 0u }) {
		shim_trim(true);
		for (size_t got = 0; got < (48u << 20); got += page_ << order) {
			struct page *p = alloc_pages(GFP_KERNEL, order);

			ASSERT_NE(p, nullptr);
			memset(page_address(p), 1, page_ << order);
			live.emplace_back(p, order);
		}
		for (auto [p, o] : live)
			__free_pages(p, o);
		live.clear();
		EXPECT_GT(zone().nr_dirty * page_, limit) << "fresh: kept, whatever its size";
		for (int i = 0; i < 4; i++) {
			fake_now += config.dirty_decay_ms + 1;
			__free_pages(alloc_pages(GFP_KERNEL, 6), 6);
		}
		EXPECT_LE(zone().nr_dirty * page_, limit + (page_ << 6)) << "order " << order;
	}
	config.dirty_max = 64u << 20;
	expect_all_free();
}

TEST_F(PageTest, DirtyPagesInUseAgainAndAgainStay)
{
	OsCallsGuard guard;
	size_t pages = (48u << 20) / page_;
	bool zeroed;

	os_calls.now_ms = fake_now_ms;
	fake_now = 2000000000;
	shim_trim(true);
	config.dirty_max = 8u << 20;
	size_t purged = zone().nr_purged;
	for (int i = 0; i < 50; i++) {
		struct page *p = shim_alloc_run(GFP_KERNEL, pages, &zeroed);

		ASSERT_NE(p, nullptr);
		if (i) {
			EXPECT_FALSE(zeroed) << "the same pages, not purged in between";
		}
		memset(page_address(p), 1, page_);
		shim_free_run(p, pages);
		fake_now += config.dirty_decay_ms / 3;
	}
	EXPECT_EQ(zone().nr_purged, purged);
	config.dirty_max = 64u << 20;
}

int refuse_dontneed(void *addr, size_t len, int advice)
{
	return advice == MADV_DONTNEED ? -EINVAL : os_calls_linux.madvise(addr, len, advice);
}

TEST_F(PageTest, RefusedPurgeLosesNothing)
{
	OsCallsGuard guard;
	std::vector<PageRun> live;
	bool zeroed;

	for (size_t n : { 40u, 100u, 1u, 8u, 2000u }) {
		struct page *p = shim_alloc_run(GFP_KERNEL, n, &zeroed);

		ASSERT_NE(p, nullptr);
		memset(page_address(p), 0xee, n * page_);
		live.push_back({ p, n });
	}
	for (auto &r : live)
		shim_free_run(r.page, r.pages);
	os_calls.madvise = refuse_dontneed;
	EXPECT_EQ(shim_trim(true), 0u);
	for (unsigned i = 0; i < shim_nr_zones(); i++) {
		shim_zone z = zone(i);

		EXPECT_STREQ(shim_zone_wrong(i), nullptr);
		EXPECT_EQ(z.nr_free + z.pageset + z.carve, z.frontier - z.start);
	}
	EXPECT_GT(zone(0).nr_dirty, 0u);
	for (auto &r : live) {
		unsigned order = r.pages > 1 ? 32 - __builtin_clz(r.pages - 1) : 0;
		auto *p = reinterpret_cast<char *>(
			__get_free_pages(GFP_KERNEL | __GFP_ZERO, order));

		ASSERT_NE(p, nullptr);
		EXPECT_TRUE(is_zero(p, page_ << order));
		memset(p, 0xee, page_ << order);
		free_pages(reinterpret_cast<unsigned long>(p), order);
	}
	os_calls.madvise = os_calls_linux.madvise;
	expect_all_free();
}

TEST_F(PageTest, TooLargeIsRefused)
{
	bool zeroed;

	EXPECT_EQ(alloc_pages(GFP_KERNEL, 31), nullptr);
	EXPECT_EQ(alloc_pages(GFP_KERNEL, ~0u), nullptr);
	EXPECT_EQ(shim_alloc_run(GFP_KERNEL, SIZE_MAX / page_, &zeroed), nullptr);
	EXPECT_EQ(shim_alloc_run(GFP_KERNEL, PTRDIFF_MAX / page_, &zeroed), nullptr);
	EXPECT_EQ(shim_alloc_run(GFP_KERNEL, 0, &zeroed), nullptr);
	EXPECT_EQ(shim_alloc_aligned(GFP_KERNEL, 1, 31), nullptr);
	EXPECT_EQ(shim_alloc_aligned(GFP_KERNEL, SIZE_MAX / page_, 1), nullptr);
}

TEST_F(PageTest, AddressesThatAreNotOurs)
{
	int local = 0;

	EXPECT_EQ(virt_to_page(&local), nullptr);
	EXPECT_EQ(virt_to_page(nullptr), nullptr);
	EXPECT_EQ(virt_to_page(reinterpret_cast<void *>(UINTPTR_MAX)), nullptr);
	__free_pages(nullptr, 0);
	free_pages(0, 3);
}

class PageDeathTest : public PageTest
{
};

TEST_F(PageDeathTest, FreeWithAnotherOrderIsReported)
{
	struct page *p = alloc_pages(GFP_KERNEL, 3);

	EXPECT_DEATH(__free_pages(p, 2),
		     "^ukmem: __free_pages\\(\\): invalid pointer "
		     "0x[0-9a-f]+: allocated with another order\n" FOUND_AT);
	__free_pages(p, 3);
}

TEST_F(PageDeathTest, DoubleFreeIsReported)
{
	for (unsigned order : { 0u, 4u, 7u }) {
		struct page *p = alloc_pages(GFP_KERNEL, order);

		EXPECT_DEATH(
			{
				__free_pages(p, order);
				__free_pages(p, order);
			},
			"^ukmem: __free_pages\\(\\): invalid pointer 0x[0-9a-f]+: not "
			"allocated as pages\n" FOUND_AT);
		__free_pages(p, order);
	}
}

TEST_F(PageDeathTest, ForeignAddressIsReported)
{
	alignas(4096) static char foreign[4096];
	unsigned long p = __get_free_pages(GFP_KERNEL, 1);

	EXPECT_DEATH(free_pages(reinterpret_cast<unsigned long>(foreign), 0),
		     "^ukmem: free_pages\\(\\): invalid pointer 0x[0-9a-f]+: not a page of "
		     "ours\n" FOUND_AT);
	EXPECT_DEATH(free_pages(p + 8, 1),
		     "free_pages\\(\\): .*: not a page of ours\n" FOUND_AT);
	EXPECT_DEATH(free_pages(p + ukmem_page_size(), 0),
		     "^ukmem: free_pages\\(\\): .*: not allocated as pages\n" FOUND_AT);
	free_pages(p, 1);
}

/* Misuse that is passed over leaves the allocator whole. */
TEST_F(PageDeathTest, WarnedAboutAndPassedOver)
{
	struct page *p = alloc_pages(GFP_KERNEL, 3);

	config.invalid_free = INVALID_FREE_WARN;
	::testing::internal::CaptureStderr();
	__free_pages(p, 2);
	std::string text = ::testing::internal::GetCapturedStderr();
	EXPECT_NE(text.find("allocated with another order"), std::string::npos) << text;
	config.invalid_free = INVALID_FREE_IGNORE;
	::testing::internal::CaptureStderr();
	__free_pages(p, 2);
	EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
	config.invalid_free = INVALID_FREE_ABORT;
	__free_pages(p, 3);
	expect_all_free();
}

/* A run of another size than the one that was freed last is not taken off its list to be looked
 * at: a fork of another thread would lose it. */
TEST_F(PageTest, RunsOfAnotherSizeStayOnTheirList)
{
	if (rseq_is_off())
		GTEST_SKIP() << "a look costs as much as a pop";
	OneCpu one;
	size_t size = ukmem_page_size(), pops;
	bool zeroed;

	__free_page(alloc_page(GFP_KERNEL)); /* there is a pageset */
	shim_free_run(shim_alloc_run(GFP_KERNEL, 200, &zeroed), 200);
	for (int i = 0; i < 2; i++)
		free_pages_exact(alloc_pages_exact(6 * size, GFP_KERNEL), 6 * size);
	pops = shim_zone_run_pops(0);
	ASSERT_GT(pops, 0u) << "runs are kept there";
	void *p = alloc_pages_exact(7 * size, GFP_KERNEL);
	ASSERT_NE(p, nullptr);
	EXPECT_EQ(shim_zone_run_pops(0), pops);
	void *q = alloc_pages_exact(6 * size, GFP_KERNEL);
	ASSERT_NE(q, nullptr);
	EXPECT_EQ(shim_zone_run_pops(0), pops + 1);
	free_pages_exact(p, 7 * size);
	free_pages_exact(q, 6 * size);
	expect_all_free();
}

} // namespace
