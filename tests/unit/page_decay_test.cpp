/* SPDX-License-Identifier: MIT */
/* Memory that goes back to the system: by decay, by trim. */
#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "page_decay_util.h"

namespace
{

constexpr size_t kPeak = UKMEM_DEBUG || TEST_ASAN || TEST_TSAN ? 256 * kMiB : 2048 * kMiB;

void decays(size_t size)
{
	os_calls.now_ms = fake_now_ms;
	little_activity(10);
	/* The test's own list of objects is not the library's. */
	std::vector<void *> live;
	live.reserve(kPeak / size + 1);
	memset(static_cast<void *>(live.data()), 0, live.capacity() * sizeof(void *));
	size_t start = process_resident(), metadata = shim_metadata_resident();

	for (size_t sum = 0; sum < kPeak; sum += size) {
		live.push_back(kmalloc(size, GFP_KERNEL));
		ASSERT_NE(live.back(), nullptr);
		memset(live.back(), 1, size);
	}
	ASSERT_GE(process_resident(), start + kPeak / 10 * 9);
	EXPECT_GT(shim_metadata_resident(), metadata + kPeak / kMiB * 3000)
		<< "of each run's head";
	free_peak(live);
	little_activity(400);
	size_t end = process_resident();
	EXPECT_LE(end, start + kPeak / 20) << (start >> 20) << " MiB at the start";
	/* The run in use splits a block of 32 MiB, wherever it lies. On its two sides are
	 * blocks of up to 13 orders each, and of each block's head a page of metadata stays. */
	EXPECT_LE(shim_metadata_resident(),
		  metadata + kPeak / kMiB * 3000 / 10 + 2 * 13 * ukmem_page_size());
	EXPECT_GT(vmstat("pgpurged"), to_pages(kPeak) / 10 * 9);
	expect_whole();
}

/* Runs of 64 KiB that go back one by one are purged in blocks too small for their metadata.
 * When the last of them goes, they are one free block. */
void metadata_of_pieces()
{
	constexpr unsigned order = 4;
	Pages odd, even;
	size_t metadata;

	for (size_t i = 0; i < 256 * kMiB / (ukmem_page_size() << order); i++) {
		Pages one = fill(GFP_KERNEL, order, 1, true);

		ASSERT_EQ(one.size(), 1u);
		(i % 2 ? odd : even).push_back(one[0]);
	}
	metadata = shim_metadata_resident();
	free_all(odd, order);
	shim_trim(true);
	EXPECT_GE(shim_metadata_resident(), metadata * 9 / 10) << "a neighbour needs each page";
	free_all(even, order);
	shim_trim(true);
	EXPECT_LE(shim_metadata_resident(), metadata / 4);
	expect_all_free();
	/* What was given back reads as zeros, and serves again. */
	Pages again = fill(GFP_KERNEL, order, 256, true);
	free_all(again, order);
	expect_all_free();
}

TEST(PageDecayTest, TrimGivesBackTheMetadataOfWhatWentInPieces)
{
	SKIP_WHERE_SHADOWS_STAY();
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("background_thread:never");
		metadata_of_pieces();
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("background_thread:never,thp:never");
		metadata_of_pieces();
	});
}

TEST(PageDecayTest, APeakGoesBack)
{
	SKIP_WHERE_SHADOWS_STAY();
	EXPECT_FRESH_PROCESS_PASSES([] { decays(kMiB); });
}

TEST(PageDecayTest, APeakOfSmallObjectsGoesBackWithATrim)
{
	SKIP_WHERE_SHADOWS_STAY();
	EXPECT_FRESH_PROCESS_PASSES([] {
		kfree(kmalloc(1000, GFP_KERNEL));
		std::vector<void *> live;
		live.reserve(100000);
		memset(static_cast<void *>(live.data()), 0, live.capacity() * sizeof(void *));
		size_t start = process_resident();

		for (int i = 0; i < 100000; i++) {
			live.push_back(kmalloc(1000, GFP_KERNEL));
			memset(live.back(), 1, 1000);
		}
		ASSERT_GE(process_resident(), start + 95 * kMiB);
		free_peak(live);
		EXPECT_GE(ukmem_trim(), 90 * kMiB);
		EXPECT_LE(process_resident(), start + 5 * kMiB);
	});
}

TEST(PageDecayTest, TrimGivesBackAtOnce)
{
	SKIP_WHERE_SHADOWS_STAY();
	EXPECT_FRESH_PROCESS_PASSES([] {
		kfree(kmalloc(1, GFP_KERNEL));
		size_t start = process_resident(), metadata = shim_metadata_resident();
		auto live = peak(kPeak / 4, kMiB);

		ASSERT_GE(process_resident(), start + kPeak / 5);
		free_peak(live);
		EXPECT_GE(ukmem_trim(), kPeak / 4 - 4 * kMiB);
		EXPECT_LE(process_resident(), start + kPeak / 80);
		EXPECT_LE(shim_metadata_resident(), metadata + kMiB);
		EXPECT_EQ(ukmem_trim(), 0u);
		expect_whole();
	});
}

/* In a program with much in use as much as dirty_max stays, however long; of more that much,
 * about. */
void little_stays(size_t bytes)
{
	os_calls.now_ms = fake_now_ms;
	configure("dirty_max:16m");
	ASSERT_NE(kmalloc(32 * kMiB, GFP_KERNEL), nullptr);
	Pages pages = fill(GFP_KERNEL, 8, bytes / (ukmem_page_size() << 8), true);

	free_all(pages, 8);
	little_activity(200);
	size_t dirty = limits().dirty * ukmem_page_size();
	if (bytes < 16 * kMiB) {
		EXPECT_GE(dirty, bytes - 2 * kMiB) << "all but what the activity takes of it";
		EXPECT_EQ(vmstat("pgpurged"), 0u);
	} else {
		EXPECT_LE(dirty, 17 * kMiB);
		EXPECT_GE(dirty, 4 * kMiB);
	}
}

TEST(PageDecayTest, LittleStays)
{
	EXPECT_FRESH_PROCESS_PASSES([] { little_stays(10 * kMiB); });
	EXPECT_FRESH_PROCESS_PASSES([] { little_stays(40 * kMiB); });
}

/* A program with @live bytes in use keeps at most @most bytes of what it freed, and no less
 * than half of that. */
void keeps_by_size(size_t live, size_t most)
{
	os_calls.now_ms = fake_now_ms;
	configure("dirty_max:16m");
	void *used = kmalloc(live, GFP_KERNEL);
	Pages pages = fill(GFP_KERNEL, 8, 15 * kMiB / (ukmem_page_size() << 8), true);

	free_all(pages, 8);
	fake_now += 400;
	shim_page_decay();
	EXPECT_GE(limits().dirty * ukmem_page_size(), most / 2) << "it was in use lately";
	EXPECT_EQ(vmstat("pgpurged"), 0u);
	little_activity(200);
	EXPECT_LE(limits().dirty * ukmem_page_size(), most);
	EXPECT_GE(limits().dirty * ukmem_page_size(), most / 2);
	kfree(used);
}

TEST(PageDecayTest, SmallProgramsKeepLess)
{
	EXPECT_FRESH_PROCESS_PASSES([] { keeps_by_size(kMiB / 2, kMiB); });
	EXPECT_FRESH_PROCESS_PASSES([] { keeps_by_size(8 * kMiB, 5 * kMiB); });
	EXPECT_FRESH_PROCESS_PASSES([] { keeps_by_size(16 * kMiB, 9 * kMiB); });
	EXPECT_FRESH_PROCESS_PASSES([] { keeps_by_size(48 * kMiB, 16 * kMiB); });
}

/* A program with @live bytes in use and 6 MiB of holes, each too small for a run of @npages,
 * takes 3 MiB of such runs, or one of more, at one moment. Result: bytes that this made
 * resident. */
size_t grown_by_runs(size_t live, size_t npages)
{
	void *used = kmalloc(live, GFP_KERNEL);
	Pages holes, between, runs;

	while ((holes.size() + between.size()) * 8 < to_pages(12 * kMiB)) {
		auto &which = holes.size() > between.size() ? between : holes;
		Pages one = fill(GFP_KERNEL, 3, 1, true);

		which.push_back(one.at(0));
	}
	free_all(holes, 3);
	size_t before = process_resident();
	for (size_t pages = 0; pages < to_pages(3 * kMiB); pages += npages) {
		auto *run = static_cast<char *>(
			alloc_pages_exact(npages * ukmem_page_size(), GFP_KERNEL));

		memset(run, 1, npages * ukmem_page_size());
		runs.push_back(virt_to_page(run));
	}
	size_t after = process_resident();
	for (struct page *run : runs)
		free_pages_exact(page_address(run), npages * ukmem_page_size());
	free_all(between, 3);
	kfree(used);
	return after > before ? after - before : 0;
}

size_t first_grown_by_runs(size_t live, size_t npages)
{
	os_calls.now_ms = fake_now_ms;
	configure("background_thread:never");
	return grown_by_runs(live, npages);
}

TEST(PageDecayTest, LargeRunsOfASmallProgramTakeThePlaceOfHoles)
{
	SKIP_WHERE_SHADOWS_STAY();
	if (ukmem_page_size() != 4096)
		GTEST_SKIP() << "the numbers of pages are those of 4 KiB";
	EXPECT_FRESH_PROCESS_PASSES([] { EXPECT_LE(first_grown_by_runs(kMiB, 24), kMiB / 2); });
	EXPECT_FRESH_PROCESS_PASSES(
		[] { EXPECT_LE(first_grown_by_runs(40 * kMiB, 24), kMiB); });
	/* Small runs, and large programs, keep their holes until the clock goes on. */
	EXPECT_FRESH_PROCESS_PASSES([] { EXPECT_GE(first_grown_by_runs(kMiB, 15), 2 * kMiB); });
	EXPECT_FRESH_PROCESS_PASSES(
		[] { EXPECT_GE(first_grown_by_runs(128 * kMiB, 24), 2 * kMiB); });
}

TEST(PageDecayTest, ARunOfAnEighthTakesThePlaceOfHoles)
{
	SKIP_WHERE_SHADOWS_STAY();
	EXPECT_FRESH_PROCESS_PASSES([] {
		EXPECT_GE(first_grown_by_runs(128 * kMiB, to_pages(16 * kMiB)), 15 * kMiB);
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		EXPECT_LE(first_grown_by_runs(128 * kMiB, to_pages(24 * kMiB)), 19 * kMiB);
	});
}

/* A block of which each page is resident. */
void *touched(size_t size)
{
	char *block = static_cast<char *>(kmalloc(size, GFP_KERNEL));

	for (size_t i = 0; i < size; i += ukmem_page_size())
		block[i] = 1;
	return block;
}

/* Blocks of 64 KiB to 1 MiB that come and go in no order, some 30 MiB at once. */
class Churn
{
      public:
	~Churn()
	{
		for (void *block : blocks_)
			kfree(block);
	}

	/* Result: the bytes purged while blocks of about @bytes were replaced within a period.
	 */
	size_t period(size_t bytes)
	{
		unsigned long before = vmstat("pgpurged");

		fake_now += 1100;
		for (size_t done = 0; done < bytes;) {
			void *&block = blocks_[random_() % 100];
			size_t size = (kMiB / 16) << random_() % 4;

			size += random_() % size;
			kfree(block);
			block = touched(size); /* what is free and dirty is resident */
			done += size;
		}
		return (vmstat("pgpurged") - before) * ukmem_page_size();
	}

      private:
	std::minstd_rand random_{ 1 };
	void *blocks_[100] = {};
};

void churns()
{
	os_calls.now_ms = fake_now_ms;
	configure("background_thread:never");
	Churn churn;
	size_t purged = 0;

	for (int i = 0; i < 12; i++)
		purged += churn.period(2048 * kMiB);
	EXPECT_LE(purged, 12 * 100 * kMiB) << "it faults in again what it gives back";
	fake_now += 1100;
	EXPECT_LE(grown_by_runs(kMiB, 24), kMiB) << "a new period";
}

TEST(PageDecayTest, LargeRunsInNoOrderAreLeftTheirHoles)
{
	SKIP_WHERE_SHADOWS_STAY();
	if (ukmem_page_size() != 4096)
		GTEST_SKIP() << "the numbers of pages are those of 4 KiB";
	EXPECT_FRESH_PROCESS_PASSES(churns);
}

/* A buffer grows in steps, is freed, and grows again: where, is chance. */
void grows_again()
{
	os_calls.now_ms = fake_now_ms;
	configure("background_thread:never");
	const size_t most = 100 * kMiB, first = 64 << 10, step = 128 << 10;
	size_t start = process_resident(), peak = 0;

	for (int round = 0; round < 8; round++) {
		char *buffer = nullptr;

		for (size_t size = first; size <= most; size += step) {
			buffer = static_cast<char *>(krealloc(buffer, size, GFP_KERNEL));
			ASSERT_NE(buffer, nullptr);
			memset(buffer + size - first, 1, first);
			if (size > first)
				memset(buffer + size - step, 1, step);
		}
		peak = std::max(peak, process_resident() - start);
		kfree(buffer);
	}
	EXPECT_LE(peak, 5 * most / 2);
}

TEST(PageDecayTest, ABufferThatGrowsAgainLeavesNoHoles)
{
	SKIP_WHERE_SHADOWS_STAY();
	EXPECT_FRESH_PROCESS_PASSES(grows_again);
}

/* Rounds of two blocks, each of which is a page too long for every hole, all within a period:
 * far more than the bound on what large runs owe. */
void outgrows_its_holes()
{
	os_calls.now_ms = fake_now_ms;
	configure("background_thread:never,dirty_decay_ms:3600000");
	size_t start = process_resident(), peak = 0, size = 8 * kMiB;
	std::vector<void *> pins;

	for (int round = 0; round < 300; round++, size += ukmem_page_size()) {
		void *blocks[4];

		for (void *&block : blocks) {
			block = touched(size);
			pins.push_back(touched(64 << 10));
		}
		peak = std::max(peak, process_resident() - start);
		for (void *block : blocks)
			kfree(block);
		shim_page_decay();
	}
	EXPECT_LE(peak, 210 * kMiB) << (peak >> 20);
	for (void *pin : pins)
		kfree(pin);
}

TEST(PageDecayTest, AProgramThatOutgrowsItsHolesLeavesFew)
{
	SKIP_WHERE_SHADOWS_STAY();
	EXPECT_FRESH_PROCESS_PASSES(outgrows_its_holes);
}

/* A buffer grows in place, by steps that are smaller than the holes elsewhere. */
void grows_beside_large_holes()
{
	os_calls.now_ms = fake_now_ms;
	configure("background_thread:never,dirty_decay_ms:3600000");
	const size_t step = 128 << 10, first = 4 * kMiB, most = 20 * kMiB;
	std::vector<void *> holes, pins;
	size_t start = process_resident(), peak = 0;
	char *buffer;

	for (int i = 0; i < 8; i++)
		(i % 2 ? pins : holes).push_back(touched(4 * kMiB));
	buffer = static_cast<char *>(touched(first));
	free_peak(holes);
	for (size_t size = first + step; size <= most; size += step) {
		buffer = static_cast<char *>(krealloc(buffer, size, GFP_KERNEL));
		memset(buffer + size - step, 1, step);
		shim_page_decay(); /* as a request past a CPU's caches does */
		peak = std::max(peak, process_resident() - start);
	}
	EXPECT_LE(peak, 46 * kMiB) << (peak >> 20);
	kfree(buffer);
	free_peak(pins);
}

TEST(PageDecayTest, ABufferThatGrowsInPlaceTakesThePlaceOfLargeHoles)
{
	SKIP_WHERE_SHADOWS_STAY();
	EXPECT_FRESH_PROCESS_PASSES(grows_beside_large_holes);
}

/* Bytes given back in one go; a piece. */
void pieces()
{
	os_calls.now_ms = fake_now_ms;
	configure("dirty_max:0");
	Pages pages = fill(GFP_KERNEL, 10, 200 * kMiB / (ukmem_page_size() << 10), true);
	unsigned long before, most = 0, calls = 0;

	free_all(pages, 10);
	fake_now += 2000;
	shim_page_decay();
	EXPECT_EQ(vmstat("pgpurged"), 0u) << "a period has to pass in which nobody wants them";
	for (int i = 0; i < 100; i++) {
		fake_now += i % 10 ? 1 : 1100;
		before = vmstat("pgpurged");
		shim_page_decay();
		unsigned long now = vmstat("pgpurged") - before;

		most = std::max(most, now);
		calls += now != 0;
	}
	EXPECT_GE(vmstat("pgpurged"), to_pages(190 * kMiB));
	EXPECT_LE(most, to_pages(34 * kMiB)) << "a piece at a time";
	EXPECT_GE(calls, 5u);
	expect_all_free();
}

TEST(PageDecayTest, APieceAtATime)
{
	EXPECT_FRESH_PROCESS_PASSES(pieces);
}

/* Decay at a request passes over a zone whose lock another thread has, and forgets nothing. */
void waits_for_nobody()
{
	configure("dirty_decay_ms:200,background_thread:never");
	Pages pages = fill(GFP_KERNEL, 8, 64, true);
	size_t dirty;

	free_all(pages, 8);
	dirty = limits().dirty;
	EXPECT_GT(dirty, to_pages(50 * kMiB));
	/* Two periods in which nobody wants them; then they are to be purged. */
	for (int i = 0; i < 100 && limits().dirty == dirty; i++) {
		usleep(10000);
		shim_page_decay();
	}
	dirty = limits().dirty;
	EXPECT_GT(dirty, to_pages(30 * kMiB));
	{
		ZoneHolder holder;

		for (int i = 0; i < 5; i++) {
			shim_page_decay();
			usleep(1100);
		}
		EXPECT_EQ(limits().dirty, dirty);
	}
	/* At once: a period has not ended yet. */
	shim_page_decay();
	EXPECT_LT(limits().dirty, dirty);
}

TEST(PageDecayTest, WaitsForNobody)
{
	EXPECT_FRESH_PROCESS_PASSES(waits_for_nobody);
}

} // namespace
