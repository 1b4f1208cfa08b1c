/* SPDX-License-Identifier: MIT */
/* KFENCE: objects and blocks larger than a page. */
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <sys/mman.h>

#include "kfence_util.h"
#include "slab_shim.h"
#include "test_util.h"
#include "ukmem/stats.h"

namespace
{

using ::testing::HasSubstr;
using ::testing::Not;

class KfenceLargeTest : public KfenceTest
{
};

constexpr size_t BLOCK = 100000; /* of whole pages, and no multiple of one */

char *kmalloc_guarded(size_t size, gfp_t flags = GFP_KERNEL)
{
	shim_kfence_open();
	char *p = unknown(kmalloc(size, flags));

	EXPECT_TRUE(shim_kfence_has(p)) << size;
	return p;
}

/* A block that lies at that end of its slot. */
char *block(bool right)
{
	for (int i = 0; i < 1000; i++) {
		char *p = kmalloc_guarded(BLOCK);

		if ((reinterpret_cast<uintptr_t>(p) % PAGE != 0) == right)
			return p;
		kfree(p);
	}
	ADD_FAILURE() << "no block at that end";
	return nullptr;
}

/* An object of two pages, at either end of that slot. */
char *take_slot(unsigned int index)
{
	char *p = kmalloc_guarded(PAGE + 1);

	while (shim_kfence_index(p) != index) {
		kfree(p);
		p = kmalloc_guarded(PAGE + 1);
	}
	return p;
}

struct ukmem_gauges gauges()
{
	struct ukmem_gauges g;

	ukmem_gauges_read(&g);
	return g;
}

size_t allocated()
{
	return gauges().allocated;
}

TEST_F(KfenceLargeTest, AllSizesAndAlignments)
{
	for (size_t size = PAGE + 1; size <= LARGE_SLOT;
	     size = size < LARGE_SLOT ? std::min<size_t>(size * 9 / 8 + 3, LARGE_SLOT)
				      : size + 1) {
		char *p = kmalloc_guarded(size);

		EXPECT_EQ(ksize(p), size);
		kfree(p);
		p = kmalloc_guarded(size, GFP_KERNEL | __GFP_ZERO);
		EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 16, 0u) << size;
		for (size_t i = 0; i < size; i++)
			ASSERT_EQ(p[i], 0) << i << " of " << size;
		memset(p, 'x', size);
		EXPECT_EQ(says([&] { kfree(p); }), "") << size;
		EXPECT_EQ(resident_pages(p, size), 0u) << size;
	}
	for (size_t align : { 64, 4096, 8192, 65536, 524288 })
		for (size_t size : { 5000, 70000, 400000 }) {
			shim_kfence_open();
			void *p = shim_kmalloc_aligned(size, align, GFP_KERNEL);

			EXPECT_TRUE(shim_kfence_has(p)) << size << " aligned to " << align;
			EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
			EXPECT_EQ(ksize(p), size) << "aligned to " << align;
			memset(p, 'x', size);
			EXPECT_EQ(says([&] { kfree(p); }), "");
			shim_kfence_open();
			p = shim_kmalloc_aligned(size, align, GFP_KERNEL);
			if (size % PAGE && shim_kfence_has(p) && size < 65536) {
				unknown(p)[size] = 1;
				EXPECT_THAT(says([&] { kfree(p); }),
					    HasSubstr("(1B right of "));
			} else {
				kfree(p);
			}
		}
}

TEST_F(KfenceLargeTest, TooLargeForASlot)
{
	shim_kfence_open();
	for (size_t size : { LARGE_SLOT + 1, 2 * LARGE_SLOT }) {
		void *p = kmalloc(size, GFP_KERNEL);

		EXPECT_FALSE(shim_kfence_has(p));
		kfree(p);
	}
	EXPECT_TRUE(shim_kfence_is_open());
}

TEST_F(KfenceLargeTest, OutOfBounds)
{
	char *p = block(true), *end = p + BLOCK;
	std::string text = says([&] { end[15] = 1; });

	EXPECT_THAT(text, HasSubstr("  out-of-bounds write at " + address(end + 15) +
				    " (16B right of " + number(p) + ")"));
	EXPECT_THAT(text, HasSubstr(address(end - 1) + ", size=100000, cache=kmalloc-large\n"));
	kfree(p);

	/* Far away on the left, where the slot is closed, too. */
	p = block(true);
	text = says([&] { (void)*static_cast<volatile char *>(p - 5 * PAGE); });
	EXPECT_THAT(text, HasSubstr("(20480B left of " + number(p) + ")"));
	EXPECT_EQ(says([&] { (void)*static_cast<volatile char *>(p - 9 * PAGE); }), "")
		<< "once";
	EXPECT_EQ(says([&] { kfree(p); }), "");
	EXPECT_FALSE(shim_kfence_is_readable(p - 5 * PAGE));
	EXPECT_FALSE(shim_kfence_is_readable(p - 9 * PAGE));

	p = block(false);
	EXPECT_THAT(says([&] { p[-1] = 1; }), HasSubstr("(1B left of " + number(p) + ")"));
	EXPECT_THAT(says([&] { p[BLOCK + 3 * PAGE] = 1; }),
		    HasSubstr("(12289B right of " + number(p) + ")"));
	EXPECT_EQ(says([&] { kfree(p); }), "");
}

TEST_F(KfenceLargeTest, DamageInTheLastPage)
{
	char *p = block(false);

	p[BLOCK + 1] = 7;
	EXPECT_THAT(says([&] { kfree(p); }),
		    HasSubstr("(2B right of " + number(p) + "), found when it was freed"));
}

TEST_F(KfenceLargeTest, UseAfterFree)
{
	char *p = kmalloc_guarded(BLOCK);

	memset(p, 'x', BLOCK);
	kfree(p);
	std::string text = says([&] { p[50000] = 1; });

	EXPECT_THAT(text, HasSubstr("  use-after-free write at " + address(p + 50000) +
				    " (in " + number(p) + ")"));
	EXPECT_EQ(p[50000], 1) << "the program goes on";
	EXPECT_EQ(says([&] { p[10] = 1; }), "") << "once";
	EXPECT_THAT(says([&] { kfree(p); }), HasSubstr("BUG: KFENCE: invalid free in "));
	/* What is open is closed when the next object gets the slot. */
	char *q = take_slot(shim_kfence_index(p));

	EXPECT_FALSE(shim_kfence_is_readable(p + 50000));
	kfree(q);
}

TEST_F(KfenceLargeTest, LockedMemoryGoes)
{
	char *p = kmalloc_guarded(BLOCK);

	if (mlock(p, BLOCK))
		GTEST_SKIP() << "memory cannot be locked";
	EXPECT_GT(resident_pages(p, BLOCK), 0u);
	EXPECT_EQ(says([&] { kfree(p); }), "");
	EXPECT_EQ(resident_pages(p, BLOCK), 0u);
	EXPECT_FALSE(shim_kfence_is_readable(p));
}

int refuse_mmap(void **, size_t, int, int)
{
	return -ENOMEM;
}

/* The system may refuse a mapping, for instance if there are as many as there may be. */
TEST_F(KfenceLargeTest, FreedBlockIsClosedWithoutAMapping)
{
	OsCallsGuard guard;
	char *p = kmalloc_guarded(BLOCK);

	memset(p, 'x', BLOCK);
	os_calls.mmap = refuse_mmap;
	EXPECT_EQ(says([&] { kfree(p); }), "");
	EXPECT_EQ(resident_pages(p, BLOCK), 0u);
	EXPECT_FALSE(shim_kfence_is_readable(p));
}

/* Blocks count as blocks, objects of caches as these. */
TEST_F(KfenceLargeTest, Counts)
{
	size_t before = allocated();
	char *p = kmalloc_guarded(BLOCK);

	EXPECT_EQ(allocated() - before, 25u * PAGE);
	kfree(p);
	EXPECT_EQ(allocated(), before);

	struct kmem_cache *s = kmem_cache_create("guarded-large", 9000, 0, 0, nullptr);

	shim_kfence_open();
	p = static_cast<char *>(kmem_cache_alloc(s, GFP_KERNEL));
	EXPECT_TRUE(shim_kfence_has(p));
	EXPECT_EQ(kmem_cache_nr_allocated(s), 1u);
	char *q = kmalloc_guarded(BLOCK);

	EXPECT_THAT(says([&] { kmem_cache_free(s, q); }), HasSubstr("invalid free"))
		<< "a block is no object";
	EXPECT_EQ(shim_kfence_state(shim_kfence_index(q)), IN_USE);
	kfree(q);
	kmem_cache_free(s, p);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	kmem_cache_destroy(s);
}

/* A large object has memory while it is in use; a freed small one keeps its page. */
TEST_F(KfenceLargeTest, PagesOfObjectsAreActiveOrRetained)
{
	auto expect_more = [](const ukmem_gauges &than, size_t active, size_t retained) {
		ukmem_gauges g = gauges();

		EXPECT_EQ(g.active - than.active, active);
		EXPECT_EQ(g.retained - than.retained, retained);
		EXPECT_EQ(g.mapped - than.mapped, active + retained);
	};
	ukmem_gauges before = gauges();
	char *p = kmalloc_guarded(BLOCK);

	expect_more(before, 25u * PAGE, 0);
	kfree(p);
	expect_more(before, 0, 0);
	EXPECT_FRESH_POOL_PASSES([] {
		char *first = guarded(64, true);
		ukmem_gauges used = gauges();

		kfree(first);
		ukmem_gauges freed = gauges();

		return used.active - freed.active != PAGE || used.mapped != freed.mapped ||
		       freed.retained - used.retained != PAGE;
	});
}

TEST_F(KfenceLargeTest, Resizing)
{
	char *p = kmalloc_guarded(BLOCK);

	memset(p, 'x', BLOCK);
	char *q = static_cast<char *>(krealloc(p, 3 * BLOCK, GFP_KERNEL | __GFP_ZERO));

	EXPECT_EQ(shim_kfence_state(shim_kfence_index(p)), FREED);
	EXPECT_EQ(std::count(q, q + BLOCK, 'x'), static_cast<ptrdiff_t>(BLOCK));
	EXPECT_EQ(std::count(q + BLOCK, q + 3 * BLOCK, 0), static_cast<ptrdiff_t>(2 * BLOCK));
	kfree(q);

	/* A block of pages that moves to the pool. */
	p = static_cast<char *>(kmalloc(BLOCK, GFP_KERNEL));
	memset(p, 'y', BLOCK);
	shim_kfence_open();
	q = static_cast<char *>(krealloc(p, 5000, GFP_KERNEL));
	EXPECT_EQ(std::count(q, q + 5000, 'y'), 5000);
	kfree(q);
}

/* Every other time, so that blocks, which all take a slow path, leave something to others. */
TEST_F(KfenceLargeTest, GateIsNotAlwaysOpenToBlocks)
{
	unsigned int blocks = 0, objects = 0;

	kfree(kmalloc_guarded(BLOCK));
	in_child([&] {
		config.kfence_sample_interval = 10;
		for (uint64_t now = UINT64_MAX - 10000; now < UINT64_MAX - 8000; now += 10) {
			shim_kfence_look(now);
			void *p = kmalloc(BLOCK, GFP_KERNEL), *q;

			q = shim_kmalloc_slow(64, GFP_KERNEL);
			blocks += shim_kfence_has(p);
			objects += shim_kfence_has(q);
			kfree(p);
			kfree(q);
		}
		return blocks > 90 && objects > 90 && blocks + objects <= 200 ? 0 : 1;
	});
}

TEST_F(KfenceLargeTest, RefusedProtection)
{
	OsCallsGuard guard;

	kfree(kmalloc_guarded(BLOCK));
	os_calls.mprotect = refuse_mprotect;
	shim_kfence_open();
	void *p = kmalloc(BLOCK, GFP_KERNEL);

	EXPECT_NE(p, nullptr);
	EXPECT_FALSE(shim_kfence_has(p));
	kfree(p);
}

/* A thread opens a page of a freed block when the slot is another, smaller one's already, which
 * is freed, too. */
TEST_F(KfenceLargeTest, PageThatIsOpenedTooLateIsClosed)
{
	OsCallsGuard guard;
	char *late = block(true);

	os_calls.mprotect = delayed_mprotect;
	kfree(late);
	meanwhile = [=] { kfree(take_slot(shim_kfence_index(late))); };
	EXPECT_THAT(says([=] { *late = 1; }), HasSubstr("BUG: KFENCE: invalid write in "))
		<< "it is in no object's pages by now";
	EXPECT_FALSE(meanwhile);
	EXPECT_TRUE(shim_kfence_is_readable(late));
	/* The next user of the slot finds it closed. */
	for (int i = 0; i < OBJECTS; i++)
		kfree(kmalloc_guarded(PAGE + 1));
	EXPECT_FALSE(shim_kfence_is_readable(late));
}

/* Threads take, read around, free and read again, in slots whose runs change. */
TEST_F(KfenceLargeTest, Storm)
{
	auto work = [](unsigned int seed) {
		for (unsigned int i = 0; i < 150; i++) {
			size_t size =
				PAGE + 1 + (i * 7919 + seed * 104729) % (LARGE_SLOT - PAGE);

			shim_kfence_open();
			char *p = unknown(kmalloc(size, GFP_KERNEL));
			bool guarded = shim_kfence_has(p);

			memset(p, 'x', size);
			if (guarded && i % 4 == 0)
				(void)*static_cast<volatile char *>(p + size + PAGE - 1);
			if (p[size - 1] != 'x' || p[0] != 'x')
				abort();
			kfree(p);
			if (guarded)
				(void)*static_cast<volatile char *>(p + size / 2);
		}
	};
	std::string text = says([&] {
		std::vector<std::thread> threads;

		for (unsigned int t = 0; t < 4; t++)
			threads.emplace_back(work, t);
		for (std::thread &t : threads)
			t.join();
	});

	EXPECT_THAT(text, HasSubstr("use-after-free read"));
	EXPECT_THAT(text, HasSubstr("out-of-bounds read"));
	EXPECT_THAT(text, Not(HasSubstr("corruption")));
	for (unsigned int i = 0; i < 2 * OBJECTS; i++)
		EXPECT_NE(shim_kfence_state(i), IN_USE);
}

} // namespace
