/* SPDX-License-Identifier: MIT */
/* Which free pages a run takes whose size is no power of two. */
#include "page_util.h"
#include "test_util.h"

namespace
{

char *run_of(size_t npages)
{
	return static_cast<char *>(alloc_pages_exact(npages * ukmem_page_size(), GFP_KERNEL));
}

/* A free hole of some pages, between pages in use. */
struct Hole {
	char *begin;
	size_t npages;
};

/* Takes one run and gives back parts of it, so that there are holes of exactly these sizes, one
 * behind the other; the first begins @lead pages behind an aligned one. No pageset keeps runs
 * of more than 256 pages. */
std::vector<Hole> dig(const std::vector<size_t> &sizes, size_t lead = 1)
{
	constexpr unsigned kAlign = 12; /* an order */
	size_t all = lead;
	std::vector<Hole> holes;

	for (size_t npages : sizes)
		all += npages + 1;
	struct page *page = shim_alloc_aligned(GFP_KERNEL, all, kAlign);
	char *run = static_cast<char *>(page_address(page));
	char *at = run + lead * ukmem_page_size();
	memset(run, 1, all * ukmem_page_size());
	for (size_t npages : sizes) {
		holes.push_back({ at, npages });
		shim_free_run(virt_to_page(at), npages);
		at += (npages + 1) * ukmem_page_size();
	}
	return holes;
}

constexpr size_t kRun = 300;

/* Holes that fit, but not closely, lie in front of the smallest and behind it. */
TEST(PageHoleTest, ARunTakesTheSmallestHoleThatFits)
{
	for (size_t large : { 400u, 511u, 700u, 901u, 1100u })
		EXPECT_FRESH_PROCESS_PASSES([large] {
			std::vector<Hole> holes = dig({ large, 280, 330, 290, large });

			EXPECT_EQ(run_of(kRun), holes[2].begin) << large;
		});
}

/* Of a hole that is larger, one hole is left, whichever end has small blocks. */
TEST(PageHoleTest, ARunTakesAnEndOfAHole)
{
	for (size_t lead : { 1u, 4096u })
		for (size_t large : { 400u, 511u, 700u, 901u, 1100u, 2178u, 3000u })
			EXPECT_FRESH_PROCESS_PASSES([lead, large] {
				Hole hole = dig({ large }, lead)[0];
				char *end = hole.begin + hole.npages * ukmem_page_size();
				char *run = run_of(kRun);

				EXPECT_TRUE(run == hole.begin ||
					    run + kRun * ukmem_page_size() == end)
					<< large << ": "
					<< static_cast<size_t>(run - hole.begin) /
						   ukmem_page_size();
			});
}

/* Where an end of the hole is no border of blocks, the rest of a block goes back. */
TEST(PageHoleTest, RunsFillAHoleFromItsEnds)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Hole hole = dig({ 4 * kRun + 7 })[0];
		char *end = hole.begin + hole.npages * ukmem_page_size();
		size_t used = zone(0).used;
		std::vector<char *> runs;

		for (int i = 0; i < 4; i++) {
			runs.push_back(run_of(kRun));
			EXPECT_GE(runs.back(), hole.begin);
			EXPECT_LE(runs.back() + kRun * ukmem_page_size(), end) << i;
		}
		for (char *run : runs)
			free_pages_exact(run, kRun * ukmem_page_size());
		EXPECT_EQ(zone(0).used, used) << "pages were lost";
	});
}

} // namespace
