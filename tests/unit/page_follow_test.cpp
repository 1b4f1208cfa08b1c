/* SPDX-License-Identifier: MIT */
/* The memory limit of the control group changes while the program runs. */
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "fake_clock.h"
#include "fake_os.h"
#include "page_util.h"
#include "percpu_util.h"

namespace
{

unsigned looks; /* reads of memory.high, which nothing but a look reads */
bool no_descriptor;

ssize_t counting_read_file(const char *path, char *buf, size_t size)
{
	looks += strstr(path, "/box/memory.high") != nullptr;
	return no_descriptor ? -EMFILE : fake_read_file(path, buf, size);
}

const std::string kBox = "/sys/fs/cgroup/box/memory.";

void set(const std::string &file, size_t bytes)
{
	fake_files[kBox + file] = std::to_string(bytes) + "\n";
}

void group(size_t limit, size_t current)
{
	fake_nodes("0", { 0 });
	fake_files["/proc/self/cgroup"] = "0::/box\n";
	set("max", limit);
	set("current", current);
	os_calls.read_file = counting_read_file;
	os_calls.now_ms = fake_now_ms;
}

/* What of a group's memory the library uses for pages. */
size_t pages_of(size_t bytes)
{
	return to_pages(bytes - bytes / 8 - 8 * kMiB);
}

/* Leaves @bytes free and dirty. */
void retain(size_t bytes)
{
	Pages pages = fill(GFP_KERNEL, 8, bytes / (ukmem_page_size() << 8), true);

	ASSERT_EQ(pages.size(), bytes / (ukmem_page_size() << 8));
	free_all(pages, 8);
	ASSERT_GE(limits().dirty, to_pages(bytes) * 9 / 10);
}

/* A slow path now and then. */
void little_activity()
{
	for (int i = 0; i < 40; i++) {
		fake_now += 100;
		void *p = kmalloc(300000, GFP_KERNEL);
		ASSERT_NE(p, nullptr);
		*static_cast<char *>(p) = 1;
		kfree(p);
	}
}

TEST(PageFollowTest, ALowerLimitHoldsForRequests)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		group(1024 * kMiB, 0);
		Pages pages = fill(GFP_KERNEL, 8, 40);
		EXPECT_EQ(limits().limit, pages_of(1024 * kMiB));
		set("max", 64 * kMiB);
		set("current", 62 * kMiB);
		fake_now += 1001;
		Pages more = fill(GFP_KERNEL, 4);
		EXPECT_EQ(limits().limit, pages_of(64 * kMiB));
		EXPECT_EQ(limits().wmark_min, zone().wmark_min);
		EXPECT_EQ(zone().managed, limits().limit);
		EXPECT_LE(limits().used, limits().limit);
		EXPECT_GE(limits().used, limits().limit * 8 / 10);
		free_all(more, 4);
		free_all(pages, 8);
		expect_all_free();
	});
}

/* The clock stands still: the process grows by 64 MiB between two looks. */
TEST(PageFollowTest, GrowthIsALookAtTheLimit)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		group(4096 * kMiB, 0);
		Pages pages = fill(GFP_KERNEL, 8, 40);
		set("max", 256 * kMiB);
		set("current", 254 * kMiB);
		Pages more = fill(GFP_KERNEL, 4);
		EXPECT_EQ(limits().limit, pages_of(256 * kMiB));
		EXPECT_LE(limits().used, limits().limit);
		free_all(more, 4);
		free_all(pages, 8);
		expect_all_free();
	});
}

/* Where the process was before, it has given memory back; it does not grow to there unseen. */
TEST(PageFollowTest, GrowthBehindATrimIsALook)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		group(1024 * kMiB, 0);
		Pages pages = fill(GFP_KERNEL, 8, 600);
		free_all(pages, 8);
		ukmem_trim();
		set("max", 256 * kMiB);
		set("current", 254 * kMiB);
		Pages more = fill(GFP_KERNEL, 8);
		EXPECT_EQ(limits().limit, pages_of(256 * kMiB));
		EXPECT_LE(limits().used, limits().limit);
		free_all(more, 8);
		expect_all_free();
	});
}

std::atomic<bool> will_wait, is_waiting, goes_on;

/* The look has read the limit, and does not get on. */
ssize_t slow_read_file(const char *path, char *buf, size_t size)
{
	if (path == kBox + "high" && will_wait.exchange(false)) {
		is_waiting = true;
		while (!goes_on)
			usleep(100);
	}
	return fake_read_file(path, buf, size);
}

TEST(PageFollowTest, NobodyOutgrowsALookThatTakesLong)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		group(1024 * kMiB, 0);
		Pages pages = fill(GFP_KERNEL, 8, 40);
		os_calls.read_file = slow_read_file;
		will_wait = true;
		std::thread looker([] { ukmem_trim(); });
		while (!is_waiting)
			usleep(100);
		set("max", 256 * kMiB);
		set("current", 250 * kMiB);
		Pages more = fill(GFP_KERNEL, 8);
		/* Twice the 16th of the limit by which a process may grow, and a step. */
		EXPECT_LE(more.size(), 2 * 56u + 5);
		/* Waits a second for the look, which the child does not have. */
		os_calls.now_ms = os_calls_linux.now_ms;
		pid_t child = fork();
		if (!child)
			_exit(limits().limit == pages_of(1024 * kMiB) ? 0 : 1);
		int status;
		ASSERT_EQ(waitpid(child, &status, 0), child);
		EXPECT_EQ(status, 0) << "the child has the whole limit";
		goes_on = true;
		looker.join();
		EXPECT_EQ(limits().limit, pages_of(256 * kMiB)) << "it has looked again";
		free_all(more, 8);
		free_all(pages, 8);
		expect_all_free();
	});
}

TEST(PageFollowTest, OneLargeRequestLooksFirst)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		group(4096 * kMiB, 0);
		void *small = kmalloc(1000, GFP_KERNEL);
		set("max", 128 * kMiB);
		set("current", 126 * kMiB);
		EXPECT_EQ(kmalloc(200 * kMiB, GFP_KERNEL | __GFP_NOWARN), nullptr);
		EXPECT_EQ(limits().limit, pages_of(128 * kMiB));
		kfree(small);
	});
}

TEST(PageFollowTest, SoDoesABlockThatGrows)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		group(4096 * kMiB, 0);
		void *p = kmalloc(8 * kMiB, GFP_KERNEL);
		set("max", 128 * kMiB);
		set("current", 126 * kMiB);
		EXPECT_EQ(krealloc(p, 200 * kMiB, GFP_KERNEL | __GFP_NOWARN), nullptr);
		EXPECT_EQ(limits().limit, pages_of(128 * kMiB));
		kfree(p);
	});
}

/* Decay would come an hour later. */
void free_memory_goes_back(size_t max, size_t current, size_t least, size_t most)
{
	configure("dirty_decay_ms:3600000,background_thread:never");
	group(1024 * kMiB, 210 * kMiB);
	retain(200 * kMiB);
	little_activity();
	EXPECT_GE(limits().dirty, to_pages(190 * kMiB)) << "the limit has not changed";
	set("max", max);
	set("current", current);
	little_activity();
	EXPECT_EQ(limits().limit, pages_of(max));
	EXPECT_GE(limits().dirty, to_pages(least));
	EXPECT_LE(limits().dirty, to_pages(most));
	if (!TEST_TSAN) {
		EXPECT_LE(shim_zone_resident(0), most + 4 * kMiB);
	}
	EXPECT_LE(limits().used + limits().dirty, limits().limit);
	expect_whole();
}

TEST(PageFollowTest, FreeMemoryGoesBackUntilTheLimitIsMet)
{
	/* 200 MiB are left: what is above the limit goes. */
	EXPECT_FRESH_PROCESS_PASSES(
		[] { free_memory_goes_back(160 * kMiB, 100 * kMiB, 80 * kMiB, 132 * kMiB); });
}

TEST(PageFollowTest, AllOfItNearTheLimit)
{
	/* Other processes of the group have the rest. */
	EXPECT_FRESH_PROCESS_PASSES(
		[] { free_memory_goes_back(160 * kMiB, 155 * kMiB, 0, 4 * kMiB); });
}

TEST(PageFollowTest, MemoryHighAsksForFreeMemory)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("dirty_decay_ms:3600000,background_thread:never");
		group(1024 * kMiB, 210 * kMiB);
		set("high", 220 * kMiB);
		retain(200 * kMiB);
		little_activity();
		EXPECT_GE(limits().dirty, to_pages(190 * kMiB)) << "below it";
		set("high", 100 * kMiB);
		little_activity();
		EXPECT_LE(limits().dirty, to_pages(4 * kMiB));
		EXPECT_EQ(limits().limit, pages_of(1024 * kMiB)) << "it refuses nothing";
		expect_whole();
	});
}

/* The process stands still, and is above the limit by less than any free block has. */
TEST(PageFollowTest, LessThanABlockIsAboveTheLimit)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		unsigned order = 0;

		configure("dirty_decay_ms:3600000,background_thread:never");
		group(1024 * kMiB, 210 * kMiB);
		while (ukmem_page_size() << order < 64 * kMiB)
			order++;
		Pages blocks = fill(GFP_KERNEL, order, 5, true);
		Pages between{ blocks[1], blocks[3] },
			others{ blocks[0], blocks[2], blocks[4] };

		free_all(others, order);
		set("max", 355 * kMiB);
		set("current", 200 * kMiB);
		for (int looks_more = 0; looks_more < 5; looks_more++) {
			fake_now += 1001;
			shim_page_decay();
		}
		EXPECT_EQ(limits().limit, pages_of(355 * kMiB));
		EXPECT_LE(limits().used + limits().dirty, limits().limit);
		EXPECT_GE(limits().dirty, to_pages(100 * kMiB));
		free_all(between, order);
		expect_all_free();
	});
}

std::atomic<bool> squeezed;

ssize_t squeezed_read_file(const char *path, char *buf, size_t size)
{
	if (!squeezed || path != kBox + "high")
		return fake_read_file(path, buf, size);
	return snprintf(buf, size, "%zu\n", 100 * kMiB);
}

TEST(PageFollowTest, InTheBackground)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("dirty_decay_ms:3600000,background_thread:always,look_ms:20");
		group(1024 * kMiB, 110 * kMiB);
		os_calls.now_ms = os_calls_linux.now_ms;
		os_calls.read_file = squeezed_read_file;
		retain(100 * kMiB);
		Pages one = fill(GFP_KERNEL, 9, 1);
		EXPECT_GE(limits().dirty, to_pages(90 * kMiB));
		squeezed = true;
		for (int ms = 0; ms < 20000 && limits().dirty > to_pages(4 * kMiB); ms += 5)
			usleep(5000);
		EXPECT_LE(limits().dirty, to_pages(4 * kMiB));
		free_all(one, 9);
		expect_all_free();
	});
}

TEST(PageFollowTest, ItRisesAgain)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		group(128 * kMiB, 0);
		Pages pages = fill(GFP_KERNEL, 4, to_pages(64 * kMiB) >> 4);
		set("max", 512 * kMiB);
		fake_now += 1001;
		Pages more = fill(GFP_KERNEL, 4, to_pages(300 * kMiB) >> 4);
		EXPECT_EQ(more.size(), to_pages(300 * kMiB) >> 4);
		EXPECT_EQ(limits().limit, pages_of(512 * kMiB));
		fake_files[kBox + "max"] = "max\n";
		fake_now += 1001;
		Pages yet = fill(GFP_KERNEL, 4, to_pages(300 * kMiB) >> 4);
		EXPECT_EQ(limits().limit, to_pages(8000000ul * 1024)) << "the machine's";
		free_all(pages, 4);
		free_all(more, 4);
		free_all(yet, 4);
		expect_all_free();
	});
}

/* In a process whose group allows 1 GiB, the limit in a file falls to 128 MiB. */
void expect_followed(const std::string &file)
{
	Pages pages = fill(GFP_KERNEL, 8, 40);

	EXPECT_EQ(limits().limit, pages_of(1024 * kMiB));
	fake_files[file] = "134217728\n";
	fake_now += 1001;
	Pages more = fill(GFP_KERNEL, 8, 10);
	EXPECT_EQ(limits().limit, pages_of(128 * kMiB));
	free_all(more, 8);
	free_all(pages, 8);
}

TEST(PageFollowTest, LimitsOfParentsCount)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		group(1024 * kMiB, 0);
		fake_files["/proc/self/cgroup"] = "0::/box/inner/most\n";
		fake_files["/sys/fs/cgroup/box/inner/most/memory.max"] = "max\n";
		expect_followed("/sys/fs/cgroup/box/inner/memory.max");
	});
}

TEST(PageFollowTest, Version1)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		group(1024 * kMiB, 0);
		const std::string file = "/sys/fs/cgroup/memory/box/memory.limit_in_bytes";

		fake_files["/proc/self/cgroup"] = "4:memory:/box\n0::/\n";
		fake_files[file] = "1073741824\n";
		expect_followed(file);
	});
}

/* A program that has used up its descriptors keeps its limit. */
TEST(PageFollowTest, AFileThatCannotBeOpenedNowChangesNothing)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		group(128 * kMiB, 0);
		Pages pages = fill(GFP_KERNEL, 8, 40);
		no_descriptor = true;
		fake_now += 1001;
		Pages more = fill(GFP_KERNEL, 8, 10);
		EXPECT_EQ(limits().limit, pages_of(128 * kMiB));
		ukmem_trim();
		EXPECT_EQ(limits().limit, pages_of(128 * kMiB));
		no_descriptor = false;
		set("max", 256 * kMiB);
		fake_now += 1001;
		Pages yet = fill(GFP_KERNEL, 8, 10);
		EXPECT_EQ(limits().limit, pages_of(256 * kMiB));
		free_all(yet, 8);
		free_all(more, 8);
		free_all(pages, 8);
	});
}

size_t cache_bytes()
{
	return percpu_info().cache_bytes;
}

TEST(PageFollowTest, WhatCpusKeepFollows)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		group(4096 * kMiB, 0);
		Pages pages = fill(GFP_KERNEL, 8, 40);
		size_t before = cache_bytes();

		set("max", 64 * kMiB);
		fake_now += 1001;
		Pages more = fill(GFP_KERNEL, 8, 10);
		EXPECT_LE(cache_bytes(), 8 * kMiB / allowed_cpus().size());
		EXPECT_LT(cache_bytes(), before);
		free_all(more, 8);
		free_all(pages, 8);
	});
}

TEST(PageFollowTest, ALimitThatIsConfiguredStays)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("limit:200m");
		group(1024 * kMiB, 0);
		Pages pages = fill(GFP_KERNEL, 8, 40);
		set("max", 64 * kMiB);
		fake_now += 1001;
		Pages more = fill(GFP_KERNEL, 8, 10);
		EXPECT_EQ(limits().limit, to_pages(200 * kMiB));
		free_all(more, 8);
		free_all(pages, 8);
	});
}

void small_work(bool grows)
{
	Pages pages;

	for (int i = 0; i < 100; i++) {
		Pages more = fill(GFP_KERNEL, 8, grows ? 1 : 6);

		fake_now += 10;
		if (grows)
			pages.push_back(more.back());
		else
			free_all(more, 8);
	}
	free_all(pages, 8);
}

TEST(PageFollowTest, SmallProgramsDoNotLook)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		group(4096 * kMiB, 0);
		ASSERT_TRUE(shim_page_init());
		looks = 0;
		small_work(false);
		EXPECT_EQ(looks, 0u);
		small_work(true);
		EXPECT_GE(looks, 1u) << "100 MiB";
		EXPECT_LE(looks, 5u);
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("look_ms:0");
		group(4096 * kMiB, 0);
		ASSERT_TRUE(shim_page_init());
		looks = 0;
		small_work(true);
		EXPECT_EQ(looks, 0u);
	});
}

TEST(PageFollowTest, ChildrenLook)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		group(1024 * kMiB, 0);
		Pages pages = fill(GFP_KERNEL, 8, 40);
		set("max", 128 * kMiB);
		fake_now += 1001;
		pid_t child = fork();

		if (!child) {
			fill(GFP_KERNEL, 8, 10);
			_exit(limits().limit == pages_of(128 * kMiB) ? 0 : 1);
		}
		int status;
		ASSERT_EQ(waitpid(child, &status, 0), child);
		EXPECT_EQ(status, 0);
		free_all(pages, 8);
	});
}

} // namespace
