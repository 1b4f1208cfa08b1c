/* SPDX-License-Identifier: MIT */
/* How many pages there may be: limits, and what is dirty. */
#include <errno.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "fake_os.h"
#include "page_util.h"

namespace
{

void expect_limit(size_t bytes)
{
	size_t limit = to_pages(bytes);
	Pages pages = fill(GFP_KERNEL, 0);

	ASSERT_FALSE(pages.empty());
	shim_limits l = limits();
	EXPECT_EQ(l.limit, limit);
	EXPECT_GT(l.wmark_min, 0u);
	EXPECT_EQ(pages.size(), limit - l.wmark_min) << "down to the min watermark, not below";
	EXPECT_EQ(l.used, pages.size());
	free_all(pages, 0);
	expect_all_free();
}

TEST(PageLimitsTest, ByConfiguration)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("limit:64m");
		expect_limit(64 * kMiB);
	});
}

TEST(PageLimitsTest, ByCgroupOfVersion2)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		fake_nodes("0", { 0 });
		fake_files["/proc/self/cgroup"] = "0::/box/inner\n";
		fake_files["/sys/fs/cgroup/box/inner/memory.max"] = "max\n";
		fake_files["/sys/fs/cgroup/box/memory.max"] = "50331648\n";
		expect_limit(34 * kMiB); /* less an 8th and 8 MiB */
	});
}

TEST(PageLimitsTest, ByCgroupOfVersion1)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		fake_nodes("0", { 0 });
		fake_files["/proc/self/cgroup"] = "7:cpu,cpuacct:/\n4:memory:/box\n0::/\n";
		fake_files["/sys/fs/cgroup/memory/box/memory.limit_in_bytes"] = "33554432\n";
		fake_files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] =
			"9223372036854771712\n";
		expect_limit(20 * kMiB); /* less an 8th and 8 MiB */
	});
}

std::atomic<unsigned> looks_at_groups;
bool no_descriptor;

ssize_t counting_groups(const char *path, char *buf, size_t size)
{
	looks_at_groups += std::string(path) == "/proc/self/cgroup";
	return no_descriptor ? -EMFILE : fake_read_file(path, buf, size);
}

/* A group with 64 MiB and a tenth of a CPU, for a process that took the library for malloc. */
void preload_in_group(const char *conf = "")
{
	if (*conf)
		configure(conf);
	fake_nodes("0", { 0 });
	fake_files["/proc/self/cgroup"] = "0::/box\n";
	fake_files["/sys/fs/cgroup/box/memory.max"] = "67108864\n";
	fake_files["/sys/fs/cgroup/box/cpu.max"] = "10000 100000\n";
	fake_files["/proc/sys/vm/overcommit_memory"] = "2\n";
	os_calls.read_file = counting_groups;
	os_heap.is_ukmem = true;
	ASSERT_TRUE(shim_page_init());
}

const size_t kOfTheGroup = 48 * kMiB; /* its 64 MiB less an 8th and 8 MiB */

unsigned long pageset_high()
{
	std::string text = printed(ukmem_zoneinfo_print);
	size_t at = text.find("high:", text.find("pagesets"));

	return at == std::string::npos ? 0 : std::stoul(text.substr(at + 5));
}

TEST(PageLimitsTest, ASmallProcessDoesNotLookAtItsGroup)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		preload_in_group();
		Pages pages = fill(GFP_KERNEL, 0, to_pages(2 * kMiB) - 64);

		EXPECT_EQ(pages.size(), to_pages(2 * kMiB) - 64);
		EXPECT_EQ(looks_at_groups, 0u);
		EXPECT_GT(limits().limit, to_pages(8000000 * 1024ul));
		free_all(pages, 0);
	});
}

TEST(PageLimitsTest, ALargerProcessKeepsTheLimitsOfItsGroup)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		preload_in_group();
		Pages pages = fill(GFP_KERNEL, 0, to_pages(2 * kMiB) + 64);

		EXPECT_EQ(looks_at_groups, 1u);
		EXPECT_EQ(limits().limit, to_pages(kOfTheGroup));
		EXPECT_LE(pageset_high(), 8u) << "a tenth of a CPU, a tenth of 64";
		Pages rest = fill(GFP_KERNEL, 0);
		EXPECT_EQ(pages.size() + rest.size(), limits().limit - limits().wmark_min);
		free_all(pages, 0);
		free_all(rest, 0);
		expect_all_free();
	});
}

/* Arrays that have more than they may have since are not wrong. */
TEST(PageLimitsTest, WhatPagesetsHadIsSound)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		preload_in_group();
		Pages pages = fill(GFP_KERNEL, 0, to_pages(kMiB));

		free_all(pages, 0);
		EXPECT_EQ(alloc_pages(GFP_KERNEL | __GFP_NOWARN, 14), nullptr);
		ASSERT_LE(pageset_high(), 8u);
		EXPECT_EQ(ukmem_verify(stderr), 0);
	});
}

TEST(PageLimitsTest, ALargeRequestLooksAtTheGroupFirst)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		preload_in_group();
		EXPECT_EQ(alloc_pages(GFP_KERNEL | __GFP_NOWARN, 14), nullptr)
			<< "64 MiB of 48";
		EXPECT_GE(looks_at_groups, 1u);
		EXPECT_EQ(limits().limit, to_pages(kOfTheGroup));
	});
}

TEST(PageLimitsTest, ARequestThatMayNotWaitDoesNotLookAtTheGroup)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		preload_in_group();
		Pages more, mapped = fill(GFP_KERNEL, 0, to_pages(3 * kMiB / 2));

		free_all(mapped, 0);
		for (unsigned i = 0; i < to_pages(3 * kMiB); i++)
			more.push_back(alloc_pages(GFP_NOWAIT, 0));
		EXPECT_EQ(std::count(more.begin(), more.end(), nullptr), 0);
		EXPECT_EQ(looks_at_groups, 0u);
		free_all(more, 0);
	});
}

TEST(PageLimitsTest, StatisticsLookAtTheGroup)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		preload_in_group();
		Pages pages = fill(GFP_KERNEL, 0, 64);
		EXPECT_LE(pageset_high(), 8u);
		EXPECT_EQ(limits().limit, to_pages(kOfTheGroup));
		free_all(pages, 0);
	});
}

/* A program that asked for it (docs/programs.md, sandboxes) can forbid files at any time. */
TEST(PageLimitsTest, NobodyLooksLaterIfAsked)
{
	for (const char *conf : { "look_ms:0", "background_thread:never" }) {
		SCOPED_TRACE(conf);
		static const char *wanted;
		wanted = conf;
		EXPECT_FRESH_PROCESS_PASSES([] {
			preload_in_group(wanted);
			EXPECT_EQ(looks_at_groups, 1u);
			EXPECT_EQ(limits().limit, to_pages(kOfTheGroup));
		});
	}
}

/* Which zones may serve a request is decided at the start. */
TEST(PageLimitsTest, OtherZonesStandInFromTheStart)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("reserve:128m,lowmem_reserve_ratio:256");
		fake_nodes("0", { 0 });
		os_heap.is_ukmem = true;
		Pages pages = fill(GFP_KERNEL, 6, to_pages(160 * kMiB) / 64);

		EXPECT_EQ(pages.size(), to_pages(160 * kMiB) / 64);
		EXPECT_NE(page_zonenum(pages.back()), ZONE_NORMAL);
		free_all(pages, 6);
	});
}

/* While a thread looks at the group, a handler that interrupts it asks for more than there is.
 */
TEST(PageLimitsTest, AHandlerThatInterruptsALookLooksItself)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		static bool interrupted;

		preload_in_group();
		os_calls.read_file = [](const char *path, char *buf, size_t size) {
			if (!interrupted) {
				interrupted = true;
				EXPECT_EQ(alloc_pages(GFP_KERNEL | __GFP_NOWARN, 14), nullptr);
			}
			return counting_groups(path, buf, size);
		};
		Pages pages = fill(GFP_KERNEL, 9, 2);
		EXPECT_TRUE(interrupted);
		EXPECT_EQ(limits().limit, to_pages(kOfTheGroup));
		free_all(pages, 9);
	});
}

TEST(PageLimitsTest, AGroupThatCannotBeLookedAtIsTriedAgain)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		preload_in_group();
		no_descriptor = true;
		Pages pages = fill(GFP_KERNEL, 9, 2);
		EXPECT_EQ(pages.size(), 2u);
		EXPECT_EQ(looks_at_groups, 1u);
		no_descriptor = false;
		Pages more = fill(GFP_KERNEL, 9, 1);
		EXPECT_EQ(looks_at_groups, 1u) << "not yet";
		Pages rest = fill(GFP_KERNEL, 9, 200);
		EXPECT_EQ(limits().limit, to_pages(kOfTheGroup));
		EXPECT_LE(pages.size() + more.size() + rest.size(), kOfTheGroup / (2 * kMiB));
		free_all(pages, 9);
		free_all(more, 9);
		free_all(rest, 9);
	});
}

/* The same where the first look is at the start. */
TEST(PageLimitsTest, AStartWithoutDescriptorsIsMadeUpFor)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		no_descriptor = true;
		fake_nodes("0", { 0 });
		fake_files["/proc/self/cgroup"] = "0::/box\n";
		fake_files["/sys/fs/cgroup/box/memory.max"] = "67108864\n";
		os_calls.read_file = counting_groups;
		ASSERT_TRUE(shim_page_init());
		EXPECT_GT(limits().limit, to_pages(8000000 * 1024ul)) << "not known";
		no_descriptor = false;
		Pages pages = fill(GFP_KERNEL, 9, 4);
		EXPECT_EQ(limits().limit, to_pages(kOfTheGroup));
		free_all(pages, 9);
	});
}

void take_and_free()
{
	Pages pages = fill(GFP_KERNEL, 9, 2);

	free_all(pages, 9);
}

/*
 * A thread looks at the group; meanwhile another one forks. That thread is not in the child, so
 * the child looks itself.
 */
void fork_in_a_look()
{
	static std::atomic<bool> looking, go_on;
	int status = -1;

	preload_in_group();
	os_calls.read_file = [](const char *path, char *buf, size_t size) {
		if (std::string(path) == "/proc/self/cgroup" && !looking.exchange(true))
			while (!go_on)
				usleep(100);
		return counting_groups(path, buf, size);
	};
	std::thread other([] { take_and_free(); });
	while (!looking)
		usleep(100);
	pid_t child = fork();
	if (!child) {
		take_and_free();
		_exit(limits().limit != to_pages(kOfTheGroup));
	}
	go_on = true;
	other.join();
	EXPECT_EQ(limits().limit, to_pages(kOfTheGroup));
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}

TEST(PageLimitsTest, AChildLooksWhereItsParentWasLooking)
{
	EXPECT_FRESH_PROCESS_PASSES(fork_in_a_look);
}

TEST(PageLimitsTest, ByTheMachineWithItsSwap)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		fake_nodes("0", { 0 });
		fake_files["/proc/self/cgroup"] = "0::/box\n";
		fake_files["/sys/fs/cgroup/box/memory.max"] = "134217728\n";
		fake_files["/proc/meminfo"] = "MemTotal: 49152 kB\nSwapTotal: 16384 kB\n";
		expect_limit(64 * kMiB);
	});
}

TEST(PageLimitsTest, ConfigurationGoesBeforeTheCgroup)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("limit:40m");
		fake_nodes("0", { 0 });
		fake_files["/proc/self/cgroup"] = "0::/\n";
		fake_files["/sys/fs/cgroup/memory.max"] = "16777216\n";
		expect_limit(40 * kMiB);
	});
}

void other_orders_refill()
{
	configure("limit:64m");
	ASSERT_TRUE(shim_page_init());
	size_t most = limits().limit - limits().wmark_min;

	for (unsigned order : { 10u, 0u, 5u, 3u, 9u, 0u }) {
		Pages pages = fill(GFP_KERNEL, order, SIZE_MAX, order != 5);

		EXPECT_GE((pages.size() << order) * 10, most * 9) << "order " << order;
		EXPECT_LE(limits().used, limits().limit);
		free_all(pages, order);
		expect_whole();
	}
}

TEST(PageLimitsTest, WhatWasFreedCanBeHadInAnyOrder)
{
	EXPECT_FRESH_PROCESS_PASSES(other_orders_refill);
}

void each_node_has_its_own()
{
	configure("numa_fake:2,node_limit:32m");
	Pages one = fill_node(1, GFP_KERNEL, 0);

	ASSERT_FALSE(one.empty());
	EXPECT_EQ(page_to_nid(one[0]), 1);
	struct zone *z = page_zone(one[0]);
	EXPECT_EQ(zone_managed_pages(z), to_pages(32 * kMiB));
	EXPECT_EQ(one.size(), zone_managed_pages(z) - min_wmark_pages(z));
	EXPECT_EQ(zone_free_pages(z), min_wmark_pages(z));
	/* Requests without __GFP_THISNODE go on to the other one. */
	struct page *p = alloc_pages_node(1, GFP_KERNEL, 0);
	ASSERT_NE(p, nullptr);
	EXPECT_EQ(page_to_nid(p), 0);
	__free_page(p);
	free_all(one, 0);
	one = fill_node(1, GFP_KERNEL, 10);
	EXPECT_GE(one.size() * 1024 * 10, to_pages(32 * kMiB) * 8);
	free_all(one, 10);
	expect_all_free();
}

TEST(PageLimitsTest, NodeLimit)
{
	EXPECT_FRESH_PROCESS_PASSES(each_node_has_its_own);
}

void nodes_share_the_limit()
{
	configure("numa_fake:3,limit:48m");
	Pages pages[3], more;
	size_t sixteen = to_pages(16 * kMiB), sum = 0;

	for (int nid = 0; nid < 3; nid++) {
		pages[nid] = fill_node(nid, GFP_KERNEL, 0, sixteen, true);
		sum += pages[nid].size();
	}
	EXPECT_EQ(pages[0].size(), sixteen);
	EXPECT_EQ(pages[1].size(), sixteen);
	EXPECT_EQ(sum, limits().limit - limits().wmark_min);
	EXPECT_EQ(limits().used, sum);
	for (int nid = 0; nid < 3; nid++)
		EXPECT_TRUE(fill_node(nid, GFP_KERNEL, 0).empty()) << "node " << nid;
	/* What one node gives back another may have. */
	free_all(pages[0], 0);
	more = fill_node(2, GFP_KERNEL, 0, SIZE_MAX, true);
	EXPECT_EQ(more.size(), sixteen);
	for (unsigned i = 0; i < 3; i++)
		EXPECT_LE(shim_zone_resident(i), 32 * kMiB);
	free_all(more, 0);
	free_all(pages[1], 0);
	free_all(pages[2], 0);
	expect_all_free();
}

TEST(PageLimitsTest, NodesShareTheLimit)
{
	EXPECT_FRESH_PROCESS_PASSES(nodes_share_the_limit);
}

size_t all_resident()
{
	size_t bytes = 0;

	for (unsigned i = 0; i < shim_all_zones(); i++)
		bytes += shim_zone_resident(i);
	return bytes;
}

void other_nodes_dirty_pages()
{
	configure("numa_fake:2,limit:64m,dirty_max:1g,dirty_decay_ms:3600000");
	Pages first = fill_node(0, GFP_KERNEL, 4, to_pages(40 * kMiB) / 16, true);

	free_all(first, 4);
	ASSERT_GE(all_resident(), 39 * kMiB) << "kept for reuse";
	Pages second = fill_node(1, GFP_KERNEL, 4, to_pages(40 * kMiB) / 16);
	ASSERT_EQ(second.size(), to_pages(40 * kMiB) / 16) << "not refused for what is free";
	for (auto *p : second)
		touch(p, 4);
	EXPECT_LE(all_resident(), 64 * kMiB);
	EXPECT_LE(limits().used + limits().dirty, limits().limit);
	EXPECT_GT(vmstat("pgpurged"), 0u);
	free_all(second, 4);
	expect_all_free();
}

TEST(PageLimitsTest, DirtyPagesOfAnotherNodeArePurgedFirst)
{
	EXPECT_FRESH_PROCESS_PASSES(other_nodes_dirty_pages);
}

struct Run {
	void *addr;
	size_t pages;
};

/*
 * Allocates, writes and frees at random close to the limit; what is resident is looked at
 * after each step.
 */
void never_resident_above(const char *conf)
{
	std::mt19937 random(static_cast<unsigned>(test_seed()));
	std::vector<Run> live;
	size_t page = 0, most = 0;

	configure(conf);
	page = ukmem_page_size();
	for (unsigned step = 0; step < 6000 / kSlow; step++) {
		size_t n = random() % 3 ? 1 + random() % 32 : 1 + random() % 2000;
		bool full = step / 500 % 2;

		if (random() % 100 < (full ? 70 : 40)) {
			void *p = alloc_pages_exact(n * page, GFP_KERNEL | __GFP_NOWARN);

			if (!p)
				continue;
			memset(p, 1, n * page);
			live.push_back({ p, n });
			ASSERT_LE(limits().used, limits().limit);
			if (limits().used + limits().dirty + 4096 < limits().limit)
				continue;
			most = std::max(most, all_resident());
			ASSERT_LE(most, limits().limit * page) << "step " << step;
		} else if (!live.empty()) {
			std::swap(live[random() % live.size()], live.back());
			free_pages_exact(live.back().addr, live.back().pages * page);
			live.pop_back();
		}
	}
	EXPECT_GT(most, limits().limit * page / 10 * 8) << "never came near";
	expect_whole();
	for (auto &r : live)
		free_pages_exact(r.addr, r.pages * page);
	expect_all_free();
}

TEST(PageLimitsTest, ResidentNeverAboveTheLimit)
{
	EXPECT_FRESH_PROCESS_PASSES(
		[] { never_resident_above("limit:64m,dirty_max:1g,dirty_decay_ms:3600000"); });
}

TEST(PageLimitsTest, ResidentNeverAboveTheLimitWithLargePagesets)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		never_resident_above("limit:32m,dirty_max:1g,dirty_decay_ms:3600000,"
				     "percpu_pagelist_fraction:8");
	});
}

TEST(PageLimitsTest, ResidentNeverAboveTheLimitOnThreeNodes)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		never_resident_above("limit:64m,dirty_max:1g,dirty_decay_ms:3600000,"
				     "numa_fake:3");
	});
}

/* The counts of used and dirty pages stay within the limit. Where they exceed it, fewer pages
 * are resident than they say. */
void counted_used_and_dirty()
{
	configure("limit:256m,dirty_max:1g,dirty_decay_ms:3600000");
	std::mt19937 random(static_cast<unsigned>(test_seed()));
	Pages live[11];

	ASSERT_TRUE(shim_page_init());
	for (unsigned step = 0; step < 60000 / kSlow; step++) {
		unsigned order = random() % 4 ? random() % 4 : random() % 11;

		if (random() % 100 < (step / 4000 % 2 ? 70 : 30)) {
			struct page *p = alloc_pages(GFP_KERNEL | __GFP_NOWARN, order);
			shim_limits l = limits();

			if (!p)
				continue;
			live[order].push_back(p);
			ASSERT_LE(l.used, l.limit);
			/* A merge calls zero pages dirty, which they are not. */
			if (l.used + l.dirty > l.limit) {
				ASSERT_LE(all_resident(), l.limit * ukmem_page_size());
			}
			touch(p, order);
		} else if (!live[order].empty()) {
			__free_pages(live[order].back(), order);
			live[order].pop_back();
		}
	}
	for (unsigned order = 0; order < 11; order++)
		free_all(live[order], order);
	expect_all_free();
}

TEST(PageLimitsTest, CountedUsedAndDirty)
{
	EXPECT_FRESH_PROCESS_PASSES(counted_used_and_dirty);
}

void threads_stay_below()
{
	configure("numa_fake:3,limit:32m");
	ASSERT_TRUE(shim_page_init());
	std::atomic<bool> stop{ false };
	std::atomic<size_t> most{ 0 };
	auto look = [&] {
		size_t used = limits().used, seen = most;

		while (used > seen && !most.compare_exchange_weak(seen, used))
			;
	};
	std::thread watch([&] {
		while (!stop)
			look();
	});
	{
		Threads t(4, [&](unsigned me) {
			for (unsigned round = 0; round < 40 / kSlow + 1; round++) {
				unsigned order = (me + round) % 4;
				Pages p = fill(me % 2 ? GFP_KERNEL : GFP_KERNEL | __GFP_HIGH,
					       order, 4000);

				look(); /* the watching thread may not get to run */
				free_all(p, order);
			}
		});
	}
	stop = true;
	watch.join();
	EXPECT_LE(most.load(), limits().limit);
	EXPECT_GT(most.load(), limits().limit / 10 * 9) << "never came near";
	expect_all_free();
}

TEST(PageLimitsTest, ThreadsStayBelow)
{
	EXPECT_FRESH_PROCESS_PASSES(threads_stay_below);
}

void objects_and_errno()
{
	configure("limit:32m");
	std::vector<void *> live;

	errno = 4711;
	EXPECT_EQ(kmalloc(64 * kMiB, GFP_KERNEL | __GFP_NOWARN), nullptr);
	while (void *p = kmalloc(kMiB, GFP_KERNEL | __GFP_NOWARN))
		live.push_back(p);
	EXPECT_GE(live.size(), 28u);
	EXPECT_LT(live.size(), 32u);
	while (void *p = kmalloc(1000, GFP_KERNEL | __GFP_NOWARN))
		live.push_back(p);
	EXPECT_EQ(kzalloc(kMiB, GFP_KERNEL | __GFP_NOWARN), nullptr);
	EXPECT_EQ(kmalloc(kMiB, GFP_NOWAIT), nullptr);
	EXPECT_EQ(alloc_pages(GFP_KERNEL | __GFP_NOWARN, 4), nullptr);
	EXPECT_EQ(alloc_pages_exact(5 * kMiB, GFP_KERNEL | __GFP_NOWARN), nullptr);
	EXPECT_EQ(errno, 4711);
	for (void *p : live)
		kfree(p);
	size_t before = live.size();
	void *large = kmalloc(24 * kMiB, GFP_KERNEL);
	EXPECT_NE(large, nullptr) << "after " << before << " blocks were freed";
	kfree(large);
}

TEST(PageLimitsTest, KmallocReturnsNullAndLeavesErrnoAlone)
{
	EXPECT_FRESH_PROCESS_PASSES(objects_and_errno);
}

/* It fails, so the process is no larger than before, and looks as soon as it can. */
TEST(PageLimitsTest, AHugeRequestDoesNotKeepTheProcessFromLooking)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		preload_in_group();
		no_descriptor = true;
		EXPECT_EQ(kmalloc((size_t)1 << 44, GFP_KERNEL | __GFP_NOWARN), nullptr);
		no_descriptor = false;
		Pages rest = fill(GFP_KERNEL, 9, 500);
		EXPECT_LE(rest.size(), kOfTheGroup / (2 * kMiB));
	});
}

} // namespace
