/* SPDX-License-Identifier: MIT */
/* Which nodes serve when others are full: 8 MiB each. */
#include "guest.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

static const char *const kConf = "node_limit:8m";
constexpr size_t kLimit = 8u << 20;

using Alloc = std::function<struct page *()>;

/* Runs until there are no more, at most a node more than there can be. */
static std::vector<struct page *> fill(unsigned order, const Alloc &alloc)
{
	size_t run = ukmem_page_size() << order;
	std::vector<struct page *> pages;

	while (pages.size() * run <= (kNodes + 1) * kLimit) {
		struct page *page = alloc();

		if (!page)
			break;
		pages.push_back(page);
	}
	return pages;
}

static void free_all(const std::vector<struct page *> &pages, unsigned order)
{
	for (auto *page : pages)
		__free_pages(page, order);
}

/* The nodes of runs, in the order of the first of each; the library's and the kernel's
 * opinions are the same. */
static std::vector<int> order_of_nodes(const std::vector<struct page *> &pages, unsigned order)
{
	std::vector<int> nodes;

	for (auto *page : pages) {
		int nid = touched_node(page, order);

		EXPECT_EQ(page_to_nid(page), nid);
		if (std::find(nodes.begin(), nodes.end(), nid) == nodes.end())
			nodes.push_back(nid);
	}
	return nodes;
}

/* How many bytes there are of each node; what is more than 3/4 of the limit is "full". */
static void expect_full(const std::vector<struct page *> &pages, unsigned order,
			const std::vector<int> &full)
{
	size_t run = ukmem_page_size() << order;

	for (auto [nid, n] : count_nodes(pages, order)) {
		EXPECT_LE(n * run, kLimit) << "node " << nid;
		bool expected = std::find(full.begin(), full.end(), nid) != full.end();
		EXPECT_GE(n * run, expected ? kLimit / 4 * 3 : kLimit) << "node " << nid;
	}
	EXPECT_EQ(count_nodes(pages, order).size(), full.size());
}

/* Before the first run of another node, nearly the whole of each nearer one is used. */
static void expect_nodes_in_turn(const std::vector<struct page *> &pages, unsigned order)
{
	size_t run = ukmem_page_size() << order;
	std::map<int, size_t> bytes;
	int last = -1;

	for (auto *page : pages) {
		int nid = page_to_nid(page);

		if (!bytes.count(nid)) {
			EXPECT_TRUE(last < 0 || bytes[last] >= kLimit / 2)
				<< "from " << last << " to " << nid;
			last = nid;
		}
		bytes[nid] += run;
	}
}

static void free_and_expect_home(const std::vector<struct page *> &pages, unsigned order,
				 int nid, const Alloc &alloc)
{
	free_all(pages, order);
	/* Nodes that were full are looked at again after a second. */
	sleep(2);
	struct page *page = alloc();
	ASSERT_NE(page, nullptr);
	EXPECT_EQ(touched_node(page, order), nid) << "order " << order << ", all free again";
	__free_pages(page, order);
}

GUEST_CHILD(FillFromEachNode)
{
	unsigned order = static_cast<unsigned>(atoi(child_argument()));
	Alloc alloc = [=] { return alloc_pages(GFP_KERNEL | __GFP_NOWARN, order); };

	for (int nid = 0; nid < kNodes; nid++) {
		pin_to_node(nid);
		auto pages = fill(order, alloc);
		EXPECT_EQ(order_of_nodes(pages, order), nodes_from(nid));
		expect_full(pages, order, nodes_from(nid));
		expect_nodes_in_turn(pages, order);
		free_and_expect_home(pages, order, nid, alloc);
	}
}

TEST(Fallback, ByDistanceOrder0)
{
	EXPECT_CHILD_PASSES(FillFromEachNode, kConf, "0");
}

TEST(Fallback, ByDistanceOrder1)
{
	EXPECT_CHILD_PASSES(FillFromEachNode, kConf, "1");
}

TEST(Fallback, ByDistanceOrder3)
{
	EXPECT_CHILD_PASSES(FillFromEachNode, kConf, "3");
}

/* By distance from the node that is named, wherever the thread runs. */
GUEST_CHILD(FillANamedNode)
{
	for (int nid = 0; nid < kNodes; nid++) {
		Alloc alloc = [=] {
			return alloc_pages_node(nid, GFP_KERNEL | __GFP_NOWARN, 2);
		};

		pin_to_node((nid + 1) % kNodes);
		auto pages = fill(2, alloc);
		EXPECT_EQ(order_of_nodes(pages, 2), nodes_from(nid));
		expect_full(pages, 2, nodes_from(nid));
		free_and_expect_home(pages, 2, nid, alloc);
	}
}

TEST(Fallback, ByDistanceFromANamedNode)
{
	EXPECT_CHILD_PASSES(FillANamedNode, kConf);
}

GUEST_CHILD(FillThisNodeOnly)
{
	for (unsigned order = 0; order <= 3; order++) {
		for (int nid = 0; nid < kNodes; nid++) {
			auto pages = fill(order, [=] {
				return alloc_pages_node(
					nid, GFP_KERNEL | __GFP_THISNODE | __GFP_NOWARN, order);
			});

			expect_full(pages, order, { nid });
			/* Another node still has memory. */
			struct page *page = alloc_pages_node(nid, GFP_KERNEL, order);
			ASSERT_NE(page, nullptr);
			EXPECT_EQ(touched_node(page, order), nodes_from(nid)[1]);
			__free_pages(page, order);
			free_all(pages, order);
		}
	}
}

TEST(Fallback, ThisNodeOrNone)
{
	EXPECT_CHILD_PASSES(FillThisNodeOnly, kConf);
}

GUEST_CHILD(FillBoundNodes)
{
	struct nodemask mask;

	nodemask_clear(&mask);
	nodemask_set(&mask, 0);
	nodemask_set(&mask, 1);
	nodemask_set(&mask, 3);
	for (int from = 0; from < kNodes; from++) {
		std::vector<int> expected;

		pin_to_node(from);
		for (int nid : nodes_from(from))
			if (nid != 2)
				expected.push_back(nid);
		ASSERT_EQ(ukmem_set_mempolicy(MPOL_BIND, &mask), 0);
		auto pages = fill(1, [] { return alloc_pages(GFP_KERNEL | __GFP_NOWARN, 1); });
		EXPECT_EQ(order_of_nodes(pages, 1), expected);
		expect_full(pages, 1, expected);
		EXPECT_EQ(kmalloc(1 << 20, GFP_KERNEL | __GFP_NOWARN), nullptr);
		free_all(pages, 1);
		ASSERT_EQ(ukmem_set_mempolicy(MPOL_DEFAULT, nullptr), 0);
	}
}

TEST(Fallback, BoundNodesByDistance)
{
	EXPECT_CHILD_PASSES(FillBoundNodes, kConf);
}

/* Objects and large blocks of a full node come from the next. */
GUEST_CHILD(FillWithBlocks)
{
	size_t size = static_cast<size_t>(atol(child_argument()));
	std::vector<void *> blocks;
	std::vector<int> nodes;

	pin_to_node(1);
	while (blocks.size() * size <= (kNodes + 1) * kLimit) {
		void *p = kmalloc(size, GFP_KERNEL | __GFP_NOWARN);

		if (!p)
			break;
		blocks.push_back(p);
		int nid = touched_node(p, size);
		if (nid >= 0 && std::find(nodes.begin(), nodes.end(), nid) == nodes.end())
			nodes.push_back(nid);
	}
	EXPECT_GE(blocks.size() * size, kNodes * kLimit / 4 * 3);
	EXPECT_LE(blocks.size() * size, kNodes * kLimit);
	EXPECT_EQ(nodes, nodes_from(1));
	for (void *p : blocks)
		kfree(p);
}

TEST(Fallback, ObjectsByDistance)
{
	EXPECT_CHILD_PASSES(FillWithBlocks, kConf, "2048");
}

TEST(Fallback, LargeBlocksByDistance)
{
	EXPECT_CHILD_PASSES(FillWithBlocks, kConf, "100000");
}
