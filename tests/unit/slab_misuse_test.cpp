/* SPDX-License-Identifier: MIT */
/* Wrong parameters and wrong frees, with the exact words; each beside its benign twin. */
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

std::string create_says(const char *name, unsigned size, unsigned align, slab_flags_t flags)
{
	::testing::internal::CaptureStderr();
	struct kmem_cache *s = kmem_cache_create(name, size, align, flags, nullptr);
	std::string text = ::testing::internal::GetCapturedStderr();

	EXPECT_EQ(s == nullptr, !text.empty());
	kmem_cache_destroy(s);
	return text;
}

TEST(SlabCreateTest, BadParametersAreNamed)
{
	const std::string bad = "ukmem: kmem_cache_create(bad): ";

	EXPECT_EQ(create_says(nullptr, 8, 0, 0), "ukmem: kmem_cache_create(NULL): no name\n");
	EXPECT_EQ(create_says("bad", 0, 0, 0), bad + "size not in 1 .. 16384\n");
	EXPECT_EQ(create_says("bad", 16385, 0, 0), bad + "size not in 1 .. 16384\n");
	EXPECT_EQ(create_says("bad", ~0u, 0, 0), bad + "size not in 1 .. 16384\n");
	EXPECT_EQ(create_says("bad", 64, 3, 0), bad + "alignment is no power of two\n");
	EXPECT_EQ(create_says("bad", 64, 15, 0), bad + "alignment is no power of two\n");
	EXPECT_EQ(create_says("bad", 64, ~0u, 0), bad + "alignment is no power of two\n");
	EXPECT_EQ(create_says("bad", 64, 8192, 0), bad + "alignment above 4096\n");
	EXPECT_EQ(create_says("bad", 64, 1u << 31, 0), bad + "alignment above 4096\n");
	EXPECT_EQ(create_says("bad", 64, 0, 1), bad + "unknown flags\n");
	EXPECT_EQ(create_says("bad", 64, 0, SLAB_HWCACHE_ALIGN | 0x80000000u),
		  bad + "unknown flags\n");
}

TEST(SlabCreateTest, GoodParametersAreNot)
{
	EXPECT_EQ(create_says("", 1, 0, 0), "");
	EXPECT_EQ(create_says("good", 16384, 0, 0), "");
	EXPECT_EQ(create_says("good", 16384, 4096, 0), "");
	EXPECT_EQ(create_says("good", 1, 4096, SLAB_HWCACHE_ALIGN | SLAB_PANIC), "");
	EXPECT_EQ(create_says("good", 16383, 1, SLAB_HWCACHE_ALIGN), "");
}

TEST(SlabCreateDeathTest, PanicAborts)
{
	EXPECT_EXIT(kmem_cache_create("p", 0, 0, SLAB_PANIC, nullptr),
		    ::testing::KilledBySignal(SIGABRT),
		    "^ukmem: kmem_cache_create\\(p\\): size not in 1 .. 16384\n$");
}

void alloc_some(struct kmem_cache *s, void **p, int n)
{
	for (int i = 0; i < n; i++)
		p[i] = kmem_cache_alloc(s, GFP_KERNEL);
}

/* The arrays hold what was freed twice; flushing finds it. */
void free_twice(void (*flush)(struct kmem_cache *s), bool twice)
{
	struct kmem_cache *s = kmem_cache_create("twice", 64, 0, 0, nullptr);
	void *p[4];

	alloc_some(s, p, 4);
	kmem_cache_free(s, p[0]);
	kmem_cache_free(s, p[1]);
	if (twice)
		kmem_cache_free(s, p[0]);
	flush(s);
}

void by_shrink(struct kmem_cache *s)
{
	kmem_cache_shrink(s);
}

void by_trim(struct kmem_cache *)
{
	ukmem_trim();
}

void by_destroy(struct kmem_cache *s)
{
	kmem_cache_destroy(s);
}

/* More frees than the array ever holds. */
void by_traffic(struct kmem_cache *s)
{
	std::vector<void *> p(20000);

	ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, p.size(), p.data()), 20000);
	for (void *q : p)
		kmem_cache_free(s, q);
	kmem_cache_shrink(s);
}

TEST(SlabDeathTest, DoubleFreeIsFoundAtTheFlush)
{
	const char *text = "ukmem: free\\(\\): invalid pointer 0x[0-9a-f]+: double free\n$";

	EXPECT_EXIT(free_twice(by_shrink, true), ::testing::KilledBySignal(SIGABRT), text);
	EXPECT_EXIT(free_twice(by_trim, true), ::testing::KilledBySignal(SIGABRT), text);
	EXPECT_EXIT(free_twice(by_destroy, true), ::testing::KilledBySignal(SIGABRT), text);
	/* The benign twins. */
	free_twice(by_shrink, false);
	free_twice(by_trim, false);
	free_twice(by_traffic, false);
}

/* The first free is in the slab's bitmap when the second one comes. */
void free_flushed(bool again)
{
	struct kmem_cache *s = kmem_cache_create("twice", 64, 0, 0, nullptr);
	void *p[4];

	alloc_some(s, p, 4);
	kmem_cache_free(s, p[0]);
	kmem_cache_shrink(s);
	kmem_cache_free(s, p[again ? 0 : 1]);
	kmem_cache_shrink(s);
}

TEST(SlabDeathTest, DoubleFreeAfterAFlushIsFound)
{
	EXPECT_EXIT(free_flushed(true), ::testing::KilledBySignal(SIGABRT),
		    "ukmem: free\\(\\): invalid pointer 0x[0-9a-f]+: double free\n$");
	free_flushed(false);
}

TEST(SlabDeathTest, DoubleFreePassedOverKeepsCounts)
{
	struct kmem_cache *s = kmem_cache_create("twice", 64, 0, 0, nullptr);
	shim_counts c;
	void *p[4];

	alloc_some(s, p, 4);
	config.invalid_free = INVALID_FREE_WARN;
	kmem_cache_free(s, p[0]);
	kmem_cache_free(s, p[0]);
	::testing::internal::CaptureStderr();
	kmem_cache_shrink(s);
	std::string text = ::testing::internal::GetCapturedStderr();
	config.invalid_free = INVALID_FREE_ABORT;
	EXPECT_NE(text.find(": double free\n"), std::string::npos) << text;
	EXPECT_EQ(text.find('\n'), text.size() - 1) << "one line: " << text;
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	shim_slab_count(s, &c);
	EXPECT_EQ(c.inuse, 3u);
	for (int i = 1; i < 4; i++)
		kmem_cache_free(s, p[i]);
	kmem_cache_destroy(s);
}

void free_to(bool same, int offset)
{
	struct kmem_cache *s = kmem_cache_create("home", 64, 0, 0, nullptr);
	struct kmem_cache *other = kmem_cache_create("other", 128, 0, 0, nullptr);
	auto *p = static_cast<char *>(kmem_cache_alloc(s, GFP_KERNEL));

	void *q = kmem_cache_alloc(other, GFP_KERNEL);
	kmem_cache_free(same ? s : other, p + offset);
	kmem_cache_free(other, q);
	kmem_cache_shrink(s);
	kmem_cache_shrink(other);
}

TEST(SlabDeathTest, FreeToTheWrongCacheIsFoundAtOnce)
{
	EXPECT_EXIT(free_to(false, 0), ::testing::KilledBySignal(SIGABRT),
		    "ukmem: kmem_cache_free\\(\\): invalid pointer 0x[0-9a-f]+: not an object "
		    "of this cache, but of home\n" FOUND_AT);
	free_to(true, 0);
}

TEST(SlabDeathTest, FreeOfAnInsideIsFoundAtTheFlush)
{
	EXPECT_EXIT(free_to(true, 8), ::testing::KilledBySignal(SIGABRT),
		    "ukmem: free\\(\\): invalid pointer 0x[0-9a-f]+: not the start of an "
		    "object\n$");
}

/* Of a cache without debugging and of one with it. */
TEST(SlabDeathTest, ACacheThatIsGoneHasNoObjects)
{
	const char *const says = "^ukmem: kmem_cache_alloc\\(\\): invalid pointer "
				 "0x[0-9a-f]+: no cache, or one that is gone\n" FOUND_AT;
	using Request = void *(*)(struct kmem_cache *);
	const Request requests[] = {
		[](struct kmem_cache *s) { return kmem_cache_alloc(s, GFP_KERNEL); },
		[](struct kmem_cache *s) {
			return kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOFAIL);
		},
		[](struct kmem_cache *s) { return kmem_cache_zalloc(s, GFP_NOWAIT); },
		[](struct kmem_cache *s) { return kmem_cache_alloc_node(s, GFP_KERNEL, 0); },
		[](struct kmem_cache *s) {
			void *objects[16];

			return kmem_cache_alloc_bulk(s, GFP_KERNEL, 16, objects) ? objects[0]
										 : nullptr;
		},
	};

	for (slab_flags_t flags : { 0u, unsigned(SLAB_POISON), unsigned(SLAB_INIT_ON_ALLOC) })
		for (Request request : requests) {
			struct kmem_cache *s = kmem_cache_create("gone", 64, 0, flags, nullptr);

			kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
			kmem_cache_destroy(s);
			EXPECT_EXIT(EXPECT_EQ(request(s), nullptr),
				    ::testing::KilledBySignal(SIGABRT), says);
		}
}

/* The next cache has the arrays of the first one, and the descriptor of the second. */
void free_to_gone()
{
	struct kmem_cache *first = kmem_cache_create("first", 64, 0, 0, nullptr);
	struct kmem_cache *second = kmem_cache_create("second", 64, 0, 0, nullptr);

	kmem_cache_destroy(first);
	kmem_cache_destroy(second);
	struct kmem_cache *here = kmem_cache_create("here", 64, 0, 0, nullptr);

	if (here == second)
		kmem_cache_free(first, kmem_cache_alloc(here, GFP_KERNEL));
}

TEST(SlabDeathTest, ACacheThatIsGoneTakesNothingBack)
{
	EXPECT_EXIT(free_to_gone(), ::testing::KilledBySignal(SIGABRT),
		    "ukmem: kmem_cache_free\\(\\): invalid pointer 0x[0-9a-f]+: not an object "
		    "of this cache, but of here\n" FOUND_AT);
}

TEST(SlabDeathTest, OnlyCachesAreDestroyed)
{
	const char *const says = "ukmem: kmem_cache_destroy\\(\\): invalid pointer "
				 "0x[0-9a-f]+: no cache, or one that is gone\n" FOUND_AT;
	auto twice = [](slab_flags_t flags) {
		struct kmem_cache *s = kmem_cache_create("twice", 64, 0, flags, nullptr);

		kmem_cache_destroy(s);
		kmem_cache_destroy(s);
	};
	struct kmem_cache *s = kmem_cache_create("once", 64, 0, 0, nullptr);
	void *block = kmalloc(sizeof(long) * 500, GFP_KERNEL);

	memset(block, 0, sizeof(long) * 500);
	EXPECT_EXIT(twice(0), ::testing::KilledBySignal(SIGABRT), says);
	EXPECT_EXIT(twice(SLAB_POISON), ::testing::KilledBySignal(SIGABRT), says);
	EXPECT_EXIT(kmem_cache_destroy(static_cast<struct kmem_cache *>(block)),
		    ::testing::KilledBySignal(SIGABRT), says);
	EXPECT_EXIT(kmem_cache_destroy(reinterpret_cast<struct kmem_cache *>(&block)),
		    ::testing::KilledBySignal(SIGABRT), says);
	EXPECT_EXIT(kmem_cache_destroy(reinterpret_cast<struct kmem_cache *>(
			    reinterpret_cast<char *>(s) + 64)),
		    ::testing::KilledBySignal(SIGABRT), says);
	kmem_cache_destroy(s);
	kfree(block);
}

/* It would be zeroed, with the beginning of the next one. */
TEST(SlabDeathTest, FreeOfAnInsideIsFoundAtOnceWhereObjectsAreZeroed)
{
	struct kmem_cache *s = kmem_cache_create("zeroed", 64, 0, SLAB_INIT_ON_FREE, nullptr);
	std::string text;
	void *p[20];

	ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, 20, p), 20);
	for (void *q : p)
		memset(q, 'x', 64);
	config.invalid_free = INVALID_FREE_WARN;
	::testing::internal::CaptureStderr();
	for (void *q : p)
		kmem_cache_free(s, static_cast<char *>(q) + 32);
	text = ::testing::internal::GetCapturedStderr();
	config.invalid_free = INVALID_FREE_ABORT;
	EXPECT_EQ(text.find("ukmem: free(): invalid pointer 0x"), 0u) << text;
	EXPECT_NE(text.find(": not the start of an object\n"), std::string::npos) << text;
	for (void *q : p) {
		EXPECT_EQ(std::string(static_cast<char *>(q), 64), std::string(64, 'x'));
		kmem_cache_free(s, q);
	}
	EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	kmem_cache_destroy(s);
}

/* Enough objects of a cache to fill some slabs of a page each, by address. */
class FullSlabs
{
      public:
	static constexpr size_t kSize = 96, kObjects = 4096 / kSize;

	explicit FullSlabs(size_t slabs) : p(slabs * kObjects)
	{
		for (char *&q : p)
			q = static_cast<char *>(kmem_cache_alloc(s, GFP_KERNEL));
		std::sort(p.begin(), p.end());
	}
	/* Runs @frees, which frees all objects and some wrong pointers. Result: what is
	 * reported of these. The cache must have lost nothing. */
	template <class F> std::string says(F frees)
	{
		shim_counts c;

		config.invalid_free = INVALID_FREE_WARN;
		::testing::internal::CaptureStderr();
		frees();
		kmem_cache_shrink(s);
		std::string text = ::testing::internal::GetCapturedStderr();
		config.invalid_free = INVALID_FREE_ABORT;
		EXPECT_STREQ(shim_slab_wrong(s), nullptr);
		shim_slab_count(s, &c);
		EXPECT_EQ(c.inuse, 0u);
		kmem_cache_destroy(s);
		return text;
	}

	struct kmem_cache *s = kmem_cache_create("home", kSize, 0, 0, nullptr);
	std::vector<char *> p;
};

size_t count_of(const std::string &text, const std::string &part)
{
	size_t n = 0;

	for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
		n++;
	return n;
}

void expect_wrong_starts(const std::string &text, size_t n)
{
	EXPECT_EQ(count_of(text, ": not the start of an object\n"), n) << text;
	EXPECT_EQ(count_of(text, "\n"), n) << text;
}

/* The wrong pointers lie in the same slab as the objects beside them, one inside an object and
 * one behind the last. */
TEST(SlabDeathTest, ObjectsBesideARefusedPointerAreFreed)
{
	ASSERT_EQ(sysconf(_SC_PAGESIZE), 4096);
	FullSlabs slabs(2);
	auto first = std::find_if(slabs.p.begin(), slabs.p.end(), [](char *q) {
		return reinterpret_cast<uintptr_t>(q) % 4096 == 0;
	});
	ASSERT_NE(first, slabs.p.end()) << "the first object of a slab";
	char *fifth = *first + 5 * slabs.kSize;
	char *last = *first + (slabs.kObjects - 1) * slabs.kSize;
	expect_wrong_starts(slabs.says([&] {
		for (char *q : slabs.p) {
			kmem_cache_free(slabs.s, q);
			if (q == fifth)
				kmem_cache_free(slabs.s, q + 8);
			if (q == last)
				kmem_cache_free(slabs.s, q + slabs.kSize);
		}
	}),
			    2);
}

/* Objects that are freed one in a slab, and among them a pointer behind a slab's last. */
TEST(SlabDeathTest, WhatLiesBehindALastObjectIsRefused)
{
	ASSERT_EQ(sysconf(_SC_PAGESIZE), 4096);
	FullSlabs slabs(20);
	expect_wrong_starts(slabs.says([&] {
		for (size_t i : { 1, 9, 3, 13, 5, 17, 7 }) {
			char *&q = slabs.p[i * slabs.kObjects];

			kmem_cache_free(slabs.s, q);
			if (i == 13)
				kmem_cache_free(slabs.s,
						q - reinterpret_cast<uintptr_t>(q) % 4096 +
							slabs.kObjects * slabs.kSize);
			q = nullptr;
		}
		kmem_cache_shrink(slabs.s); /* before any object beside them is freed */
		for (char *q : slabs.p)
			if (q)
				kmem_cache_free(slabs.s, q);
	}),
			    1);
}

/* Each object lies far from the one that is freed next, and a flush has many of them. */
TEST(SlabDeathTest, WrongPointersAmongScatteredObjectsAreRefused)
{
	const size_t pages = 40, step = 7;
	ASSERT_EQ(sysconf(_SC_PAGESIZE), 4096);
	FullSlabs slabs(pages);
	std::string text = slabs.says([&] {
		for (size_t k = 0; k < slabs.p.size(); k++) {
			char *q = slabs.p[k * step % pages * slabs.kObjects + k / pages];

			kmem_cache_free(slabs.s, q);
			if (k == 5 * pages)
				kmem_cache_free(slabs.s,
						q - reinterpret_cast<uintptr_t>(q) % 4096 +
							slabs.kObjects * slabs.kSize);
			if (k == 9 * pages)
				kmem_cache_free(slabs.s, q);
		}
	});
	EXPECT_EQ(count_of(text, ": not the start of an object\n"), 1u) << text;
	EXPECT_EQ(count_of(text, ": double free\n"), 1u) << text;
	EXPECT_EQ(count_of(text, "\n"), 2u) << text;
}

/* The descriptors of caches lie in a cache of the library's own. */
TEST(SlabDeathTest, TheLibrarysOwnObjectsAreRefusedAtOnce)
{
	struct kmem_cache *s = kmem_cache_create("home", 64, 0, 0, nullptr);
	void *two[] = { s, s };
	const char *own = "^ukmem: kfree\\(\\): invalid pointer 0x[0-9a-f]+: not an allocated "
			  "block \\(the library's own\\)\n" FOUND_AT;

	kfree(kmalloc(1, GFP_KERNEL));
	EXPECT_DEATH(kfree(s), own);
	EXPECT_DEATH(kfree(reinterpret_cast<char *>(s) + 16),
		     "^ukmem: kfree\\(\\): invalid pointer 0x[0-9a-f]+: not the start of an "
		     "object\n" FOUND_AT);
	EXPECT_DEATH(kmem_cache_free_bulk(nullptr, 2, two), "the library's own");
	EXPECT_DEATH(kmem_cache_free(s, s),
		     "not an object of this cache, but of kmem_cache\n" FOUND_AT);
	kmem_cache_destroy(s);
}

TEST(SlabDeathTest, PointersOfAnotherKindAreRefusedAtOnce)
{
	struct kmem_cache *s = kmem_cache_create("home", 64, 0, 0, nullptr);
	const char *text = "^ukmem: kmem_cache_free\\(\\): invalid pointer 0x[0-9a-f]+: not an "
			   "object of this cache\n" FOUND_AT;
	static char foreign[64];
	char *small = static_cast<char *>(kmalloc(64, GFP_KERNEL));
	char *large = static_cast<char *>(kmalloc(100000, GFP_KERNEL));
	unsigned long page = get_zeroed_page(GFP_KERNEL);

	EXPECT_DEATH(kmem_cache_free(s, foreign), text);
	EXPECT_DEATH(kmem_cache_free(s, &s), text);
	EXPECT_DEATH(kmem_cache_free(s, reinterpret_cast<void *>(1)), text);
	EXPECT_DEATH(kmem_cache_free(s, small),
		     "^ukmem: kmem_cache_free\\(\\): invalid pointer 0x[0-9a-f]+: not an "
		     "object of this cache, but of kmalloc-64\n" FOUND_AT);
	EXPECT_DEATH(kmem_cache_free(s, large), text);
	EXPECT_DEATH(kmem_cache_free(s, large + 8192), text);
	EXPECT_DEATH(kmem_cache_free(s, reinterpret_cast<void *>(page)), text);
	void *bulk[2];
	bulk[0] = kmem_cache_alloc(s, GFP_KERNEL);
	bulk[1] = foreign;
	EXPECT_DEATH(kmem_cache_free_bulk(s, 2, bulk),
		     "^ukmem: kmem_cache_free_bulk\\(\\): invalid pointer 0x[0-9a-f]+: not an "
		     "object of this "
		     "cache\n" FOUND_AT);
	kmem_cache_free(s, bulk[0]);
	kmem_cache_free(s, nullptr);
	void *none[] = { nullptr, nullptr };
	kmem_cache_free_bulk(s, 2, none);
	kfree(small);
	kfree(large);
	free_page(page);
	kmem_cache_destroy(s);
}

} // namespace
