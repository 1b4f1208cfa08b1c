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

	for (int round = 0; round < 2; round++) {
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

/* Sets a file of the group that this process is in. */
static void set_own(const std::string &file, size_t bytes)
{
	EXPECT_EQ(write_file("/sys/fs/cgroup/limited/" + file, std::to_string(bytes)), 0)
		<< file;
}

static size_t usage()
{
	return strtoul(read_file("/sys/fs/cgroup/limited/memory.current").c_str(), nullptr, 10);
}

/* The limit falls, but not below what the process has; then the process grows. */
GUEST_CHILD(FollowsALimitThatFalls)
{
	size_t size = static_cast<size_t>(atol(child_argument()));
	Blocks blocks;
	size_t bytes = 0;

	while (bytes < kMax / 2) {
		blocks.emplace_back(kmalloc(size, GFP_KERNEL), size);
		memset(blocks.back().first, 1, size);
		bytes += size;
	}
	set_own("memory.max", kMax);
	usleep(1100000);
	bytes += fill(size, blocks);
	EXPECT_LE(bytes, kMax);
	EXPECT_GE(bytes, kMax / 2);
	for (auto [p, n] : blocks)
		kfree(p);
}

static void run_falling(const char *child, const std::string &argument, const char *conf)
{
	Cgroup group("limited");

	group.set("memory.max", std::to_string(5 * kMax));
	expect_child_passes(__FILE__, __LINE__, child,
			    { conf, argument, [&] { group.enter(); } });
	expect_nobody_killed(group);
}

TEST(Memcg, LimitThatFalls)
{
	run_falling("FollowsALimitThatFalls", "200", "");
	run_falling("FollowsALimitThatFalls", "50000", "");
}

/* Decay would give it back an hour later. */
GUEST_CHILD(GivesBackForMemoryHigh)
{
	Blocks blocks;

	for (size_t bytes = 0; bytes < 3 * kMax; bytes += 100000) {
		blocks.emplace_back(kmalloc(100000, GFP_KERNEL), 100000);
		memset(blocks.back().first, 1, 100000);
	}
	for (auto [p, n] : blocks)
		kfree(p);
	EXPECT_GE(usage(), 5 * kMax / 2) << "nothing is retained";
	set_own("memory.high", kMax);
	for (int ms = 0; ms < 30000 && usage() > kMax; ms += 50) {
		usleep(50000);
		kfree(kmalloc(300000, GFP_KERNEL));
	}
	EXPECT_LE(usage(), kMax);
	set_own("memory.max", kMax);
}

TEST(Memcg, MemoryHighBeforeALowerLimit)
{
	run_falling("GivesBackForMemoryHigh", "",
		    "dirty_decay_ms:3600000,background_thread:never");
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
