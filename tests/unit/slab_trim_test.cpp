/* SPDX-License-Identifier: MIT */
/* A trim empties the arrays that keep memory, and leaves the others to their CPUs. */
#include <algorithm>
#include <map>
#include <sys/mman.h>
#include <thread>

#include "slab_class.h"

namespace
{

constexpr size_t kSize = 1024; /* slabs of whole pages */
constexpr size_t kPages = 64;  /* of objects: of these, one may be left to arrays */

/* The largest class, with objects that fill so many pages. */
struct FilledPages : SizeClass {
	explicit FilledPages(size_t pages) : SizeClass(16 * 4096)
	{
		allocate(pages / 16);
	}
};

/* Frees the objects for which @goes says so. */
template <typename Goes> void free_some(SizeClass &c, Goes goes)
{
	std::vector<void *> stay;

	for (size_t i = 0; i < c.p.size(); i++)
		if (goes(i, reinterpret_cast<uintptr_t>(c.p[i])))
			kfree(c.p[i]);
		else
			stay.push_back(c.p[i]);
	c.p = stay;
}

/* Allocates what arrays hold. */
void empty_arrays(SizeClass &c)
{
	while (c.counts().cached)
		c.allocate(1);
}

/* Allocates all objects of so many slabs, and frees those for which @goes says so. */
template <typename Goes> void scatter(SizeClass &c, size_t slabs, Goes goes)
{
	c.make(slabs);
	empty_arrays(c);
	free_some(c, goes);
}

/* Makes the CPU's array large. */
void grow_array(SizeClass &c)
{
	for (int i = 0; i < 12; i++) {
		c.allocate(40000);
		c.free_all();
	}
}

unsigned stops, purges, reads;

void count_calls()
{
	os_calls.membarrier = [](int cmd, unsigned flags, int cpu) {
		stops++;
		return os_calls_linux.membarrier(cmd, flags, cpu);
	};
	os_calls.madvise = [](void *addr, size_t len, int advice) {
		purges += advice == MADV_DONTNEED;
		return os_calls_linux.madvise(addr, len, advice);
	};
	os_calls.read_file = [](const char *path, char *buf, size_t size) {
		reads++;
		return os_calls_linux.read_file(path, buf, size);
	};
}

size_t trim_counted()
{
	stops = purges = reads = 0;
	return ukmem_trim();
}

bool is_inside_page(size_t, uintptr_t address)
{
	return address % 4096;
}

/* Each slab has an object that stays: to empty the arrays would give nothing back. */
TEST(SlabTrimTest, LeavesArraysThatKeepNothing)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(kSize);

		scatter(c, 40, is_inside_page);
		const auto before = c.counts();

		ASSERT_GT(before.cached, 0u);
		ukmem_trim();
		EXPECT_EQ(c.counts().cached, before.cached);
		EXPECT_EQ(shim_slab_wrong(c.s), nullptr);
	});
}

/* Some slabs have none, and they are more than may be left. */
TEST(SlabTrimTest, EmptiesArraysThatKeepSlabs)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(16384);
		FilledPages other(kPages);

		scatter(c, 40, [](size_t i, uintptr_t) { return i >= 2; });
		ASSERT_GT(c.counts().cached, 0u);
		ukmem_trim();
		EXPECT_EQ(c.counts().cached, 0u);
		EXPECT_LE(c.counts().slabs, 2u);
	});
}

/* A 64th of the pages that objects fill may stay, as long as the program has objects of the
 * cache. */
TEST(SlabTrimTest, LeavesLittle)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(kSize);
		FilledPages other(16 * kPages);

		scatter(c, 3, [](size_t i, uintptr_t) { return i >= 1; });
		const auto before = c.counts();

		ASSERT_GT(before.cached, 0u);
		ASSERT_GT(before.slabs, 1u);
		ukmem_trim();
		EXPECT_EQ(c.counts().cached, before.cached);
		EXPECT_GT(c.counts().slabs, 1u);
		/* The last object goes. */
		c.free_all();
		ukmem_trim();
		EXPECT_EQ(c.counts().cached, 0u);
		EXPECT_EQ(c.counts().slabs, 0u);
	});
}

/* A trim leaves a part of what the program's objects fill. It counts neither large blocks nor
 * what arrays have, so a second trim leaves as much as the first. */
TEST(SlabTrimTest, LeavesAsMuchAgain)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(kSize), others(512);
		void *large = kmalloc(64 << 20, GFP_KERNEL);

		for (int i = 0; i < 12; i++) {
			others.allocate(16000);
			others.free_all();
		}
		ASSERT_GT(others.counts().cached, 8192u);
		scatter(c, 2, [](size_t i, uintptr_t) { return i >= 1; });
		ASSERT_GT(c.counts().cached, 0u);
		ukmem_trim();
		EXPECT_EQ(c.counts().cached, 0u);
		EXPECT_EQ(ukmem_trim(), 0u);
		kfree(large);
	});
}

/* Frees the last object into its slab: its CPU's arrays are stopped. */
void free_into_slab(SizeClass &c)
{
	void *const p = c.p.back();

	c.p.pop_back();
	ASSERT_TRUE(shim_while_stopped(
		c.s, [](void *object) { kfree(object); }, p));
}

/* Arrays stay at a trim while the program has an object of their objects' slab. Once that one
 * has gone they do not, however many came and went before. */
TEST(SlabTrimTest, SeesThatTheLastObjectHasGone)
{
	if (rseq_is_off())
		GTEST_SKIP() << "nothing can be done on a CPU that is stopped";
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(kSize);

		for (int round = 0; round < 8; round++) {
			c.allocate(4 + round);
			empty_arrays(c);
			ASSERT_EQ(shim_slab_base(c.p[0]), shim_slab_base(c.p[2]));
			kfree(c.p[0]);
			kfree(c.p[1]);
			c.p.erase(c.p.begin(), c.p.begin() + 2);
			while (!c.p.empty()) {
				ukmem_trim();
				EXPECT_EQ(c.counts().cached, 2u);
				free_into_slab(c);
			}
			ukmem_trim();
			EXPECT_EQ(c.counts().cached, 0u) << "round " << round;
			EXPECT_EQ(c.counts().slabs, 0u) << "round " << round;
		}
	});
}

/* A CPU's list of slabs that are not full: it stays until one of the slabs is empty. */
TEST(SlabTrimTest, LeavesListsOfSlabsInUse)
{
	if (rseq_is_off())
		GTEST_SKIP() << "nothing can be done on a CPU that is stopped";
	EXPECT_FRESH_PROCESS_PASSES([] {
		count_calls();
		SizeClass c(kSize);

		c.make(3);
		empty_arrays(c);

		/* The objects of one slab, which is full, come last. */
		void *const one = shim_slab_base(c.p[0]);
		const auto rest = std::stable_partition(c.p.begin(), c.p.end(), [&](void *p) {
			return shim_slab_base(p) != one;
		});
		const auto left = c.p.end() - rest;
		const size_t slabs = c.counts().slabs;

		ASSERT_GT(left, 2);
		trim_counted();
		for (auto i = left; i > 1; i--) {
			free_into_slab(c);
			EXPECT_EQ(trim_counted(), 0u);
			EXPECT_EQ(stops, 0u);
		}
		EXPECT_EQ(c.counts().slabs, slabs);
		free_into_slab(c);
		EXPECT_GT(trim_counted(), 0u);
		EXPECT_EQ(c.counts().slabs, slabs - 1);
	});
}

/* That is for all caches together. */
TEST(SlabTrimTest, LeavesLittleTogether)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c[] = { SizeClass(2048), SizeClass(3072), SizeClass(4096),
				  SizeClass(5120), SizeClass(6144), SizeClass(8192) };
		FilledPages other(4 * kPages);
		size_t slabs = 0, left = 0;

		for (SizeClass &one : c) {
			scatter(one, 3, [](size_t i, uintptr_t) { return i >= 1; });
			slabs += one.counts().slabs;
		}
		ukmem_trim();
		for (SizeClass &one : c)
			left += one.counts().slabs - 1;
		EXPECT_GT(slabs, 12u);
		EXPECT_LE(left, 6u);
	});
}

/* Many objects are not looked at one by one. */
TEST(SlabTrimTest, EmptiesFullArrays)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(64);
		void *large = kmalloc(64 << 20, GFP_KERNEL);

		grow_array(c);
		c.allocate(1);
		ASSERT_GT(c.counts().cached, 1024u);
		ukmem_trim();
		EXPECT_EQ(c.counts().cached, 0u);
		EXPECT_EQ(c.counts().slabs, 1u);
		kfree(large);
	});
}

/* The objects that a trim looks at keep no memory, but the others do. */
TEST(SlabTrimTest, EmptiesMoreThanAreLookedAt)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(64);
		void *large = kmalloc(64 << 20, GFP_KERNEL);
		size_t freed = 0;

		grow_array(c);
		empty_arrays(c);
		c.allocate(8000);
		empty_arrays(c);
		std::sort(c.p.begin(), c.p.end());
		free_some(c, [&freed](size_t i, uintptr_t address) {
			bool goes = freed < 1500 ? is_inside_page(i, address) : freed < 3500;

			freed += goes;
			return goes;
		});
		ASSERT_GE(c.counts().cached, 3000u);
		ukmem_trim();
		EXPECT_EQ(c.counts().cached, 0u);
		kfree(large);
	});
}

/* kmem_cache_shrink() empties all. */
TEST(SlabTrimTest, ShrinkLeavesNothing)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(kSize);

		scatter(c, 40, is_inside_page);
		ASSERT_GT(c.counts().cached, 0u);
		kmem_cache_shrink(c.s);
		EXPECT_EQ(c.counts().cached, 0u);
	});
}

/* A trim that has nothing to do enters the kernel for nothing, and looks at files only if it
 * is some time since it did. */
TEST(SlabTrimTest, SecondTrimIsCheap)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		count_calls();
		SizeClass c(kSize);

		scatter(c, 40, is_inside_page);
		trim_counted();
		EXPECT_GT(purges, 0u);
		EXPECT_GT(reads, 0u);
		empty_arrays(c);
		for (int i = 0; i < 3; i++) {
			EXPECT_EQ(trim_counted(), 0u);
			EXPECT_EQ(stops, 0u);
			EXPECT_EQ(purges, 0u);
			EXPECT_EQ(reads, 0u);
		}
		fake_now += 8;
		EXPECT_EQ(trim_counted(), 0u);
		EXPECT_GT(reads, 0u);
		EXPECT_EQ(purges, 0u);
		fake_now += 1000;
		EXPECT_EQ(trim_counted(), 0u);
		EXPECT_GT(purges, 0u) << "clean memory may be resident";
	});
}

constexpr size_t kRange = 65536;

uintptr_t range_of(void *p)
{
	return reinterpret_cast<uintptr_t>(p) / kRange;
}

/* The next trim gives back what came free behind a trim: an object that an array gets in the
 * place of another makes a slab idle. */
TEST(SlabTrimTest, ArraysAreJudgedAgain)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(kSize);

		std::map<uintptr_t, std::vector<void *>> stay; /* by ranges of whole slabs */
		std::set<uintptr_t> other;

		scatter(c, 160, is_inside_page);
		ukmem_trim();
		const auto before = c.counts();

		ASSERT_GT(before.cached, kRange / 4096);
		for (void *q : c.p)
			stay[range_of(q)].push_back(q);
		c.p.clear();
		c.allocate(kRange / 4096);
		for (void *q : c.p)
			other.insert(range_of(q));
		for (auto &[range, objects] : stay) {
			const bool goes = c.counts().cached < before.cached &&
					  objects.size() == kRange / 4096 &&
					  !other.count(range);

			for (void *q : objects)
				if (goes)
					kfree(q);
				else
					c.p.push_back(q);
		}
		ASSERT_EQ(c.counts().cached, before.cached);
		ukmem_trim();
		EXPECT_LT(c.counts().slabs, before.slabs);
		EXPECT_EQ(kmem_cache_shrink(c.s), 1);
		EXPECT_EQ(c.counts().cached, 0u);
	});
}

/* Slabs that become idle behind a trim. */
TEST(SlabTrimTest, SlabsThatBecomeIdleGo)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(kSize);
		size_t slabs;

		scatter(c, 40, is_inside_page);
		kmem_cache_shrink(c.s); /* all slabs are on the node's list */
		ukmem_trim();
		slabs = c.counts().slabs;
		ASSERT_GT(slabs, 4u);
		ASSERT_EQ(c.counts().partial, slabs);
		/* Less than the node may keep. */
		while (c.p.size() > 1) {
			kfree(c.p.back());
			c.p.pop_back();
		}
		ukmem_trim();
		EXPECT_EQ(c.counts().slabs, 1u);

		c.make(40);
		empty_arrays(c);
		while (c.p.size() > 1) {
			kfree(c.p.back());
			c.p.pop_back();
		}
		empty_arrays(c); /* what is left is in slabs */
		ukmem_trim();
		slabs = c.counts().slabs;
		kmem_cache_shrink(c.s);
		EXPECT_EQ(c.counts().slabs, slabs);
	});
}

/* Pages of pagesets, and large blocks. */
TEST(SlabTrimTest, PagesGo)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		SizeClass c(kSize); /* one CPU, and the clock */

		ukmem_trim();
		for (int i = 0; i < 3; i++) {
			void *large = kmalloc(kMiB, GFP_KERNEL);
			struct page *page = alloc_pages(GFP_KERNEL, 0);

			memset(large, 1, kMiB);
			memset(page_address(page), 1, ukmem_page_size());
			EXPECT_EQ(ukmem_trim(), 0u);
			__free_pages(page, 0);
			EXPECT_GE(ukmem_trim(), ukmem_page_size());
			kfree(large);
			EXPECT_GE(ukmem_trim(), kMiB);
			EXPECT_EQ(ukmem_trim(), 0u);
		}
	});
}

std::atomic<bool> holds_up, is_held_up;
std::atomic<unsigned> looks;

/* Threads that come while another one trims wait for one more trim, which one of them does for
 * all: it begins after they came. */
void trims_at_once()
{
	constexpr unsigned kThreads = 4;
	bool shared = false;

	os_calls.now_ms = [] { return __atomic_add_fetch(&fake_now, 100, __ATOMIC_RELAXED); };
	os_calls.read_file = [](const char *path, char *buf, size_t size) {
		if (!strcmp(path, "/sys/devices/system/cpu/online")) {
			looks++; /* of each trim, since the clock runs fast */
			is_held_up = true;
			for (int i = 0; holds_up && i < 10000; i++)
				usleep(100);
		}
		return os_calls_linux.read_file(path, buf, size);
	};
	kfree(kmalloc(1, GFP_KERNEL));
	for (int round = 0; round < 50 && !shared; round++) {
		std::vector<std::thread> threads;
		std::atomic<unsigned> come{ 0 };

		looks = 0;
		is_held_up = false;
		holds_up = true;
		threads.emplace_back([] { ukmem_trim(); });
		while (!is_held_up)
			usleep(100);
		for (unsigned i = 0; i < kThreads; i++)
			threads.emplace_back([&] {
				void *p = kmalloc(kMiB, GFP_KERNEL);

				memset(p, 1, kMiB);
				kfree(p);
				come++;
				EXPECT_GE(ukmem_trim(), kMiB);
			});
		while (come < kThreads)
			usleep(100);
		usleep(2000); /* they may not wait yet; then there are more trims */
		holds_up = false;
		for (auto &t : threads)
			t.join();
		EXPECT_GE(looks, 2u);
		shared = looks == 2;
	}
	EXPECT_TRUE(shared);
}

TEST(SlabTrimTest, ThreadsShareATrim)
{
	EXPECT_FRESH_PROCESS_PASSES(trims_at_once);
}

} // namespace
