/* SPDX-License-Identifier: MIT */
/* A control group's memory limit: a request above it returns NULL, nobody is killed. */
#include "guest.h"

#include <sys/mman.h>

constexpr size_t kMax = 64u << 20;

using Blocks = std::vector<std::pair<void *, size_t>>;

/* Touched blocks of @size until there are no more; their bytes. */
static size_t fill(size_t size, Blocks &blocks)
{
	size_t bytes = 0;

	while (bytes <= 2 * kMax) {
		void *p = kmalloc(size, GFP_KERNEL | __GFP_NOWARN);

		if (!p)
			break;
		memset(p, 1, size);
		blocks.emplace_back(p, size);
		bytes += size;
	}
	return bytes;
}

GUEST_CHILD(FillsItsGroup)
{
	size_t size = static_cast<size_t>(atol(child_argument()));

	for (int round = 0; round < 3; round++) {
		Blocks blocks;
		size_t bytes = fill(size, blocks);

		EXPECT_LE(bytes, kMax) << "round " << round;
		EXPECT_GE(bytes, kMax / 2) << "round " << round;
		for (auto [p, n] : blocks)
			kfree(p);
	}
}

GUEST_CHILD(FillsItsGroupWithPages)
{
	unsigned order = static_cast<unsigned>(atoi(child_argument()));
	std::vector<struct page *> pages;
	size_t run = ukmem_page_size() << order;

	while (pages.size() * run <= 2 * kMax) {
		struct page *page = alloc_pages(GFP_KERNEL | __GFP_NOWARN, order);

		if (!page)
			break;
		touched_node(page, order);
		pages.push_back(page);
	}
	EXPECT_LE(pages.size() * run, kMax);
	EXPECT_GE(pages.size() * run, kMax / 2);
	EXPECT_EQ(kmalloc(4 << 20, GFP_KERNEL | __GFP_NOWARN), nullptr);
	EXPECT_EQ(alloc_pages(GFP_NOWAIT, 9), nullptr);
	for (auto *page : pages)
		__free_pages(page, order);
}

static void expect_nobody_killed(Cgroup &group)
{
	EXPECT_EQ(group.count("memory.events", "oom_kill"), 0) << group.get("memory.events");
	EXPECT_EQ(group.count("memory.events", "oom"), 0) << group.get("memory.events");
}

static void run_limited(const char *child, const std::string &argument, const char *conf = "")
{
	Cgroup group("limited");

	group.set("memory.max", std::to_string(kMax));
	expect_child_passes(__FILE__, __LINE__, child,
			    { conf, argument, [&] { group.enter(); } });
	expect_nobody_killed(group);
}

TEST(Memcg, Objects)
{
	run_limited("FillsItsGroup", "200");
	run_limited("FillsItsGroup", "8192");
}

TEST(Memcg, LargeBlocks)
{
	run_limited("FillsItsGroup", "50000");
	run_limited("FillsItsGroup", "3000000");
}

TEST(Memcg, Pages)
{
	for (const char *order : { "0", "3", "8" })
		run_limited("FillsItsGroupWithPages", order);
}

/* A tunable that leaves room for everything else the process has. */
TEST(Memcg, TunableBelowTheLimit)
{
	run_limited("FillsItsGroup", "200", "limit:48m");
	run_limited("FillsItsGroup", "50000", "limit:48m");
	run_limited("FillsItsGroupWithPages", "0", "limit:48m");
}

/* The limit of a group further up counts as well. */
TEST(Memcg, LimitOfTheParent)
{
	Cgroup parent("parent");

	parent.set("memory.max", std::to_string(kMax));
	parent.set("cgroup.subtree_control", "+memory");
	{
		Cgroup group("parent/child");

		EXPECT_CHILD_PASSES(FillsItsGroup, "", "8192", [&] { group.enter(); });
		expect_nobody_killed(group);
		Cgroup::leave();
	}
	expect_nobody_killed(parent);
}

/* The tests above would notice: a program that does not look is killed. */
GUEST_CHILD(TakesMoreThanItsGroupHas)
{
	void *p = mmap(nullptr, 2 * kMax, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	memset(p, 1, 2 * kMax);
}

TEST(Memcg, KernelKillsWhoTakesTooMuch)
{
	Cgroup group("killed");

	group.set("memory.max", std::to_string(kMax));
	EXPECT_NE(run_child("TakesMoreThanItsGroupHas", { "", "", [&] { group.enter(); } })
			  .find("signal 9"),
		  std::string::npos);
	EXPECT_EQ(group.count("memory.events", "oom_kill"), 1);
}
