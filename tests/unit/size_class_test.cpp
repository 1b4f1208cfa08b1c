/* SPDX-License-Identifier: MIT */
/* Size classes: what kmalloc rounds to, and what it promises about addresses. */
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "slab_shim.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

extern "C" {
#include "base/bits.h"
#include "os/os.h"
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

	for (size_t size = 0; size <= 65536; size++)
		classes.insert(kmem_cache_size(shim_class_cache(size)));
	EXPECT_EQ(classes.size(), 54u);
	EXPECT_EQ(*classes.begin(), 8u);
	EXPECT_EQ(*classes.rbegin(), 65536u);
	for (size_t size = 0; size <= 65536; size++)
		ASSERT_EQ(kmem_cache_size(shim_class_cache(size)), *classes.lower_bound(size))
			<< size;
}

TEST_F(SizeClassTest, EverySizeOfTheKernelsThatIsAlignedIsAClass)
{
	for (unsigned size :
	     { 8,    16,   32,	 48,   64,   80,   96,	  112,	 128,	160,  192,
	       224,  256,  288,	 320,  352,  384,  416,	  448,	 480,	512,  768,
	       1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 32768, 65536 })
		EXPECT_EQ(kmem_cache_size(shim_class_cache(size)), size);
	for (unsigned size : { 24, 40, 56 })
		EXPECT_EQ(kmem_cache_size(shim_class_cache(size)), size + 8)
			<< "objects of 16 bytes and more are aligned to 16";
}

/* Where most objects of 128 bytes and more do not begin (base/compiler.h). */
TEST_F(SizeClassTest, ArraysBeginInTheSecondLinesOfPairs)
{
	for (size_t size = 8; size <= 65536; size += 8)
		ASSERT_EQ(
			reinterpret_cast<uintptr_t>(shim_cache_array(shim_class_cache(size))) %
				128,
			64u)
			<< size;
}

/* Objects of @size that @pages hold: their bitmap is in them if the pages' entries have too
 * few bits for it. */
size_t objects_in(size_t pages, size_t size)
{
	size_t bytes = pages * ukmem_page_size(), n = bytes / size;

	while (n > pages * 256 && n * size + (n + 63) / 64 * 8 > bytes)
		n--;
	return n;
}

double wasted_share(size_t pages, size_t size)
{
	double bytes = static_cast<double>(pages * ukmem_page_size());

	return 1 - static_cast<double>(objects_in(pages, size) * size) / bytes;
}

/*
 * A slab is large enough if it holds 16 objects, or 96 KiB of them, or 64 KiB of objects above
 * 16 KiB. It has up to 128 KiB, and a power of two of pages if its objects' size is one. The
 * least wasteful number of pages is chosen, or the first that wastes at most a 64th, because
 * still more pages waste more in the end.
 */
TEST_F(SizeClassTest, SlabsWasteLeast)
{
	const double tolerated = 1.0 / 64 + 1.0 / 4096;

	for (size_t from = 1; from <= 65536;) {
		struct kmem_cache *s = shim_class_cache(from);
		size_t size = kmem_cache_size(s);
		size_t enough = size > 16384 ? std::max<size_t>(65536 / size, 1)
					     : std::min<size_t>(98304 / size, 16);
		std::vector<size_t> smaller;
		shim_geometry g;
		double least = 1;

		shim_slab_geometry(s, &g);
		ASSERT_EQ(g.objects, objects_in(g.npages, size)) << size;
		ASSERT_GE(g.objects, enough) << size;
		for (size_t n = 1; n <= 131072 / ukmem_page_size(); n++) {
			if (objects_in(n, size) < enough || (is_pow2(size) && !is_pow2(n)))
				continue;
			least = std::min(least, wasted_share(n, size));
			if (n < g.npages)
				smaller.push_back(n);
		}
		double share = wasted_share(g.npages, size);
		EXPECT_LE(share, std::max(least, tolerated)) << size;
		EXPECT_LE(share, tolerated) << size;
		for (size_t n : smaller)
			EXPECT_GT(wasted_share(n, size), std::max(share, 1.0 / 64)) << size;
		from = size + 1;
	}
}

TEST_F(SizeClassTest, TableOfClasses)
{
	FILE *f = tmpfile();
	size_t wasted = 0, bytes = 0;
	char line[256], expected[256];

	ASSERT_EQ(ukmem_size_classes_print(fileno(f)), 0);
	rewind(f);
	ASSERT_STREQ(fgets(line, sizeof(line), f), "size_classes:\n");
	ASSERT_STREQ(fgets(line, sizeof(line), f),
		     "  Name                   From   Size  PageSz Objects  Waste Waste%\n");
	for (size_t from = 1; from <= 65536;) {
		struct kmem_cache *s = shim_class_cache(from);
		size_t size = kmem_cache_size(s), slab, waste;
		shim_geometry g;

		shim_slab_geometry(s, &g);
		slab = g.npages * ukmem_page_size();
		waste = slab - objects_in(g.npages, size) * size;
		snprintf(expected, sizeof(expected),
			 "  kmalloc-%-12zu %6zu %6zu %7zu %7zu %6zu %4zu.%zu\n", size, from,
			 size, slab, objects_in(g.npages, size), waste, waste * 100 / slab,
			 waste * 1000 / slab % 10);
		ASSERT_STREQ(fgets(line, sizeof(line), f), expected);
		wasted += waste;
		bytes += slab;
		from = size + 1;
	}
	ASSERT_STREQ(fgets(line, sizeof(line), f), "\n");
	snprintf(expected, sizeof(expected), "A slab of each: wasted %zuK of %zuK; %zu.%zu%%\n",
		 wasted / 1024, bytes / 1024, wasted * 100 / bytes, wasted * 1000 / bytes % 10);
	ASSERT_STREQ(fgets(line, sizeof(line), f), expected);
	EXPECT_LE(wasted * 100, bytes) << "a hundredth of all";
	fclose(f);
}

TEST_F(SizeClassTest, TablesAgreeWithTheClasses)
{
	for (size_t size = 0; size <= 1024; size++)
		ASSERT_EQ(shim_class_small(size), shim_cache_array(shim_class_cache(size)))
			<< size;
	for (size_t size = 1; size <= 65536; size++)
		if (size > 1024 || size % 256 == 0) {
			ASSERT_EQ(shim_class_large(size),
				  shim_cache_array(shim_class_cache(size)))
				<< size;
		}
}

TEST_F(SizeClassTest, RoundingLosesAtMostAFifth)
{
	for (size_t size = 1; size <= 65536; size++) {
		size_t usable = kmem_cache_size(shim_class_cache(size));

		if (size <= 128) {
			ASSERT_LT(usable - size, 16u) << size;
		} else {
			ASSERT_LE((usable - size) * 5, usable) << size;
		}
	}
}

/* Whether objects of the class for a large size are. */
bool naturally_aligned(size_t size, size_t align)
{
	size_t usable = size > 16384 ? kmem_cache_size(shim_class_cache(size)) : align;

	return usable % align == 0 && (align <= ukmem_page_size() || is_pow2(usable));
}

TEST_F(SizeClassTest, AlignedClassesAreTheSmallestThatFit)
{
	for (size_t align = 1; align <= 131072; align *= 2)
		for (size_t size = 1; size <= 66000; size += size < 17000 ? 7 : 61) {
			struct kmem_cache *s = shim_class_aligned(size, align);

			if (!s) {
				ASSERT_TRUE(size > 65536 || align > 16384 ||
					    !naturally_aligned(size, align))
					<< size << " " << align;
				continue;
			}
			if (size > 16384) {
				ASSERT_EQ(s, shim_class_cache(size));
			}
			ASSERT_GE(kmem_cache_size(s), size);
			ASSERT_EQ(kmem_cache_size(s) % align, 0u);
			/* Smaller classes that hold the size are not aligned. */
			for (size_t less = kmem_cache_size(shim_class_cache(size));
			     less < kmem_cache_size(s);
			     less = kmem_cache_size(shim_class_cache(less + 1)))
				ASSERT_FALSE(less % align == 0 &&
					     (align <= ukmem_page_size() || is_pow2(less)))
					<< size << " " << align << " " << less;
		}
}

TEST_F(SizeClassTest, AddressesAreAlignedAsPromised)
{
	for (size_t size = 1; size <= 70000; size += size < 600 ? 1 : 97) {
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
		for (size_t size :
		     { 1u, 8u, 100u, 4096u, 10000u, 16384u, 20000u, 60000u, 65536u, 300000u }) {
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

#define SKIP_WHERE_OBJECTS_ARE_IN_TWINS()                                                      \
	do {                                                                                   \
		if (TEST_ASAN)                                                                 \
			GTEST_SKIP() << "what AddressSanitizer is told of takes the long way"; \
	} while (0)

/*
 * Coloured classes: src/kmalloc/size_class.c. A process that took the library for malloc has
 * them. Its time stands still, so that few slabs are of one object, however slow the machine
 * is.
 */
void become_coloured()
{
	os_heap.is_ukmem = true;
	os_calls.now_ms = [] { return uint64_t{ 1000 }; };
	ASSERT_TRUE(shim_kmalloc_init());
}

const size_t kColoured[] = { 4096, 8192, 16384 };
const unsigned kFew = 64; /* slabs of one object, the first of a class */

using Objects = std::vector<char *>;

Objects get_many(size_t size, size_t n)
{
	Objects all;

	while (all.size() < n) {
		char *p = static_cast<char *>(kmalloc(size, GFP_KERNEL));

		EXPECT_EQ(ksize(p), size);
		memset(p, static_cast<int>(all.size() % 251), size);
		all.push_back(p);
	}
	return all;
}

/* Frees objects that still have what get_many() wrote. */
void put_many(const Objects &all, size_t size)
{
	for (size_t i = 0; i < all.size(); i++) {
		char expected = static_cast<char>(i % 251);

		EXPECT_EQ(all[i][0], expected);
		EXPECT_EQ(all[i][size - 1], expected);
		kfree(all[i]);
	}
}

/* The objects by the line of their page that they begin in. */
std::map<size_t, size_t> by_line(const Objects &all)
{
	std::map<size_t, size_t> lines;

	for (char *p : all)
		lines[reinterpret_cast<uintptr_t>(p) % ukmem_page_size() / 64]++;
	return lines;
}

TEST(ColouredClassTest, ObjectsBeginInManyLines)
{
	SKIP_WHERE_OBJECTS_ARE_IN_TWINS();
	EXPECT_FRESH_PROCESS_PASSES([] {
		become_coloured();
		for (size_t size : kColoured) {
			shim_geometry g;

			shim_slab_geometry(shim_class_cache(size), &g);

			Objects all = get_many(size, kFew + 30 * g.objects);

			ASSERT_GE(g.objects, 7u);
			EXPECT_EQ(by_line(all).size(), g.objects) << size;
			for (auto [line, n] : by_line(all))
				EXPECT_LE(n, 32u + (line ? 0 : kFew)) << size << " " << line;
			put_many(all, size);
		}
		EXPECT_EQ(ukmem_verify(stderr), 0);
	});
}

/* A program that keeps few objects of a class keeps no pages beside theirs. */
TEST(ColouredClassTest, FewObjectsFillTheirPages)
{
	SKIP_WHERE_OBJECTS_ARE_IN_TWINS();
	EXPECT_FRESH_PROCESS_PASSES([] {
		become_coloured();
		for (size_t size : kColoured) {
			Objects all = get_many(size, kFew / 2);

			EXPECT_EQ(by_line(all).size(), 1u) << size;
			put_many(all, size);
		}
		EXPECT_EQ(ukmem_verify(stderr), 0);
	});
}

/* Slabs of each layout: few, many, and many that come and go. */
TEST(ColouredClassTest, ObjectsHaveTheBytesOfTheirClass)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		become_coloured();
		for (int round = 0; round < 20; round++)
			for (size_t size : kColoured)
				put_many(get_many(size, 1000), size);
		EXPECT_EQ(ukmem_verify(stderr), 0);
	});
}

TEST(ColouredClassTest, AlignedRequestsHaveClassesOfTheirOwn)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		become_coloured();
		for (size_t size : kColoured) {
			struct kmem_cache *s = shim_class_aligned(size, 128);

			EXPECT_NE(s, shim_class_cache(size));
			EXPECT_EQ(kmem_cache_size(s), size);
			EXPECT_STREQ(shim_slab_name(s),
				     ("aligned-kmalloc-" + std::to_string(size)).c_str());
			EXPECT_EQ(shim_class_aligned(size, 64), shim_class_cache(size));
			for (size_t align = 8; align <= size; align *= 2)
				for (int i = 0; i < 300; i++) {
					auto p = reinterpret_cast<uintptr_t>(
						shim_kmalloc_aligned(size, align, GFP_KERNEL));

					ASSERT_NE(p, 0u);
					ASSERT_EQ(p % align, 0u) << size << " " << i;
				}
		}
		EXPECT_EQ(ukmem_verify(stderr), 0);
	});
}

/* The library itself promises that blocks of a power of two are aligned to it. */
TEST_F(SizeClassTest, NoneIsColouredForKmalloc)
{
	for (size_t size : kColoured)
		EXPECT_EQ(shim_class_aligned(size, size), shim_class_cache(size));
}

/* The fast path of ksize() knows every object, and takes nothing else for one. */
TEST_F(SizeClassTest, UsableSizeIsFoundByAddressAlone)
{
	SKIP_WHERE_OBJECTS_ARE_IN_TWINS();
	for (size_t size = 1; size <= 65536; size = kmalloc_size_roundup(size) + 1) {
		size_t usable = kmalloc_size_roundup(size);
		std::vector<char *> p(2 * 131072 / usable + 2);

		for (auto &q : p) {
			q = static_cast<char *>(kmalloc(size, GFP_KERNEL));
			ASSERT_NE(q, nullptr);
			ASSERT_EQ(shim_class_usable(q), usable);
			ASSERT_EQ(ksize(q), usable);
			for (size_t inside : { size_t{ 1 }, usable / 2, usable - 1 })
				ASSERT_EQ(shim_class_usable(q + inside), 0u)
					<< inside << " in " << usable;
		}
		for (auto q : p)
			kfree(q);
	}
}

TEST_F(SizeClassTest, UsableSizeOfWhatIsNoObject)
{
	SKIP_WHERE_OBJECTS_ARE_IN_TWINS();
	auto *object = static_cast<char *>(kmalloc(8, GFP_KERNEL));
	auto *slab = static_cast<char *>(shim_slab_base(object));
	shim_geometry g;
	struct kmem_cache *s = kmem_cache_create("not_kmalloc", 64, 0, 0, nullptr);
	void *other = kmem_cache_alloc(s, GFP_KERNEL), *large = kmalloc(1 << 20, GFP_KERNEL);
	struct page *page = alloc_page(GFP_KERNEL);

	shim_slab_geometry(shim_class_cache(8), &g);
	EXPECT_EQ(shim_class_usable(slab + (g.objects - 1) * 8), 8u);
	EXPECT_EQ(shim_class_usable(slab + g.objects * 8), 0u) << "the slab's bitmap";
	EXPECT_EQ(shim_class_usable(slab + g.npages * ukmem_page_size() - 8), 0u) << "its end";
	EXPECT_EQ(shim_class_usable(other), 0u);
	EXPECT_EQ(shim_class_usable(large), 0u);
	EXPECT_EQ(shim_class_usable(page_address(page)), 0u);
	EXPECT_EQ(shim_class_usable(&g), 0u);
	EXPECT_EQ(shim_class_usable(nullptr), 0u);
	EXPECT_EQ(shim_class_usable(ZERO_SIZE_PTR), 0u);
	EXPECT_EQ(ksize(other), 64u);
	EXPECT_GE(ksize(large), 1u << 20);
	__free_page(page);
	kfree(large);
	kmem_cache_free(s, other);
	kmem_cache_destroy(s);
	kfree(object);
}

/* The bytes between a slab's last object and its end belong to no object. */
TEST_F(SizeClassTest, RoomEndsWithTheLastObject)
{
	SKIP_WHERE_OBJECTS_ARE_IN_TWINS();
	for (size_t size : { 96u, 8u, 48u }) {
		void *object = kmalloc(size, GFP_KERNEL);
		auto *slab = static_cast<char *>(shim_slab_base(object));
		shim_geometry g;

		shim_slab_geometry(shim_class_cache(size), &g);
		char *last = slab + (g.objects - 1) * size;
		size_t rest = g.npages * ukmem_page_size() - g.objects * size;

		EXPECT_EQ(shim_kmalloc_room(last), size);
		EXPECT_EQ(shim_kmalloc_room(last + size - 1), 1u);
		ASSERT_GT(rest, 0u) << size;
		EXPECT_EQ(shim_kmalloc_room(last + size), SIZE_MAX) << size;
		EXPECT_EQ(shim_kmalloc_room(last + size + rest - 1), SIZE_MAX) << size;
		kfree(object);
	}
}

/* Pages that were a slab's are no longer known as such. */
TEST_F(SizeClassTest, UsableSizeAfterTheSlabIsGone)
{
	std::vector<void *> p(1000);

	for (auto &q : p)
		q = kmalloc(12288, GFP_KERNEL);
	for (auto q : p)
		kfree(q);
	kmem_cache_shrink(shim_class_cache(12288));
	for (auto q : p)
		ASSERT_EQ(shim_class_usable(q), 0u);
}

} // namespace
