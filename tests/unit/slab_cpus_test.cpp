/* SPDX-License-Identifier: MIT */
/* Object caches while CPUs go and come: their arrays are drained, and nothing is lost. */
#include <algorithm>
#include <cstring>

#include "fake_os.h"
#include "slab_guard.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

namespace
{

/* When a CPU goes, the objects in its arrays go back to their slabs; the objects of other CPUs'
 * arrays stay. */
TEST(SlabCpusTest, ArraysOfACpuThatGoesOfflineAreDrained)
{
	if (allowed_cpus().size() < 2)
		GTEST_SKIP() << "one CPU";
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:cpu_id", 1);
		int stays = allowed_cpus()[0], goes = allowed_cpus()[1];
		Cache s("offline", 64);

		for (int cpu : { stays, goes }) {
			void *p[10];

			run_on(cpu);
			for (auto &object : p)
				object = kmem_cache_alloc(s, GFP_KERNEL);
			for (auto object : p)
				kmem_cache_free(s, object);
		}
		uint64_t both = slab_counts_of(s).cached;
		run_on(stays);
		fake_online = std::to_string(stays);
		os_calls.read_file = fake_online_cpus;
		EXPECT_GE(percpu_cpus_update(), 1);
		uint64_t left = slab_counts_of(s).cached;
		EXPECT_GE(left, 10u);
		EXPECT_LE(left + 10, both);
		EXPECT_EQ(slab_counts_of(s).inuse, 0u);
		EXPECT_STREQ(shim_slab_wrong(s), nullptr);
		/* Back again: as ever. */
		fake_online = std::to_string(std::min(stays, goes)) + "," +
			      std::to_string(std::max(stays, goes));
		EXPECT_GE(percpu_cpus_update(), 1);
		run_on(goes);
		void *p = kmem_cache_alloc(s, GFP_KERNEL);
		EXPECT_NE(p, nullptr);
		kmem_cache_free(s, p);
		os_calls = os_calls_linux;
	});
}

uint64_t pretend_ms = 1000;

/* Past its array, with a cache of its own. */
void take_the_slow_path(gfp_t flags)
{
	struct kmem_cache *s = kmem_cache_create("slow", 64, 0, 0, nullptr);

	kmem_cache_free(s, kmem_cache_alloc(s, flags));
	kmem_cache_destroy(s);
}

/* Nobody asks; a request that may enter the kernel looks once a second. */
void gone_unnoticed(bool looks)
{
	int stays = allowed_cpus()[0], goes = allowed_cpus()[1];
	static int told = 0;
	struct percpu_notifier n = {};

	os_calls.now_ms = [] { return pretend_ms; };
	n.offline = [](unsigned, void *) { told++; };
	percpu_notifier_register(&n);
	Cache s("gone", 64);
	run_on(goes);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	run_on(stays);
	uint64_t held = slab_counts_of(s).cached;
	ASSERT_GT(held, 0u);
	take_the_slow_path(GFP_KERNEL);
	fake_online = std::to_string(stays);
	os_calls.read_file = fake_online_cpus;
	pretend_ms += 900;
	take_the_slow_path(GFP_KERNEL);
	EXPECT_EQ(slab_counts_of(s).cached, held) << "not before time";
	struct kmem_cache *quiet = kmem_cache_create("quiet", 64, 0, 0, nullptr);
	pretend_ms += 200;
	kmem_cache_free(quiet, kmem_cache_alloc(quiet, GFP_NOWAIT));
	EXPECT_EQ(slab_counts_of(s).cached, held) << "not who may not enter the kernel";
	take_the_slow_path(GFP_KERNEL);
	EXPECT_EQ(slab_counts_of(s).cached, looks ? 0 : held);
	EXPECT_EQ(told, 0) << "the program's hear of it in percpu_cpus_update()";
	EXPECT_GE(percpu_cpus_update(), 1);
	EXPECT_GE(told, 1);
	EXPECT_EQ(slab_counts_of(s).cached, 0u);
	os_calls = os_calls_linux;
}

TEST(SlabCpusTest, ACpuThatIsGoneIsFoundOut)
{
	if (allowed_cpus().size() < 2)
		GTEST_SKIP() << "one CPU";
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:cpu_id", 1);
		gone_unnoticed(true);
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:cpu_id,look_ms:0", 1);
		gone_unnoticed(false);
	});
}

std::atomic<int> last_cpu;

ssize_t cpus_to_the_last(const char *path, char *buf, size_t size)
{
	if (!strcmp(path, "/sys/devices/system/cpu/online"))
		return snprintf(buf, size, "0-%d\n", last_cpu.load());
	return os_calls_linux.read_file(path, buf, size);
}

/* The program makes no request at all; the thread is there for other reasons. */
TEST(SlabCpusTest, TheBackgroundThreadFindsOutToo)
{
	if (allowed_cpus().size() < 2)
		GTEST_SKIP() << "one CPU";
	EXPECT_FRESH_PROCESS_PASSES([] {
		int stays = allowed_cpus()[0], goes = allowed_cpus()[1];

		setenv("UKMEM_CONF",
		       "percpu:cpu_id,look_ms:10,background_thread:always,dirty_max:0,"
		       "dirty_decay_ms:3000",
		       1);
		last_cpu = goes;
		os_calls.read_file = cpus_to_the_last;
		Cache s("gone", 64);
		run_on(goes);
		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
		run_on(stays);
		ASSERT_GT(slab_counts_of(s).cached, 0u);
		free_pages(__get_free_pages(GFP_KERNEL, 10), 10); /* more than a CPU keeps */
		take_the_slow_path(GFP_KERNEL);			  /* starts it */
		last_cpu = stays;
		for (int i = 0; i < 500 && slab_counts_of(s).cached; i++)
			usleep(20000);
		EXPECT_EQ(slab_counts_of(s).cached, 0u);
	});
}

/* The same while threads use that CPU after all: nothing is lost. */
TEST(SlabCpusTest, DrainedWhileInUse)
{
	if (allowed_cpus().size() < 2)
		GTEST_SKIP() << "one CPU";
	EXPECT_FRESH_PROCESS_PASSES([] {
		Cache s("busy", 128);
		int stays = allowed_cpus()[0], goes = allowed_cpus()[1];
		std::atomic<bool> stop{ false };

		os_calls.read_file = fake_online_cpus;
		{
			Threads threads(4, [&](unsigned) {
				std::vector<void *> live;

				while (!stop) {
					for (int i = 0; i < 100; i++)
						live.push_back(kmem_cache_alloc(s, GFP_KERNEL));
					for (void *p : live)
						kmem_cache_free(s, p);
					live.clear();
				}
			});
			for (int i = 0; i < 300; i++) {
				fake_online = std::to_string(i % 2 ? stays : goes);
				if (i % 5 == 0)
					fake_online =
						"0-" + std::to_string(allowed_cpus().back());
				percpu_cpus_update();
			}
			stop = true;
		}
		EXPECT_EQ(slab_counts_of(s).inuse, 0u);
		EXPECT_EQ(slab_counts_of(s).allocs, slab_counts_of(s).frees);
		EXPECT_STREQ(shim_slab_wrong(s), nullptr);
		os_calls = os_calls_linux;
	});
}

} // namespace
