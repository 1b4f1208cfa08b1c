/* SPDX-License-Identifier: MIT */
/* A hardened process at a limit of the system, which does not open again what the process has
 * closed. */
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <sys/mman.h>

#include <gtest/gtest.h>

#include "fake_os.h"
#include "hard_shim.h"
#include "lock_shim.h"
#include "page_util.h"
#include "slab_shim.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

namespace
{

/* Before the library is initialised. */
const bool hardened = !setenv("UKMEM_CONF", "hardened:1", 1);

constexpr size_t kBlock = 3 * kMiB; /* the library closes it by a mapping */

/* The system opens only what has fewer bytes. */
size_t refused_from = SIZE_MAX;

void refuse_to_open()
{
	os_calls.mmap = [](void **addr, size_t len, int prot, int flags) {
		return len >= refused_from && prot & PROT_WRITE
			       ? -ENOMEM
			       : os_calls_linux.mmap(addr, len, prot, flags);
	};
	os_calls.mprotect = [](void *addr, size_t len, int prot) {
		return len >= refused_from && prot & PROT_WRITE
			       ? -ENOMEM
			       : os_calls_linux.mprotect(addr, len, prot);
	};
}

size_t active()
{
	struct ukmem_gauges gauges;

	ukmem_gauges_read(&gauges);
	return gauges.active;
}

void use_blocks()
{
	std::vector<void *> all(8);

	for (void *&p : all)
		p = kmalloc(kBlock, GFP_KERNEL);
	for (void *p : all)
		kfree(p);
}

/* A freed block is closed; at a limit of the system it may stay so for a while. */
TEST(HardenedLimitTest, BlocksThatTheSystemDoesNotOpenAreTriedAgain)
{
	kfree(kmalloc(kBlock, GFP_KERNEL));
	ukmem_trim();
	const size_t before = active();

	refuse_to_open();
	for (const bool other_blocks : { false, true }) {
		use_blocks();
		refused_from = 0;
		ukmem_trim();
		EXPECT_GE(active(), before + 8 * kBlock) << "they are open";
		refused_from = SIZE_MAX;
		if (other_blocks)
			use_blocks();
		else
			ukmem_trim();
		EXPECT_LE(active(), before + (other_blocks ? 8 * kBlock : 0) + kMiB);
		ukmem_trim();
		EXPECT_LE(active(), before + kMiB);
	}
}

/* A system that counts pages (vm.overcommit_memory=2) may open the smaller ones. */
TEST(HardenedLimitTest, SmallBlocksAreOpenedWhereLargeOnesAreNot)
{
	kfree(kmalloc(kMiB, GFP_KERNEL));
	ukmem_trim();
	const size_t before = active();
	size_t sizes[] = { 16, 3, 3, 16 };

	refuse_to_open();
	for (int n = 0; n < 2; n++) {
		std::vector<void *> all;

		for (size_t size : sizes)
			all.push_back(kmalloc(size * kMiB, GFP_KERNEL));
		for (void *p : all)
			kfree(p);
		refused_from = 0;
		ukmem_trim();
		EXPECT_GE(active(), before + 38 * kMiB);
		refused_from = 8 * kMiB;
		ukmem_trim();
		EXPECT_GE(active(), before + 32 * kMiB);
		EXPECT_LT(active(), before + 33 * kMiB);
		refused_from = SIZE_MAX;
		ukmem_trim();
		EXPECT_LE(active(), before + kMiB);
	}
}

/* Other threads may map and fault pages in while a small block is closed and opened. */
TEST(HardenedLimitTest, SmallBlocksAreClosedWithoutMappings)
{
	static int mappings;
	char *p = static_cast<char *>(kmalloc(kMiB, GFP_KERNEL));

	if (!has_guard_regions(p))
		GTEST_SKIP() << "the kernel has no guard regions";
	kfree(p);
	os_calls.mmap = [](void **addr, size_t len, int prot, int flags) {
		mappings += prot == PROT_NONE;
		return os_calls_linux.mmap(addr, len, prot, flags);
	};
	for (int n = 0; n < 200; n++) {
		p = static_cast<char *>(kmalloc(kMiB, GFP_KERNEL));
		EXPECT_EQ(p[kMiB - 1], 0) << "it was not emptied";
		memset(p, 1, kMiB);
		kfree(p);
	}
	EXPECT_EQ(mappings, 0);
	EXPECT_DEATH((void)*static_cast<volatile char *>(p), "");
	ukmem_trim();
	EXPECT_EQ(mappings, 0);
	expect_whole();
}

/* The system closes the first half of a range, and then comes to a mapping that it refuses to
 * close. */
int close_a_half(void *addr, size_t len, int advice)
{
	if (advice != kGuardInstall)
		return os_calls_linux.madvise_guard(addr, len, advice);
	const int err = os_calls_linux.madvise_guard(addr, len / 2, advice);

	return err ? err : -EINVAL;
}

/* The system closes a part of a freed block, and refuses a mapping in its place. The library
 * opens that part again before another request gets it. */
TEST(HardenedLimitTest, BlocksThatAreClosedInPartAreOpenedAgain)
{
	kfree(kmalloc(kMiB, GFP_KERNEL));
	os_calls.madvise_guard = close_a_half;
	os_calls.mmap = [](void **addr, size_t len, int prot, int flags) {
		return prot == PROT_NONE ? -ENOMEM
					 : os_calls_linux.mmap(addr, len, prot, flags);
	};
	for (size_t size = 100000; size < kMiB; size = size * 5 / 4)
		for (size_t align : { 1 << 16, 16 }) { /* large guards, and small ones */
			void *p = shim_kmalloc_aligned(size, align, GFP_KERNEL);

			ASSERT_NE(p, nullptr);
			memset(p, 1, size);
			kfree(p);
		}
	expect_whole();
}

int release_before_6_12(char *buf, size_t size)
{
	snprintf(buf, size, "6.11.0");
	return 0;
}

/* With vm.overcommit_memory=2 such a kernel unmaps what was there before it refuses a mapping
 * that may be written to. */
int mmap_before_6_12(void **addr, size_t len, int prot, int flags)
{
	if (len < refused_from || !(prot & PROT_WRITE))
		return os_calls_linux.mmap(addr, len, prot, flags);
	if (flags & MAP_FIXED)
		os_calls_linux.munmap(*addr, len);
	return -ENOMEM;
}

/* Another thread could map into a hole, and would lose that when the block is tried again. */
TEST(HardenedLimitTest, BlocksThatAreNotOpenedKeepTheirAddresses)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		std::vector<void *> all(8);

		refuse_to_open();
		os_calls.mmap = mmap_before_6_12;
		os_calls.release = release_before_6_12;
		for (void *&p : all)
			p = kmalloc(kBlock, GFP_KERNEL);
		for (void *p : all)
			kfree(p);
		const size_t before = active();

		refused_from = 0;
		ukmem_trim();
		EXPECT_GE(active() + kMiB, before) << "they are open";
		for (void *p : all)
			EXPECT_EQ(msync(p, kBlock, MS_ASYNC), 0) << "there is a hole";
		refused_from = SIZE_MAX;
		ukmem_trim();
		EXPECT_LE(active() + 8 * kBlock, before);
		expect_whole();
	});
}

struct page *aside;

void allocate_aside(int)
{
	aside = alloc_pages(GFP_KERNEL, 0);
}

/* A page aside goes back by being unmapped, and needs not be opened. */
TEST(HardenedLimitTest, APageAsideIsUnmapped)
{
	const size_t served = vmstat("pgalloc_aside");

	kfree(kmalloc(kMiB, GFP_KERNEL));
	signal(SIGUSR1, allocate_aside);
	ASSERT_TRUE(shim_zone_trylock(0));
	raise(SIGUSR1);
	shim_zone_unlock(0);
	ASSERT_EQ(vmstat("pgalloc_aside"), served + 1);
	ASSERT_NE(aside, nullptr);
	void *memory = page_address(aside);
	ASSERT_EQ(mprotect(memory, ukmem_page_size(), PROT_NONE), 0);
	shim_hard_free_later(aside);
	ukmem_trim();
	EXPECT_NE(msync(memory, ukmem_page_size(), MS_ASYNC), 0);
	expect_whole();
}

} // namespace
