/* SPDX-License-Identifier: MIT */
/* kmalloc and its relatives: contents, sizes, overflow, bulk, misuse. */
#include <algorithm>
#include <cstring>

#include "slab_shim.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

extern "C" {
#include "base/config.h"
}

namespace
{

/* Sizes the compiler cannot see, so that it does not refuse the calls. */
size_t opaque(size_t n)
{
	volatile size_t v = n;

	return v;
}

bool all_bytes(const void *p, int c, size_t n)
{
	auto *b = static_cast<const unsigned char *>(p);

	for (size_t i = 0; i < n; i++)
		if (b[i] != c)
			return false;
	return true;
}

TEST(KmallocTest, SizeZero)
{
	void *p = kmalloc(0, GFP_KERNEL);

	EXPECT_EQ(p, ZERO_SIZE_PTR);
	EXPECT_EQ(kzalloc(0, GFP_KERNEL), ZERO_SIZE_PTR);
	EXPECT_EQ(kcalloc(0, 8, GFP_KERNEL), ZERO_SIZE_PTR);
	EXPECT_EQ(kmalloc_array(8, 0, GFP_KERNEL), ZERO_SIZE_PTR);
	EXPECT_EQ(kmemdup("x", 0, GFP_KERNEL), ZERO_SIZE_PTR);
	EXPECT_EQ(ksize(p), 0u);
	EXPECT_EQ(ksize(nullptr), 0u);
	kfree(p);
	kfree(nullptr);
}

TEST(KmallocTest, TooMuchIsNull)
{
	for (size_t size :
	     { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 4096, static_cast<size_t>(PTRDIFF_MAX) + 1,
	       static_cast<size_t>(PTRDIFF_MAX), static_cast<size_t>(1) << 50,
	       static_cast<size_t>(3) << 50 }) {
		EXPECT_EQ(kmalloc(opaque(size), GFP_KERNEL | __GFP_NOWARN), nullptr) << size;
		EXPECT_EQ(kzalloc(opaque(size), GFP_KERNEL | __GFP_NOWARN), nullptr) << size;
		void *p = kmalloc(100, GFP_KERNEL);
		memset(p, 0x3c, 100);
		EXPECT_EQ(krealloc(p, opaque(size), GFP_KERNEL | __GFP_NOWARN), nullptr)
			<< size;
		EXPECT_TRUE(all_bytes(p, 0x3c, 100)) << "a failed krealloc leaves the object";
		kfree(p);
	}
}

TEST(KmallocTest, ProductsThatOverflow)
{
	size_t two32 = static_cast<size_t>(1) << 32, half = static_cast<size_t>(1) << 63;

	EXPECT_EQ(kmalloc_array(opaque(two32), opaque(two32), GFP_KERNEL), nullptr);
	EXPECT_EQ(kcalloc(opaque(two32), opaque(two32), GFP_KERNEL), nullptr);
	EXPECT_EQ(kmalloc_array(opaque(half), opaque(2), GFP_KERNEL), nullptr);
	EXPECT_EQ(kmalloc_array(opaque(SIZE_MAX), opaque(SIZE_MAX), GFP_KERNEL), nullptr);
	EXPECT_EQ(kcalloc(opaque(SIZE_MAX / 16 + 2), opaque(16), GFP_KERNEL), nullptr);
	void *p = kcalloc(1000, 16, GFP_KERNEL);
	ASSERT_NE(p, nullptr);
	EXPECT_TRUE(all_bytes(p, 0, 16000));
	kfree(p);
}

TEST(KmallocTest, EverySizeIsUsableToItsKsize)
{
	for (size_t size = 1; size <= 70000; size += size < 2100 ? 1 : 371) {
		auto *p = static_cast<char *>(kmalloc(size, GFP_KERNEL));
		auto *q = static_cast<char *>(kmalloc(size, GFP_KERNEL));

		ASSERT_NE(p, nullptr);
		ASSERT_GE(ksize(p), size);
		ASSERT_TRUE(p + ksize(p) <= q || q + ksize(q) <= p) << size;
		memset(p, 1, ksize(p));
		memset(q, 2, ksize(q));
		ASSERT_TRUE(all_bytes(p, 1, ksize(p)));
		kfree(p);
		kfree(q);
	}
}

/* A size that is a multiple of an alignment gets it: up to a page, in every way to the memory.
 */
void expect_natural_alignment()
{
	for (size_t align = 8; align <= 4096; align *= 2)
		for (size_t size = align; size <= 140000;
		     size += align + size / 7 / align * align) {
			void *plain = kmalloc(opaque(size), GFP_KERNEL);
			void *zeroed = kzalloc(opaque(size), GFP_KERNEL);
			void *near = kmalloc_node(opaque(size), GFP_KERNEL, 0);

			for (void *p : { plain, zeroed, near }) {
				ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u) << size;
				kfree(p);
			}
		}
}

TEST(KmallocTest, AlignedAsTheSizeIs)
{
	expect_natural_alignment();
}

TEST(KmallocDeathTest, AlignedAsTheSizeIsInEveryMode)
{
	for (const char *conf : { "passthrough:1", "slab_debug:FZPU", "percpu:fallback",
				  "numa_fake:2", "hardened:1", "hardened:1,numa_fake:2" })
		EXPECT_FRESH_PROCESS_PASSES([conf] {
			setenv("UKMEM_CONF", conf, 1);
			expect_natural_alignment();
		});
}

/* The library learns in it what a page is. */
TEST(KmallocDeathTest, TheFirstRequestIsAlignedAsTheSizeIs)
{
	for (const char *conf : { "passthrough:1", "hardened:1", "slab_debug:FZPU" })
		EXPECT_FRESH_PROCESS_PASSES([conf] {
			setenv("UKMEM_CONF", conf, 1);
			void *p = kmalloc(opaque(4096), GFP_KERNEL);

			ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % 4096, 0u);
			kfree(p);
		});
}

/* krealloc() takes what an object has beyond the bytes asked for as it is. */
TEST(KmallocDeathTest, WhatReallocAddsIsZeroWithInitOnAlloc)
{
	for (const char *conf : { "", ",slab_debug:P", ",slab_debug:FZPU", ",hardened:1" })
		EXPECT_FRESH_PROCESS_PASSES([conf] {
			setenv("UKMEM_CONF", (std::string("init_on_alloc:1") + conf).c_str(),
			       1);
			for (size_t size : { 100, 1000, 5000 })
				for (int round = 0; round < 100; round++) {
					auto *p =
						static_cast<char *>(kmalloc(size, GFP_KERNEL));
					size_t more = kmalloc_size_roundup(size);

					p = static_cast<char *>(krealloc(p, more, GFP_KERNEL));
					ASSERT_NE(p, nullptr);
					for (size_t i = size; i < more; i++)
						ASSERT_EQ(p[i], 0) << size << ", " << i;
					memset(p, 0xee, more);
					kfree(p);
				}
		});
}

/* krealloc() may use all bytes of an object, and libc's heap has none of a zone. */
TEST(KmallocDeathTest, ObjectsOfAZoneAreZeroedWhole)
{
	for (const char *conf : { "passthrough:1", "hardened:1", "" })
		EXPECT_FRESH_PROCESS_PASSES([conf] {
			setenv("UKMEM_CONF", conf, 1);
			for (int round = 0; round < 2; round++) {
				void *used[50];

				for (auto &p : used) {
					p = kzalloc(100, GFP_KERNEL | __GFP_DMA32);
					ASSERT_NE(p, nullptr);
					ASSERT_TRUE(all_bytes(p, 0, ksize(p))) << conf;
				}
				for (auto p : used) {
					memset(p, 0xee, ksize(p));
					kfree(p);
				}
			}
		});
}

TEST(KmallocTest, ABlockThatGrowsIsOfTheZoneAskedFor)
{
	for (size_t size : { 5000, 20000, 200000, 9000000 }) {
		auto *p = static_cast<char *>(kmalloc(size, GFP_KERNEL));

		ASSERT_NE(p, nullptr);
		p[0] = p[size - 1] = 7;
		p = static_cast<char *>(krealloc(p, 2 * size, GFP_KERNEL | __GFP_DMA32));
		ASSERT_NE(p, nullptr);
		EXPECT_LT(reinterpret_cast<uintptr_t>(p), uintptr_t{ 1 } << 32) << size;
		EXPECT_TRUE(p[0] == 7 && p[size - 1] == 7);
		kfree(p);
	}
}

TEST(KmallocTest, ZeroedMemoryIsZeroAlsoWhenReused)
{
	for (int round = 0; round < 3; round++)
		for (size_t size = 1; size <= 600000; size += size / 7 + 1) {
			void *p[5];

			for (int i = 0; i < 5; i++) {
				p[i] = i % 2 ? kzalloc(size, GFP_KERNEL)
					     : kcalloc(1, size, GFP_KERNEL);
				ASSERT_NE(p[i], nullptr);
				ASSERT_TRUE(all_bytes(p[i], 0, size)) << size;
				memset(p[i], 0xdb, ksize(p[i]));
			}
			for (auto q : p)
				kfree(q);
		}
}

TEST(KmallocTest, ReallocKeepsContentsInEveryDirection)
{
	const size_t sizes[] = {
		1,     8,     16,    100,   1000,  1024,   4000,     16000,
		16384, 16385, 20480, 65536, 65537, 200000, 1u << 20, 5u << 20
	};

	for (size_t from : sizes)
		for (size_t to : sizes) {
			auto *p = static_cast<unsigned char *>(kmalloc(from, GFP_KERNEL));
			size_t keep = std::min(from, to);

			ASSERT_NE(p, nullptr);
			for (size_t i = 0; i < from; i++)
				p[i] = static_cast<unsigned char>(i * 7 + from);
			p = static_cast<unsigned char *>(krealloc(p, to, GFP_KERNEL));
			ASSERT_NE(p, nullptr);
			ASSERT_GE(ksize(p), to);
			for (size_t i = 0; i < keep; i++)
				ASSERT_EQ(p[i], static_cast<unsigned char>(i * 7 + from))
					<< from << " -> " << to;
			memset(p, 1, to);
			kfree(p);
		}
}

TEST(KmallocTest, ReallocOfNothingAndToNothing)
{
	void *p = krealloc(nullptr, 50, GFP_KERNEL);

	ASSERT_NE(p, nullptr);
	EXPECT_EQ(krealloc(p, 0, GFP_KERNEL), ZERO_SIZE_PTR);
	p = krealloc(ZERO_SIZE_PTR, 60, GFP_KERNEL);
	ASSERT_NE(p, nullptr);
	kfree(p);
	EXPECT_EQ(krealloc(nullptr, 0, GFP_KERNEL), ZERO_SIZE_PTR);
}

/* With __GFP_ZERO the bytes that krealloc() adds read as zeros. */
TEST(KmallocTest, ReallocWithZeroGrowsByZeros)
{
	for (auto [from, to] : { std::pair<size_t, size_t>{ 16, 64 },
				 { 100, 1000 },
				 { 1000, 15000 },
				 { 15000, 40000 },
				 { 40000, 400000 } }) {
		/* The memory that will be used must not be zero by chance. */
		std::vector<void *> dirt;
		for (int i = 0; i < 100; i++) {
			dirt.push_back(kmalloc(to, GFP_KERNEL));
			memset(dirt.back(), 0xff, to);
		}
		for (void *q : dirt)
			kfree(q);
		auto *p = static_cast<char *>(kzalloc(from, GFP_KERNEL));
		size_t old = ksize(p);
		memset(p, 1, from);
		p = static_cast<char *>(krealloc(p, to, GFP_KERNEL | __GFP_ZERO));
		ASSERT_NE(p, nullptr);
		EXPECT_TRUE(all_bytes(p, 1, from));
		EXPECT_TRUE(all_bytes(p + old, 0, to - old)) << from << " -> " << to;
		kfree(p);
	}
}

TEST(KmallocTest, LargeBlocksShrinkInPlace)
{
	struct ukmem_gauges before, after;
	auto *p = static_cast<char *>(kmalloc(8u << 20, GFP_KERNEL));

	ASSERT_NE(p, nullptr);
	memset(p, 7, 8u << 20);
	ukmem_gauges_read(&before);
	auto *q = static_cast<char *>(krealloc(p, 100000, GFP_KERNEL));
	EXPECT_EQ(q, p);
	EXPECT_TRUE(all_bytes(q, 7, 100000));
	EXPECT_EQ(ksize(q), kmalloc_size_roundup(100000));
	EXPECT_LE(ksize(q), 128u << 10);
	ukmem_gauges_read(&after);
	EXPECT_EQ(before.allocated - after.allocated, (8u << 20) - ksize(q));
	EXPECT_EQ(before.active - after.active, (8u << 20) - ksize(q));
	/*
	 * The pages that were given back serve other requests, and belong to the block no more.
	 */
	auto *r = static_cast<char *>(kmalloc(7u << 20, GFP_KERNEL));
	memset(r, 9, 7u << 20);
	EXPECT_TRUE(all_bytes(q, 7, 100000));
	kfree(r);
	kfree(q);
}

/* As many as a terabyte has of one page each. */
TEST(KmallocTest, ManyLargeBlocksAreCounted)
{
	constexpr int64_t kMany = 1 << 28;

	kfree(kmalloc(1, GFP_KERNEL)); /* makes the counters */
	const uint64_t before = shim_large_pretend(0);

	EXPECT_EQ(shim_large_pretend(kMany), before + kMany);
	EXPECT_EQ(shim_large_pretend(-kMany), before);
}

TEST(KmallocTest, Duplicates)
{
	char text[300];

	memset(text, 'd', sizeof(text));
	text[299] = 0;
	char *s = kstrdup(text, GFP_KERNEL);
	ASSERT_NE(s, nullptr);
	EXPECT_STREQ(s, text);
	EXPECT_NE(s, text);
	kfree(s);
	s = kstrdup("", GFP_KERNEL);
	EXPECT_STREQ(s, "");
	kfree(s);
	EXPECT_EQ(kstrdup(nullptr, GFP_KERNEL), nullptr);
	void *p = kmemdup(text, 100, GFP_KERNEL);
	EXPECT_EQ(memcmp(p, text, 100), 0);
	kfree(p);
}

TEST(KmallocTest, BulkFreeOfAMixture)
{
	struct kmem_cache *s = kmem_cache_create("mixture", 72, 0, 0, nullptr);
	struct ukmem_gauges before, after;
	std::mt19937 random(test_seed());

	kfree(kmalloc(1, GFP_KERNEL)); /* the size classes' own descriptors count too */
	ukmem_trim();
	ukmem_gauges_read(&before);
	for (int round = 0; round < 20; round++) {
		std::vector<void *> p;

		for (int i = 0; i < 500; i++) {
			unsigned what = random() % 10;

			if (what < 3)
				p.push_back(kmem_cache_alloc(s, GFP_KERNEL));
			else if (what < 8)
				p.push_back(kmalloc(1 + random() % 3000, GFP_KERNEL));
			else if (what < 9)
				p.push_back(kmalloc(16385 + random() % 100000, GFP_KERNEL));
			else
				p.push_back(random() % 2 ? nullptr : ZERO_SIZE_PTR);
		}
		kmem_cache_free_bulk(nullptr, p.size(), p.data());
	}
	ukmem_gauges_read(&after);
	EXPECT_EQ(after.allocated, before.allocated);
	shim_counts c;
	shim_slab_count(s, &c);
	EXPECT_EQ(c.inuse, 0u);
	kmem_cache_destroy(s);
}

TEST(KmallocDeathTest, WrongPointersAreReported)
{
	auto *small = static_cast<char *>(kmalloc(5000, GFP_KERNEL));
	auto *large = static_cast<char *>(kmalloc(100000, GFP_KERNEL));
	unsigned long page = get_zeroed_page(GFP_KERNEL);
	static char foreign[64];
	const std::string invalid = ": invalid pointer 0x[0-9a-f]+: ";

	EXPECT_DEATH(kfree(foreign),
		     "^ukmem: kfree\\(\\)" + invalid + "not allocated here\n" FOUND_AT);
	EXPECT_DEATH(kfree(&page),
		     "^ukmem: kfree\\(\\)" + invalid + "not allocated here\n" FOUND_AT);
	EXPECT_DEATH(kfree(large + 16),
		     "^ukmem: kfree\\(\\)" + invalid + "not the start of a block\n" FOUND_AT);
	EXPECT_DEATH(kfree(large + 70000),
		     "^ukmem: kfree\\(\\)" + invalid + "not the start of a block\n" FOUND_AT);
	EXPECT_DEATH(kfree(reinterpret_cast<void *>(page)),
		     "^ukmem: kfree\\(\\)" + invalid + "allocated as pages\n" FOUND_AT);
	EXPECT_DEATH(kfree_sensitive(reinterpret_cast<void *>(page)),
		     "^ukmem: kfree_sensitive\\(\\)" + invalid +
			     "allocated as pages\n" FOUND_AT);
	EXPECT_DEATH(
		{
			kfree(large);
			kfree(large);
		},
		"^ukmem: kfree\\(\\)" + invalid +
			"not an allocated block \\(double free\\?\\)\n" FOUND_AT);
	EXPECT_DEATH(ksize(small + 8),
		     "^ukmem: ksize\\(\\)" + invalid + "not the start of an object\n$");
	EXPECT_DEATH(
		{
			void *q = krealloc(small + 16, 10, GFP_KERNEL);
			(void)q;
		},
		"^ukmem: krealloc\\(\\)" + invalid + "not the start of an object\n" FOUND_AT);
	EXPECT_GE(ksize(small), 5000u);
	EXPECT_GE(ksize(large), 100000u);
	kfree(small);
	kfree(large);
	free_page(page);
}

TEST(KmallocDeathTest, PassedOverWhereConfigured)
{
	static char foreign[64];

	config.invalid_free = INVALID_FREE_WARN;
	::testing::internal::CaptureStderr();
	kfree(foreign);
	EXPECT_EQ(ksize(foreign), 0u);
	EXPECT_EQ(krealloc(foreign, 10, GFP_KERNEL), nullptr);
	std::string text = ::testing::internal::GetCapturedStderr();
	EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3 + 2)
		<< "ksize() knows no caller: " << text;
	config.invalid_free = INVALID_FREE_IGNORE;
	::testing::internal::CaptureStderr();
	kfree(foreign);
	EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
	config.invalid_free = INVALID_FREE_ABORT;
}

/* Objects that threads pass on to each other keep their contents. */
TEST(KmallocTest, FreedByOtherThreads)
{
	constexpr unsigned kExchange = 256;
	static std::atomic<unsigned char *> exchange[kExchange];
	std::atomic<bool> stop{ false };
	std::atomic<unsigned> wrong{ 0 };
	{
		Threads t(3, [&](unsigned id) {
			std::mt19937 random(id);

			while (!stop) {
				size_t size = 4 + random() % (random() % 50 ? 600 : 40000);
				auto *p =
					static_cast<unsigned char *>(kmalloc(size, GFP_KERNEL));
				auto mark = static_cast<unsigned char>(random());

				if (!p) {
					wrong++;
					return;
				}
				memset(p, mark, size);
				p = exchange[random() % kExchange].exchange(p);
				if (p && (p[1] != p[0] || p[2] != p[0] || p[3] != p[0]))
					wrong++;
				kfree(p);
			}
		});
		MigrationStorm storm(t);

		std::this_thread::sleep_for(std::chrono::milliseconds(500));
		stop = true;
	}
	for (auto &e : exchange)
		kfree(e.exchange(nullptr));
	EXPECT_EQ(wrong, 0u);
}

} // namespace
