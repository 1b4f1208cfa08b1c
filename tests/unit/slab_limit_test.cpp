/* SPDX-License-Identifier: MIT */
/* Hard limits of caches, what they keep in stock, and what of other nodes they may take. */
#include <cerrno>
#include <climits>

#include "fake_os.h"
#include "lock_shim.h"
#include "slab_util.h"

namespace
{

uint64_t pretend_ms = 1000;

std::vector<void *> take_all(struct kmem_cache *s, gfp_t flags, size_t most = 100000)
{
	std::vector<void *> p;

	while (p.size() < most) {
		void *obj = kmem_cache_alloc(s, flags);

		if (!obj)
			break;
		p.push_back(obj);
	}
	EXPECT_EQ(std::set<void *>(p.begin(), p.end()).size(), p.size());
	return p;
}

std::string attr(struct kmem_cache *s, const char *name)
{
	char buf[64] = "";

	EXPECT_GT(kmem_cache_attr_show(s, name, buf, sizeof(buf)), 0) << name;
	return buf;
}

void finish(struct kmem_cache *s, std::vector<void *> &p)
{
	free_objects(s, p);
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

TEST(SlabLimitTest, NoMoreObjectsThanThat)
{
	for (unsigned size : { 8u, 64u, 1000u, 16384u }) {
		struct kmem_cache *s = kmem_cache_create("limited", size, 0, 0, nullptr);
		unsigned per_slab = geometry_of(s).objects;

		EXPECT_EQ(kmem_cache_limit(s), 0u);
		EXPECT_EQ(kmem_cache_set_limit(s, 3 * per_slab - 1, 60), 0);
		EXPECT_EQ(kmem_cache_limit(s), 3 * per_slab) << "whole slabs";
		auto p = take_all(s, GFP_KERNEL | __GFP_NOWARN);
		EXPECT_EQ(p.size(), 3 * per_slab) << size;
		EXPECT_EQ(slab_counts_of(s).slabs, 3u);
		void *bulk[4];
		EXPECT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL | __GFP_NOWARN, 4, bulk), 0);
		kmem_cache_free(s, p.back());
		p.back() = kmem_cache_alloc(s, GFP_KERNEL);
		EXPECT_NE(p.back(), nullptr) << "what is freed is there again";
		p.push_back(kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOFAIL));
		EXPECT_NE(p.back(), nullptr) << "never NULL";
		/* Less than there is: nothing happens to it, and nothing more is made. */
		kmem_cache_set_limit(s, 1, 60);
		free_objects(s, p);
		kmem_cache_shrink(s);
		p = take_all(s, GFP_KERNEL | __GFP_NOWARN);
		EXPECT_EQ(p.size(), per_slab);
		kmem_cache_set_limit(s, 0, 60);
		p.push_back(kmem_cache_alloc(s, GFP_KERNEL));
		EXPECT_NE(p.back(), nullptr);
		finish(s, p);
	}
}

TEST(SlabLimitTest, ThatIsTooLargeToCount)
{
	struct kmem_cache *s = kmem_cache_create("huge", 64, 0, 0, nullptr);

	for (unsigned long limit : { ULONG_MAX, ULONG_MAX - 1 }) {
		kmem_cache_set_limit(s, limit, 60);
		EXPECT_EQ(kmem_cache_limit(s), ULONG_MAX) << "0 is no limit";
		EXPECT_EQ(attr(s, "limit"), std::to_string(ULONG_MAX) + "\n");
	}
	kmem_cache_destroy(s);
}

TEST(SlabLimitTest, ThreadsTogetherHaveNoMore)
{
	struct kmem_cache *s = kmem_cache_create("shared", 256, 0, 0, nullptr);
	std::vector<void *> p[4], all;

	kmem_cache_set_limit(s, 4000, 60);
	{
		Threads threads(4, [&](unsigned i) {
			for (int k = 0; k < 2000; k++)
				if (void *obj = kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOWARN))
					p[i].push_back(obj);
		});
	}
	for (auto &objects : p)
		all.insert(all.end(), objects.begin(), objects.end());
	EXPECT_EQ(all.size(), kmem_cache_limit(s)) << "no object is left in any array";
	finish(s, all);
}

TEST(SlabLimitTest, OneLineNowAndThen)
{
	OsCallsGuard guard;
	struct kmem_cache *s = kmem_cache_create("limited", 512, 0, 0, nullptr);
	auto said = [&](gfp_t flags) {
		::testing::internal::CaptureStderr();
		for (int i = 0; i < 10; i++)
			EXPECT_EQ(kmem_cache_alloc(s, flags), nullptr);
		return ::testing::internal::GetCapturedStderr();
	};

	os_calls.now_ms = [] { return pretend_ms; };
	kmem_cache_set_limit(s, 1, 5);
	auto p = take_all(s, GFP_KERNEL | __GFP_NOWARN);
	const std::string line =
		"ukmem: kmem_cache_alloc(limited): the cache is at its limit of " +
		std::to_string(p.size()) + " objects\n";
	EXPECT_EQ(said(GFP_NOWAIT), "");
	EXPECT_EQ(said(GFP_KERNEL), line);
	pretend_ms += 4999;
	EXPECT_EQ(said(GFP_KERNEL), "");
	pretend_ms++;
	EXPECT_EQ(said(GFP_KERNEL), line);
	kmem_cache_set_limit(s, 1, 5);
	EXPECT_EQ(said(GFP_KERNEL), line) << "a limit that is set anew";
	finish(s, p);
}

/* Free objects of another CPU's array are found before there is none. */
/* The cache's own, when it is debugged, and the twin's, when it is not. */
TEST(SlabLimitTest, EmptySlabsMakeRoom)
{
	struct kmem_cache *s = kmem_cache_create("limited", 256, 0, 0, nullptr);
	const gfp_t flags = GFP_KERNEL | __GFP_NOWARN;

	kmem_cache_set_limit(s, 48, 60);
	for (slab_flags_t debug : { 0u, SLAB_POISON, 0u }) {
		ASSERT_EQ(kmem_cache_debug(s, debug), 0);
		auto p = take_all(s, flags);
		EXPECT_GT(p.size(), 10u) << debug;
		EXPECT_LE(slab_counts_of(s).slabs, 48 / geometry_of(s).objects);
		free_objects(s, p);
	}
	ASSERT_EQ(kmem_cache_debug(s, SLAB_POISON), 0);
	void *bulk[4];
	ASSERT_EQ(kmem_cache_alloc_bulk(s, flags, 4, bulk), 4);
	kmem_cache_free_bulk(s, 4, bulk);
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

TEST(SlabLimitTest, WhatOtherCpusKeepIsTaken)
{
	if (allowed_cpus().size() < 2)
		GTEST_SKIP() << "one CPU";
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:cpu_id", 1);
		struct kmem_cache *s = kmem_cache_create("others", 256, 0, 0, nullptr);
		auto cpus = allowed_cpus();

		kmem_cache_set_limit(s, 1, 60);
		run_on(cpus[0]);
		auto p = take_all(s, GFP_KERNEL | __GFP_NOWARN);
		size_t all = p.size();
		free_objects(s, p);
		run_on(cpus[1]);
		p = take_all(s, GFP_NOWAIT);
		EXPECT_LT(p.size(), all) << "these cannot ask";
		free_objects(s, p);
		p = take_all(s, GFP_KERNEL | __GFP_NOWARN);
		EXPECT_EQ(p.size(), all);
		finish(s, p);
	});
}

/* Pages for those who may not block, until there are none. */
std::vector<std::pair<struct page *, unsigned>> exhaust_pages()
{
	std::vector<std::pair<struct page *, unsigned>> pages;

	for (unsigned order = 6; order-- > 0;)
		while (struct page *page = alloc_pages(GFP_ATOMIC, order))
			pages.emplace_back(page, order);
	return pages;
}

void stock_is_for_the_worst()
{
	struct kmem_cache *s = kmem_cache_create("stocked", 300, 0, 0, nullptr);
	struct kmem_cache *other = kmem_cache_create("other", 300, 0, 0, nullptr);

	EXPECT_EQ(kmem_cache_stock(s), 0u);
	EXPECT_EQ(kmem_cache_set_stock(s, 500), 0);
	size_t stock = kmem_cache_stock(s);
	EXPECT_GE(stock, 500u);
	EXPECT_LT(stock, 500u + geometry_of(s).objects);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	/* Nothing gives it back. */
	ukmem_trim();
	EXPECT_EQ(kmem_cache_shrink(s), 0);
	EXPECT_EQ(kmem_cache_stock(s), stock);
	EXPECT_EQ(slab_counts_of(s).objects, stock);
	auto pages = exhaust_pages();
	EXPECT_EQ(take_all(other, GFP_ATOMIC).size(), 0u);
	auto p = take_all(s, GFP_ATOMIC);
	EXPECT_EQ(p.size(), stock);
	EXPECT_EQ(kmem_cache_stock(s), 0u);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	/* A request that may wait fills the stock up. */
	p.push_back(kmem_cache_alloc(s, GFP_KERNEL));
	EXPECT_NE(p.back(), nullptr);
	EXPECT_EQ(kmem_cache_stock(s), stock);
	for (auto &[page, order] : pages)
		__free_pages(page, order);
	free_objects(s, p);
	EXPECT_EQ(kmem_cache_stock(s), stock);
	EXPECT_EQ(kmem_cache_set_stock(s, 1), 0);
	EXPECT_EQ(kmem_cache_stock(s), geometry_of(s).objects);
	EXPECT_EQ(kmem_cache_shrink(s), 0);
	EXPECT_EQ(slab_counts_of(s).slabs, 1u);
	kmem_cache_destroy(s);
	kmem_cache_destroy(other);
}

TEST(SlabStockTest, ForWhoFindsNothingElse)
{
	EXPECT_FRESH_PROCESS_PASSES(stock_is_for_the_worst);
}

TEST(SlabStockTest, StaysWhereACacheIsNotDestroyed)
{
	struct kmem_cache *s = kmem_cache_create("kept", 100, 0, 0, nullptr);
	void *obj = kmem_cache_alloc(s, GFP_KERNEL);
	unsigned long stock;

	EXPECT_EQ(kmem_cache_set_stock(s, 500), 0);
	stock = kmem_cache_stock(s);
	::testing::internal::CaptureStderr();
	kmem_cache_destroy(s);
	EXPECT_NE(::testing::internal::GetCapturedStderr().find("cache kept"),
		  std::string::npos);
	EXPECT_EQ(kmem_cache_stock(s), stock);
	kmem_cache_free(s, obj);
	kmem_cache_destroy(s);
}

TEST(SlabStockTest, WithinTheLimit)
{
	struct kmem_cache *s = kmem_cache_create("both", 300, 0, 0, nullptr);
	unsigned per_slab = geometry_of(s).objects;

	kmem_cache_set_limit(s, 4 * per_slab, 60);
	EXPECT_EQ(kmem_cache_set_stock(s, 6 * per_slab), -ENOMEM);
	EXPECT_EQ(kmem_cache_stock(s), 4 * per_slab);
	auto p = take_all(s, GFP_KERNEL | __GFP_NOWARN);
	EXPECT_EQ(p.size(), 4 * per_slab) << "no more can be made: these";
	EXPECT_EQ(kmem_cache_set_stock(s, 2048ul * per_slab), -EINVAL);
	kmem_cache_set_stock(s, 0);
	finish(s, p);
}

/* Where there are pages for a smaller slab alone. */
void stock_is_of_usual_slabs()
{
	setenv("UKMEM_CONF", "limit:8m", 1);
	struct kmem_cache *s = kmem_cache_create("fallback", 3000, 0, 0, nullptr);
	std::vector<struct page *> pages;

	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	kmem_cache_shrink(s);
	while (struct page *page = alloc_pages(GFP_KERNEL | __GFP_NOWARN, 0))
		pages.push_back(page);
	for (int i = 0; i < 7; i++) {
		__free_pages(pages.back(), 0);
		pages.pop_back();
	}
	EXPECT_EQ(kmem_cache_set_stock(s, 1), -ENOMEM);
	EXPECT_NE(attr(s, "order_fallback"), "0\n") << "there is none for this test";
	EXPECT_EQ(kmem_cache_stock(s), 0u);
	EXPECT_EQ(slab_counts_of(s).slabs, 0u);
	for (struct page *page : pages)
		__free_pages(page, 0);
	EXPECT_EQ(kmem_cache_set_stock(s, 1), 0);
	EXPECT_EQ(kmem_cache_stock(s), slab_counts_of(s).objects);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	kmem_cache_destroy(s);
}

TEST(SlabStockTest, OfUsualSlabs)
{
	EXPECT_FRESH_PROCESS_PASSES(stock_is_of_usual_slabs);
}

TEST(SlabStockTest, BulksRefillIt)
{
	struct kmem_cache *s = kmem_cache_create("bulks", 300, 0, 0, nullptr);
	const unsigned per_slab = geometry_of(s).objects;

	kmem_cache_set_limit(s, 2 * per_slab, 60);
	ASSERT_EQ(kmem_cache_set_stock(s, per_slab), 0);
	auto p = take_all(s, GFP_ATOMIC);
	EXPECT_EQ(kmem_cache_stock(s), 0u);
	kmem_cache_set_limit(s, 0, 60);
	for (gfp_t flags : { GFP_NOWAIT, GFP_KERNEL }) {
		std::vector<void *> bulk(5 * per_slab);

		ASSERT_EQ(kmem_cache_alloc_bulk(s, flags, bulk.size(), bulk.data()),
			  static_cast<int>(bulk.size()));
		EXPECT_EQ(kmem_cache_stock(s), flags == GFP_KERNEL ? per_slab : 0);
		p.insert(p.end(), bulk.begin(), bulk.end());
	}
	kmem_cache_set_stock(s, 0);
	finish(s, p);
}

/* While a fork holds the locks, no other thread changes the stock, however long that takes. */
TEST(SlabStockTest, DismissedWhileAForkHoldsTheLocks)
{
	struct kmem_cache *s = kmem_cache_create("forked", 300, 0, 0, nullptr);
	std::atomic<bool> held{ false }, over{ false };

	ASSERT_EQ(kmem_cache_set_stock(s, 1), 0);
	std::thread fork([&] {
		shim_fork_prepare();
		held = true;
		std::this_thread::sleep_for(std::chrono::milliseconds(200));
		over = true;
		shim_fork_parent();
	});
	while (!held)
		sched_yield();
	EXPECT_EQ(kmem_cache_set_stock(s, 0), 0);
	EXPECT_TRUE(over);
	fork.join();
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

/* Takers on all sides, one of them in the way of refills; no object twice, none lost. */
TEST(SlabStockTest, TakenAndRefilledAtOnce)
{
	struct kmem_cache *s = kmem_cache_create("busy", 1000, 0, 0, nullptr);
	unsigned per_slab = geometry_of(s).objects;

	kmem_cache_set_limit(s, 24 * per_slab, 60);
	EXPECT_EQ(kmem_cache_set_stock(s, 8 * per_slab), 0);
	{
		Threads threads(4, [&](unsigned i) {
			std::vector<void *> p;

			for (unsigned round = 0; round < 400 / kSlow; round++) {
				while (p.size() < 8 * per_slab) {
					void *obj = kmem_cache_alloc(
						s,
						i % 2 ? GFP_ATOMIC : GFP_KERNEL | __GFP_NOWARN);
					if (!obj)
						break;
					memset(obj, static_cast<int>(i), 1000);
					p.push_back(obj);
				}
				for (void *obj : p)
					ASSERT_EQ(static_cast<char *>(obj)[999],
						  static_cast<char>(i));
				free_objects(s, p);
				if (round % 16 == i)
					kmem_cache_shrink(s);
			}
		});
	}
	EXPECT_LE(slab_counts_of(s).slabs, 24u);
	EXPECT_EQ(slab_counts_of(s).inuse, 0u);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	kmem_cache_set_stock(s, 0);
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

TEST(SlabLimitTest, Attributes)
{
	struct kmem_cache *s = kmem_cache_create("attributes", 64, 0, 0, nullptr);
	std::string slab = std::to_string(geometry_of(s).objects) + "\n";

	EXPECT_EQ(attr(s, "limit"), "0\n");
	EXPECT_EQ(attr(s, "limit_interval"), "60\n");
	EXPECT_EQ(attr(s, "remote_node_defrag_ratio"), "0\n");
	EXPECT_EQ(kmem_cache_attr_store(s, "limit", "1"), 0);
	EXPECT_EQ(kmem_cache_attr_store(s, "limit_interval", "7"), 0);
	EXPECT_EQ(kmem_cache_attr_store(s, "stock", "1"), 0);
	EXPECT_EQ(attr(s, "limit"), slab);
	EXPECT_EQ(attr(s, "limit_interval"), "7\n");
	EXPECT_EQ(attr(s, "stock"), slab);
	EXPECT_EQ(attr(s, "stock_objects"), slab);
	EXPECT_EQ(kmem_cache_attr_store(s, "stock_objects", "1"), -EACCES);
	EXPECT_EQ(kmem_cache_attr_store(s, "stock", "1000000"), -EINVAL);
	for (auto name : { "limit", "limit_interval", "stock", "remote_node_defrag_ratio" })
		for (auto bad : { "", "many", "-1" })
			EXPECT_EQ(kmem_cache_attr_store(s, name, bad), -EINVAL) << name;
	EXPECT_EQ(kmem_cache_attr_store(s, "remote_node_defrag_ratio", "101"), -EINVAL);
	EXPECT_EQ(kmem_cache_attr_store(s, "remote_node_defrag_ratio", "30"), 0);
	EXPECT_EQ(attr(s, "remote_node_defrag_ratio"), "30\n");
	EXPECT_EQ(kmem_cache_attr_store(s, "stock", "0"), 0);
	EXPECT_EQ(attr(s, "stock_objects"), "0\n");
	kmem_cache_destroy(s);
}

/* Nodes. */

thread_local unsigned pretend_cpu;

void defragmenting()
{
	configure_slabs("numa_fake:2");
	os_calls.getcpu = [](unsigned *cpu) {
		*cpu = pretend_cpu;
		return 0;
	};
	struct kmem_cache *s = kmem_cache_create("defrag", 4000, 0, 0, nullptr);
	std::vector<void *> p;

	/* Many partly used slabs on node 1. */
	pretend_cpu = 1;
	for (unsigned i = 0; i < 40 * geometry_of(s).objects; i++)
		p.push_back(kmem_cache_alloc_node(s, GFP_KERNEL, 1));
	for (size_t i = 0; i < p.size(); i++)
		if (i % geometry_of(s).objects) {
			kmem_cache_free(s, p[i]);
			p[i] = nullptr;
		}
	shim_slab_drain(s);
	EXPECT_GT(slab_counts_of(s).partial, 30u);
	pretend_cpu = 0;
	auto ask = [&] {
		void *obj = kmem_cache_alloc(s, GFP_KERNEL);
		unsigned node = shim_object_node(obj);

		kmem_cache_free(s, obj);
		kmem_cache_shrink(s); /* node 0 has none again */
		return node;
	};
	for (int i = 0; i < 10; i++)
		EXPECT_EQ(ask(), 0u) << "objects stay near";
	EXPECT_EQ(kmem_cache_attr_store(s, "remote_node_defrag_ratio", "100"), 0);
	for (int i = 0; i < 10; i++)
		EXPECT_EQ(ask(), 1u);
	void *near = kmem_cache_alloc_node(s, GFP_KERNEL | __GFP_THISNODE, 0);
	EXPECT_EQ(shim_object_node(near), 0u);
	kmem_cache_free(s, near);
	kmem_cache_shrink(s);
	EXPECT_EQ(kmem_cache_attr_store(s, "remote_node_defrag_ratio", "25"), 0);
	unsigned other = 0;
	for (int i = 0; i < 20; i++)
		other += ask();
	EXPECT_EQ(other, 5u) << "every fourth";
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	for (void *obj : p)
		kmem_cache_free(s, obj);
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

TEST(SlabNodesLimitTest, PartlyUsedSlabsOfOtherNodes)
{
	EXPECT_FRESH_PROCESS_PASSES(defragmenting);
}

void empty_slabs_elsewhere()
{
	fake_nodes("0-1", { 0, 1 });
	struct kmem_cache *s = kmem_cache_create("nodes", 256, 0, 0, nullptr);
	const gfp_t flags = GFP_KERNEL | __GFP_NOWARN | __GFP_THISNODE;
	std::vector<void *> p;

	kmem_cache_set_limit(s, 48, 60);
	while (void *obj = kmem_cache_alloc_node(s, flags, 0))
		p.push_back(obj);
	EXPECT_EQ(kmem_cache_alloc_node(s, flags, 1), nullptr);
	free_objects(s, p);
	void *obj = kmem_cache_alloc_node(s, flags, 1);
	ASSERT_NE(obj, nullptr);
	EXPECT_EQ(shim_object_node(obj), 1u);
	kmem_cache_free(s, obj);
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

TEST(SlabNodesLimitTest, EmptySlabsOfOtherNodesMakeRoom)
{
	EXPECT_FRESH_PROCESS_PASSES(empty_slabs_elsewhere);
}

/* A cpuset without node 1: only what cannot wait goes there, when node 0 has none left. */
void atomic_leaves_the_cpuset()
{
	setenv("UKMEM_CONF", "reserve:128m", 1);
	fake_nodes("0-1", { 0, 1 });
	run_on(allowed_cpus().front());
	struct kmem_cache *s = kmem_cache_create("atomic", 2000, 0, 0, nullptr);
	std::vector<struct page *> pages;

	/* Mapped and free on both nodes. */
	for (int node : { 0, 1 })
		free_pages(reinterpret_cast<unsigned long>(
				   page_address(alloc_pages_node(node, GFP_KERNEL, 8))),
			   8);
	fake_mems = 1;
	ukmem_trim();
	EXPECT_EQ(page_to_nid(alloc_pages_node(1, GFP_KERNEL, 0)), 0);
	for (unsigned order = 6; order-- > 0;)
		while (struct page *page = alloc_pages(GFP_KERNEL | __GFP_NOWARN, order)) {
			ASSERT_EQ(page_to_nid(page), 0);
			pages.push_back(page);
		}
	EXPECT_EQ(kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOWARN), nullptr);
	EXPECT_EQ(alloc_pages(GFP_NOWAIT, 0), nullptr);
	/* Node 0's reserve first. */
	struct page *page;
	while ((page = alloc_pages(GFP_ATOMIC, 0)) && !page_to_nid(page))
		;
	ASSERT_NE(page, nullptr);
	EXPECT_EQ(page_to_nid(page), 1);
	EXPECT_EQ(alloc_pages_node(0, GFP_ATOMIC | __GFP_THISNODE, 0), nullptr);
	void *obj = kmem_cache_alloc(s, GFP_ATOMIC);
	ASSERT_NE(obj, nullptr);
	EXPECT_EQ(shim_object_node(obj), 1u);
	EXPECT_EQ(kmem_cache_alloc(s, GFP_NOWAIT), nullptr);
	kmem_cache_free(s, obj);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
}

/* Debugged objects are larger, and fewer are in a slab; the limit is one of objects. */
TEST(SlabLimitTest, DebuggedObjectsCountAsObjects)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure_slabs("slab_debug:F");
		for (unsigned size : { 8u, 32u, 128u, 2048u }) {
			struct kmem_cache *s =
				kmem_cache_create("limited", size, 0, 0, nullptr);

			ASSERT_EQ(kmem_cache_set_limit(s, 1000, 60), 0);
			auto p = take_all(s, GFP_KERNEL | __GFP_NOWARN);
			EXPECT_GE(p.size(), 1000u) << size;
			/* Whole slabs, of either kind. */
			EXPECT_LE(p.size(), kmem_cache_limit(s) + 128) << size;
			free_objects(s, p);
			kmem_cache_destroy(s);
		}
	});
}

TEST(SlabNodesLimitTest, AtomicRequestsLeaveTheCpuset)
{
	EXPECT_FRESH_PROCESS_PASSES(atomic_leaves_the_cpuset);
}

} // namespace
