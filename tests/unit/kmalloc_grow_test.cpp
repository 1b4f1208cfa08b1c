/* SPDX-License-Identifier: MIT */
/* Large blocks that grow: in place, or moved without a copy; and what is kept of them. */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "fake_os.h"
#include "page_shim.h"
#include "ukmem/ukmem.h"

namespace
{

constexpr size_t kMiB = 1u << 20;

unsigned moves; /* system calls that moved memory */
int move_error; /* instead of such a call; 0: none */

int counting_mremap(void *from, size_t len, int flags, void **to)
{
	moves++;
	return move_error ? move_error : os_calls_linux.mremap(from, len, flags, to);
}

class GrowTest : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		moves = 0;
		move_error = 0;
		os_calls.mremap = counting_mremap;
	}
	void TearDown() override
	{
		EXPECT_STREQ(shim_zone_wrong(0), nullptr);
	}

	OsCallsGuard guard_;
};

/* A block of @size bytes, and another one right behind it. */
struct Enclosed {
	explicit Enclosed(size_t size)
	    : p(static_cast<unsigned char *>(kmalloc(2 * size, GFP_KERNEL)))
	{
		auto *all = p;

		p = static_cast<unsigned char *>(krealloc(p, size, GFP_KERNEL));
		EXPECT_EQ(p, all);
		while (auto *q = static_cast<unsigned char *>(kmalloc(size, GFP_KERNEL))) {
			others.push_back(q);
			if (q == p + size)
				break;
			if (others.size() > 1000) {
				ADD_FAILURE() << "nothing comes to lie behind the block";
				break;
			}
		}
	}
	~Enclosed()
	{
		for (auto *q : others)
			kfree(q);
	}

	unsigned char *p;
	std::vector<unsigned char *> others;
};

/* One page of @every gets contents. */
void stamp(unsigned char *p, size_t size, size_t every)
{
	for (size_t i = 0; i < size; i += every * ukmem_page_size())
		memcpy(p + i, &i, sizeof(i));
}

bool stamped(const unsigned char *p, size_t size, size_t every)
{
	for (size_t i = 0, v; i < size; i += every * ukmem_page_size()) {
		memcpy(&v, p + i, sizeof(v));
		if (v != i)
			return false;
	}
	return true;
}

unsigned char *grow(unsigned char *p, size_t size, gfp_t flags = GFP_KERNEL)
{
	return static_cast<unsigned char *>(krealloc(p, size, flags));
}

/* The addresses behind the block are free, so it stays where it is, whatever its size. */
TEST_F(GrowTest, InPlace)
{
	for (size_t size : { 256 * ukmem_page_size(), 8 * kMiB }) {
		struct ukmem_gauges before, after;
		auto *p = static_cast<unsigned char *>(kmalloc(4 * size, GFP_KERNEL));
		auto *q = p;

		ASSERT_NE(p, nullptr);
		ukmem_gauges_read(&before);
		p = grow(p, size);
		ASSERT_EQ(p, q) << "shrinks in place";
		stamp(p, size, 1);
		p = grow(p, 3 * size);
		EXPECT_EQ(p, q) << size;
		EXPECT_EQ(ksize(p), 3 * size);
		EXPECT_TRUE(stamped(p, size, 1));
		memset(p + size, 1, 2 * size);
		p = grow(p, 4 * size);
		EXPECT_EQ(p, q) << size;
		ukmem_gauges_read(&after);
		EXPECT_EQ(after.allocated, before.allocated);
		EXPECT_EQ(after.active, before.active);
		EXPECT_TRUE(stamped(p, size, 1));
		kfree(p);
	}
	EXPECT_EQ(moves, 0u);
}

/* CPUs keep runs of a zone from its first request for a page on. */
void begin_to_keep()
{
	__free_page(alloc_page(GFP_KERNEL));
}

size_t kept_pages()
{
	struct shim_zone zone;

	shim_zone_read(0, &zone);
	return zone.pageset;
}

size_t purged_pages()
{
	struct shim_zone zone;

	shim_zone_read(0, &zone);
	return zone.nr_purged;
}

/* The run behind the block was freed a moment ago, and this CPU keeps it for the next request.
 */
TEST_F(GrowTest, OverARunThatThisCpuHasJustFreed)
{
	OneCpu pinned;
	const size_t size = 64 * ukmem_page_size();

	begin_to_keep();
	Enclosed e(size);
	auto *p = e.p;
	size_t kept = kept_pages();

	stamp(p, size, 1);
	kfree(e.others.back());
	ASSERT_EQ(kept_pages(), kept + 64);
	e.others.pop_back();
	p = grow(p, 2 * size);
	EXPECT_EQ(p, e.p);
	EXPECT_EQ(ksize(p), 2 * size);
	EXPECT_TRUE(stamped(p, size, 1));
	kfree(p);
}

/* Its pages were dirty already, so no other dirty ones are purged for them. */
TEST_F(GrowTest, OverARunThatWasFreedNothingIsPurged)
{
	OneCpu pinned;
	const size_t size = 64 * ukmem_page_size();
	std::vector<void *> holes, between;

	begin_to_keep();
	Enclosed e(size);
	auto *p = e.p;

	for (int i = 0; i < 200; i++) {
		holes.push_back(kmalloc(50 * ukmem_page_size(), GFP_KERNEL));
		between.push_back(kmalloc(17 * ukmem_page_size(), GFP_KERNEL));
	}
	for (void *hole : holes)
		kfree(hole);

	kfree(e.others.back());
	e.others.pop_back();
	const size_t purged = purged_pages();

	p = grow(p, 2 * size);
	EXPECT_EQ(p, e.p);
	kfree(kmalloc(17 * ukmem_page_size(), GFP_KERNEL)); /* purges what is owed */
	EXPECT_EQ(purged_pages(), purged);
	kfree(p);
	for (void *block : between)
		kfree(block);
}

/* The block behind is in use, so what the CPU keeps would not help. */
TEST_F(GrowTest, WhatTheCpuKeepsStaysIfItIsNotInTheWay)
{
	OneCpu pinned;
	const size_t size = 64 * ukmem_page_size();

	begin_to_keep();
	Enclosed e(size);
	void *other = kmalloc(17 * ukmem_page_size(), GFP_KERNEL);
	size_t kept = kept_pages(), pages = ksize(other) / ukmem_page_size();

	kfree(other);
	ASSERT_EQ(kept_pages(), kept + pages);
	EXPECT_FALSE(shim_extend(e.p, 64));
	EXPECT_EQ(kept_pages(), kept + pages);
	kfree(e.p);
}

TEST_F(GrowTest, BehindTheLastPageInUse)
{
	auto *p = static_cast<unsigned char *>(kmalloc(600 * kMiB, GFP_KERNEL)), *q = p;

	ASSERT_NE(p, nullptr) << "more than was ever used";
	stamp(p, 600 * kMiB, 1000);
	p = grow(p, 900 * kMiB);
	EXPECT_EQ(p, q);
	EXPECT_TRUE(stamped(p, 600 * kMiB, 1000));
	kfree(p);
}

/* A copy makes all pages of the new block resident. After a move the block has as many resident
 * pages as before. */
TEST_F(GrowTest, MovedWithoutACopy)
{
	constexpr size_t kSize = 64 * kMiB, kEvery = 16;
	struct ukmem_gauges before, after;
	Enclosed e(kSize);
	size_t resident;

	/* Or touching one page may bring 2 MiB. */
	madvise(e.p, kSize, MADV_NOHUGEPAGE);
	os_purge(e.p, kSize);
	stamp(e.p, kSize, kEvery);
	resident = os_resident(e.p, kSize);
	ASSERT_LE(resident, kSize / 8);
	ukmem_gauges_read(&before);
	auto *q = grow(e.p, kSize + 8 * kMiB);
	ASSERT_NE(q, nullptr);
	ASSERT_NE(q, e.p);
	EXPECT_GE(moves, 2u);
	EXPECT_TRUE(stamped(q, kSize, kEvery));
	EXPECT_EQ(q[kSize - 1], 0) << "what was not touched";
	EXPECT_LE(os_resident(q, kSize), resident + kMiB);
	EXPECT_EQ(os_resident(e.p, kSize), 0u) << "nothing stayed behind";
	ukmem_gauges_read(&after);
	EXPECT_EQ(after.allocated, before.allocated + 8 * kMiB);
	EXPECT_EQ(after.active, before.active + 8 * kMiB);
	/* Both places serve again, and read as zeros where that is asked for. */
	kfree(q);
	std::vector<void *> again;
	for (int i = 0; i < 4; i++) {
		again.push_back(kzalloc(kSize, GFP_KERNEL));
		ASSERT_NE(again.back(), nullptr);
		EXPECT_FALSE(memchr(again.back(), 1, kSize)) << "a stamp";
		memset(again.back(), 0xee, kSize);
	}
	for (void *p : again)
		kfree(p);
}

/* The system has several mappings where the block is, which it does not move at once. */
TEST_F(GrowTest, MovedPieceByPiece)
{
	constexpr size_t kSize = 16 * kMiB;
	Enclosed e(kSize);

	stamp(e.p, kSize, 1);
	for (size_t i = 3 * kMiB; i < kSize; i += 5 * kMiB)
		ASSERT_EQ(madvise(e.p + i, kMiB + 3 * ukmem_page_size(), MADV_DONTFORK), 0);
	auto *q = grow(e.p, kSize + 8 * kMiB);
	ASSERT_NE(q, nullptr);
	EXPECT_NE(q, e.p);
	EXPECT_GT(moves, 4u);
	EXPECT_TRUE(stamped(q, kSize, 1));
	memset(q, 5, kSize + 8 * kMiB);
	kfree(q);
}

TEST_F(GrowTest, CopiedWhereTheSystemMovesNothing)
{
	constexpr size_t kSize = 8 * kMiB;

	for (int error : { -ENOSYS, -EINVAL, -EPERM, -ENOMEM, -EFAULT }) {
		Enclosed e(kSize);

		move_error = error;
		stamp(e.p, kSize, 1);
		auto *q = grow(e.p, 2 * kSize);
		ASSERT_NE(q, nullptr);
		EXPECT_GE(moves, 1u);
		EXPECT_TRUE(stamped(q, kSize, 1));
		kfree(q);
	}
}

/* The kernel would unlock what else is in the same mapping. */
TEST_F(GrowTest, CopiedWhereMemoryIsLocked)
{
	constexpr size_t kSize = 8 * kMiB;
	Enclosed e(kSize), other(kSize);

	if (syscall(SYS_mlock, e.p, kSize)) /* sanitizers make mlock() do nothing */
		GTEST_SKIP() << "nothing may be locked";
	stamp(e.p, kSize, 1);
	stamp(other.p, kSize, 1);
	auto *q = grow(e.p, 2 * kSize);
	ASSERT_NE(q, nullptr);
	EXPECT_EQ(moves, 0u);
	EXPECT_TRUE(stamped(q, kSize, 1));
	syscall(SYS_munlock, e.p, kSize);
	kfree(q);
	q = grow(other.p, 2 * kSize);
	ASSERT_NE(q, nullptr);
	EXPECT_GE(moves, 1u) << "not locked";
	EXPECT_TRUE(stamped(q, kSize, 1));
	kfree(q);
}

/* Such a request makes no system call. */
TEST_F(GrowTest, CopiedWhereNothingMayEnterTheKernel)
{
	constexpr size_t kSize = 8 * kMiB;
	void *room = kmalloc(4 * kSize, GFP_KERNEL);

	memset(room, 1, 4 * kSize);
	kfree(room);
	Enclosed e(kSize);
	stamp(e.p, kSize, 1);
	auto *q = grow(e.p, 2 * kSize, GFP_ATOMIC);
	EXPECT_EQ(moves, 0u);
	EXPECT_TRUE(stamped(q ? q : e.p, kSize, 1));
	kfree(q ? q : e.p);
}

TEST_F(GrowTest, ZerosBehindWhatIsKept)
{
	for (size_t size : { 256 * ukmem_page_size(), 8 * kMiB })
		for (bool enclosed : { false, true }) {
			auto *dirt =
				static_cast<unsigned char *>(kmalloc(6 * size, GFP_KERNEL));
			memset(dirt, 0xff, 6 * size);
			kfree(dirt);
			Enclosed e(size);
			auto *p = e.p;

			memset(p, 1, size);
			if (!enclosed) {
				kfree(e.others.back());
				e.others.pop_back();
			}
			p = grow(p, 2 * size, GFP_KERNEL | __GFP_ZERO);
			ASSERT_NE(p, nullptr);
			EXPECT_EQ(p == e.p, !enclosed);
			EXPECT_EQ(memchr(p, 0, 2 * size), p + size);
			EXPECT_FALSE(memchr(p + size, 1, size));
			EXPECT_FALSE(memchr(p + size, 0xff, size));
			kfree(p);
		}
}

/* Two blocks grow in turn, each in the other's way; mappings do not pile up. */
TEST_F(GrowTest, InTurn)
{
	size_t before = 0;

	for (int round = 0; round < 3; round++) {
		unsigned char *p[2] = {};
		size_t size[2] = { 4 * kMiB, 4 * kMiB };

		for (int i = 0; i < 2; i++) {
			p[i] = static_cast<unsigned char *>(kmalloc(size[i], GFP_KERNEL));
			stamp(p[i], size[i], 16);
		}
		for (int i = 0; i < 24; i++) {
			size_t old = size[i % 2];

			size[i % 2] += kMiB + 5 * ukmem_page_size();
			p[i % 2] = grow(p[i % 2], size[i % 2]);
			ASSERT_NE(p[i % 2], nullptr);
			ASSERT_TRUE(stamped(p[i % 2], old, 16)) << i;
			stamp(p[i % 2], size[i % 2], 16);
		}
		kfree(p[0]);
		kfree(p[1]);
		if (!round)
			before = number_of_mappings();
	}
	EXPECT_GT(moves, 10u);
	EXPECT_LE(number_of_mappings(), before + 10);
}

/* Of a large block, what is cut off goes back; less than an eighth stays. */
TEST_F(GrowTest, ABlockThatIsCutGivesBackItsEnd)
{
	void *p = kmalloc(kMiB, GFP_KERNEL);

	EXPECT_EQ(krealloc(p, kMiB / 10 * 9, GFP_KERNEL), p);
	EXPECT_EQ(ksize(p), kMiB);
	EXPECT_EQ(krealloc(p, kMiB / 10 * 7, GFP_KERNEL), p);
	EXPECT_LE(ksize(p), kMiB / 4 * 3);
	kfree(p);
}

} // namespace
