/* SPDX-License-Identifier: MIT */
/* The pool table and the table of layers: known requests, every column's exact value. */
#include <errno.h>
#include <fcntl.h>

#include <map>
#include <sstream>

#include "percpu_util.h"
#include "printed.h"
#include "slab_attr_util.h"
#include "slab_util.h"

namespace
{

using Row = std::vector<std::string>;

Row words(const std::string &line)
{
	std::istringstream in(line);
	Row row;

	for (std::string word; in >> word;)
		row.push_back(word);
	return row;
}

/* Rows by their first word, the heading too. */
std::map<std::string, Row> rows_of(int (*print)(int fd))
{
	std::istringstream in(printed(print));
	std::map<std::string, Row> rows;

	for (std::string line; std::getline(in, line);) {
		Row row = words(line);

		if (!row.empty())
			rows[row[0]] = Row(row.begin() + 1, row.end());
	}
	return rows;
}

Row pool(const char *cache)
{
	return rows_of(ukmem_pools_print)[cache];
}

Row layers(const char *cache)
{
	return rows_of(ukmem_layers_print)[cache];
}

/* Slabs that the lists of CPUs keep. */
unsigned on_cpus(struct kmem_cache *s)
{
	return percpu_info().cpus_online * shim_cpu_partial_slabs(s);
}

/* The counts depend on the CPU that the thread runs on, on the number of nodes, and on the
 * number of objects in a slab. So all three are fixed. */
bool set_up()
{
	run_on(allowed_cpus().front());
	configure_slabs("numa_fake:1");
	return sysconf(_SC_PAGESIZE) == 4096;
}

#define EXPECT_PASSES_ON_ONE_CPU(...)                                                          \
	EXPECT_FRESH_PROCESS_PASSES([] {                                                       \
		if (set_up())                                                                  \
			__VA_ARGS__();                                                         \
	})

TEST(SlabTablesTest, Headings)
{
	EXPECT_EQ(rows_of(ukmem_pools_print)["Name"],
		  Row({ "Size", "Requests", "Fail", "Releases", "InUse", "Avail", "Pgreq",
			"Pgrel", "Npage", "PageSz", "Hiwat", "Minpg", "Maxpg", "Idle", "Flags",
			"Util%" }));
	EXPECT_EQ(rows_of(ukmem_layers_print)["Name"],
		  Row({ "Spin", "GrpSz", "Full", "Emty", "PoolLayer", "CacheLayer", "Hit%",
			"CpuLayer", "Hit%" }));
}

/*
 * Slabs of 16 objects; the array has 8 slots at first, and a refill fetches 5 objects. So 20
 * objects take 4 refills, of which the first makes a slab; the last finds one object and
 * makes a slab for those that nobody has asked for yet.
 */
TEST(SlabTablesTest, AllocateFreeAndShrink)
{
	EXPECT_PASSES_ON_ONE_CPU([] {
		struct kmem_cache *s = kmem_cache_create("known", 4096, 0, 0, nullptr);
		std::string most = std::to_string(1 + on_cpus(s));

		EXPECT_EQ(geometry_of(s).objects, 16u);
		EXPECT_TRUE(pool("known").empty()) << "not used yet";
		auto live = take_objects(s, 20);
		EXPECT_EQ(pool("known"),
			  Row({ "4096", "20", "0", "0", "20", "12", "2", "0", "2", "65536", "2",
				"1", most, "0", "0x0", "62.5" }));
		EXPECT_EQ(layers("known"),
			  Row({ "0", "8", "0", "1", "1", "4", "75.0", "20", "80.0" }));
		/* 8 fill the array, which grows to 16 then; the 17th sends 8 to their slabs. */
		for (int i = 0; i < 8; i++)
			kmem_cache_free(s, live[i]);
		EXPECT_EQ(layers("known"),
			  Row({ "0", "8", "1", "0", "1", "4", "75.0", "20", "80.0" }));
		for (int i = 8; i < 16; i++)
			kmem_cache_free(s, live[i]);
		EXPECT_EQ(layers("known"),
			  Row({ "0", "16", "1", "0", "1", "4", "75.0", "20", "80.0" }));
		for (int i = 16; i < 20; i++)
			kmem_cache_free(s, live[i]);
		EXPECT_EQ(pool("known"),
			  Row({ "4096", "20", "0", "20", "0", "32", "2", "0", "2", "65536", "2",
				"1", most, "0", "0x0", "0.0" }));
		EXPECT_EQ(layers("known"),
			  Row({ "0", "16", "0", "0", "1", "4", "75.0", "20", "80.0" }));
		/* Of the two empty slabs the node keeps one. */
		EXPECT_TRUE(shim_slab_drain(s));
		EXPECT_EQ(pool("known"),
			  Row({ "4096", "20", "0", "20", "0", "16", "2", "1", "1", "65536", "2",
				"1", most, "1", "0x0", "0.0" }));
		EXPECT_EQ(layers("known"),
			  Row({ "0", "16", "0", "1", "1", "4", "75.0", "20", "80.0" }));
		/* The array grows again; of a refill of 17 the slab that was kept has 16. */
		live = take_objects(s, 9);
		EXPECT_EQ(pool("known"),
			  Row({ "4096", "29", "0", "20", "9", "23", "3", "1", "2", "65536", "2",
				"1", most, "0", "0x0", "28.1" }));
		EXPECT_EQ(layers("known"),
			  Row({ "0", "32", "0", "0", "1", "5", "80.0", "29", "82.7" }));
		free_objects(s, live);
		EXPECT_EQ(kmem_cache_shrink(s), 0);
		EXPECT_EQ(pool("known"), Row({ "4096", "29", "0", "29", "0", "0", "3", "3", "0",
					       "65536", "2", "1", most, "0", "0x0", "0.0" }));
		kmem_cache_destroy(s);
	});
}

/* Whole slabs come back at once, and stay on the CPU's list. */
TEST(SlabTablesTest, BulkCountsObjects)
{
	EXPECT_PASSES_ON_ONE_CPU([] {
		struct kmem_cache *s = kmem_cache_create("bulk", 256, 0, 0, nullptr);
		std::string most = std::to_string(5 + on_cpus(s));
		void *p[160];

		EXPECT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, 160, p), 160);
		EXPECT_EQ(pool("bulk"),
			  Row({ "256", "160", "0", "0", "160", "0", "10", "0", "10", "4096",
				"10", "5", most, "0", "0x0", "100.0" }));
		EXPECT_EQ(layers("bulk"),
			  Row({ "0", "64", "0", "1", "160", "160", "0.0", "160", "0.0" }));
		/* 64 into the array, 64 into their 4 slabs, 32 into the array, grown. */
		kmem_cache_free_bulk(s, 160, p);
		EXPECT_EQ(pool("bulk"),
			  Row({ "256", "160", "0", "160", "0", "160", "10", "0", "10", "4096",
				"10", "5", most, "4", "0x0", "0.0" }));
		EXPECT_EQ(layers("bulk"),
			  Row({ "0", "128", "0", "0", "160", "160", "0.0", "160", "0.0" }));
		/* 96 out of the array, the rest of what the slabs have. */
		EXPECT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, 128, p), 128);
		EXPECT_EQ(pool("bulk"),
			  Row({ "256", "288", "0", "160", "128", "32", "10", "0", "10", "4096",
				"10", "5", most, "2", "0x0", "80.0" }));
		EXPECT_EQ(layers("bulk"),
			  Row({ "0", "256", "0", "1", "160", "192", "16.6", "288", "33.3" }));
		kmem_cache_free_bulk(s, 128, p);
		kmem_cache_destroy(s);
	});
}

TEST(SlabTablesTest, Failures)
{
	EXPECT_PASSES_ON_ONE_CPU([] {
		struct kmem_cache *s = kmem_cache_create("fails", 64, 0, 0, nullptr);

		kmem_cache_fail(s, 0, 3);
		for (int i = 0; i < 3; i++)
			EXPECT_EQ(kmem_cache_alloc(s, GFP_KERNEL), nullptr);
		EXPECT_EQ(pool("fails"),
			  Row({ "64", "0", "3", "0", "0", "0", "0", "0", "0", "4096", "0", "5",
				std::to_string(5 + on_cpus(s)), "0", "0x0", "0.0" }));
		EXPECT_EQ(layers("fails"),
			  Row({ "0", "0", "0", "0", "0", "0", "0.0", "0", "0.0" }));
		kmem_cache_fail(s, -1, 0);
		kmem_cache_destroy(s);
	});
}

/* Slabs that find a shard's lock taken: each time once, whether they wait for it or not. */
TEST(SlabTablesTest, SpinCountsEachTimeTheLockWasTaken)
{
	EXPECT_PASSES_ON_ONE_CPU([] {
		struct kmem_cache *s = kmem_cache_create("taken", 256, 0, 0, nullptr);
		std::atomic<bool> held(false);
		void *p[160];

		EXPECT_EQ(kmem_cache_attr_store(s, "cpu_partial", "0"), 0);
		EXPECT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, 160, p), 160);
		EXPECT_EQ(layers("taken")[0], "0");
		EXPECT_TRUE(shim_node_trylock(s, 0));
		kmem_cache_free_bulk(s, 160, p);
		shim_node_unlock(s, 0);
		EXPECT_EQ(shim_slab_deferred(s), 4u);
		EXPECT_EQ(layers("taken")[0], "4");
		EXPECT_EQ(pool("taken")[13], "4") << "deferred ones are idle, too";

		std::thread holder([&] {
			EXPECT_TRUE(shim_node_trylock(s, 0));
			held = true;
			while (number(s, "node_contended") == 4)
				usleep(100);
			shim_node_unlock(s, 0);
		});
		while (!held)
			usleep(100);
		kmem_cache_shrink(s);
		holder.join();
		EXPECT_GE(number(s, "node_contended"), 5u);
		EXPECT_EQ(layers("taken")[0], std::to_string(number(s, "node_contended")));
		kmem_cache_destroy(s);
	});
}

TEST(SlabTablesTest, FlagsAndSlabsThatStay)
{
	EXPECT_PASSES_ON_ONE_CPU([] {
		struct kmem_cache *s = kmem_cache_create(
			"flags", 64, 0, SLAB_HWCACHE_ALIGN | SLAB_TYPESAFE_BY_RCU, nullptr);
		auto live = take_objects(s, 3);

		free_objects(s, live);
		kmem_cache_shrink(s);
		EXPECT_EQ(pool("flags"),
			  Row({ "64", "3", "0", "3", "0", "64", "1", "0", "1", "4096", "1", "5",
				"inf", "1", "0x82000", "0.0" }));
		kmem_cache_destroy(s);
	});
}

/* Its objects come from other slabs meanwhile, with more room for each. */
TEST(SlabTablesTest, DebuggedCachesCountAllTheirSlabs)
{
	EXPECT_PASSES_ON_ONE_CPU([] {
		struct kmem_cache *s = kmem_cache_create("debugged", 64, 0, 0, nullptr);
		auto live = take_objects(s, 2);
		EXPECT_EQ(kmem_cache_debug(s, SLAB_RED_ZONE | SLAB_POISON), 0);
		auto more = take_objects(s, 3);
		Row row = pool("debugged");

		EXPECT_EQ(Row(row.begin(), row.begin() + 5), Row({ "64", "5", "0", "0", "5" }));
		EXPECT_EQ(Row(row.begin() + 6, row.begin() + 11),
			  Row({ "2", "0", "2", "4096", "2" }));
		EXPECT_EQ(row[14], "0xc00");
		free_objects(s, more);
		free_objects(s, live);
		row = pool("debugged");
		EXPECT_EQ(Row(row.begin(), row.begin() + 5), Row({ "64", "5", "0", "5", "0" }));
		kmem_cache_destroy(s);
	});
}

TEST(SlabTablesTest, NodesTogether)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure_slabs("numa_fake:2");
		struct kmem_cache *s = kmem_cache_create("nodes", 256, 0, 0, nullptr);
		void *p[2] = { kmem_cache_alloc_node(s, GFP_KERNEL, 0),
			       kmem_cache_alloc_node(s, GFP_KERNEL, 1) };
		Row row = pool("nodes");

		EXPECT_EQ(row[1], "2");
		EXPECT_EQ(row[4], "2");
		EXPECT_EQ(row[6], row[8]) << "Pgreq, Npage";
		EXPECT_EQ(row[10], row[8]) << "Hiwat is of both nodes at once";
		EXPECT_GE(std::stoul(row[8]), 2u);
		EXPECT_EQ(row[11], "10") << "Minpg: 5 on each";
		for (void *q : p)
			kmem_cache_free(s, q);
		kmem_cache_destroy(s);
	});
}

/* Slabs cut smaller for want of pages are counted with what they have. */
TEST(SlabTablesTest, SmallerSlabs)
{
	EXPECT_PASSES_ON_ONE_CPU([] {
		configure_slabs("numa_fake:1,limit:2M,pagesets:0");
		struct kmem_cache *s = kmem_cache_create("small", 4096, 0, 0, nullptr);
		std::vector<void *> live;

		while (void *p = kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOWARN))
			live.push_back(p);
		EXPECT_GT(shim_slab_event(s, SHIM_ORDER_FALLBACK), 0u);
		Row row = pool("small");
		EXPECT_EQ(row[1], std::to_string(live.size()));
		EXPECT_EQ(row[2], "1");
		EXPECT_LT(std::stoul(row[4]) + std::stoul(row[5]), 16 * std::stoul(row[8]));
		EXPECT_EQ(row[5], "0") << "it was used up";
		EXPECT_EQ(row[15], "100.0") << "of the pages that there are";
		free_objects(s, live);
		kmem_cache_destroy(s);
	});
}

TEST(SlabTablesTest, TheSumIsThatOfTheRows)
{
	EXPECT_PASSES_ON_ONE_CPU([] {
		struct kmem_cache *s = kmem_cache_create("most", 4096, 0, 0, nullptr);
		auto live = take_objects(s, 100);
		size_t inuse = 0, bytes = 0;

		for (auto &[name, row] : rows_of(ukmem_pools_print))
			if (row.size() == 16 && name != "Name") {
				inuse += std::stoul(row[0]) * std::stoul(row[4]);
				bytes += std::stoul(row[8]) * std::stoul(row[9]);
			}
		EXPECT_GT(inuse, 100u * 4096);
		std::string all = printed(ukmem_pools_print),
			    line = all.substr(all.rfind("\n\n"));
		char expected[128];
		snprintf(expected, sizeof(expected),
			 "\n\nIn use %zuK, total allocated %zuK; utilization %zu.%zu%%\n",
			 inuse / 1024, bytes / 1024, inuse * 100 / bytes,
			 inuse * 1000 / bytes % 10);
		EXPECT_EQ(line, expected);
		free_objects(s, live);
		kmem_cache_destroy(s);
	});
}

/* While others use the cache nothing breaks; when they are done the numbers are exact. */
TEST(SlabTablesTest, AddUpAfterThreads)
{
	struct kmem_cache *s = kmem_cache_create("threads", 512, 0, 0, nullptr);
	constexpr unsigned long kRounds = 4000 / kSlow;
	std::atomic<unsigned> running(4);
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++)
		threads.emplace_back([&] {
			void *p[50];

			for (unsigned long i = 0; i < kRounds; i++) {
				for (auto &q : p)
					q = kmem_cache_alloc(s, GFP_KERNEL);
				kmem_cache_free_bulk(s, 50, p);
			}
			running--;
		});
	while (running)
		for (auto print : { ukmem_pools_print, ukmem_layers_print })
			EXPECT_FALSE(printed(print).empty());
	for (auto &t : threads)
		t.join();
	Row row = pool("threads"), layer = layers("threads");

	EXPECT_EQ(row[1], std::to_string(4 * 50 * kRounds));
	EXPECT_EQ(row[3], row[1]);
	EXPECT_EQ(row[4], "0");
	EXPECT_EQ(std::stoul(row[8]), std::stoul(row[6]) - std::stoul(row[7]));
	EXPECT_EQ(std::stoul(row[5]), std::stoul(row[8]) * geometry_of(s).objects);
	EXPECT_GE(std::stoul(row[10]), std::stoul(row[8]));
	EXPECT_LE(std::stoul(row[10]), std::stoul(row[6]));
	EXPECT_EQ(layer[7], row[1]);
	EXPECT_LE(std::stoul(layer[4]), std::stoul(layer[5]));
	kmem_cache_destroy(s);
}

TEST(SlabTablesTest, ErrorsAreReturned)
{
	int full = open("/dev/full", O_WRONLY);

	kfree(kmalloc(1, GFP_KERNEL));
	for (auto print : { ukmem_pools_print, ukmem_layers_print, ukmem_size_classes_print }) {
		EXPECT_EQ(print(full), -ENOSPC);
		EXPECT_EQ(print(-1), -EBADF);
	}
	close(full);
}

} // namespace
