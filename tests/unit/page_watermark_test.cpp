/* SPDX-License-Identifier: MIT */
/* Watermarks and reserves: which request may go how far down. */
#include <algorithm>
#include <cmath>

#include "page_util.h"
#include "seccomp.h"

namespace
{

/* How many of the last pages each kind of request gets. */
void kinds_of_requests()
{
	configure("limit:64m");
	Pages pages = fill(GFP_KERNEL, 0);
	size_t min = limits().wmark_min, limit = limits().limit;

	ASSERT_GT(min, 0u);
	EXPECT_EQ(limits().used, limit - min);
	EXPECT_EQ(alloc_pages(GFP_NOWAIT, 0), nullptr);
	EXPECT_EQ(alloc_pages(GFP_KERNEL | __GFP_NOWARN | __GFP_RETRY_MAYFAIL, 0), nullptr);
	EXPECT_EQ(zone_free_pages(page_zone(pages[0])), min);
	Pages reserve = fill(GFP_ATOMIC, 0);
	EXPECT_EQ(reserve.size(), min) << "the reserves, all of them";
	EXPECT_EQ(limits().used, limit);
	EXPECT_EQ(zone_free_pages(page_zone(pages[0])), 0u);
	/* Given back they are for such requests only. */
	free_all(reserve, 0);
	EXPECT_EQ(alloc_pages(GFP_KERNEL | __GFP_NOWARN, 4), nullptr);
	reserve = fill(GFP_KERNEL | __GFP_HIGH, 0);
	EXPECT_EQ(reserve.size(), min);
	free_all(reserve, 0);
	free_all(pages, 0);
	expect_all_free();
	pages = fill(GFP_KERNEL, 0);
	EXPECT_EQ(pages.size(), limit - min) << "all of it again";
	free_all(pages, 0);
}

TEST(PageWatermarkTest, WatermarksAndTheReserves)
{
	EXPECT_FRESH_PROCESS_PASSES(kinds_of_requests);
}

size_t reserve_wanted;

void fill_up()
{
	configure("limit:64m");
	fill(GFP_KERNEL, 0, SIZE_MAX, true);
	reserve_wanted = limits().wmark_min;
}

bool take_reserve()
{
	size_t n = 0;

	if (alloc_pages(GFP_NOWAIT, 0))
		return false;
	while (struct page *p = alloc_pages(GFP_ATOMIC, 0)) {
		touch(p, 0);
		n++;
	}
	return n == reserve_wanted && n > 0;
}

TEST(PageWatermarkTest, ReserveNeedsNoSystemCall)
{
	expect_no_system_calls(fill_up, take_reserve);
}

/* 4 * sqrt(KiB), between 128 KiB and 64 MiB, at most a 32nd. */
size_t formula(size_t managed)
{
	double kib = static_cast<double>(managed) * ukmem_page_size() / 1024;
	double bytes = 4 * std::floor(std::sqrt(kib)) * 1024;

	bytes = std::min(std::max(bytes, 131072.0), 67108864.0);
	return std::min(static_cast<size_t>(bytes) / ukmem_page_size(), managed / 32);
}

TEST(PageWatermarkTest, WatermarkFormula)
{
	for (const char *conf : { "limit:1m", "limit:16m", "limit:64m", "limit:1000m",
				  "limit:3g", "limit:64g", "limit:4096g,reserve:4096g" }) {
		SCOPED_TRACE(conf);
		EXPECT_FRESH_PROCESS_PASSES([conf] {
			configure(conf);
			struct page *p = alloc_pages(GFP_KERNEL, 0);
			ASSERT_NE(p, nullptr);
			struct zone *z = page_zone(p);
			size_t min = formula(zone_managed_pages(z));

			EXPECT_EQ(min_wmark_pages(z), min);
			EXPECT_EQ(low_wmark_pages(z), min + min / 4);
			EXPECT_EQ(high_wmark_pages(z), min + min / 2);
			EXPECT_EQ(limits().wmark_min, formula(limits().limit));
			__free_page(p);
		});
	}
}

/* Where the normal zone has used up its addresses: what requests get of the low one. */
void low_zone_serves(const char *conf, size_t ratio)
{
	configure(conf);
	size_t from[MAX_NR_ZONES] = {};
	Pages pages = fill(GFP_KERNEL, 6), rest = fill(GFP_KERNEL, 0);

	for (auto *p : pages)
		from[page_zonenum(p)] += 64;
	for (auto *p : rest)
		from[page_zonenum(p)]++;
	EXPECT_GT(from[ZONE_NORMAL], to_pages(120 * kMiB));
	size_t limit = limits().limit;
	if (ratio == 1) {
		EXPECT_EQ(from[ZONE_DMA32], 0u);
		EXPECT_EQ(from[ZONE_DMA], 0u);
	} else if (ratio) {
		EXPECT_EQ(from[ZONE_DMA32], limit - limit / ratio - limits().wmark_min)
			<< "all but the reserve";
	} else {
		EXPECT_EQ(from[ZONE_NORMAL] + from[ZONE_DMA32] + from[ZONE_DMA],
			  limit - limits().wmark_min)
			<< "all of it";
	}
	/* A request for the low zone gets the pages that were kept for such requests. */
	if (ratio) {
		struct page *p = alloc_pages(GFP_KERNEL | GFP_DMA32, 6);

		ASSERT_NE(p, nullptr);
		EXPECT_EQ(page_zonenum(p), ZONE_DMA32);
		__free_pages(p, 6);
	}
	free_all(rest, 0);
	free_all(pages, 6);
	expect_whole();
}

TEST(PageWatermarkTest, LowmemReserve)
{
	EXPECT_FRESH_PROCESS_PASSES([] { low_zone_serves("reserve:128m,limit:256m", 1); });
	EXPECT_FRESH_PROCESS_PASSES(
		[] { low_zone_serves("reserve:128m,limit:256m,lowmem_reserve_ratio:2", 2); });
	EXPECT_FRESH_PROCESS_PASSES(
		[] { low_zone_serves("reserve:128m,limit:256m,lowmem_reserve_ratio:0", 0); });
}

} // namespace
