/* SPDX-License-Identifier: MIT */
/* Which allocations KFENCE serves, and that such objects are like any others. */
#include <cstring>
#include <vector>

#include <gmock/gmock.h>

#include "kfence_util.h"
#include "slab_shim.h"

namespace
{

using ::testing::HasSubstr;

class KfenceServesTest : public KfenceTest
{
};

TEST_F(KfenceServesTest, TheFamilyOfKmalloc)
{
	char *p = guarded(100, true);

	EXPECT_EQ(ksize(p), 100u);
	memset(p, 'a', 100);
	EXPECT_EQ(krealloc(p, 90, GFP_KERNEL), p);
	char *q = static_cast<char *>(krealloc(p, 5000, GFP_KERNEL | __GFP_ZERO));

	ASSERT_NE(q, nullptr);
	EXPECT_EQ(q[99], 'a');
	EXPECT_EQ(q[100], 0);
	EXPECT_EQ(shim_kfence_state(shim_kfence_index(p)), FREED);
	kfree(q);

	shim_kfence_open();
	const char *s = kstrdup_const("text", GFP_KERNEL);

	kfree_const(s);
	p = guarded(8, false);
	kfree_sensitive(p);
	EXPECT_EQ(shim_kfence_state(shim_kfence_index(p)), FREED);

	for (size_t size = 1; size <= PAGE; size += size < 200 ? 1 : 97) {
		shim_kfence_open();
		p = static_cast<char *>(shim_kmalloc_slow(size, GFP_KERNEL | __GFP_ZERO));
		ASSERT_TRUE(shim_kfence_has(p)) << size;
		size_t align = size < 16 ? 8 : 16;

		EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u) << size;
		EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % (size & -size), 0u) << size;
		for (size_t i = 0; i < size; i++)
			ASSERT_EQ(p[i], 0);
		memset(p, 'x', size);
		EXPECT_EQ(says([&] { kfree(p); }), "") << size;
	}
	shim_kfence_open();
	p = static_cast<char *>(kmalloc((1 << 20) + 1, GFP_KERNEL));
	EXPECT_FALSE(shim_kfence_has(p));
	kfree(p);
	p = static_cast<char *>(shim_kmalloc_slow(64, GFP_NOWAIT));
	EXPECT_FALSE(shim_kfence_has(p)) << "it may not enter the kernel";
	kfree(p);
	EXPECT_TRUE(shim_kfence_is_open());
}

TEST_F(KfenceServesTest, Bulk)
{
	void *p[6];

	for (int i = 0; i < 6; i++)
		p[i] = i % 2 ? kmalloc(64, GFP_KERNEL) : guarded(64, i % 4);
	unsigned int index = shim_kfence_index(p[4]);

	EXPECT_EQ(says([&] { kfree_bulk(6, p); }), "");
	EXPECT_EQ(shim_kfence_state(index), FREED);
}

void construct(void *p)
{
	memset(p, 'c', 40);
}

struct kmem_cache *make(const char *name, unsigned int size, unsigned int align,
			slab_flags_t flags, void (*ctor)(void *) = nullptr)
{
	return kmem_cache_create(name, size, align, flags, ctor);
}

/* Allocates until an object comes from the pool; NULL: none of many did. */
char *from_cache(struct kmem_cache *s)
{
	std::vector<void *> others;
	char *found = nullptr;

	for (int i = 0; i < 20000 && !found; i++) {
		shim_kfence_open();
		void *p = kmem_cache_alloc(s, GFP_KERNEL);

		if (shim_kfence_has(p))
			found = static_cast<char *>(p);
		else
			others.push_back(p);
	}
	for (void *p : others)
		kmem_cache_free(s, p);
	return found;
}

TEST_F(KfenceServesTest, Caches)
{
	struct kmem_cache *s = make("guarded", 40, 64, 0, construct);
	struct kmem_cache *other = make("other", 40, 0, 0);

	for (int i = 0; i < 4; i++) {
		char *p = from_cache(s);

		ASSERT_NE(p, nullptr);
		EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
		EXPECT_EQ(std::string(p, 40), std::string(40, 'c'));
		EXPECT_EQ(kmem_cache_nr_allocated(s), 1u);
		std::string text = says([&] { kmem_cache_free(other, p); });

		EXPECT_THAT(text, HasSubstr("KFENCE: invalid free"));
		EXPECT_THAT(text, HasSubstr("kmem_cache_free() of"));
		EXPECT_THAT(text, HasSubstr("size=40, cache=guarded"));
		text = says([&] { kmem_cache_destroy(s); });
		EXPECT_THAT(text, HasSubstr("1 objects still in use, cache kept"));
		EXPECT_THAT(text, HasSubstr(number(p) + ": "));
		memset(p, 'x', 40);
		EXPECT_EQ(says([&] { kmem_cache_free(s, p); }), "");
		EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	}
	shim_counts c;

	shim_slab_count(s, &c);
	EXPECT_EQ(c.allocs, c.frees);
	EXPECT_EQ(says([&] {
			  kmem_cache_destroy(s);
			  kmem_cache_destroy(other);
		  }),
		  "");
}

/* The next object of a slot begins with the bytes that the last free left there. */
TEST_F(KfenceServesTest, FreedObjectsAreZeroedWhereTheirCacheAsksForIt)
{
	struct kmem_cache *zeroed = make("zeroed", 64, 0, SLAB_INIT_ON_FREE);
	struct kmem_cache *plain = make("plain", 64, 0, 0);

	for (struct kmem_cache *s : { zeroed, plain }) {
		char *p = from_cache(s);
		std::string left;

		ASSERT_NE(p, nullptr);
		memset(p, 'S', 64);
		kmem_cache_free(s, p);
		EXPECT_THAT(says([&] { left.assign(p, 64); }), HasSubstr("use-after-free"));
		EXPECT_EQ(left, std::string(64, s == zeroed ? '\0' : 'S'));
		kmem_cache_destroy(s);
	}
}

/* A report about an object whose cache is gone. */
TEST_F(KfenceServesTest, NamesOutliveCaches)
{
	struct kmem_cache *s = make("shortlived", 64, 0, 0);
	char *p = from_cache(s);

	ASSERT_NE(p, nullptr);
	kmem_cache_free(s, p);
	kmem_cache_destroy(s);
	EXPECT_THAT(says([&] { *p = 1; }), HasSubstr("cache=shortlived"));
}

TEST_F(KfenceServesTest, SomeCachesAreNot)
{
	struct kmem_cache *rcu = make("rcu", 64, 0, SLAB_TYPESAFE_BY_RCU);
	struct kmem_cache *debugged = make("debugged", 64, 0, SLAB_RED_ZONE);
	struct kmem_cache *limited = make("limited", 64, 0, 0);

	ASSERT_EQ(kmem_cache_attr_store(limited, "limit", "1000000"), 0);
	for (struct kmem_cache *s : { rcu, debugged, limited }) {
		EXPECT_EQ(from_cache(s), nullptr);
		kmem_cache_destroy(s);
	}
}

/* A program that looks at the pages of its objects gets none without. */
TEST_F(KfenceServesTest, VirtToPageEndsIt)
{
	in_child([] {
		void *p = kmalloc(64, GFP_KERNEL);

		/* The gate may be open now; the next object is none of the pool. */
		if (shim_kfence_has(p))
			p = kmalloc(64, GFP_KERNEL);

		bool has = virt_to_page(p);

		kfree(p);
		shim_kfence_look(UINT64_MAX - 1);
		if (!has || shim_kfence_is_open())
			return 1;
		/* A thread that had found it time opens the gate after that. */
		shim_kfence_open_late();
		p = shim_kmalloc_slow(64, GFP_KERNEL);
		return shim_kfence_has(p) ? 2 : 0;
	});
}

/* Not even when a cache is made while the gate is open. */
TEST_F(KfenceServesTest, TheLibrarysOwnObjectsAreNot)
{
	std::vector<struct kmem_cache *> caches;
	unsigned int in_use = 0;

	kfree(guarded(64, true));
	for (int i = 0; i < 50; i++) {
		shim_kfence_open();
		caches.push_back(make("many", 64, 0, 0));
	}
	for (unsigned int i = 0; i < OBJECTS; i++)
		in_use += shim_kfence_state(i) == IN_USE;
	EXPECT_EQ(in_use, 0u);
	for (struct kmem_cache *s : caches)
		kmem_cache_destroy(s);
}

TEST_F(KfenceServesTest, SmallAddressSpacesHaveNoPool)
{
	if (shim_kfence_pool_bytes())
		GTEST_SKIP() << "another test has made the pool";
	in_child([] {
		config.address_space = ADDRESS_SPACE_SMALL;
		shim_kfence_open();
		kfree(shim_kmalloc_slow(64, GFP_KERNEL));
		return shim_kfence_pool_bytes() ? 1 : 0;
	});
}

} // namespace
