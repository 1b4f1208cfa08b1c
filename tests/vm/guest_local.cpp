/* SPDX-License-Identifier: MIT */
/* Memory of the calling CPU's node, and of a node that is asked for. */
#include "guest.h"

#include <set>

static const unsigned kOrders[] = { 0, 3, 9 };

/* @page as a run of @order of node @nid, by the library and by the kernel. */
static void expect_on_node(struct page *page, unsigned order, int nid)
{
	ASSERT_NE(page, nullptr) << "order " << order << ", node " << nid;
	EXPECT_EQ(page_to_nid(page), nid) << "order " << order;
	EXPECT_EQ(touched_node(page, order), nid) << "order " << order;
}

TEST(Local, PagesOfEveryCpu)
{
	std::vector<struct page *> pages;

	for (int cpu = 0; cpu < kCpus; cpu++) {
		pin(cpu);
		EXPECT_EQ(numa_node_id(), node_of_cpu(cpu));
		for (unsigned order : kOrders) {
			for (int i = 0; i < 4; i++) {
				struct page *page = alloc_pages(GFP_KERNEL, order);

				expect_on_node(page, order, node_of_cpu(cpu));
				pages.push_back(page);
			}
		}
	}
	for (size_t i = 0; i < pages.size(); i++)
		__free_pages(pages[i], kOrders[i / 4 % 3]);
}

TEST(Local, ManyPages)
{
	constexpr unsigned kPages = 2000;

	for (int nid = 0; nid < kNodes; nid++) {
		std::vector<struct page *> pages(kPages);

		pin_to_node(nid);
		ASSERT_EQ(alloc_pages_bulk(GFP_KERNEL, kPages, pages.data()), kPages);
		auto count = count_nodes(pages, 0);
		EXPECT_EQ(count[nid], kPages);
		for (auto *page : pages)
			__free_pages(page, 0);
	}
}

/* Freed by a CPU of another node a page goes home, not to that CPU's users. */
TEST(Local, PagesFreedElsewhereGoHome)
{
	for (unsigned order : kOrders) {
		for (int nid = 0; nid < kNodes; nid++) {
			std::vector<struct page *> pages;

			pin_to_node(nid);
			for (int i = 0; i < 8; i++) {
				pages.push_back(alloc_pages(GFP_KERNEL, order));
				expect_on_node(pages.back(), order, nid);
			}
			pin_to_node((nid + 1) % kNodes);
			for (auto *page : pages)
				__free_pages(page, order);
			for (auto *&page : pages) {
				page = alloc_pages(GFP_KERNEL, order);
				expect_on_node(page, order, (nid + 1) % kNodes);
			}
			for (auto *page : pages)
				__free_pages(page, order);
		}
	}
}

TEST(Local, ObjectsOfFreshSlabs)
{
	for (unsigned size : { 64u, 512u, 4096u }) {
		struct kmem_cache *cache = kmem_cache_create("fresh", size, 0, 0, nullptr);
		std::vector<void *> objects;

		ASSERT_NE(cache, nullptr);
		for (int cpu = 0; cpu < kCpus; cpu++) {
			pin(cpu);
			for (int i = 0; i < 100; i++) {
				void *p = kmem_cache_alloc(cache, GFP_KERNEL);

				ASSERT_NE(p, nullptr);
				EXPECT_EQ(touched_node(p), node_of_cpu(cpu))
					<< size << " bytes, CPU " << cpu;
				objects.push_back(p);
			}
		}
		for (void *p : objects)
			kmem_cache_free(cache, p);
		kmem_cache_destroy(cache);
	}
}

TEST(Local, LargeBlocks)
{
	std::vector<void *> blocks;

	for (int cpu = 0; cpu < kCpus; cpu++) {
		pin(cpu);
		for (size_t size : { 20000ul, 100000ul, 1ul << 20, 5ul << 20 }) {
			void *p = kmalloc(size, GFP_KERNEL);

			ASSERT_NE(p, nullptr);
			EXPECT_EQ(touched_node(p, size), node_of_cpu(cpu))
				<< size << " bytes, CPU " << cpu;
			blocks.push_back(p);
		}
	}
	for (void *p : blocks)
		kfree(p);
}

TEST(Node, EveryNodeFromEveryNode)
{
	for (gfp_t flags : { GFP_KERNEL, GFP_KERNEL | __GFP_THISNODE }) {
		for (int from = 0; from < kNodes; from++) {
			pin_to_node(from);
			for (int nid = 0; nid < kNodes; nid++) {
				for (unsigned order : kOrders) {
					struct page *page = alloc_pages_node(nid, flags, order);

					expect_on_node(page, order, nid);
					__free_pages(page, order);
				}
			}
		}
	}
}

TEST(Node, NoneIsTheCallersAndUnknownIsNone)
{
	for (int nid = 0; nid < kNodes; nid++) {
		pin_to_node(nid);
		struct page *page = alloc_pages_node(NUMA_NO_NODE, GFP_KERNEL, 1);
		expect_on_node(page, 1, nid);
		__free_pages(page, 1);
	}
	for (int nid : { kNodes, 63, 1023, 1024, 1 << 20, -2 })
		EXPECT_EQ(alloc_pages_node(nid, GFP_KERNEL, 0), nullptr) << nid;
}

TEST(Node, MaskOfNodes)
{
	struct nodemask mask;

	for (int from = 0; from < kNodes; from++) {
		pin_to_node((from + 1) % kNodes);
		for (unsigned set = 0; set < 1u << kNodes; set++) {
			int nearest = -1;

			nodemask_clear(&mask);
			for (unsigned nid = 0; nid < kNodes; nid++)
				if (set >> nid & 1)
					nodemask_set(&mask, nid);
			for (int nid : nodes_from(from))
				if (nearest < 0 && set >> nid & 1)
					nearest = nid;
			struct page *page = __alloc_pages(GFP_KERNEL, 2, from, &mask);
			if (nearest < 0)
				EXPECT_EQ(page, nullptr) << "no nodes";
			else
				expect_on_node(page, 2, nearest);
			__free_pages(page, 2);
		}
		struct page *page = __alloc_pages(GFP_KERNEL, 2, from, nullptr);
		expect_on_node(page, 2, from);
		__free_pages(page, 2);
	}
}

TEST(Node, StatesAndDistances)
{
	for (int nid = 0; nid < kNodes; nid++) {
		int before = 0;

		for (auto state : { N_POSSIBLE, N_MEMORY, N_CPU })
			EXPECT_TRUE(node_state(nid, state)) << "node " << nid << ", " << state;
		EXPECT_EQ(node_distance(nid, nid), 10);
		for (int other : nodes_from(nid)) {
			EXPECT_GT(node_distance(nid, other), before) << nid << ", " << other;
			before = node_distance(nid, other);
		}
		EXPECT_EQ(node_distance(nid, kNodes), 255);
	}
	for (auto state : { N_POSSIBLE, N_MEMORY, N_CPU }) {
		EXPECT_EQ(num_node_state(state), static_cast<unsigned>(kNodes)) << state;
		EXPECT_FALSE(node_state(kNodes, state));
		EXPECT_FALSE(node_state(-1, state));
	}
}
