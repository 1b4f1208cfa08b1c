/* SPDX-License-Identifier: MIT */
/* The tunables of slabs' sizes, and slabs that are smaller for want of pages. */
#include <errno.h>

#include <algorithm>

#include "page_shim.h"
#include "slab_util.h"

namespace
{

template <typename F> void for_sizes(F f)
{
	for (unsigned size : { 8u, 24u, 64u, 200u, 256u, 1000u, 1024u, 3000u, 4096u, 5000u,
			       8192u, 10000u, 16384u }) {
		struct kmem_cache *s = kmem_cache_create("order", size, 0, 0, nullptr);

		SCOPED_TRACE(testing::Message() << "size " << size);
		f(s, geometry_of(s));
		/* It works whatever its slabs are like. */
		std::vector<void *> p = take_objects(s, 200);
		std::set<void *> distinct(p.begin(), p.end());
		EXPECT_EQ(distinct.size(), 200u);
		for (void *q : p)
			memset(q, 1, size);
		free_objects(s, p);
		expect_nothing_left(s);
		kmem_cache_destroy(s);
	}
}

/* Pages that one object needs at least. */
unsigned fewest(unsigned size)
{
	unsigned pages =
		static_cast<unsigned>((size + ukmem_page_size() - 1) / ukmem_page_size());

	return size & (size - 1) ? pages : std::max(pages, 1u);
}

TEST(SlabOrderTest, MaxOrder)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure_slabs("slab_max_order:0");
		for_sizes([](struct kmem_cache *, const shim_geometry &g) {
			EXPECT_EQ(g.npages, fewest(g.size));
		});
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure_slabs("slab_max_order:2");
		for_sizes([](struct kmem_cache *, const shim_geometry &g) {
			EXPECT_LE(g.npages, std::max(4u, fewest(g.size)));
		});
	});
}

TEST(SlabOrderTest, MinOrder)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure_slabs("slab_min_order:3");
		for_sizes([](struct kmem_cache *, const shim_geometry &g) {
			EXPECT_GE(g.npages, 8u);
		});
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure_slabs("slab_min_order:5,slab_max_order:1");
		for_sizes([](struct kmem_cache *, const shim_geometry &g) {
			EXPECT_LE(g.npages, std::max(2u, fewest(g.size))) << "max decides";
		});
	});
}

TEST(SlabOrderTest, MinObjects)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure_slabs("slab_min_objects:100");
		for_sizes([](struct kmem_cache *, const shim_geometry &g) {
			if (g.size * 100 < 100000)
				EXPECT_GE(g.objects, 100u);
			else
				EXPECT_GE(g.npages * ukmem_page_size(), 65536u);
		});
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure_slabs("slab_min_objects:1");
		for_sizes([](struct kmem_cache *, const shim_geometry &g) {
			EXPECT_GE(g.objects, 1u);
		});
	});
}

int refuse_mmap(void **, size_t, int, int)
{
	return -ENOMEM;
}

/* No two free pages lie side by side. */
std::vector<struct page *> take_every_other_page()
{
	std::vector<struct page *> all, kept;

	while (struct page *page = alloc_page(GFP_KERNEL | __GFP_NOWARN))
		all.push_back(page);
	std::sort(all.begin(), all.end());
	for (size_t i = 0; i < all.size(); i++)
		if (i % 2)
			kept.push_back(all[i]);
		else
			__free_page(all[i]);
	os_calls.mmap = refuse_mmap; /* nor are there any that were never used */
	return kept;
}

/* No two free pages lie side by side: slabs are cut as small as can be, and both kinds mix. */
void short_of_runs()
{
	configure_slabs("limit:16m,slab_min_order:3,pagesets:0,thp:never");
	struct kmem_cache *s = kmem_cache_create("small", 200, 0, 0, nullptr);
	std::vector<void *> usual = take_objects(s, 500), p;
	std::vector<struct page *> pages, runs;
	struct page *page;

	ASSERT_GE(geometry_of(s).npages, 8u);
	EXPECT_EQ(shim_slab_event(s, SHIM_ORDER_FALLBACK), 0u);
	pages = take_every_other_page();
	while ((page = alloc_pages(GFP_KERNEL | __GFP_NOWARN, 3)))
		runs.push_back(page);
	while (p.size() < 3000) {
		void *q = kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOWARN);

		if (!q)
			break;
		memset(q, 2, 200);
		p.push_back(q);
	}
	os_calls.mmap = os_calls_linux.mmap;
	EXPECT_EQ(p.size(), 3000u);
	EXPECT_GT(shim_slab_event(s, SHIM_ORDER_FALLBACK), 50u);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	std::set<void *> distinct(p.begin(), p.end());
	distinct.insert(usual.begin(), usual.end());
	EXPECT_EQ(distinct.size(), p.size() + usual.size());
	/* They take objects back as the others do, and leave when they are empty. */
	for (size_t i = 0; i < p.size(); i += 2)
		kmem_cache_free(s, p[i]);
	std::vector<void *> more = take_objects(s, 1000);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	for (size_t i = 1; i < p.size(); i += 2)
		kmem_cache_free(s, p[i]);
	kmem_cache_free_bulk(s, more.size(), more.data());
	free_objects(s, usual);
	for (auto *one : pages)
		__free_page(one);
	for (auto *run : runs)
		__free_pages(run, 3);
	uint64_t small = shim_slab_event(s, SHIM_ORDER_FALLBACK);
	kmem_cache_shrink(s);
	/* Merged pages all count as dirty, which can be more than the limit allows. A round
	 * without reclaim then fails for runs; a decay that is due just then lets single pages
	 * through. */
	shim_trim(true);
	usual = take_objects(s, 2000);
	EXPECT_EQ(shim_slab_event(s, SHIM_ORDER_FALLBACK), small) << "there are runs again";
	free_objects(s, usual);
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

/* Slabs of both layouts, one of which ksize() finds by address alone. */
void usable_in_small_slabs()
{
	configure_slabs("limit:16m,slab_min_order:3,pagesets:0,thp:never");
	ASSERT_TRUE(shim_kmalloc_init());
	std::vector<struct page *> pages = take_every_other_page();
	std::vector<char *> p;
	size_t small = 0;

	for (size_t size : { 8u, 200u, 1000u }) {
		for (int i = 0; i < 3000; i++) {
			auto *q = static_cast<char *>(kmalloc(size, GFP_KERNEL | __GFP_NOWARN));

			if (!q)
				break;
			small += !shim_class_usable(q);
			EXPECT_EQ(ksize(q), kmalloc_size_roundup(size));
			EXPECT_EQ(shim_class_usable(q + 1), 0u);
			p.push_back(q);
		}
	}
	os_calls.mmap = os_calls_linux.mmap;
	EXPECT_GT(small, 100u);
	for (auto *q : p)
		kfree(q);
	for (auto *page : pages)
		__free_page(page);
}

TEST(SlabOrderTest, UsableSizeInSmallSlabs)
{
	EXPECT_FRESH_PROCESS_PASSES(usable_in_small_slabs);
}

TEST(SlabOrderTest, SmallerWhereRunsAreShort)
{
	EXPECT_FRESH_PROCESS_PASSES(short_of_runs);
}

} // namespace
