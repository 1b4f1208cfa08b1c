/* SPDX-License-Identifier: MIT */
/*
 * The rest of the kmalloc family: nodes, arrays, copies, whole pages, allocation by type,
 * sizes that overflow, and what krealloc with __GFP_ZERO promises.
 */
#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "fake_os.h"
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

bool all_bytes(const void *p, int c, size_t from, size_t to)
{
	auto *b = static_cast<const unsigned char *>(p);

	for (size_t i = from; i < to; i++)
		if (b[i] != c)
			return false;
	return true;
}

/* Free objects of the size, and of what it may be resized to, that are not zero. */
void leave_dirt(size_t size)
{
	std::vector<void *> p;

	for (int i = 0; i < 40; i++) {
		p.push_back(kmalloc(size, GFP_KERNEL));
		memset(p.back(), 0xdb, ksize(p.back()));
	}
	for (void *q : p)
		kfree(q);
}

TEST(OverflowTest, SizesSaturate)
{
	struct flex {
		long head;
		int data[];
	} *p = nullptr;
	size_t half = SIZE_MAX / 2 + 1;
	int sum = 0;

	EXPECT_EQ(size_mul(6, 7), 42u);
	EXPECT_EQ(size_mul(half, 2), SIZE_MAX);
	EXPECT_EQ(size_mul(SIZE_MAX, 0), 0u);
	EXPECT_EQ(size_add(half, half - 1), SIZE_MAX);
	EXPECT_EQ(size_add(half, half), SIZE_MAX);
	EXPECT_EQ(size_add(SIZE_MAX, 1), SIZE_MAX);
	EXPECT_EQ(size_sub(7, 5), 2u);
	EXPECT_EQ(size_sub(5, 7), SIZE_MAX);
	EXPECT_EQ(size_sub(SIZE_MAX, 7), SIZE_MAX);
	EXPECT_EQ(array_size(-1, 2), SIZE_MAX) << "a negative count";
	EXPECT_EQ(array3_size(2, 3, 4), 24u);
	EXPECT_EQ(array3_size(half, 2, 4), SIZE_MAX);
	EXPECT_EQ(flex_array_size(p, data, 10), 40u);
	EXPECT_EQ(struct_size(p, data, 10), sizeof(long) + 40);
	EXPECT_EQ(struct_size_t(struct flex, data, 10), sizeof(long) + 40);
	EXPECT_EQ(struct_size(p, data, SIZE_MAX / 4), SIZE_MAX);
	EXPECT_EQ(struct_size(p, data, SIZE_MAX / 4 + 1), SIZE_MAX);
	EXPECT_FALSE(check_add_overflow(1, 2, &sum));
	EXPECT_EQ(sum, 3);
	EXPECT_TRUE(check_mul_overflow(1 << 20, 1 << 20, &sum));
	EXPECT_TRUE(check_sub_overflow(-2, INT32_MAX, &sum));
}

TEST(KmallocUtilTest, ProductsThatOverflowAreNull)
{
	void *p = kmalloc(100, GFP_KERNEL);
	gfp_t quiet = GFP_KERNEL | __GFP_NOWARN;

	for (auto [n, size] : { std::pair<size_t, size_t>{ SIZE_MAX, 2 },
				{ SIZE_MAX / 2 + 1, 2 },
				{ (1ul << 32) + 1, 1ul << 32 },
				{ 1, SIZE_MAX },
				{ 1, PTRDIFF_MAX } }) {
		n = opaque(n);
		size = opaque(size);
		EXPECT_EQ(kmalloc_array_node(n, size, quiet, 0), nullptr);
		EXPECT_EQ(kcalloc_node(n, size, quiet, 0), nullptr);
		EXPECT_EQ(krealloc_array(p, n, size, quiet), nullptr);
		EXPECT_EQ(kmemdup_array(p, n, size, quiet), nullptr);
		EXPECT_EQ(kvmalloc_array(n, size, quiet), nullptr);
		EXPECT_EQ(kvcalloc(n, size, quiet), nullptr);
	}
	EXPECT_EQ(kmemdup_nul("x", opaque(SIZE_MAX), quiet), nullptr);
	EXPECT_EQ(vmalloc(opaque(SIZE_MAX)), nullptr);
	EXPECT_EQ(__vmalloc(opaque(SIZE_MAX - 4095), quiet), nullptr);
	EXPECT_EQ(vmalloc_node(opaque(PTRDIFF_MAX), 0), nullptr);
	memset(p, 1, 100);
	EXPECT_TRUE(all_bytes(p, 1, 0, 100)) << "krealloc_array left it as it was";
	p = krealloc_array(p, 50, 10, GFP_KERNEL);
	EXPECT_TRUE(all_bytes(p, 1, 0, 100));
	EXPECT_GE(ksize(p), 500u);
	kfree(p);
}

TEST(KmallocUtilTest, RoundupIsWhatKsizeSays)
{
	EXPECT_EQ(kmalloc_size_roundup(0), 0u);
	EXPECT_EQ(kmalloc_size_roundup(SIZE_MAX), SIZE_MAX);
	for (size_t size = 1; size <= 70000; size += size < 20000 ? 1 : 487) {
		void *p = kmalloc(size, GFP_KERNEL);

		ASSERT_EQ(kmalloc_size_roundup(size), ksize(p)) << size;
		kfree(p);
	}
}

TEST(KmallocUtilTest, ZeroedMeansAllThatIsUsable)
{
	for (size_t size :
	     { 1, 9, 17, 100, 129, 1000, 1025, 5000, 9217, 16000, 17000, 70000 }) {
		leave_dirt(size);
		for (int i = 0; i < 20; i++) {
			void *p = i % 2 ? kzalloc(size, GFP_KERNEL)
					: kmalloc(size, GFP_KERNEL | __GFP_ZERO);

			EXPECT_TRUE(all_bytes(p, 0, 0, ksize(p))) << size;
			memset(p, 0xdb, ksize(p));
			kfree(p);
		}
	}
}

/*
 * Zeroed first and always resized with __GFP_ZERO: every byte beyond the smallest size
 * since it was last written reads as zero, whatever moves or stays in place.
 */
TEST(KmallocUtilTest, ReallocWithZeroGrowsByZerosWithinAClassToo)
{
	std::mt19937_64 random(test_seed());

	for (size_t size = 1; size < 60000; size += size / 3 + 1)
		leave_dirt(size);
	for (int round = 0; round < 60; round++) {
		size_t size = random() % 200 + 1;
		auto *p = static_cast<unsigned char *>(kzalloc(size, GFP_KERNEL));

		memset(p, 7, size);
		for (int i = 0; i < 100; i++) {
			/* A little up or down, mostly; far sometimes. */
			size_t limit = random() % 8 ? size + size / 3 + 8 : 50000;
			size_t next = random() % limit + 1, kept = std::min(size, next);

			p = static_cast<unsigned char *>(
				krealloc(p, next, GFP_KERNEL | __GFP_ZERO));
			ASSERT_NE(p, nullptr);
			ASSERT_TRUE(all_bytes(p, 7, 0, kept)) << size << " -> " << next;
			ASSERT_TRUE(all_bytes(p, 0, kept, next)) << size << " -> " << next;
			memset(p, 7, next);
			size = next;
		}
		kfree(p);
	}
}

TEST(KmallocUtilTest, ReallocWithoutZeroWritesNothingInPlace)
{
	auto *p = static_cast<unsigned char *>(kmalloc(opaque(120), GFP_KERNEL));

	memset(p, 5, 128);
	auto *q = static_cast<unsigned char *>(krealloc(p, 100, GFP_KERNEL));
	EXPECT_EQ(p, q);
	EXPECT_TRUE(all_bytes(q, 5, 0, 128));
	/* With it, what is behind the size is zero afterwards. */
	q = static_cast<unsigned char *>(krealloc(q, 110, GFP_KERNEL | __GFP_ZERO));
	EXPECT_TRUE(all_bytes(q, 5, 0, 110));
	EXPECT_TRUE(all_bytes(q, 0, 110, 128));
	kfree(q);
}

TEST(KmallocUtilTest, Copies)
{
	const char text[] = "allocator";
	char *p;

	p = kstrndup(text, 5, GFP_KERNEL);
	EXPECT_STREQ(p, "alloc");
	kfree(p);
	p = kstrndup(text, 100, GFP_KERNEL);
	EXPECT_STREQ(p, text);
	kfree(p);
	p = kstrndup(text, SIZE_MAX, GFP_KERNEL);
	EXPECT_STREQ(p, text);
	kfree(p);
	p = kmemdup_nul(text, 3, GFP_KERNEL);
	EXPECT_STREQ(p, "all");
	kfree(p);
	p = kmemdup_nul("", 0, GFP_KERNEL);
	EXPECT_STREQ(p, "");
	kfree(p);
	EXPECT_EQ(kstrndup(nullptr, 5, GFP_KERNEL), nullptr);
	EXPECT_EQ(kmemdup_nul(nullptr, 5, GFP_KERNEL), nullptr);
	p = kasprintf(GFP_KERNEL, "%s-%d", text, 128);
	EXPECT_STREQ(p, "allocator-128");
	kfree(p);
	p = kasprintf(GFP_KERNEL, "%1000d", 1);
	EXPECT_EQ(strlen(p), 1000u);
	kfree(p);
	int numbers[] = { 1, 2, 3 };
	auto *copy = static_cast<int *>(kmemdup_array(numbers, 3, sizeof(int), GFP_KERNEL));
	EXPECT_EQ(memcmp(copy, numbers, sizeof(numbers)), 0);
	kfree(copy);
	void *v = kvmemdup(numbers, sizeof(numbers), GFP_KERNEL);
	EXPECT_EQ(memcmp(v, numbers, sizeof(numbers)), 0);
	kvfree(v);
	const char *s = kstrdup_const(text, GFP_KERNEL);
	EXPECT_STREQ(s, text);
	EXPECT_NE(s, text);
	kfree_const(s);
	kfree_const("a literal");
	kfree_const(nullptr);
	kfree_const(ZERO_SIZE_PTR);
}

/* The memory stays mapped, so what was there can be looked at; a debug build may fill it. */
TEST(KmallocUtilTest, SensitiveMemoryIsOverwritten)
{
	if (TEST_ASAN)
		GTEST_SKIP() << "reads freed memory";
	for (size_t size : { 5, 100, 5000, 100000 }) {
		auto *p = static_cast<unsigned char *>(kmalloc(size, GFP_KERNEL));
		size_t usable = ksize(p);
		const volatile unsigned char *look = p;
		bool gone = true;

		memset(p, 0x5e, usable);
		kfree_sensitive(p);
		for (size_t i = 0; i < usable; i++)
			gone = gone && look[i] != 0x5e;
		EXPECT_TRUE(gone) << size;
	}
	kfree_sensitive(nullptr);
	kfree_sensitive(ZERO_SIZE_PTR);
	kvfree_sensitive(kvmalloc(100, GFP_KERNEL), 100);
}

TEST(KmallocUtilTest, BulkFreeOfAnything)
{
	struct ukmem_gauges before, after;
	struct kmem_cache *s = kmem_cache_create("bulk-anything", 72, 0, 0, nullptr);

	kfree(kmalloc(1, GFP_KERNEL));
	ukmem_gauges_read(&before);
	for (int round = 0; round < 50; round++) {
		void *p[64];

		for (size_t i = 0; i < 64; i++)
			p[i] = i % 4 == 0   ? kmem_cache_alloc(s, GFP_KERNEL)
			       : i % 4 == 1 ? kmalloc(100, GFP_KERNEL)
			       : i % 4 == 2 ? vmalloc(10000)
					    : nullptr;
		kfree_bulk(64, p);
	}
	kfree_bulk(0, nullptr);
	ukmem_gauges_read(&after);
	EXPECT_EQ(before.allocated, after.allocated);
	kmem_cache_destroy(s);
}

TEST(KmallocUtilTest, WholePages)
{
	size_t page = ukmem_page_size();

	EXPECT_EQ(vmalloc(0), nullptr);
	EXPECT_EQ(vzalloc(0), nullptr);
	for (size_t size : { 1ul, 8ul, page - 1, page, page + 1, 10 * page, 9000000ul }) {
		for (auto *alloc : { vmalloc, vzalloc, vmalloc_user }) {
			auto *p = static_cast<unsigned char *>(alloc(size));

			ASSERT_NE(p, nullptr);
			EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % page, 0u);
			EXPECT_EQ(ksize(p) % page, 0u);
			EXPECT_GE(ksize(p), size);
			EXPECT_LE(ksize(p), size + size / 8 + page);
			EXPECT_TRUE(is_vmalloc_addr(p));
			if (alloc != vmalloc) {
				EXPECT_TRUE(all_bytes(p, 0, 0, ksize(p))) << size;
			}
			memset(p, 0xff, ksize(p));
			vfree(p);
		}
		void *p = __vmalloc(size, GFP_KERNEL | __GFP_ZERO);
		EXPECT_TRUE(all_bytes(p, 0, 0, size));
		kvfree(p);
	}
	vfree(nullptr);
	void *p = kmalloc(64, GFP_KERNEL);
	EXPECT_FALSE(is_vmalloc_addr(p));
	kfree(p);
	EXPECT_FALSE(is_vmalloc_addr(&page));
	EXPECT_FALSE(is_vmalloc_addr(nullptr));
	/* Large kmalloc blocks are the same thing. */
	p = kmalloc(100000, GFP_KERNEL);
	EXPECT_TRUE(is_vmalloc_addr(p));
	vfree(p);
}

using KmallocUtilDeathTest = testing::Test;

TEST(KmallocUtilDeathTest, VfreeOfSomethingElseIsReported)
{
	static const char *const what = "not the start of a block of whole pages";
	void *p = kmalloc(64, GFP_KERNEL);
	char *q = static_cast<char *>(vmalloc(100000));

	EXPECT_DEATH(vfree(p), what);
	EXPECT_DEATH(vfree(q + ukmem_page_size()), what);
	EXPECT_DEATH(vfree(&p), what);
	EXPECT_DEATH((vfree(q), vfree(q)), what);
	kfree(p);
	vfree(q);
}

struct point {
	long x, y;
};

struct message {
	size_t len;
	short data[];
};

TEST(KmallocUtilTest, AllocationByType)
{
	struct point *p = kmalloc_obj(*p);
	struct message *m;

	static_assert(std::is_same_v<decltype(kmalloc_obj(*p)), struct point *>);
	static_assert(std::is_same_v<decltype(kzalloc_objs(struct point, 3)), struct point *>);
	static_assert(std::is_same_v<decltype(kmalloc_flex(*m, data, 3)), struct message *>);
	EXPECT_EQ(ksize(p), sizeof(*p));
	kfree(p);
	p = kzalloc_obj(struct point, GFP_KERNEL | __GFP_NOWARN);
	EXPECT_EQ(p->x, 0);
	kfree(p);
	p = kmalloc_objs(*p, 10);
	EXPECT_EQ(ksize(p), 10 * sizeof(*p));
	kfree(p);
	p = kvzalloc_objs(*p, 1000, GFP_KERNEL);
	EXPECT_TRUE(all_bytes(p, 0, 0, 1000 * sizeof(*p)));
	kvfree(p);
	EXPECT_EQ(static_cast<void *>(kmalloc_objs(*p, 0)), ZERO_SIZE_PTR);
	EXPECT_EQ(kmalloc_objs(*p, opaque(SIZE_MAX / 8), GFP_KERNEL | __GFP_NOWARN), nullptr);
	m = kmalloc_flex(*m, data, 100);
	EXPECT_EQ(ksize(m), kmalloc_size_roundup(sizeof(*m) + 200));
	kfree(m);
	m = kzalloc_flex(struct message, data, 500, GFP_KERNEL);
	EXPECT_TRUE(all_bytes(m, 0, 0, sizeof(*m) + 1000));
	kfree(m);
	EXPECT_EQ(kzalloc_flex(*m, data, opaque(SIZE_MAX / 2)), nullptr);
	EXPECT_EQ(kmalloc_flex(*m, data, opaque(SIZE_MAX), GFP_KERNEL | __GFP_NOWARN), nullptr);
	/* Arguments are evaluated once. */
	int calls = 0;
	p = kmalloc_objs(*p, static_cast<size_t>(++calls), GFP_KERNEL);
	EXPECT_EQ(calls, 1);
	kfree(p);
}

TEST(KmallocUtilTest, NodesThatDoNotExistAreNull)
{
	EXPECT_EQ(kmalloc_node(0, GFP_KERNEL, 0), ZERO_SIZE_PTR);
	for (size_t size : { 10, 1000, 100000 }) {
		EXPECT_EQ(kmalloc_node(size, GFP_KERNEL, 4711), nullptr);
		EXPECT_EQ(kzalloc_node(size, GFP_KERNEL, -2), nullptr);
		EXPECT_EQ(vmalloc_node(size, 4711), nullptr);
		void *p = kzalloc_node(size, GFP_KERNEL, NUMA_NO_NODE);
		EXPECT_TRUE(all_bytes(p, 0, 0, size));
		kfree(p);
		p = kcalloc_node(size, 3, GFP_KERNEL, numa_node_id());
		EXPECT_TRUE(all_bytes(p, 0, 0, size * 3));
		kfree(p);
		p = kmalloc_array_node(size, 3, GFP_KERNEL, NUMA_NO_NODE);
		EXPECT_GE(ksize(p), size * 3);
		kfree(p);
		p = vzalloc_node(size, numa_node_id());
		EXPECT_TRUE(all_bytes(p, 0, 0, size));
		vfree(p);
	}
}

TEST(KmallocUtilTest, MemoryComesFromTheNode)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "numa_fake:2", 1);
		for (size_t size : { 8, 100, 2000, 16384, 100000 }) {
			std::vector<void *> got;

			for (int i = 0; i < 300; i++) {
				int nid = i % 2;
				gfp_t flags = GFP_KERNEL | (i % 8 ? 0 : __GFP_THISNODE);
				void *p = i % 4 < 2 ? kmalloc_node(size, flags, nid)
						    : kcalloc_node(size, 1, flags, nid);

				ASSERT_NE(p, nullptr);
				ASSERT_EQ(page_to_nid(virt_to_page(p)), nid) << size;
				memset(p, 0xaa, size);
				got.push_back(p);
				/* Freed objects go back to their node's. */
				if (i % 3 == 0) {
					kfree(got.back());
					got.pop_back();
				}
			}
			kfree_bulk(got.size(), got.data());
		}
		void *p = vmalloc_node(100, 1);
		EXPECT_EQ(page_to_nid(virt_to_page(p)), 1);
		vfree(p);
	});
}

/* slab_debug:Z guards what was asked for, not the size class. */
TEST(KmallocUtilTest, OfANodeTheBytesAskedForAreGuarded)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "numa_fake:2,slab_debug:Z", 1);
		for (size_t size : { 1, 100, 2001 }) {
			void *p = kmalloc_node(size, GFP_KERNEL, 1),
			     *q = kzalloc_node(size, GFP_KERNEL, 1);

			EXPECT_EQ(ksize(p), size);
			EXPECT_EQ(ksize(q), size);
			EXPECT_TRUE(all_bytes(static_cast<char *>(q), 0, 0, size));
			kfree(p);
			kfree(q);
		}
	});
}

} // namespace
