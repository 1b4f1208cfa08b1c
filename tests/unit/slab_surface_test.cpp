/* SPDX-License-Identifier: MIT */
/* Sheaves, the forms of kmem_cache_create, finding caches, slabs that are kept. */
#include <errno.h>

#include "slab_create_forms.h"
#include "slab_util.h"

namespace
{

struct kmem_cache *make(const char *name, unsigned size, slab_flags_t flags = 0)
{
	return kmem_cache_create(name, size, 0, flags, nullptr);
}

TEST(SlabSheafTest, GivesWhatItWasFilledWith)
{
	struct kmem_cache *s = make("sheaf", 80);

	for (unsigned n : { 1u, 2u, 31u, 32u, 500u, 5000u }) {
		struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, n);
		std::set<void *> distinct;

		ASSERT_NE(sheaf, nullptr);
		ASSERT_EQ(kmem_cache_sheaf_size(sheaf), n);
		EXPECT_EQ(kmem_cache_nr_allocated(s), n) << "they count as allocated";
		for (unsigned i = n; i > 0; i--) {
			void *p = kmem_cache_alloc_from_sheaf(s, GFP_NOWAIT, sheaf);

			ASSERT_NE(p, nullptr);
			ASSERT_TRUE(distinct.insert(p).second);
			ASSERT_EQ(kmem_cache_sheaf_size(sheaf), i - 1);
			memset(p, 0x5a, 80);
		}
		EXPECT_EQ(kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf), nullptr);
		for (void *p : distinct)
			kmem_cache_free(s, p);
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
		EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	}
	EXPECT_EQ(kmem_cache_prefill_sheaf(s, GFP_KERNEL, 0), nullptr);
	struct slab_sheaf *empty = nullptr;
	EXPECT_EQ(kmem_cache_refill_sheaf(s, GFP_KERNEL, &empty, 0), 0) << "nothing to do";
	ASSERT_NE(empty, nullptr);
	EXPECT_EQ(kmem_cache_sheaf_size(empty), 0u);
	EXPECT_EQ(kmem_cache_refill_sheaf(s, GFP_KERNEL, &empty, 3), 0);
	EXPECT_EQ(kmem_cache_sheaf_size(empty), 3u);
	kmem_cache_return_sheaf(s, GFP_KERNEL, empty);
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

TEST(SlabSheafTest, Zeroes)
{
	struct kmem_cache *s = make("sheaf-zero", 300);
	static const char zeros[300] = {};
	struct slab_sheaf *sheaf;

	for (int round = 0; round < 3; round++) {
		sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 20);
		for (int i = 0; i < 20; i++) {
			void *p =
				kmem_cache_alloc_from_sheaf(s, GFP_NOWAIT | __GFP_ZERO, sheaf);

			ASSERT_EQ(memcmp(p, zeros, 300), 0);
			memset(p, 0xee, 300);
			kmem_cache_free(s, p);
		}
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	}
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

TEST(SlabSheafTest, RefillKeepsWhatIsThere)
{
	struct kmem_cache *s = make("sheaf-refill", 64), *other = make("sheaf-other", 64);
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 10), *before = sheaf;
	std::set<void *> taken;

	for (int i = 0; i < 4; i++)
		taken.insert(kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf));
	EXPECT_EQ(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 3), 0);
	EXPECT_EQ(kmem_cache_sheaf_size(sheaf), 6u) << "it has as many";
	EXPECT_EQ(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 9), 0);
	EXPECT_EQ(sheaf, before) << "there is room";
	EXPECT_EQ(kmem_cache_sheaf_size(sheaf), 9u);
	EXPECT_EQ(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 2000), 0);
	EXPECT_EQ(kmem_cache_sheaf_size(sheaf), 2000u);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 2004u);
	::testing::internal::CaptureStderr();
	EXPECT_EQ(kmem_cache_refill_sheaf(other, GFP_KERNEL, &sheaf, 1), -EINVAL);
	::testing::internal::GetCapturedStderr();
	for (int i = 0; i < 2000; i++)
		ASSERT_TRUE(
			taken.insert(kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf)).second);
	EXPECT_EQ(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 50), 0);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	for (void *p : taken)
		kmem_cache_free(s, p);
	expect_nothing_left(s);
	expect_nothing_left(other);
	kmem_cache_destroy(s);
	kmem_cache_destroy(other);
}

int refuse_mmap(void **, size_t, int, int)
{
	return -ENOMEM;
}

/* Memory runs out in the middle: as it was. Afterwards what it has does not fail. */
TEST(SlabSheafTest, IsAsItWasWithoutMemory)
{
	struct kmem_cache *s = make("sheaf-fail", 4096);
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 30), *before = sheaf;
	OsCallsGuard guard;

	ASSERT_NE(sheaf, nullptr);
	os_calls.mmap = refuse_mmap;
	EXPECT_EQ(kmem_cache_refill_sheaf(s, GFP_KERNEL | __GFP_NOWARN, &sheaf, 200000),
		  -ENOMEM);
	EXPECT_EQ(kmem_cache_prefill_sheaf(s, GFP_KERNEL | __GFP_NOWARN, 200000), nullptr);
	EXPECT_EQ(sheaf, before);
	EXPECT_EQ(kmem_cache_sheaf_size(sheaf), 30u);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 30u);
	std::set<void *> distinct;
	for (int i = 0; i < 30; i++)
		EXPECT_TRUE(distinct.insert(kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf))
				    .second);
	for (void *p : distinct)
		kmem_cache_free(s, p);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	kmem_cache_return_sheaf(s, GFP_KERNEL, nullptr);
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

void expect_aligned(struct kmem_cache *s, unsigned align)
{
	std::vector<void *> p = take_objects(s, 100);

	for (void *q : p)
		ASSERT_EQ(reinterpret_cast<uintptr_t>(q) % align, 0u);
	free_objects(s, p);
}

TEST(SlabCreateTest, BothFormsInC)
{
	struct kmem_cache *s[CREATE_FORMS];

	EXPECT_EQ(create_in_c(s), 3u);
	for (auto *c : s)
		ASSERT_NE(c, nullptr);
	expect_aligned(s[0], 256);
	expect_aligned(s[1], 128);
	expect_aligned(s[2], 128);
	EXPECT_EQ(geometry_of(s[3]).align, 16u);
	EXPECT_EQ(geometry_of(s[4]).align, 16u);
	EXPECT_EQ(geometry_of(s[8]).align, 16u);
	EXPECT_STREQ(shim_slab_name(s[5]), "thing");
	EXPECT_EQ(kmem_cache_size(s[5]), 64u);
	expect_aligned(s[5], 64);
	EXPECT_EQ(geometry_of(s[6]).align, 32u);
	EXPECT_EQ(kmem_cache_size(s[6]), 24u);
	for (int i : { 1, 2, 7 })
		EXPECT_EQ(geometry_of(s[i]).capacity_max, 7u);
	for (int i : { 0, 1, 2, 7 }) {
		auto *p = static_cast<char *>(kmem_cache_alloc(s[i], GFP_KERNEL));

		EXPECT_EQ(*p, 1) << "constructed";
		kmem_cache_free(s[i], p);
	}
	for (auto *c : s)
		kmem_cache_destroy(c);
}

void construct_two(void *p)
{
	*static_cast<char *>(p) = 2;
}

TEST(SlabCreateTest, BothFormsInCxx)
{
	struct kmem_cache_args args = {};
	const struct kmem_cache_args *none = nullptr;

	args.align = 512;
	args.ctor = construct_two;
	args.useroffset = 8;
	args.usersize = 16;
	args.use_freeptr_offset = true;
	struct kmem_cache *a = kmem_cache_create("cxx-args", 100, &args, SLAB_NO_MERGE);
	struct kmem_cache *b = kmem_cache_create("cxx-none", 100, none, SLAB_ACCOUNT);
	struct kmem_cache *c = kmem_cache_create("cxx-five", 100, 32, 0, construct_two);

	ASSERT_TRUE(a && b && c);
	expect_aligned(a, 512);
	EXPECT_EQ(geometry_of(b).align, 16u);
	EXPECT_EQ(geometry_of(c).align, 32u);
	auto *p = static_cast<char *>(kmem_cache_alloc(a, GFP_KERNEL));
	EXPECT_EQ(*p, 2);
	kmem_cache_free(a, p);
	::testing::internal::CaptureStderr();
	args.align = 24;
	EXPECT_EQ(kmem_cache_create("cxx-bad", 100, &args, 0), nullptr);
	EXPECT_EQ(kmem_cache_create("cxx-bad", 16385, none, 0), nullptr);
	EXPECT_EQ(kmem_cache_create("cxx-bad", 0, none, 0), nullptr);
	EXPECT_EQ(kmem_cache_create("cxx-bad", 8, none, 0x80u), nullptr);
	::testing::internal::GetCapturedStderr();
	for (auto *s : { a, b, c })
		kmem_cache_destroy(s);
}

/* A bound of one object per array is the least there is: everything goes through slabs. */
TEST(SlabCreateTest, ArraysOfOneObject)
{
	struct kmem_cache_args args = {};

	args.sheaf_capacity = 1;
	struct kmem_cache *s = kmem_cache_create("one", 8, &args, 0);
	std::set<void *> distinct;
	std::vector<void *> p = take_objects(s, 5000);

	distinct.insert(p.begin(), p.end());
	EXPECT_EQ(distinct.size(), p.size());
	EXPECT_LE(slab_counts_of(s).cached, allowed_cpus().size());
	free_objects(s, p);
	EXPECT_LE(slab_counts_of(s).cached, allowed_cpus().size());
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

TEST(SlabFindTest, ByName)
{
	std::string longer(50, 'l');
	struct kmem_cache *a = make("find-a", 8), *b = make("find-b", 8),
			  *c = make(longer.c_str(), 8), *again = make("find-b", 16);

	EXPECT_EQ(kmem_cache_find("find-a"), a);
	EXPECT_EQ(kmem_cache_find("find-b"), b) << "the older one";
	EXPECT_EQ(kmem_cache_find(longer.c_str()), c);
	EXPECT_EQ(kmem_cache_find("find-"), nullptr);
	EXPECT_EQ(kmem_cache_find(""), nullptr);
	kmem_cache_destroy(b);
	EXPECT_EQ(kmem_cache_find("find-b"), again);
	for (auto *s : { a, c, again })
		kmem_cache_destroy(s);
	EXPECT_EQ(kmem_cache_find("find-a"), nullptr);
	EXPECT_EQ(kmem_cache_find("find-b"), nullptr);
}

/* Memory of objects that were freed stays memory of objects of the cache. */
TEST(SlabTypesafeTest, SlabsAreKept)
{
	struct kmem_cache *s = make("typesafe", 256, SLAB_TYPESAFE_BY_RCU);
	std::vector<void *> p = take_objects(s, 5000), past = p;
	uint64_t slabs = slab_counts_of(s).slabs;

	free_objects(s, p);
	EXPECT_EQ(slab_counts_of(s).slabs, slabs);
	kmem_cache_shrink(s);
	ukmem_trim();
	EXPECT_EQ(slab_counts_of(s).slabs, slabs);
	for (void *q : past) {
		ASSERT_EQ(shim_slab_cache_of(q), s);
		*static_cast<volatile char *>(q) = 1; /* a reader that came too late */
	}
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	/* They are used again before new ones are made. */
	p = take_objects(s, 5000);
	EXPECT_LE(slab_counts_of(s).slabs, slabs + 10) << "the arrays' refills go further";
	free_objects(s, p);
	kmem_cache_destroy(s);
	for (void *q : past)
		ASSERT_EQ(shim_slab_cache_of(q), nullptr) << "destroyed, they go";
}

/*
 * One object of each of many full slabs is freed, and then the others: the slabs that CPUs
 * keep are bounded although none of them was empty when it came.
 */
TEST(SlabPartialTest, CpuListsAreBounded)
{
	struct kmem_cache_args args = {};
	args.sheaf_capacity = 4;
	struct kmem_cache *s = kmem_cache_create("bounded", 512, &args, 0);
	unsigned per_slab = geometry_of(s).objects;
	std::vector<void *> p(per_slab * 2000);
	size_t cpus = allowed_cpus().size(), most = shim_cpu_partial_slabs(s) * cpus;

	ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, p.size(), p.data()),
		  static_cast<int>(p.size()));
	for (unsigned i = 0; i < per_slab; i++) {
		for (size_t k = i; k < p.size(); k += per_slab)
			kmem_cache_free(s, p[k]);
		ASSERT_LE(slab_counts_of(s).cpu_partial, most);
	}
	/* Beyond those: min_partial, and what the arrays hold. */
	EXPECT_LE(slab_counts_of(s).slabs, most + 5 + 4 * cpus + 32);
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

} // namespace
