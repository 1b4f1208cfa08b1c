/* SPDX-License-Identifier: MIT */
/* Size classes: what kmalloc rounds to, and what it promises about addresses. */
#include <set>

#include "slab_shim.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

extern "C" {
#include "base/bits.h"
}

namespace
{

class SizeClassTest : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		ASSERT_TRUE(shim_kmalloc_init());
	}
};

TEST_F(SizeClassTest, EverySizeMapsToTheSmallestClassThatHoldsIt)
{
	std::set<unsigned> classes;

	for (size_t size = 0; size <= 16384; size++)
		classes.insert(kmem_cache_size(shim_class_cache(size)));
	EXPECT_EQ(classes.size(), 40u);
	EXPECT_EQ(*classes.begin(), 8u);
	EXPECT_EQ(*classes.rbegin(), 16384u);
	for (size_t size = 0; size <= 16384; size++)
		ASSERT_EQ(kmem_cache_size(shim_class_cache(size)), *classes.lower_bound(size))
			<< size;
}

TEST_F(SizeClassTest, TablesAgreeWithTheClasses)
{
	for (size_t size = 0; size <= 1024; size++)
		ASSERT_EQ(shim_class_small(size), shim_cache_array(shim_class_cache(size)))
			<< size;
	for (size_t size = 1; size <= 16384; size++)
		if (size > 1024 || size % 128 == 0) {
			ASSERT_EQ(shim_class_large(size),
				  shim_cache_array(shim_class_cache(size)))
				<< size;
		}
}

TEST_F(SizeClassTest, RoundingLosesAtMostAFifth)
{
	for (size_t size = 1; size <= 16384; size++) {
		size_t usable = kmem_cache_size(shim_class_cache(size));

		if (size <= 128) {
			ASSERT_LT(usable - size, 16u) << size;
		} else {
			ASSERT_LE((usable - size) * 5, usable) << size;
		}
	}
}

TEST_F(SizeClassTest, AlignedClassesAreTheSmallestThatFit)
{
	for (size_t align = 1; align <= 32768; align *= 2)
		for (size_t size = 1; size <= 16500; size += 7) {
			struct kmem_cache *s = shim_class_aligned(size, align);

			if (!s) {
				ASSERT_TRUE(size > 16384 || align > 16384)
					<< size << " " << align;
				continue;
			}
			ASSERT_GE(kmem_cache_size(s), size);
			ASSERT_EQ(kmem_cache_size(s) % align, 0u);
		}
}

TEST_F(SizeClassTest, AddressesAreAlignedAsPromised)
{
	for (size_t size = 1; size <= 40000; size += size < 600 ? 1 : 97) {
		void *p[20];

		for (auto &q : p) {
			q = kmalloc(size, GFP_KERNEL);
			auto addr = reinterpret_cast<uintptr_t>(q);
			size_t promised = size >= 16 ? 16 : 8;

			ASSERT_NE(q, nullptr);
			if (is_pow2(size)) {
				promised =
					std::max(promised, std::min(size, ukmem_page_size()));
			}
			ASSERT_EQ(addr % promised, 0u) << size;
		}
		for (auto q : p)
			kfree(q);
	}
	for (size_t size = 8; size <= (1u << 20); size *= 2) {
		void *p[20];

		for (auto &q : p) {
			q = kmalloc(size, GFP_KERNEL);
			ASSERT_EQ(reinterpret_cast<uintptr_t>(q) %
					  std::min(size, ukmem_page_size()),
				  0u);
		}
		for (auto q : p)
			kfree(q);
	}
}

TEST_F(SizeClassTest, AlignedRequestsOfEveryKind)
{
	for (size_t align = 1; align <= (1u << 22); align *= 2)
		for (size_t size : { 1u, 8u, 100u, 4096u, 10000u, 16384u, 20000u, 300000u }) {
			char *p[3];

			for (auto &q : p) {
				q = static_cast<char *>(
					shim_kmalloc_aligned(size, align, GFP_KERNEL));
				ASSERT_NE(q, nullptr) << size << " aligned to " << align;
				ASSERT_EQ(reinterpret_cast<uintptr_t>(q) % align, 0u);
				ASSERT_GE(ksize(q), size);
				q[0] = q[size - 1] = 1;
			}
			for (auto q : p)
				kfree(q);
		}
}

/* Blocks cut down to odd lengths must not hand their ends on as if they were aligned. */
TEST_F(SizeClassTest, AlignmentAfterLargeBlocksWereShrunk)
{
	size_t page = ukmem_page_size();
	std::mt19937 random(test_seed());

	for (int round = 0; round < 200; round++) {
		size_t from = 10 + random() % 40, to = 5 + random() % (from / 2 - 4);
		void *p = kmalloc(from * page, GFP_KERNEL);

		ASSERT_NE(p, nullptr);
		p = krealloc(p, to * page, GFP_KERNEL);
		ASSERT_NE(p, nullptr);
		for (unsigned order = 0; order < 5; order++) {
			struct page *run = alloc_pages(GFP_KERNEL, order);

			ASSERT_NE(run, nullptr);
			ASSERT_EQ(reinterpret_cast<uintptr_t>(page_address(run)) %
					  (page << order),
				  0u)
				<< "order " << order << " after " << from << " -> " << to
				<< " pages";
			__free_pages(run, order);
		}
		kfree(p);
	}
}

} // namespace
