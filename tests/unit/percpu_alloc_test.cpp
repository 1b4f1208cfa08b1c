/* SPDX-License-Identifier: MIT */
/* The allocator of per-CPU memory. Handles here are addresses of first copies. */
#include <errno.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "fake_os.h"
#include "percpu_util.h"

extern "C" {
#include "base/config.h"
#include "percpu/percpu.h"
#include "percpu/percpu_alloc.h"
#include "percpu/percpu_init.h"
}

namespace
{

unsigned maps;

int counting_mmap(void **addr, size_t len, int prot, int flags)
{
	maps++;
	return os_calls_linux.mmap(addr, len, prot, flags);
}

bool all_zero(const void *handle, size_t size)
{
	for (unsigned unit = 0; unit <= pcpu.nr_ids; unit++) {
		auto *p = static_cast<const char *>(pcpu_ptr(handle, unit));

		for (size_t i = 0; i < size; i++)
			if (p[i])
				return false;
	}
	return true;
}

void fill(void *handle, size_t size, int c)
{
	for (unsigned unit = 0; unit <= pcpu.nr_ids; unit++)
		memset(pcpu_ptr(handle, unit), c, size);
}

bool filled(const void *handle, size_t size, int c)
{
	for (unsigned unit = 0; unit <= pcpu.nr_ids; unit++) {
		auto *p = static_cast<const unsigned char *>(pcpu_ptr(handle, unit));

		for (size_t i = 0; i < size; i++)
			if (p[i] != c)
				return false;
	}
	return true;
}

class PercpuAllocTest : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		ASSERT_TRUE(pcpu_init());
	}
};

TEST_F(PercpuAllocTest, AlignedAndZeroed)
{
	for (size_t align = 1; align <= 4096; align *= 2)
		for (size_t size : { 1u, 8u, 15u, 16u, 17u, 100u, 4096u, 5000u }) {
			void *p = pcpu_alloc(size, align);

			ASSERT_NE(p, nullptr);
			ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
			ASSERT_EQ(reinterpret_cast<uintptr_t>(pcpu_ptr(p, pcpu.nr_ids)) % align,
				  0u);
			ASSERT_TRUE(all_zero(p, size));
			fill(p, size, 0xff);
			pcpu_free(p);
			void *q = pcpu_alloc(size, align);
			ASSERT_TRUE(all_zero(q, size)) << "not zero when reused";
			pcpu_free(q);
		}
	pcpu_free(nullptr);
}

TEST_F(PercpuAllocTest, BadRequests)
{
	EXPECT_EQ(pcpu_alloc(0, 8), nullptr);
	EXPECT_EQ(pcpu_alloc(8, 3), nullptr);
	EXPECT_EQ(pcpu_alloc(8, 0), nullptr);
	EXPECT_EQ(pcpu_alloc(8, 8192), nullptr);
	EXPECT_EQ(pcpu_alloc(pcpu.stride + 1, 8), nullptr);
	EXPECT_EQ(pcpu_alloc(SIZE_MAX / 2, 8), nullptr);
	EXPECT_EQ(pcpu_alloc(SIZE_MAX - 100, 8), nullptr);
	EXPECT_EQ(pcpu_alloc(SIZE_MAX, 8), nullptr);
}

TEST_F(PercpuAllocTest, NoOverlap)
{
	struct Area {
		size_t size;
		int mark;
	};
	std::mt19937 random(test_seed());
	std::map<char *, Area> live;

	for (unsigned step = 0; step < 6000 / kSlow; step++) {
		if (live.size() < 300 && random() % 2) {
			size_t size = 1 + random() % (random() % 10 ? 300 : 9000);
			auto *p = static_cast<char *>(pcpu_alloc(size, 1u << random() % 8));
			int mark = static_cast<int>(1 + random() % 255);

			ASSERT_NE(p, nullptr);
			auto next = live.lower_bound(p);
			ASSERT_TRUE(next == live.end() || next->first >= p + size);
			ASSERT_TRUE(next == live.begin() ||
				    std::prev(next)->first + std::prev(next)->second.size <= p);
			ASSERT_TRUE(all_zero(p, size));
			fill(p, size, mark);
			live[p] = { size, mark };
		} else if (!live.empty()) {
			auto it = std::next(live.begin(),
					    static_cast<long>(random() % live.size()));

			ASSERT_TRUE(filled(it->first, it->second.size, it->second.mark));
			pcpu_free(it->first);
			live.erase(it);
		}
	}
	for (auto &[p, area] : live)
		pcpu_free(p);
}

/*
 * The allocator remembers where its last searches ended, for some sizes and alignments. That
 * must hide no free place: no place below the one that it returns is free. So the test asks for
 * sizes and alignments in all orders.
 */
TEST_F(PercpuAllocTest, NothingFreeLiesBelow)
{
	constexpr size_t kGranule = 16, kArena = 4096;
	auto *arena = static_cast<char *>(pcpu_alloc(kArena * kGranule, 4096));
	std::vector<bool> used(kArena, false);
	std::map<char *, size_t> live;
	std::mt19937 random(test_seed());

	ASSERT_NE(arena, nullptr);
	pcpu_free(arena); /* nobody else allocates meanwhile: free from now on */
	auto mark = [&](char *p, size_t n, bool as) {
		for (char *end = p + n * kGranule; p < end; p += kGranule)
			if (p >= arena && p < arena + kArena * kGranule)
				used[static_cast<size_t>(p - arena) / kGranule] = as;
	};
	for (unsigned step = 0; step < 20000 / kSlow; step++) {
		if (random() % 100 < (live.size() < 150 ? 60 : 40)) {
			size_t n = 1 + random() % (random() % 4 ? 4 : 100);
			size_t align = kGranule << (random() % 3 ? 0 : random() % 9);
			auto *p = static_cast<char *>(pcpu_alloc(n * kGranule, align));
			size_t run = 0;

			ASSERT_NE(p, nullptr);
			for (size_t i = 0; i < kArena && arena + (i + 1) * kGranule <= p; i++) {
				auto start = reinterpret_cast<uintptr_t>(
					arena + (i + 1 - n) * kGranule);

				run = used[i] ? 0 : run + 1;
				ASSERT_TRUE(run < n || start % align)
					<< "step " << step << ": " << n << " granules at "
					<< i + 1 - n << " of the arena";
			}
			mark(p, n, true);
			live[p] = n;
		} else if (!live.empty()) {
			auto it = std::next(live.begin(),
					    static_cast<long>(random() % live.size()));

			mark(it->first, it->second, false);
			pcpu_free(it->first);
			live.erase(it);
		}
	}
	for (auto &[p, n] : live)
		pcpu_free(p);
}

TEST_F(PercpuAllocTest, AMillionComeAndGoWithoutGrowth)
{
	OsCallsGuard guard;

	os_calls.mmap = counting_mmap;
	maps = 0;
	for (unsigned i = 0; i < 1000000 / kSlow; i++) {
		void *p = pcpu_alloc(8, 8);

		ASSERT_NE(p, nullptr);
		pcpu_free(p);
	}
	EXPECT_EQ(maps, 0u);
}

/* All alive at once, twice: the second million lies where the first did. */
TEST_F(PercpuAllocTest, AMillionAtOnceLeaveNothingBehind)
{
	OsCallsGuard guard;
	std::vector<uint64_t *> live(1000000 / kSlow);
	size_t resident = pcpu_resident(), used = percpu_info().allocated;
	unsigned chunks = 0;

	for (int round = 0; round < 2; round++) {
		maps = 0;
		os_calls.mmap = counting_mmap;
		for (auto &v : live) {
			v = alloc_percpu(uint64_t);
			ASSERT_NE(v, nullptr);
			this_cpu_add(*v, 7);
		}
		if (round) {
			EXPECT_EQ(maps, 0u) << "grew although all was free";
		}
		os_calls.mmap = os_calls_linux.mmap;
		EXPECT_GE(percpu_info().allocated, used + live.size() * sizeof(uint64_t));
		if (!round)
			chunks = percpu_info().chunks;
		for (size_t i = 0; i < live.size(); i += 1 + live.size() / 1000)
			ASSERT_EQ(per_cpu_sum(*live[i]), 7u);
		std::shuffle(live.begin(), live.end(), std::mt19937(1));
		for (auto v : live)
			free_percpu(v);
	}
	EXPECT_EQ(percpu_info().chunks, chunks);
	EXPECT_EQ(percpu_info().allocated, used);
	/* The first chunk's units and the maps of its allocations stay resident. */
	EXPECT_LE(pcpu_resident(), resident + (num_possible_cpus() + 2) * pcpu.stride);
	void *p = pcpu_alloc(8, 8);
	EXPECT_TRUE(all_zero(p, 8));
	pcpu_free(p);
}

int nothing_in_memory(void *, size_t, unsigned char *vec)
{
	*vec = 0;
	return 0;
}

/* mincore() says of pages that were swapped out what it says of untouched ones. */
TEST_F(PercpuAllocTest, WhatWasSwappedOutIsZeroed)
{
	OsCallsGuard guard;
	size_t size = std::min(4 * os_page_size(), pcpu.stride / 4);
	void *p = pcpu_alloc(size, 8), *again;

	fill(p, size, 0x5a);
	os_calls.mincore = nothing_in_memory;
	pcpu_free(p);
	again = pcpu_alloc(size, 8);
	EXPECT_EQ(again, p);
	EXPECT_TRUE(all_zero(again, size));
	pcpu_free(again);
}

TEST_F(PercpuAllocTest, ExhaustionAddsAChunkAndFreedSpaceIsUsedAgain)
{
	OsCallsGuard guard;
	size_t piece = pcpu.stride / 8;
	std::vector<void *> live;
	unsigned first;

	os_calls.mmap = counting_mmap;
	maps = 0;
	while (!maps)
		live.push_back(pcpu_alloc(piece, 64));
	EXPECT_LE(live.size(), 8 * percpu_info().chunks + 1);
	first = maps;
	for (int i = 0; i < 7; i++)
		live.push_back(pcpu_alloc(piece, 64));
	EXPECT_EQ(maps, first) << "the new chunk has room for eight";
	for (void *p : live) {
		ASSERT_NE(p, nullptr);
		pcpu_free(p);
	}
	for (auto &p : live)
		p = pcpu_alloc(piece, 64);
	EXPECT_EQ(maps, first);
	for (void *p : live)
		pcpu_free(p);
	/* A whole unit: only a chunk without the head of the first one has it. */
	void *whole = pcpu_alloc(pcpu.stride, 4096);
	ASSERT_NE(whole, nullptr);
	pcpu_free(whole);
	EXPECT_LE(maps, first + 2);
}

int no_mmap(void **, size_t, int, int)
{
	return -ENOMEM;
}

TEST_F(PercpuAllocTest, NoMemoryForAChunkIsNull)
{
	OsCallsGuard guard;
	std::vector<void *> live;
	void *p;

	os_calls.mmap = no_mmap;
	while ((p = pcpu_alloc(pcpu.stride / 8, 64)))
		live.push_back(p);
	EXPECT_EQ(pcpu_alloc(pcpu.stride / 8, 64), nullptr);
	p = pcpu_alloc(8, 8);
	EXPECT_NE(p, nullptr) << "small ones still fit";
	pcpu_free(p);
	os_calls.mmap = os_calls_linux.mmap;
	p = pcpu_alloc(pcpu.stride / 8, 64);
	EXPECT_NE(p, nullptr);
	pcpu_free(p);
	for (void *q : live)
		pcpu_free(q);
}

int refusing_munmap(void *, size_t)
{
	return -ENOMEM;
}

/* The system refuses to map half of a chunk, and then to take the other half back. The half
 * that stays mapped does no harm. */
void refuse_half_of_a_chunk()
{
	ASSERT_TRUE(pcpu_init());
	auto *before = static_cast<char *>(pcpu_alloc(pcpu.stride, 4096));

	ASSERT_NE(before, nullptr);
	os_calls.mmap = failing_mmap;
	os_calls.munmap = refusing_munmap;
	fail_mmap = { 0, 2, true };
	EXPECT_EQ(pcpu_alloc(pcpu.stride, 4096), nullptr);
	EXPECT_TRUE(fail_mmap.reached());
	fail_mmap = {};
	EXPECT_EQ(pcpu_alloc(pcpu.stride, 4096), before + (pcpu.nr_ids + 1) * pcpu.stride);
}

TEST(PercpuChunkTest, AChunkOfWhichHalfIsRefusedLeavesItsPlace)
{
	EXPECT_FRESH_PROCESS_PASSES(refuse_half_of_a_chunk);
}

TEST_F(PercpuAllocTest, UnusedUnitsCostNoMemory)
{
	size_t before = pcpu_resident();
	void *p = pcpu_alloc(pcpu.stride / 2, 4096);

	ASSERT_NE(p, nullptr);
	pcpu_free(p);
	EXPECT_LE(pcpu_resident(), before + 65536) << "freeing touched what nobody had used";
}

TEST(PercpuAllocDeathTest, WildHandleIsReported)
{
	static char wild[16];

	ASSERT_TRUE(pcpu_init());
	EXPECT_DEATH(pcpu_free(wild), "^ukmem: pcpu_free: 0x[0-9a-f]+ is no per-CPU handle\n$");
	void *p = pcpu_alloc(16, 16);
	EXPECT_DEATH(
		{
			pcpu_free(p);
			pcpu_free(p);
		},
		"is no per-CPU handle\n$");
	pcpu_free(p);
}

} // namespace
