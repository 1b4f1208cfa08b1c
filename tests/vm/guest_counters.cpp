/* SPDX-License-Identifier: MIT */
/* The NUMA counters, after allocations whose place is known. */
#include "guest.h"

using Values = std::map<std::string, long>;

/* The names and numbers of ukmem_vmstat_print(). */
static Values vmstat()
{
	FILE *file = tmpfile();
	Values values;
	char name[128];
	long value;

	if (!file || ukmem_vmstat_print(fileno(file)))
		ADD_FAILURE() << "ukmem_vmstat_print";
	rewind(file);
	while (fscanf(file, "%127s %ld", name, &value) == 2)
		values[name] = value;
	fclose(file);
	return values;
}

constexpr const char *kCounters[] = { "numa_hit",	 "numa_miss",  "numa_foreign",
				      "numa_interleave", "numa_local", "numa_other" };

using Alloc = std::function<struct page *()>;

/* How the counters change over @n allocations: by pages, as the kernel's documentation has it.
 */
static Values changes(unsigned n, unsigned order, const Alloc &alloc)
{
	std::vector<struct page *> pages;
	Values before = vmstat(), after, change;

	for (unsigned i = 0; i < n; i++) {
		pages.push_back(alloc());
		EXPECT_NE(pages.back(), nullptr);
	}
	after = vmstat();
	for (auto *name : kCounters) {
		if (!before.count(name))
			ADD_FAILURE() << name << " is not shown";
		if (after[name] != before[name])
			change[name] = after[name] - before[name];
	}
	for (auto *page : pages)
		__free_pages(page, order);
	return change;
}

TEST(Counters, Local)
{
	for (int cpu = 0; cpu < kCpus; cpu++) {
		pin(cpu);
		for (unsigned order : { 0u, 3u, 6u, 9u })
			EXPECT_EQ(changes(20, order,
					  [=] { return alloc_pages(GFP_KERNEL, order); }),
				  (Values{ { "numa_hit", 20l << order },
					   { "numa_local", 20l << order } }))
				<< "CPU " << cpu << ", order " << order;
	}
}

TEST(Counters, OfAnotherNode)
{
	for (int from = 0; from < kNodes; from++) {
		int nid = (from + 1) % kNodes;

		pin_to_node(from);
		for (unsigned order : { 0u, 3u, 9u })
			EXPECT_EQ(changes(10, order,
					  [=] {
						  return alloc_pages_node(nid, GFP_KERNEL,
									  order);
					  }),
				  (Values{ { "numa_hit", 10l << order },
					   { "numa_other", 10l << order } }))
				<< "node " << nid << ", order " << order;
	}
}

TEST(Counters, Interleave)
{
	struct nodemask mask;

	nodemask_clear(&mask);
	nodemask_set(&mask, 1);
	nodemask_set(&mask, 2);
	pin_to_node(1);
	ASSERT_EQ(ukmem_set_mempolicy(MPOL_INTERLEAVE, &mask), 0);
	for (unsigned order : { 0u, 9u })
		EXPECT_EQ(changes(12, order, [=] { return alloc_pages(GFP_KERNEL, order); }),
			  (Values{ { "numa_hit", 12l << order },
				   { "numa_interleave", 12l << order },
				   { "numa_local", 6l << order },
				   { "numa_other", 6l << order } }))
			<< "order " << order;
}

/* The preferred node is full: a miss where the page comes from, foreign where not. */
GUEST_CHILD(MissAndForeign)
{
	constexpr gfp_t kThisNode = GFP_KERNEL | __GFP_THISNODE | __GFP_NOWARN;
	std::vector<struct page *> full;

	for (unsigned order : { 3u, 0u })
		while (struct page *page = alloc_pages_node(1, kThisNode, order))
			full.push_back(page);
	pin_to_node(1);
	EXPECT_EQ(
		changes(10, 0, [] { return alloc_pages(GFP_KERNEL, 0); }),
		(Values{ { "numa_miss", 10 }, { "numa_foreign", 10 }, { "numa_other", 10 } }));
	/* Node 0, the nearest of node 1, is this CPU's own. */
	pin_to_node(0);
	EXPECT_EQ(changes(10, 3, [] { return alloc_pages_node(1, GFP_KERNEL, 3); }),
		  (Values{ { "numa_miss", 10l << 3 },
			   { "numa_foreign", 10l << 3 },
			   { "numa_local", 10l << 3 } }));
	EXPECT_EQ(changes(10, 3, [] { return alloc_pages(GFP_KERNEL, 3); }),
		  (Values{ { "numa_hit", 10l << 3 }, { "numa_local", 10l << 3 } }));
}

TEST(Counters, MissAndForeign)
{
	EXPECT_CHILD_PASSES(MissAndForeign, "node_limit:16m");
}
