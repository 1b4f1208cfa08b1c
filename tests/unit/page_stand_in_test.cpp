/* SPDX-License-Identifier: MIT */
/*
 * The stand-in of a full node (page/pageset.h): this CPU takes its pages without a walk, and
 * not for long when a nearer node has room again. Four nodes on one CPU; the zonelist cache
 * counts a walk when it skips the second node, which is full like the first.
 */
#include "page_util.h"
#include "test_util.h"

namespace
{

constexpr unsigned kLargest = 9; /* beyond pagesets: such a run goes back to the zone */
constexpr unsigned long kTurns = 64;

unsigned long vmstat(const std::string &name)
{
	const std::string text = "\n" + printed(ukmem_vmstat_print), row = "\n" + name + " ";
	const size_t at = text.find(row);

	EXPECT_NE(at, std::string::npos) << name;
	return at == std::string::npos ? 0 : std::stoul(text.substr(at + row.size()));
}

class FullNode
{
      public:
	explicit FullNode(const std::string &more = "")
	{
		run_on(sched_getcpu());
		configure("numa_fake:4,node_limit:256m,limit:16g,background_thread:never" +
			  more);
		own = numa_node_id();
		for (unsigned i = 0; i < 2; i++) {
			large[i] = fill_node(node(i), GFP_KERNEL, kLargest);
			__free_pages(large[i].back(), kLargest);
			large[i].pop_back();
			small[i] = fill_node(node(i), GFP_KERNEL, 0);
		}
		/* What is left in pagesets. */
		for (int i = 0; i < 100; i++)
			rest.push_back(alloc_pages(GFP_KERNEL, 0));
	}
	int node(unsigned i) const
	{
		return (own + static_cast<int>(i)) % 4;
	}
	/* One page, at once freed. Result: its place among the nodes, the own one 0. */
	unsigned pair(unsigned order = 0) const
	{
		struct page *p = alloc_pages(GFP_KERNEL, order);
		int nid = p ? page_to_nid(p) : -1;

		EXPECT_NE(p, nullptr);
		__free_pages(p, order);
		return static_cast<unsigned>(nid - own + 4) % 4;
	}
	void give_room(unsigned i)
	{
		free_all(large[i], kLargest);
	}

	int own;
	Pages large[2], small[2], rest;
};

void few_requests_walk()
{
	FullNode f;
	const unsigned long pages = 1000;
	unsigned long walks = vmstat("zlc_skip"), misses = vmstat("numa_miss"),
		      foreign = vmstat("numa_foreign"), other = vmstat("numa_other"),
		      hits = vmstat("numa_hit");

	for (unsigned long i = 0; i < pages; i++) {
		f.rest.push_back(alloc_pages(GFP_KERNEL, 0));
		ASSERT_EQ(page_to_nid(f.rest.back()), f.node(2));
	}
	EXPECT_LE(vmstat("zlc_skip") - walks, pages / kTurns * 2);
	EXPECT_EQ(vmstat("numa_miss") - misses, pages);
	EXPECT_EQ(vmstat("numa_foreign") - foreign, pages);
	EXPECT_EQ(vmstat("numa_other") - other, pages);
	EXPECT_EQ(vmstat("numa_hit"), hits);
	expect_whole();
}

TEST(PageStandInTest, FewRequestsWalk)
{
	EXPECT_FRESH_PROCESS_PASSES(few_requests_walk);
}

void own_node_has_room()
{
	FullNode f;

	for (int i = 0; i < 100; i++)
		ASSERT_EQ(f.pair(), 2u);
	/* A page that this CPU freed, and room in the zone. */
	__free_pages(f.small[0].back(), 0);
	f.small[0].pop_back();
	EXPECT_EQ(f.pair(), 0u);
	f.small[0].push_back(alloc_pages(GFP_KERNEL, 0));
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(f.pair(), 2u);
	f.give_room(0);
	EXPECT_EQ(f.pair(), 0u) << "the next request sees it";
}

TEST(PageStandInTest, OwnNodeHasRoom)
{
	EXPECT_FRESH_PROCESS_PASSES(own_node_has_room);
}

/* Pairs never empty the pageset, so nothing but the end of the turns leads to a walk. */
void nearer_node_has_room()
{
	FullNode f(",zonelist_cache:0");
	unsigned long turns = 0;

	for (int i = 0; i < 100; i++)
		ASSERT_EQ(f.pair(), 2u);
	f.give_room(1);
	while (turns <= kTurns && f.pair() != 1)
		turns++;
	EXPECT_LE(turns, kTurns);
	EXPECT_EQ(f.pair(), 1u);
}

TEST(PageStandInTest, NearerNodeHasRoom)
{
	EXPECT_FRESH_PROCESS_PASSES(nearer_node_has_room);
}

void bound_to_the_own_node()
{
	FullNode f;

	ASSERT_EQ(f.pair(), 2u);
	for (int i = 0; i < 3; i++) {
		struct page *p = alloc_pages(GFP_KERNEL | __GFP_THISNODE | __GFP_NOWARN, 0);

		if (p) {
			EXPECT_EQ(page_to_nid(p), f.own);
			__free_pages(p, 0);
		}
	}
	EXPECT_EQ(f.pair(), 2u);
}

TEST(PageStandInTest, NotForThisNodeAlone)
{
	EXPECT_FRESH_PROCESS_PASSES(bound_to_the_own_node);
}

/* What a request of 16 pages found out says nothing of one page. */
void not_for_smaller_requests()
{
	FullNode f;
	unsigned long walks = vmstat("zlc_skip");

	/* What single pages found out serves these until its turns are over. */
	for (unsigned long pages = 0; pages <= kTurns; pages += 16)
		ASSERT_EQ(f.pair(4), 2u);
	ASSERT_EQ(vmstat("zlc_skip"), walks + 1);
	ASSERT_EQ(f.pair(), 2u);
	EXPECT_EQ(vmstat("zlc_skip"), walks + 2);
}

TEST(PageStandInTest, NotForSmallerRequests)
{
	EXPECT_FRESH_PROCESS_PASSES(not_for_smaller_requests);
}

} // namespace
