/* SPDX-License-Identifier: MIT */
/*
 * A hardened process: an overflow out of any slab ends soon, at a page that nobody may touch,
 * whatever lies between slabs (page/fence.c).
 */
#include <malloc.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "fake_os.h"
#include "page_util.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

namespace
{

/* Before the library is initialised. */
const bool hardened = !setenv("UKMEM_CONF", "hardened:1", 1);

constexpr size_t kMiB = size_t{ 1 } << 20, kKiB = 1024;
/* From the end of a slab to a closed page, in a process of less than 512 MiB; a slab. */
constexpr size_t kGroup = 256 * kKiB, kSlab = 128 * kKiB;

struct Mapping {
	uintptr_t start, end;
	bool writable;
};

void append(std::vector<Mapping> &all, const Mapping &m)
{
	if (!all.empty() && all.back().end == m.start && all.back().writable == m.writable)
		all.back().end = m.end;
	else
		all.push_back(m);
}

/* Appends a mapping in pieces: a guard region inside of it is not to be seen in the maps, but
 * the kernel cannot read it. */
void append_pieces(std::vector<Mapping> &all, const Mapping &m)
{
	constexpr size_t kAtOnce = 512;
	const size_t page = ukmem_page_size();
	std::vector<struct iovec> pages;
	char bytes[kAtOnce];

	for (uintptr_t at = m.start; at < m.end;) {
		struct iovec here = { bytes, 0 };

		pages.clear();
		for (uintptr_t p = at; p < m.end && pages.size() < kAtOnce; p += page)
			pages.push_back({ reinterpret_cast<void *>(p), 1 });
		here.iov_len = pages.size();
		ssize_t n = process_vm_readv(getpid(), &here, 1, pages.data(), pages.size(), 0);
		uintptr_t end = at + page * (n > 0 ? static_cast<size_t>(n) : 0);

		if (end > at)
			append(all, { at, end, true });
		if (end < m.end && end < at + page * pages.size()) {
			append(all, { end, end + page, false });
			end += page;
		}
		at = end;
	}
}

/* The process's mappings, and whether the program can write there. */
std::vector<Mapping> mappings()
{
	constexpr size_t kShadow = size_t{ 1 } << 32; /* a sanitizer's */
	std::vector<Mapping> all;
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], mode[8];
	Mapping m;

	if (!f)
		abort();
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %7s", &m.start, &m.end, mode) != 3)
			continue;
		m.writable = mode[1] == 'w';
		if (m.writable && m.end - m.start < kShadow)
			append_pieces(all, m);
		else
			append(all, m);
	}
	fclose(f);
	return all;
}

/* How far a linear overflow runs from there before it meets a page that cannot be written. */
size_t run_from(const std::vector<Mapping> &all, const void *p)
{
	auto at = reinterpret_cast<uintptr_t>(p);
	auto m = std::upper_bound(all.begin(), all.end(), at,
				  [](uintptr_t a, const Mapping &one) { return a < one.end; });

	EXPECT_TRUE(m != all.end() && m->start <= at && m->writable) << p;
	return m->end - at;
}

/* The distance of fences at @p, which is larger in zones of more than 512 MiB of addresses. */
size_t group_at(const std::vector<Mapping> &all, const void *p)
{
	constexpr size_t kZone = size_t{ 1 } << 36, kGroups = 1024;
	auto at = reinterpret_cast<uintptr_t>(p);
	auto zone = std::find_if(all.begin(), all.end(),
				 [at](const Mapping &m) { return m.start + kZone > at; });
	size_t group = kGroup;

	while (2 * group * kGroups <= at + kSlab - zone->start)
		group *= 2;
	return group;
}

/* How far a linear overflow runs from there, less a group. */
size_t beyond_group(const std::vector<Mapping> &all, const void *p)
{
	const size_t run = run_from(all, p);

	return run - std::min(run, group_at(all, p));
}

size_t closed_pages()
{
	auto all = mappings();

	return static_cast<size_t>(std::count_if(all.begin(), all.end(), [](const Mapping &m) {
		return !m.writable && m.end - m.start == ukmem_page_size();
	}));
}

/* Objects of many sizes, in use. Some are freed while others come, so slabs come and go. */
class Crowd
{
      public:
	/* @blocks: blocks of whole pages come and go between the slabs. */
	Crowd(uint32_t seed, size_t bytes, bool blocks,
	      const std::vector<size_t> &sizes = { 16, 64, 100, 500, 1000, 4096, 5000, 8192,
						   20000, 65000 })
	    : random_(seed), objects_(sizes.size())
	{
		for (size_t done = 0; done < bytes;) {
			auto &list = objects_[random_() % objects_.size()];
			size_t size = sizes[&list - &objects_[0]];

			for (size_t n = random_() % (256 * kKiB / size + 2); n; n--) {
				list.push_back(get(size));
				done += size;
			}
			if (blocks)
				blocks_.push_back(get(70000 + random_() % 500000));
			if (random_() % 4 == 0)
				release_some(list, list.size() / 2);
			if (random_() % 4 == 0)
				release_some(blocks_, blocks_.size() / 4);
		}
	}

	~Crowd()
	{
		for (auto &list : objects_)
			release_some(list, list.size());
		release_some(blocks_, blocks_.size());
	}

	/* The longest way of an overflow that begins in any of the objects, less a group. */
	size_t longest_run() const
	{
		auto all = mappings();
		size_t longest = 0;

		for (auto &list : objects_)
			for (void *p : list)
				longest = std::max(longest, beyond_group(all, p));
		return longest;
	}

      private:
	static void *get(size_t size)
	{
		void *p = kmalloc(size, GFP_KERNEL);

		EXPECT_NE(p, nullptr);
		return p;
	}

	void release_some(std::vector<void *> &list, size_t n)
	{
		for (; n; n--) {
			std::swap(list[random_() % list.size()], list.back());
			kfree(list.back());
			list.pop_back();
		}
	}

	std::mt19937 random_;
	std::vector<std::vector<void *>> objects_;
	std::vector<void *> blocks_;
};

TEST(FenceTest, AnOverflowEndsSoon)
{
	Crowd crowd(test_seed(), 48 * kMiB, false);

	EXPECT_LE(crowd.longest_run(), kSlab);
}

/* There each fence is a mapping. */
TEST(FenceTest, AnOverflowEndsSoonOnOldKernels)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		os_calls.madvise_guard = no_guard_regions;
		const size_t before = closed_pages();
		{
			Crowd crowd(test_seed(), 16 * kMiB, false);

			EXPECT_LE(crowd.longest_run(), kSlab);
			EXPECT_GE(closed_pages(), before + 16 * kMiB / kGroup / 4);
		}
		ukmem_trim();
		EXPECT_LE(closed_pages(), before + 20);
	});
}

/* Where a block lies at the place of a fence, each slab before it has a page of its own. */
TEST(FenceTest, AnOverflowEndsSoonAmongBlocks)
{
	Crowd crowd(test_seed(), 32 * kMiB, true);

	EXPECT_LE(crowd.longest_run(), kSlab);
}

TEST(FenceTest, AnOverflowEndsSoonIfThreadsMakeSlabs)
{
	std::vector<std::unique_ptr<Crowd>> crowds(4);
	std::vector<std::thread> threads;
	const uint32_t seed = test_seed();

	for (unsigned t = 0; t < crowds.size(); t++)
		threads.emplace_back([&crowds, seed, t] {
			crowds[t] = std::make_unique<Crowd>(seed + t, 8 * kMiB, t % 2);
		});
	for (auto &thread : threads)
		thread.join();
	for (auto &crowd : crowds)
		EXPECT_LE(crowd->longest_run(), kSlab);
}

/* No more addresses are granted while it lives; what libc's malloc() needs is there already. */
class NoMoreAddresses
{
      public:
	NoMoreAddresses()
	{
		struct rlimit now;

		mallopt(M_MMAP_MAX, 0);
		mallopt(M_TRIM_THRESHOLD, INT_MAX);
		void *room = malloc(8 * kMiB);

		/* Or else the compiler leaves both calls out. */
		__asm__ volatile("" : : "r"(room) : "memory");
		free(room);
		getrlimit(RLIMIT_AS, &before_);
		now = before_;
		now.rlim_cur = mapped_bytes();
		setrlimit(RLIMIT_AS, &now);
	}
	~NoMoreAddresses()
	{
		setrlimit(RLIMIT_AS, &before_);
	}

      private:
	static size_t mapped_bytes()
	{
		auto all = mappings();
		size_t n = 0;

		for (const Mapping &m : all)
			n += m.end - m.start;
		return n;
	}

	struct rlimit before_;
};

/* Where all places of fences are in use, and nothing else, each slab has a closed page of its
 * own. Not slabs of objects of 2^n bytes: here is no room for one behind an aligned slab. */
TEST(FenceTest, AnOverflowEndsSoonWherePlacesAreTaken)
{
	if (TEST_ASAN || TEST_TSAN)
		GTEST_SKIP() << "sanitizers need addresses of their own";
	constexpr size_t kPlaces = 128;
	std::vector<struct page *> places, others;
	std::unique_ptr<Crowd> crowd;

	while (places.size() < kPlaces) {
		struct page *page = alloc_pages(GFP_KERNEL, 0);
		auto at = reinterpret_cast<uintptr_t>(page_address(page));

		((at + ukmem_page_size()) % kGroup ? others : places).push_back(page);
	}
	for (auto *page : others)
		__free_pages(page, 0);
	const size_t before = closed_pages();
	{
		NoMoreAddresses here;

		crowd = std::make_unique<Crowd>(test_seed(), 6 * kMiB, false,
						std::vector<size_t>{ 16, 100, 5000, 20000 });
	}
	EXPECT_LE(crowd->longest_run(), kSlab);
	crowd.reset();
	ukmem_trim();
	EXPECT_LE(closed_pages(), before + 20);
	for (auto *page : places)
		__free_pages(page, 0);
}

/* Fences are few, and go with the last slab that holds them. */
TEST(FenceTest, FencesGoWithTheirSlabs)
{
	kfree(kmalloc(1, GFP_KERNEL));
	ukmem_trim();
	size_t before = closed_pages();
	{
		Crowd crowd(test_seed(), 48 * kMiB, false);
		size_t now = closed_pages() - before;

		EXPECT_GE(now, 48 * kMiB / kGroup / 4);
		EXPECT_LE(now, 3 * 48 * kMiB / kGroup);
	}
	ukmem_trim();
	EXPECT_LE(closed_pages(), before + 20);
}

} // namespace
