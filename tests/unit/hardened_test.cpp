/* SPDX-License-Identifier: MIT */
/*
 * A hardened process that uses kmalloc and caches: promises that kmalloc's users count on hold,
 * counts are exact, threads. tests/hardened has the bugs that are found.
 */
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>

#include <gtest/gtest.h>

#include "block_exchange.h"
#include "hard_shim.h"
#include "lock_shim.h"
#include "page_util.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

extern "C" {
#include "base/config.h"
}

namespace
{

/* Before the library is initialised. */
const bool hardened = !setenv("UKMEM_CONF", "hardened:1", 1);

constexpr size_t kMiB = size_t{ 1 } << 20;
/* Objects of at most kWhole bytes are zero while they are free, of others the first ones. */
constexpr size_t kWhole = 504, kFirst = 128;

/* A size class's cache; the first request makes them. */
struct kmem_cache *class_of(const char *name)
{
	kfree(kmalloc(1, GFP_KERNEL));
	return kmem_cache_find(name);
}

bool is_zero(const char *p, size_t n)
{
	return std::all_of(p, p + n, [](char c) { return !c; });
}

/* Else whoever reads a few of them knows those of all objects. */
TEST(HardenedTest, CanariesDoNotTellOthers)
{
	constexpr size_t kSize = 56, kSlot = 64;
	std::map<uintptr_t, uint64_t> canaries;
	std::vector<void *> blocks;

	for (int n = 0; n < 500; n++) {
		char *volatile p = static_cast<char *>(kmalloc(kSize, GFP_KERNEL));

		ASSERT_EQ(ksize(p), kSize);
		memcpy(&canaries[reinterpret_cast<uintptr_t>(p)], p + kSize, kSlot - kSize);
		blocks.push_back(p);
	}
	for (uintptr_t bit = kSlot; bit <= 2048; bit *= 2) {
		std::set<uint64_t> differences;
		size_t pairs = 0;

		for (const auto &[address, canary] : canaries)
			if (const auto other = canaries.find(address ^ bit);
			    other != canaries.end() && address & bit) {
				const uint64_t d = canary - other->second;

				differences.insert(std::min(d, -d) >> 16);
				pairs++;
			}
		EXPECT_GT(differences.size() * 2, pairs) << bit;
	}
	for (void *p : blocks)
		kfree(p);
}

TEST(HardenedTest, BlocksOfPowersOfTwoAreAlignedToThem)
{
	for (size_t size = 16; size <= 4096; size *= 2)
		for (int n = 0; n < 50; n++) {
			auto *p = static_cast<char *>(kmalloc(size, GFP_KERNEL));

			EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % size, 0u) << size;
			EXPECT_GE(ksize(p), size);
			EXPECT_TRUE(is_zero(p, std::min(ksize(p), kFirst)));
			memset(p, 'x', ksize(p));
			kfree(p);
		}
}

/* A block that realloc moves by tables of pages is a mapping of its own, until it is freed. */
TEST(HardenedTest, MovedBlocksLeaveNoMappings)
{
	if (TEST_ASAN || TEST_TSAN)
		GTEST_SKIP() << "the sanitizer's own memory has mappings, too";
	std::mt19937 random(test_seed());
	std::vector<void *> p(32);
	const size_t before = number_of_mappings();

	for (int n = 0; n < 400; n++) {
		void *&q = p[random() % p.size()];

		q = krealloc(q, 4 * kMiB + random() % (8 * kMiB), GFP_KERNEL);
		ASSERT_NE(q, nullptr);
		memset(q, 1, 100);
	}
	for (void *q : p)
		kfree(q);
	ukmem_trim();
	EXPECT_LE(number_of_mappings(), before + 60);
}

/* New memory is written to before it is looked at. Else each of its pages faults twice. */
TEST(HardenedTest, NewMemoryFaultsOnce)
{
#if !defined(__x86_64__)
	GTEST_SKIP() << "no instruction here that reads, and faults as a write";
#endif
	if (TEST_ASAN || TEST_TSAN)
		GTEST_SKIP() << "the sanitizer's own memory faults, too";
	for (size_t size : { 100u, 2000u, 4000u, 9000u }) {
		std::vector<char *> p(8 * kMiB / size);
		struct rusage before, after;

		getrusage(RUSAGE_SELF, &before);
		for (char *&q : p) {
			q = static_cast<char *>(kmalloc(size, GFP_KERNEL));
			memset(q, 'x', size);
		}
		getrusage(RUSAGE_SELF, &after);
		EXPECT_LT(after.ru_minflt - before.ru_minflt, long(8 * kMiB / 4096 * 3 / 2))
			<< size;
		/* They are kept, so that the next ones are new, too. */
	}
}

/* Free large objects keep what is between their ends; who asks for zeros does not see it. */
TEST(HardenedTest, BlocksAreZeroWhereThatIsAskedFor)
{
	for (size_t size = 1; size < 70000; size = size * 5 / 4 + 1)
		for (int n = 0; n < 40; n++) {
			auto *p = static_cast<char *>(kzalloc(size, GFP_KERNEL));

			ASSERT_TRUE(is_zero(p, ksize(p))) << size;
			memset(p, 'x', ksize(p));
			kfree(p);
		}
}

TEST(HardenedTest, TheFamilyKeepsItsPromises)
{
	EXPECT_EQ(kmalloc(0, GFP_KERNEL), ZERO_SIZE_PTR);
	for (size_t size = 1; size < 300000; size = size * 5 / 4 + 1) {
		auto *p = static_cast<char *>(kzalloc(size, GFP_KERNEL));

		ASSERT_NE(p, nullptr);
		EXPECT_EQ(kmalloc_size_roundup(size), ksize(p)) << size;
		memset(p, 'a', size);
		p = static_cast<char *>(krealloc(p, 2 * size, GFP_KERNEL | __GFP_ZERO));
		ASSERT_NE(p, nullptr);
		EXPECT_TRUE(std::all_of(p, p + size, [](char c) { return c == 'a'; }));
		EXPECT_TRUE(is_zero(p + size, size));
		p = static_cast<char *>(krealloc(p, size / 3 + 1, GFP_KERNEL));
		EXPECT_EQ(p[size / 3], 'a');
		kfree(p);
		p = static_cast<char *>(kmalloc_node(size, GFP_KERNEL, 0));
		ASSERT_NE(p, nullptr);
		memset(p, 'b', size);
		kfree_sensitive(p);
	}
	vfree(vzalloc(100000));
	kvfree(kvmalloc(100, GFP_KERNEL));
}

TEST(HardenedTest, BulksAreOfTheSameObjects)
{
	struct kmem_cache *s = class_of("kmalloc-192");
	void *p[300];

	ASSERT_NE(s, nullptr);
	ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, 300, p), 300);
	for (void *q : p)
		memset(q, 'x', kmem_cache_size(s));
	EXPECT_EQ(kmem_cache_nr_allocated(s), 300u);
	kfree_bulk(150, p);
	kmem_cache_free_bulk(s, 150, p + 150);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	void *one = kmem_cache_alloc(s, GFP_KERNEL);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 1u);
	kmem_cache_free(s, one);
}

TEST(HardenedTest, MemoryGoesBack)
{
	struct kmem_cache *s = class_of("kmalloc-112");
	std::vector<void *> all(16 * kMiB / 112);
	std::mt19937 random(test_seed());

	for (auto &p : all)
		p = memset(kmalloc(100, GFP_KERNEL), 'x', 100);
	EXPECT_EQ(kmem_cache_nr_allocated(s), all.size());
	std::shuffle(all.begin(), all.end(), random);
	for (void *p : all)
		kfree(p);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	std::vector<void *> blocks(200);
	for (auto &p : blocks)
		p = kmalloc(kMiB / 4, GFP_KERNEL);
	for (void *p : blocks)
		kfree(p);
	ukmem_trim();
	EXPECT_EQ(kmem_cache_shrink(s), 0) << "a slab is left";
}

int no_mapping(void **, size_t, int, int)
{
	return -ENOMEM;
}

/* Where the process has all the mappings that it may have, blocks that are freed come back,
 * too. */
TEST(HardenedTest, BlocksAreOpenedWithoutAMapping)
{
	struct ukmem_gauges before, after;

	kfree(kmalloc(kMiB, GFP_KERNEL));
	ukmem_trim();
	ukmem_gauges_read(&before);
	{
		OsCallsGuard guard;
		std::vector<char *> all(10);

		for (auto &p : all) {
			p = static_cast<char *>(kmalloc(kMiB, GFP_KERNEL));
			ASSERT_NE(p, nullptr);
			memset(p, 'x', kMiB);
		}
		os_calls.mmap = no_mapping;
		for (char *p : all)
			kfree(p);
		ukmem_trim();
	}
	ukmem_gauges_read(&after);
	EXPECT_EQ(after.allocated, before.allocated);
	EXPECT_EQ(after.active, before.active);
	auto *again = static_cast<char *>(kmalloc(10 * kMiB, GFP_KERNEL));
	ASSERT_NE(again, nullptr);
	EXPECT_TRUE(is_zero(again, 10 * kMiB));
	memset(again, 'x', 10 * kMiB);
	kfree(again);
}

constexpr size_t kAsideSizes[] = { 100, 1500, 6000, 20000, 50000 };
void *of_handler[std::size(kAsideSizes)];

void allocate_in_handler(int)
{
	for (size_t i = 0; i < std::size(kAsideSizes); i++)
		of_handler[i] = kmalloc(kAsideSizes[i], GFP_KERNEL);
}

/* A handler that interrupts a holder of the zone's lock gets slabs of pages aside, which the
 * window's readable part does not have. */
TEST(HardenedDeathTest, ObjectsOfPagesAsideAreFreed)
{
	struct kmem_cache *large = class_of("kmalloc-57344"),
			  *middle = class_of("kmalloc-6144");
	size_t before = vmstat("pgalloc_aside");
	std::vector<void *> held;

	signal(SIGUSR1, allocate_in_handler);
	ASSERT_TRUE(shim_zone_trylock(0));
	for (int i = 0; i < 300; i++) {
		raise(SIGUSR1);
		held.insert(held.end(), std::begin(of_handler), std::end(of_handler));
	}
	shim_zone_unlock(0);
	ASSERT_GE(vmstat("pgalloc_aside"), before + 20);
	for (size_t i = 0; i < held.size(); i++) {
		size_t size = kAsideSizes[i % std::size(kAsideSizes)];

		ASSERT_NE(held[i], nullptr) << size;
		ASSERT_TRUE(is_zero(static_cast<char *>(held[i]), std::min(size, kFirst)));
		ASSERT_GE(ksize(held[i]), size);
		memset(held[i], 'x', size);
	}
	void *last = held.back();
	for (void *p : held)
		kfree(p);
	EXPECT_EQ(kmem_cache_nr_allocated(large), 0u);
	EXPECT_EQ(kmem_cache_nr_allocated(middle), 0u);
	EXPECT_DEATH(kfree(last), "double free");
}

/* Caches of zones are not hardened, and krealloc() may use all bytes of their objects. */
TEST(HardenedTest, ObjectsOfAZoneAreZeroedWhole)
{
	std::vector<char *> used(50);

	for (auto &p : used) {
		p = static_cast<char *>(kmalloc(112, GFP_KERNEL | __GFP_DMA32));
		ASSERT_NE(p, nullptr);
		memset(p, 0xaa, ksize(p));
	}
	for (char *p : used)
		kfree(p);
	for (auto &p : used) {
		p = static_cast<char *>(kmalloc(100, GFP_KERNEL | __GFP_DMA32 | __GFP_ZERO));
		ASSERT_NE(p, nullptr);
		for (size_t i = 0; i < ksize(p); i++)
			ASSERT_EQ(p[i], 0) << i;
	}
	for (char *p : used)
		kfree(p);
}

/* Beyond the number of guards that a process has, blocks come without them. */
TEST(HardenedTest, BlocksWithoutGuardsWork)
{
	std::vector<char *> blocks(7000);

	for (auto &p : blocks) {
		p = static_cast<char *>(kmalloc(70000, GFP_KERNEL));
		ASSERT_NE(p, nullptr);
		p[0] = p[69999] = 'x';
	}
	for (char *p : blocks)
		kfree(p);
	ukmem_trim();
	auto *p = static_cast<char *>(kmalloc(70000, GFP_KERNEL));
	EXPECT_TRUE(is_zero(p, 70000));
	kfree(p);
}

TEST(HardenedDeathTest, TheMessageNamesTheFunction)
{
	void *p = kmalloc(100, GFP_KERNEL);

	EXPECT_DEATH((kfree(p), kfree(p)), "kfree\\(\\): invalid pointer .*: not an allocated "
					   "object \\(double free\\?\\)");
	EXPECT_DEATH(kfree(static_cast<char *>(p) + 8),
		     "kfree\\(\\): .*not the start of an object");
	kfree(p);
}

TEST(HardenedDeathTest, AWriteBehindIsFound)
{
	auto *p = static_cast<char *>(kmalloc(100, GFP_KERNEL));
	size_t size = ksize(p);
	auto behind = [=](size_t i) {
		p[size + i] ^= 1;
		kfree(p);
	};

	EXPECT_DEATH(behind(0), "kfree\\(\\): .*written to beyond its end");
	EXPECT_DEATH(behind(7), "kfree\\(\\): .*written to beyond its end");
	kfree(p);
}

/* Whatever address of a slab is freed, that is reported, and touches nothing outside of it. */
TEST(HardenedDeathTest, EveryAddressOfASlabCanBeFreed)
{
	EXPECT_EXIT(
		{
			std::vector<char *> all(20000);

			config.invalid_free = INVALID_FREE_WARN;
			for (char *&p : all)
				p = static_cast<char *>(kmalloc(8, GFP_KERNEL));
			for (char *p : all) {
				/* The last slot of a page, behind which there may be a guard.
				 */
				if (reinterpret_cast<uintptr_t>(p + 16) % 4096)
					continue;
				for (int i = 1; i < 16; i++)
					kfree(p + i);
			}
			for (char *p : all)
				kfree(p);
			_exit(0);
		},
		::testing::ExitedWithCode(0),
		"^(ukmem: kfree[^\n]*not the start of an object\nukmem:   found at "
		"[^\n]+\n)+$");
}

/* Sizes of slots, and each byte of them. */
TEST(HardenedTest, EveryByteIsLookedAt)
{
	constexpr size_t kNear = 512;
	alignas(16) static char slot[1040];

	kfree(kmalloc(1, GFP_KERNEL)); /* it looks which processor this is */
	for (size_t size = 16; size <= sizeof(slot); size += 16) {
		EXPECT_TRUE(shim_hard_is_zero(slot, size));
		EXPECT_EQ(shim_hard_is_near_zero(slot, size), size <= kNear);
		for (size_t i = 0; i < size; i++) {
			slot[i] = 1;
			EXPECT_FALSE(shim_hard_is_zero(slot, size)) << i << " of " << size;
			EXPECT_FALSE(shim_hard_is_near_zero(slot, size)) << i << " of " << size;
			slot[i] = 0;
		}
		if (size > kNear)
			continue;
		memset(slot, 'x', sizeof(slot));
		shim_hard_zero_near(slot, size);
		EXPECT_TRUE(is_zero(slot, size));
		EXPECT_EQ(slot[size], 'x');
		memset(slot, 0, sizeof(slot));
	}
}

/*
 * A bug that writes to one place of many freed objects is found, whatever the secrets are: the
 * secret lines of objects in a row fall on each place about as often as by chance.
 */
TEST(HardenedTest, SecretLinesFallOnEachPlace)
{
	constexpr int kTimes = 1000;
	constexpr unsigned int kObjects = 2000, kFirstAndLast = 192, kLine = 64;
	std::mt19937_64 random(1);

	for (unsigned int size : { 1024u, 2560u, 5120u })
		for (int n = 0; n < kTimes; n++) {
			const unsigned int lines = (size - kFirstAndLast) / kLine;
			const unsigned int place = static_cast<unsigned int>(random() % lines);
			/* Half of the second secrets are near fractions of small numbers. */
			const uint64_t near = UINT64_MAX / size / (1 + random() % 8);
			const uint64_t secret[] = { random(), (n % 2 ? near : random()) | 1 };
			const uintptr_t first = 0x7f0000000000 + random() % (1 << 30) * 64;
			unsigned int found = 0;

			for (unsigned int i = 0; i < kObjects; i++)
				found += shim_hard_secret_place(secret,
								first + uintptr_t{ i } * size,
								lines) == place;
			ASSERT_GT(found, kObjects / lines / 8)
				<< size << ' ' << secret[0] << ' ' << secret[1];
			ASSERT_LT(found, kObjects / lines * 4)
				<< size << ' ' << secret[0] << ' ' << secret[1];
		}
}

/* From the secrets to the last class's line. */
TEST(HardenedDeathTest, TablesAreReadOnly)
{
	size_t size;
	char *tables = shim_hard_sealed(&size);

	if (ukmem_page_size() > 4096)
		GTEST_SKIP() << "for pages of 4 KiB";
	kfree(kmalloc(1, GFP_KERNEL));
	ASSERT_FALSE(is_zero(tables, size));
	for (size_t at = 0; at < size; at += 4096)
		EXPECT_DEATH(*static_cast<volatile char *>(tables + at) = 1, "^$|SEGV");
}

uintptr_t slab_of(const void *p)
{
	return reinterpret_cast<uintptr_t>(compound_head(virt_to_page(p)));
}

/* The slab that the next object comes from is one of the first few that have room. */
TEST(HardenedTest, SlabsAreChosenAtRandom)
{
	constexpr int kTimes = 30;
	struct kmem_cache *s = class_of("kmalloc-32");
	std::vector<void *> all(5000);
	std::map<uintptr_t, int> slabs;
	std::set<uintptr_t> chosen;

	ASSERT_NE(s, nullptr);
	for (void *&p : all)
		p = kmalloc(24, GFP_KERNEL);
	for (void *&p : all)
		if (slabs[slab_of(p)]++ % 2) {
			kfree(p);
			p = nullptr;
		}
	ASSERT_GT(slabs.size(), 20u);
	for (int n = 0; n < kTimes; n++) {
		kmem_cache_shrink(s);
		void *p = kmalloc(24, GFP_KERNEL);

		chosen.insert(slab_of(p));
		kfree(p);
	}
	EXPECT_GT(chosen.size(), 4u) << "of eight that may be";
	for (void *p : all)
		kfree(p);
}

/* Each object of a batch comes to each place about as often as to any other. */
TEST(HardenedTest, BatchesOfEachLengthAreShuffled)
{
	constexpr unsigned kTimes = 2000, kMost = 8;

	for (unsigned n = 1; n <= kMost; n++) {
		unsigned seen[kMost][kMost] = {};

		for (unsigned i = 0; i < kTimes * n; i++) {
			void *objs[kMost];

			for (unsigned k = 0; k < n; k++)
				objs[k] = &seen[k];
			shim_hard_shuffle(objs, n);
			for (unsigned place = 0; place < n; place++)
				(*static_cast<decltype(&seen[0])>(objs[place]))[place]++;
		}
		for (unsigned k = 0; k < n; k++)
			for (unsigned place = 0; place < n; place++)
				EXPECT_NEAR(seen[k][place], kTimes, kTimes / 4)
					<< "object " << k << " of " << n << ", place " << place;
	}
}

TEST(HardenedTest, EveryByteIsLookedAtByWideFunctions)
{
	constexpr size_t kFirstSize = 144, kLastSize = 512;
	alignas(16) static char slot[kLastSize + 16];

	kfree(kmalloc(1, GFP_KERNEL));
	if (!shim_hard_is_wide(kFirstSize))
		GTEST_SKIP() << "the processor has none";
	EXPECT_FALSE(shim_hard_is_wide(kFirstSize - 16));
	EXPECT_FALSE(shim_hard_is_wide(kLastSize + 16));
	for (size_t size = kFirstSize; size <= kLastSize; size += 16) {
		EXPECT_TRUE(shim_hard_is_zero_wide(slot, size));
		for (size_t i = 0; i < size; i++) {
			slot[i] = 1;
			EXPECT_FALSE(shim_hard_is_zero_wide(slot, size)) << i << " of " << size;
			slot[i] = 0;
		}
		slot[size] = 1;
		EXPECT_TRUE(shim_hard_is_zero_wide(slot, size));
		memset(slot, 'x', sizeof(slot));
		shim_hard_zero_wide(slot, size);
		EXPECT_TRUE(is_zero(slot, size));
		EXPECT_EQ(slot[size], 'x');
		memset(slot, 0, sizeof(slot));
	}
}

/* Objects pass between threads, each with its own contents, in a hardened process. */
TEST(HardenedTest, Threads)
{
	auto byte_of = [](size_t size) { return static_cast<char>(size % 100 + 1); };
	auto make = [=](std::mt19937 &random, unsigned n) {
		size_t size = 16 + random() % (n % 100 ? 500 : 100000);
		auto *p = static_cast<char *>(kmalloc(size, GFP_KERNEL));

		EXPECT_NE(p, nullptr);
		EXPECT_TRUE(is_zero(p, size <= kWhole ? size : std::min(size, kFirst)));
		memset(p, byte_of(size), size);
		memcpy(p, &size, sizeof(size));
		return p;
	};
	auto release = [=](char *p) {
		size_t size;

		memcpy(&size, p, sizeof(size));
		EXPECT_TRUE(std::all_of(p + sizeof(size), p + size,
					[=](char c) { return c == byte_of(size); }));
		kfree(p);
	};

	BlockExchange(4, 8000, 1000, make, release).end();
}

/* --- zeroing by cache -------------------------------------------------------------------- */

char *filled(struct kmem_cache *s)
{
	auto *p = static_cast<char *>(kmem_cache_alloc(s, GFP_KERNEL));

	memset(p, 'x', kmem_cache_size(s));
	return p;
}

void construct(void *p)
{
	memset(p, 'c', 8);
}

TEST(InitTest, CachesThatAskForZeros)
{
	struct kmem_cache *on_alloc =
		kmem_cache_create("init_alloc", 100, 0, SLAB_INIT_ON_ALLOC, nullptr);
	struct kmem_cache *on_free =
		kmem_cache_create("init_free", 100, 0, SLAB_INIT_ON_FREE, nullptr);
	void *bulk[200];

	for (int n = 0; n < 500; n++) {
		kmem_cache_free(on_alloc, filled(on_alloc));
		auto *p = static_cast<char *>(kmem_cache_alloc(on_alloc, GFP_KERNEL));
		EXPECT_TRUE(is_zero(p, 100));
		kmem_cache_free(on_alloc, p);
		p = filled(on_free);
		kmem_cache_free(on_free, p);
		EXPECT_TRUE(is_zero(p, 100));
	}
	for (int n = 0; n < 3; n++) {
		ASSERT_EQ(kmem_cache_alloc_bulk(on_alloc, GFP_KERNEL, 200, bulk), 200);
		for (void *p : bulk) {
			EXPECT_TRUE(is_zero(static_cast<char *>(p), 100));
			memset(p, 'x', 100);
		}
		kmem_cache_free_bulk(on_alloc, 200, bulk);
	}
	auto *p = static_cast<char *>(kmem_cache_alloc_node(on_alloc, GFP_KERNEL, 0));
	EXPECT_TRUE(is_zero(p, 100));
	kmem_cache_free(on_alloc, p);
	EXPECT_EQ(kmem_cache_nr_allocated(on_alloc), 0u);
	EXPECT_EQ(kmem_cache_nr_allocated(on_free), 0u);
	kmem_cache_destroy(on_alloc);
	kmem_cache_destroy(on_free);
}

/* As in the kernel, what a constructor wrote stays. */
TEST(InitTest, ConstructedObjectsStay)
{
	struct kmem_cache *s = kmem_cache_create(
		"init_ctor", 64, 0, SLAB_INIT_ON_ALLOC | SLAB_INIT_ON_FREE, construct);
	auto *p = static_cast<char *>(kmem_cache_alloc(s, GFP_KERNEL));

	EXPECT_EQ(p[0], 'c');
	kmem_cache_free(s, p);
	EXPECT_EQ(p[0], 'c');
	kmem_cache_destroy(s);
}

} // namespace
