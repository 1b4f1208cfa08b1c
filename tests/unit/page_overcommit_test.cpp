/* SPDX-License-Identifier: MIT */
/* Without a limit of its own the process gets what the system promises: memory that is not
 * touched is none. Near the limit of a cgroup there is no more. */
#include <algorithm>
#include <atomic>
#include <thread>

#include "fake_clock.h"
#include "fake_os.h"
#include "page_util.h"

namespace
{

unsigned looks; /* at what is resident */

ssize_t counting_read_file(const char *path, char *buf, size_t size)
{
	looks += !strcmp(path, "/sys/fs/cgroup/box/memory.current");
	return fake_read_file(path, buf, size);
}

void machine(size_t total, size_t available)
{
	fake_files["/proc/meminfo"] = "MemTotal: " + std::to_string(total / 1024) +
				      " kB\nMemAvailable: " + std::to_string(available / 1024) +
				      " kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n";
}

void small_machine(const std::string &overcommit)
{
	fake_nodes("0", { 0 });
	machine(64 * kMiB, 60 * kMiB);
	fake_files["/proc/sys/vm/overcommit_memory"] = overcommit + "\n";
}

void cgroup(size_t limit, size_t current, size_t cache = 0)
{
	const std::string box = "/sys/fs/cgroup/box/memory.";

	fake_files["/proc/self/cgroup"] = "0::/box\n";
	fake_files[box + "max"] = std::to_string(limit) + "\n";
	fake_files[box + "current"] = std::to_string(current) + "\n";
	fake_files[box + "stat"] =
		"anon 1\nactive_file 7\ninactive_file " + std::to_string(cache) + "\nslab 1\n";
	os_calls.read_file = counting_read_file;
}

void *block(size_t size)
{
	return kmalloc(size, GFP_KERNEL | __GFP_NOWARN);
}

TEST(PageOvercommitTest, TheSumOfBlocksIsNotLimited)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		std::vector<void *> live;

		small_machine("0");
		for (int i = 0; i < 20; i++) {
			live.push_back(block(32 * kMiB));
			ASSERT_NE(live.back(), nullptr) << i;
			*static_cast<char *>(live.back()) = 1;
		}
		EXPECT_EQ(block(65 * kMiB), nullptr) << "more than there is";
		for (int i = 0; i < 100000; i++) {
			live.push_back(block(1000));
			ASSERT_NE(live.back(), nullptr);
		}
		for (void *p : live)
			kfree(p);
		expect_whole();
	});
}

TEST(PageOvercommitTest, BlocksGrowInPlaceAboveTheLimit)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		small_machine("0");
		void *first = block(50 * kMiB), *p = block(32 * kMiB);
		ASSERT_NE(first, nullptr);
		ASSERT_NE(p, nullptr);
		memset(p, 7, 4096);
		for (size_t size = 40 * kMiB; size <= 160 * kMiB; size += 8 * kMiB) {
			ASSERT_EQ(krealloc(p, size, GFP_KERNEL | __GFP_NOWARN), p) << size;
			static_cast<char *>(p)[size - 1] = 1;
		}
		EXPECT_EQ(static_cast<char *>(p)[4095], 7);
		EXPECT_EQ(krealloc(p, 300 * kMiB, GFP_KERNEL | __GFP_NOWARN), nullptr)
			<< "more at once than there is";
		kfree(first);
		kfree(p);
		expect_whole();
	});
}

TEST(PageOvercommitTest, NorIsOneBlockIfTheSystemSaysSo)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		small_machine("1");
		void *p = block(1024 * kMiB);
		EXPECT_NE(p, nullptr);
		kfree(p);
		expect_whole();
	});
}

/* An operator changes it while the program runs. */
TEST(PageOvercommitTest, WhatTheSystemSaysNowCounts)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		small_machine("0");
		fake_files["/proc/self/cgroup"] = "0::/\n";
		EXPECT_EQ(block(100 * kMiB), nullptr);
		machine(128 * kMiB, 120 * kMiB);
		void *p = block(100 * kMiB);
		EXPECT_NE(p, nullptr);
		EXPECT_EQ(block(1024 * kMiB), nullptr);
		fake_files["/proc/sys/vm/overcommit_memory"] = "1\n";
		void *q = block(1024 * kMiB);
		EXPECT_NE(q, nullptr);
		kfree(p);
		kfree(q);
		expect_whole();
	});
}

TEST(PageOvercommitTest, ALimitThatIsConfiguredHolds)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("limit:64m");
		small_machine("1");
		void *p = block(40 * kMiB);
		EXPECT_NE(p, nullptr);
		EXPECT_EQ(block(40 * kMiB), nullptr);
		EXPECT_EQ(block(1024 * kMiB), nullptr);
		kfree(p);
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("node_limit:64m");
		small_machine("1");
		EXPECT_EQ(block(65 * kMiB), nullptr);
	});
}

TEST(PageOvercommitTest, SeveralNodes)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		fake_nodes("0-1", { 0, 1 });
		machine(128 * kMiB, 120 * kMiB);
		std::vector<void *> live;

		for (int i = 0; i < 20; i++) {
			live.push_back(block(50 * kMiB));
			ASSERT_NE(live.back(), nullptr) << i;
		}
		struct page *p = alloc_pages_node(1, GFP_KERNEL | __GFP_THISNODE, 0);
		ASSERT_NE(p, nullptr);
		EXPECT_EQ(page_to_nid(p), 1);
		__free_page(p);
		for (void *q : live)
			kfree(q);
		expect_whole();
	});
}

/* Pages that are touched, until there are no more; the cgroup's usage follows. */
Pages fill_cgroup(size_t limit, size_t base)
{
	Pages pages;

	for (;;) {
		cgroup(limit, base + (pages.size() << 4) * ukmem_page_size());
		struct page *p = alloc_pages(GFP_KERNEL | __GFP_NOWARN, 4);

		if (!p || (pages.size() << 4) * ukmem_page_size() > 2 * limit)
			return pages;
		touch(p, 4);
		pages.push_back(p);
	}
}

/* @meminfo: sets how large the machine is. */
void in_a_cgroup_of(void (*meminfo)(), size_t sparse_bytes)
{
	constexpr size_t kLimit = 64 * kMiB, kBase = 4 * kMiB;

	fake_nodes("0", { 0 });
	meminfo();
	cgroup(kLimit, kBase);
	void *sparse = block(sparse_bytes);
	ASSERT_NE(sparse, nullptr) << "about the limit or larger, but nobody touches it";

	Pages pages = fill_cgroup(kLimit, kBase);
	size_t got = (pages.size() << 4) * ukmem_page_size();

	EXPECT_GE(got, kLimit - kBase - 8 * kMiB);
	EXPECT_LE(got, kLimit - kBase - 2 * kMiB) << "somebody would have been killed";
	EXPECT_EQ(block(kMiB), nullptr);
	/* What is resident already is used again. */
	__free_pages(pages.back(), 4);
	pages.back() = alloc_pages(GFP_KERNEL | __GFP_NOWARN, 4);
	EXPECT_NE(pages.back(), nullptr);
	/* Page cache makes room; others may have given something back. */
	cgroup(kLimit, kLimit - kMiB, 20 * kMiB);
	void *p = block(kMiB);
	EXPECT_NE(p, nullptr);
	kfree(p);
	kfree(sparse);
	free_all(pages, 4);
	expect_whole();
}

TEST(PageOvercommitTest, NearTheLimitOfACgroupThereIsNoMore)
{
	EXPECT_FRESH_PROCESS_PASSES([] { in_a_cgroup_of([] {}, 80 * kMiB); });
}

/* Some containers show the group's limit as the machine's memory, others no file about that. */
TEST(PageOvercommitTest, NearTheLimitOfACgroupThatIsAllThereIs)
{
	EXPECT_FRESH_PROCESS_PASSES(
		[] { in_a_cgroup_of([] { machine(64 * kMiB, 60 * kMiB); }, 60 * kMiB); });
	EXPECT_FRESH_PROCESS_PASSES(
		[] { in_a_cgroup_of([] { fake_files["/proc/meminfo"] = ""; }, 80 * kMiB); });
}

/* The kernel moves to swap what is above the limit. */
void in_a_cgroup_with_swap()
{
	constexpr size_t kLimit = 64 * kMiB;
	const std::string box = "/sys/fs/cgroup/box/memory.swap.";

	fake_nodes("0", { 0 });
	fake_files["/proc/meminfo"] =
		"MemTotal: 4194304 kB\nMemAvailable: 4194304 kB\nSwapTotal: 1048576 kB\n"
		"SwapFree: 1048576 kB\n";
	cgroup(kLimit, kLimit);
	fake_files[box + "max"] = std::to_string(kLimit) + "\n";
	fake_files[box + "current"] = std::to_string(kLimit / 2) + "\n";
	void *sparse = block(80 * kMiB), *p = block(kMiB);

	EXPECT_NE(p, nullptr);
	kfree(p);
	ukmem_trim();
	fake_files[box + "current"] = std::to_string(kLimit) + "\n";
	for (unsigned blocks = 0; (p = block(kMiB)); blocks++)
		ASSERT_LE(blocks, 2u) << "what the first look granted lasts";
	kfree(sparse);
}

TEST(PageOvercommitTest, SwapOfACgroupCounts)
{
	EXPECT_FRESH_PROCESS_PASSES(in_a_cgroup_with_swap);
}

constexpr unsigned kLookers = 8;

std::atomic<size_t> taken; /* bytes */
std::atomic<unsigned> have_looked, have_ended;
thread_local unsigned looker = 0; /* from 1 on */
size_t used_before = 58 * kMiB;	  /* of 64 MiB */

/* All threads read the usage before the first of them goes on, and each goes on some time after
 * the one before it has got what it could. */
ssize_t late_read_file(const char *path, char *buf, size_t size)
{
	static thread_local bool waited;
	ssize_t n;

	if (strcmp(path, "/sys/fs/cgroup/box/memory.current") != 0)
		return fake_read_file(path, buf, size);
	n = snprintf(buf, size, "%zu\n", used_before + taken);
	if (looker && !waited) {
		waited = true;
		have_looked++;
		while (have_looked < kLookers || have_ended + 1 < looker)
			usleep(100);
		usleep(30000);
	}
	return n;
}

/* What was read of the group some time ago does not keep a request from the memory there is. */
TEST(PageOvercommitTest, AGroupMayHaveItsLimitRemoved)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		small_machine("0");
		machine(1024 * kMiB, 900 * kMiB);
		cgroup(64 * kMiB, 60 * kMiB);
		Pages pages = fill(GFP_KERNEL, 9, 100);
		EXPECT_LT(pages.size(), 100u);
		fake_files["/sys/fs/cgroup/box/memory.max"] = "max\n";
		Pages more = fill(GFP_KERNEL, 9, 10);
		EXPECT_EQ(more.size(), 10u);
		free_all(pages, 9);
		free_all(more, 9);
	});
}

unsigned run_order = 4;

/* kLookers threads take what they get, each from when @may_begin. */
void share(bool (*may_begin)())
{
	/* The looks that follow the limit would wait, too. */
	configure("look_ms:0");
	fake_nodes("0", { 0 });
	cgroup(64 * kMiB, 0);
	void *sparse = block(80 * kMiB);
	std::vector<std::thread> threads;

	os_calls.read_file = late_read_file;
	for (unsigned i = 1; i <= kLookers; i++)
		threads.emplace_back([i, may_begin] {
			looker = i;
			while (!may_begin())
				usleep(100);
			while (alloc_pages(GFP_KERNEL | __GFP_NOWARN, run_order))
				taken += ukmem_page_size() << run_order;
			have_ended++;
		});
	for (std::thread &t : threads)
		t.join();
	kfree(sparse);
}

/* Of 6 MiB a 16th of the limit stays, and a run of each thread may be more. */
void expect_shared(bool (*may_begin)())
{
	share(may_begin);
	EXPECT_LE(taken, 2 * kMiB + kLookers * (ukmem_page_size() << run_order));
	EXPECT_GE(taken, kMiB);
}

TEST(PageOvercommitTest, ThreadsThatLookAtOnceShareWhatIsLeft)
{
	EXPECT_FRESH_PROCESS_PASSES([] { expect_shared([] { return true; }); });
}

/* Where much was left when they looked, they share that, too, whatever the size of their runs.
 */
TEST(PageOvercommitTest, ThreadsThatLookAtOnceShareMuch)
{
	for (size_t before : { 40u, 44u, 46u })
		for (unsigned order : { 4u, 8u, 10u })
			EXPECT_FRESH_PROCESS_PASSES([before, order] {
				used_before = before * kMiB;
				run_order = order;
				share([] { return true; });
				EXPECT_LE(used_before + taken, 64 * kMiB) << "killed";
				EXPECT_GE(taken, kMiB);
			});
}

/* On one node, with a clock that the test turns. */
void begin_standing_still()
{
	os_calls.now_ms = fake_now_ms;
	configure("look_ms:0");
	fake_nodes("0", { 0 });
}

/* Nobody has looked for long, so it is not known what there was a moment ago. */
TEST(PageOvercommitTest, TheFirstLooksShareWhatIsLeft)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		size_t got = 0;

		begin_standing_still();
		cgroup(64 * kMiB, 0);
		void *sparse = block(80 * kMiB);
		ASSERT_NE(sparse, nullptr);
		fake_now += 1000;
		cgroup(64 * kMiB, 44 * kMiB);
		for (int i = 0; i < 64; i++)
			got += block(kMiB) != nullptr;
		EXPECT_LE(got, 20u) << "killed";
		EXPECT_GE(got, 4u);
		kfree(sparse);
	});
}

/* Below the limit requests get pages without a look, and the program may touch these at any
 * moment. */
TEST(PageOvercommitTest, NearTheLimitOfAGroupTheFirstLookGrantsNothing)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		unsigned got = 0;

		begin_standing_still();
		cgroup(64 * kMiB, 58 * kMiB);
		while (got < 64 && block(kMiB))
			got++;
		EXPECT_LE(got, 48u) << "a quarter of the group's limit is for other things";
		EXPECT_GE(got, 40u);
	});
}

bool no_descriptor;

/* The group's own usage cannot be read now; that of the group above it can. */
TEST(PageOvercommitTest, AGroupThatCannotBeReadGrantsNothing)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		const std::string pod = "/sys/fs/cgroup/pod/memory.";
		const std::string box = "/sys/fs/cgroup/pod/box/memory.";
		unsigned got = 0;

		configure("look_ms:0");
		fake_nodes("0", { 0 });
		fake_files["/proc/self/cgroup"] = "0::/pod/box\n";
		fake_files[pod + "max"] = std::to_string(1024 * kMiB) + "\n";
		fake_files[pod + "current"] = std::to_string(100 * kMiB) + "\n";
		fake_files[box + "max"] = std::to_string(64 * kMiB) + "\n";
		fake_files[box + "current"] = std::to_string(20 * kMiB) + "\n";
		os_calls.read_file = [](const char *path, char *buf, size_t size) -> ssize_t {
			if (no_descriptor && strstr(path, "box/memory.current"))
				return -EMFILE;
			return fake_read_file(path, buf, size);
		};
		void *sparse = block(80 * kMiB);
		ASSERT_NE(sparse, nullptr);
		fake_files[box + "current"] = std::to_string(63 * kMiB) + "\n";
		usleep(50000); /* longer than what was seen before counts */
		no_descriptor = true;
		while (got < 100 && block(kMiB / 2))
			got++;
		EXPECT_LE(got, 2u) << "what the look before has left";
		kfree(sparse);
	});
}

uint64_t (*real_now_ms)();

/* Two periods pass from each look to the next one, until all have begun. */
uint64_t late_now_ms()
{
	static uint64_t begin = real_now_ms();
	unsigned n = have_looked;

	return 16000 + 16 * n + (n == kLookers ? real_now_ms() - begin : 0);
}

/* A look that lost its CPU counts later than it began, and must not take what others were
 * handed out since for what they had before. */
TEST(PageOvercommitTest, ThreadsThatLookOneAfterTheOtherShareWhatIsLeft)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		real_now_ms = os_calls.now_ms;
		os_calls.now_ms = late_now_ms;
		expect_shared([] { return have_looked + 1 == looker; });
	});
	/* 10 MiB without the margin, by runs of 4 MiB. */
	EXPECT_FRESH_PROCESS_PASSES([] {
		real_now_ms = os_calls.now_ms;
		os_calls.now_ms = late_now_ms;
		used_before = 50 * kMiB;
		run_order = 10;
		share([] { return have_looked + 1 == looker; });
		EXPECT_LE(used_before + taken, 64 * kMiB) << "killed";
		EXPECT_GE(taken, 4 * kMiB);
	});
}

/* Nobody has touched what was handed out a moment ago, so the group does not count it; some
 * time later it does, or nobody will. */
void not_touched_yet(size_t size)
{
	std::vector<void *> live;

	begin_standing_still();
	cgroup(64 * kMiB, 0);
	void *sparse = block(80 * kMiB);
	ASSERT_NE(sparse, nullptr);
	/* 6 MiB, of which a 16th of the limit stays. */
	cgroup(64 * kMiB, 58 * kMiB);
	while ((live.empty() || live.back()) && live.size() < 1000)
		live.push_back(block(size));
	EXPECT_LE(live.size() * size, kMiB + size)
		<< "what there was a moment ago is not known; a MiB of the first look is left";
	for (int i = 0; i < 3; i++) {
		fake_now += 8;
		live.push_back(block(size));
	}
	fake_now += 8;
	size_t before = live.size();
	while (live.back() && live.size() < 1000)
		live.push_back(block(size));
	size_t bytes = (live.size() - before) * size;
	EXPECT_LE(bytes, 2 * kMiB + size);
	EXPECT_GE(bytes + 2 * size, 2 * kMiB);
	before = live.size();
	for (int i = 0; i < 4; i++) {
		fake_now += 8;
		live.push_back(block(size));
	}
	EXPECT_TRUE(std::any_of(live.begin() + before, live.end(), [](void *p) { return p; }))
		<< "they had the time to touch it: " << size;
	for (void *p : live)
		kfree(p);
	kfree(sparse);
	expect_whole();
}

TEST(PageOvercommitTest, WhatIsNotTouchedYetIsGrantedOnce)
{
	for (size_t size : { kMiB / 8, kMiB / 2, 3 * kMiB / 2 })
		EXPECT_FRESH_PROCESS_PASSES([size] { not_touched_yet(size); });
}

/* It waits until it is known what others have touched; a copy would take more memory. */
TEST(PageOvercommitTest, ABlockGrowsInPlaceNearTheLimitOfAGroup)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		fake_nodes("0", { 0 });
		cgroup(64 * kMiB, 0);
		void *sparse = block(80 * kMiB);
		cgroup(64 * kMiB, 58 * kMiB);
		void *p = block(kMiB);
		ASSERT_NE(p, nullptr);
		usleep(100000); /* longer than what was seen before counts */
		EXPECT_EQ(krealloc(p, 5 * kMiB / 2, GFP_KERNEL | __GFP_NOWARN), p);
		kfree(p);
		kfree(sparse);
		expect_whole();
	});
}

TEST(PageOvercommitTest, LooksAreRare)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		fake_nodes("0", { 0 });
		cgroup(256 * kMiB, 10 * kMiB);
		void *sparse = block(400 * kMiB);
		ASSERT_NE(sparse, nullptr);
		looks = 0;
		Pages pages = fill(GFP_KERNEL, 0, to_pages(64 * kMiB));
		EXPECT_EQ(pages.size(), to_pages(64 * kMiB));
		/* 4 MiB from one to the next. */
		EXPECT_GE(looks, 8u);
		EXPECT_LE(looks, 20u);
		/* A request that may not enter the kernel cannot look, but gets pages that are
		 * left until the next look. */
		struct page *p = alloc_pages(GFP_ATOMIC, 0);
		EXPECT_NE(p, nullptr);
		__free_page(p);
		free_all(pages, 0);
		kfree(sparse);
		expect_whole();
	});
}

TEST(PageOvercommitTest, AShortMachineGetsBackWhatIsFree)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("dirty_max:1g,dirty_decay_ms:3600000");
		small_machine("0");
		Pages pages = fill(GFP_KERNEL, 4, to_pages(16 * kMiB) / 16, true);
		void *sparse = block(60 * kMiB);

		ASSERT_NE(sparse, nullptr);
		free_all(pages, 4);
		ASSERT_GT(shim_zone_resident(0), 15 * kMiB) << "kept for reuse";
		machine(64 * kMiB, 2 * kMiB);
		void *p = block(50 * kMiB);
		EXPECT_NE(p, nullptr) << "the machine decides, not the sum";
		EXPECT_LT(shim_zone_resident(0), 4 * kMiB);
		kfree(p);
		kfree(sparse);
		expect_whole();
	});
}

/* All zones of a node share what it has. */
void node_limit_of_all_zones()
{
	configure("numa_fake:2,node_limit:32m,lowmem_reserve_ratio:0");
	Pages normal = fill_node(1, GFP_KERNEL, 0, to_pages(20 * kMiB));
	Pages low = fill_node(1, GFP_KERNEL | GFP_DMA32, 0);

	EXPECT_EQ(normal.size(), to_pages(20 * kMiB));
	EXPECT_LE(normal.size() + low.size(), to_pages(32 * kMiB));
	EXPECT_GE(normal.size() + low.size(), to_pages(30 * kMiB));
	EXPECT_EQ(alloc_pages_node(1, GFP_KERNEL | __GFP_THISNODE | __GFP_NOWARN, 0), nullptr);
	struct page *p = alloc_pages_node(1, GFP_KERNEL, 0);
	ASSERT_NE(p, nullptr);
	EXPECT_EQ(page_to_nid(p), 0) << "the other node has its own";
	__free_page(p);
	free_all(low, 0);
	free_all(normal, 0);
	normal = fill_node(1, GFP_KERNEL, 0);
	EXPECT_GE(normal.size(), to_pages(31 * kMiB));
	free_all(normal, 0);
	expect_all_free();
}

TEST(PageOvercommitTest, NodeLimitHoldsForAllZonesTogether)
{
	EXPECT_FRESH_PROCESS_PASSES(node_limit_of_all_zones);
}

TEST(PageOvercommitTest, AllMetadataIsCounted)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		constexpr size_t kObjects = 100000;
		ukmem_gauges before, after;
		std::vector<void *> live;
		struct kmem_cache *s = kmem_cache_create("pages", 4096, 0, 0, nullptr);

		live.reserve(kObjects);
		ukmem_gauges_read(&before);
		while (live.size() < kObjects)
			live.push_back(kmem_cache_alloc(s, GFP_KERNEL));
		ukmem_gauges_read(&after);
		/* An entry, four bytes in the array map and two for its place. */
		EXPECT_GE(after.metadata - before.metadata, 69 * kObjects);
		EXPECT_LE(after.metadata - before.metadata, 75 * kObjects);
		EXPECT_GE(after.resident - before.resident, after.metadata - before.metadata);
		for (void *p : live)
			kmem_cache_free(s, p);
		kmem_cache_destroy(s);
	});
}

} // namespace
