/* SPDX-License-Identifier: MIT */
/* ukmem_verify(): sound where nothing is wrong, and what is broken on purpose is found. */
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "page_util.h"
#include "test_util.h"
#include "verify_shim.h"

#include "ukmem/kmalloc.h"
#include "ukmem/qmempool.h"
#include "ukmem/slab.h"
#include "ukmem/stats.h"

namespace
{

struct Findings {
	int n;
	std::string text;
};

Findings verify()
{
	Findings f;
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	f.n = ukmem_verify(out);
	fclose(out);
	f.text = text;
	free(text);
	return f;
}

/* Something in every place: arrays, slabs of CPUs and nodes, queues, pagesets. */
struct kmem_cache *use_all()
{
	struct kmem_cache *s = kmem_cache_create("verified", 200, 0, 0, nullptr);
	struct qmempool *pool = qmempool_create(32, 256, 64, s, GFP_KERNEL);
	std::vector<void *> objs;

	for (int i = 0; i < 20000; i++)
		objs.push_back(kmem_cache_alloc(s, GFP_KERNEL));
	for (size_t i = 0; i < objs.size(); i++)
		if (i % 7)
			kmem_cache_free(s, objs[i]);
	for (size_t size = 1; size < 4u << 20; size = size * 3 / 2 + 1)
		kfree(kmalloc(size, GFP_KERNEL));
	qmempool_free(pool, qmempool_alloc(pool, GFP_KERNEL));
	return s;
}

TEST(VerifyTest, SoundBeforeAnything)
{
	EXPECT_FRESH_PROCESS_PASSES([] { EXPECT_EQ(verify().n, 0); });
}

TEST(VerifyTest, SoundAfterUse)
{
	use_all();
	Findings f = verify();
	EXPECT_EQ(f.n, 0) << f.text;
	EXPECT_EQ(f.text, "");
	EXPECT_EQ(ukmem_verify(nullptr), 0);
}

TEST(VerifyTest, OthersMayGoOn)
{
	struct kmem_cache *s = use_all();
	std::atomic<bool> stop = false;
	std::vector<std::thread> threads;

	for (int t = 0; t < 3; t++)
		threads.emplace_back([&, t] {
			std::vector<void *> objs(300 + 100 * t);
			while (!stop) {
				for (auto &obj : objs)
					obj = kmem_cache_alloc(s, GFP_KERNEL);
				for (auto &obj : objs)
					kmem_cache_free(s, obj);
				kfree(kmalloc(100000 << t, GFP_KERNEL));
			}
		});
	for (int i = 0; i < 20; i++) {
		Findings f = verify();
		EXPECT_EQ(f.n, 0) << f.text;
	}
	stop = true;
	for (auto &t : threads)
		t.join();
}

/* Slabs on pages aside, which requests get that must not wait for a zone, on a node's list: in
 * front of others, because slabs get there that lost an object last. */
void slabs_aside()
{
	setenv("UKMEM_CONF", "pagesets:0", 1);
	struct kmem_cache *s = kmem_cache_create("aside", 1024, 0, 0, nullptr);
	ASSERT_EQ(kmem_cache_attr_store(s, "cpu_partial", "0"), 0);
	std::vector<void *> objs;

	ASSERT_TRUE(shim_zone_trylock(0));
	for (int i = 0; i < 2000; i++)
		objs.push_back(kmem_cache_alloc(s, GFP_KERNEL));
	shim_zone_unlock(0);
	EXPECT_GT(vmstat("pgalloc_aside"), 0u);
	for (int i = 0; i < 2000; i++)
		objs.push_back(kmem_cache_alloc(s, GFP_KERNEL));
	for (size_t i = 0; i < objs.size(); i += 2)
		kmem_cache_free(s, objs[objs.size() - 1 - i]);
	Findings f = verify();
	EXPECT_EQ(f.n, 0) << f.text;
}

TEST(VerifyTest, SoundWithSlabsAside)
{
	EXPECT_FRESH_PROCESS_PASSES(slabs_aside);
}

/* Each breaks one thing; what is said of it. */
struct Breakage {
	enum shim_breakage what;
	const char *found;
};

class VerifyBreakageTest : public testing::TestWithParam<Breakage>
{
};

TEST_P(VerifyBreakageTest, IsFound)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		struct kmem_cache *s = use_all();
		if (!shim_break(s, GetParam().what))
			GTEST_SKIP() << "there is none here";
		Findings f = verify();
		EXPECT_GE(f.n, 1);
		EXPECT_NE(f.text.find(GetParam().found), std::string::npos) << f.text;
		EXPECT_EQ(f.text.rfind("ukmem_verify: ", 0), 0u) << f.text;
	});
}

INSTANTIATE_TEST_SUITE_P(
	All, VerifyBreakageTest,
	testing::Values(
		Breakage{ SHIM_BREAK_BITMAP, "its state does not tell what its bitmap does" },
		Breakage{ SHIM_BREAK_INUSE, "events inuse is" },
		Breakage{ SHIM_BREAK_NR_PARTIAL, "'verified', node 0: nr_partial is" },
		Breakage{ SHIM_BREAK_ARRAY_OBJECT, "is not the start of an object" },
		Breakage{ SHIM_BREAK_ARRAY_COUNT, "objects and a capacity of" },
		Breakage{ SHIM_BREAK_NR_FREE, "zone 0: nr_free is" },
		Breakage{ SHIM_BREAK_BLOCK_ORDER, "is on the list of another order" },
		Breakage{ SHIM_BREAK_FULL_SLAB, "is full by its state, but an object is free" },
		Breakage{ SHIM_BREAK_ON_NODE, "is on the node's list, where it is not" },
		Breakage{ SHIM_BREAK_SHARD, "is on another shard's list" },
		Breakage{ SHIM_BREAK_PLACE, "the array map or the places say something else" },
		Breakage{ SHIM_BREAK_ARRAY_MAP,
			  "the array map or the places say something else" },
		Breakage{ SHIM_BREAK_STOP_BIT, "the array is stopped" },
		Breakage{ SHIM_BREAK_CHARGE, "charged to its limit" },
		Breakage{ SHIM_BREAK_BUDGET, "budget: arrays and queues may hold" },
		Breakage{ SHIM_BREAK_STOCK, "is in stock, but no whole slab" },
		Breakage{ SHIM_BREAK_RUN_INSIDE, "another one begins at its page 1" },
		Breakage{ SHIM_BREAK_HELD, "zone 0: " },
		Breakage{ SHIM_BREAK_LIMITS, "pages: the process uses" },
		Breakage{ SHIM_BREAK_DESCRIBED, "pages are mapped that have no entries" },
		Breakage{ SHIM_BREAK_QUEUE_SLACK, "qmempool of 'verified': a side is" },
		Breakage{ SHIM_BREAK_QUEUE_WORD, "a side is nobody's that is known" },
		Breakage{ SHIM_BREAK_QUEUED, "in the queue of node 0 is not the start" },
		Breakage{ SHIM_BREAK_GATE, "gate: " },
		Breakage{ SHIM_BREAK_TABLE, "kmalloc: the table leads size 32 elsewhere" }),
	[](const testing::TestParamInfo<Breakage> &info) {
		return "Breakage" + std::to_string(info.param.what);
	});

TEST(VerifyTest, OfOneCache)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		struct kmem_cache *s = use_all();
		struct kmem_cache *other = kmem_cache_create("other", 64, 0, 0, nullptr);
		EXPECT_EQ(kmem_cache_attr_store(s, "validate", "1"), 0);
		EXPECT_EQ(kmem_cache_attr_store(s, "validate", "2"), -EINVAL);
		shim_break(s, SHIM_BREAK_INUSE);
		EXPECT_EQ(kmem_cache_attr_store(s, "validate", "1"), -EUCLEAN);
		EXPECT_EQ(kmem_cache_attr_store(other, "validate", "1"), 0);
		char buf[16];
		EXPECT_EQ(kmem_cache_attr_show(s, "validate", buf, sizeof(buf)), -EACCES);
	});
}

/*
 * A write beside an object of a debugged cache, whether the object is in use or free. Full
 * slabs are on no list, so objects of several slabs are written to.
 */
void writes_beside_objects()
{
	enum { SIZE = 64, OBJECTS = 500 };
	struct kmem_cache *s =
		kmem_cache_create("guarded", SIZE, 0, SLAB_RED_ZONE | SLAB_POISON, nullptr);
	std::vector<unsigned char *> objs;
	struct Write {
		int at;
		bool free;
		const char *found;
	};

	for (int i = 0; i < OBJECTS; i++) {
		objs.push_back(static_cast<unsigned char *>(kmem_cache_alloc(s, GFP_KERNEL)));
		memset(objs[i], i, SIZE);
	}
	for (int i = 0; i < OBJECTS; i += 5)
		kmem_cache_free(s, objs[i]);
	ASSERT_EQ(verify().n, 0);
	int i = 0;
	for (const Write &w : { Write{ SIZE, false, "Right guard overwritten at +64" },
				Write{ -1, false, "Left guard overwritten at -1" },
				Write{ SIZE, true, "Right guard overwritten at +64" },
				Write{ -1, true, "Left guard overwritten at -1" },
				Write{ 0, true, "Poison overwritten at +0" },
				Write{ SIZE - 1, true, "Poison overwritten at +63" } }) {
		volatile unsigned char *byte = &objs[w.free ? i : i + 1][w.at];
		unsigned char was = *byte;

		*byte = was ^ 1;
		Findings f = verify();
		EXPECT_EQ(f.n, 1) << f.text;
		EXPECT_NE(f.text.find("cache 'guarded': object "), std::string::npos) << f.text;
		EXPECT_NE(f.text.find(w.found), std::string::npos) << f.text;
		EXPECT_EQ(kmem_cache_attr_store(s, "validate", "1"), -EUCLEAN);
		*byte = was;
		EXPECT_EQ(kmem_cache_attr_store(s, "validate", "1"), 0);
		i += OBJECTS / 10;
	}
	ASSERT_EQ(verify().n, 0);
}

TEST(VerifyDebugTest, WritesBesideObjectsAreFound)
{
	if (TEST_ASAN)
		GTEST_SKIP() << "AddressSanitizer reports the write itself";
	EXPECT_FRESH_PROCESS_PASSES(writes_beside_objects);
}

/* Threads change an object's bytes and its state one after the other. No slab comes or goes. */
TEST(VerifyDebugTest, OthersMayGoOn)
{
	struct kmem_cache *s =
		kmem_cache_create("busy", 2000, 0, SLAB_RED_ZONE | SLAB_POISON, nullptr);
	std::atomic<bool> stop = false;
	std::vector<std::thread> threads;
	std::vector<void *> objs(200);

	for (auto &obj : objs)
		obj = kmem_cache_alloc(s, GFP_KERNEL);
	for (size_t i = 0; i < objs.size(); i += 2)
		kmem_cache_free(s, objs[i]);

	for (int t = 0; t < 3; t++)
		threads.emplace_back([&] {
			while (!stop) {
				void *obj = kmem_cache_alloc(s, GFP_KERNEL);

				memset(obj, 0x17, 2000);
				kmem_cache_free(s, obj);
			}
		});
	for (int i = 0; i < 50; i++) {
		Findings f = verify();
		EXPECT_EQ(f.n, 0) << f.text;
		EXPECT_EQ(kmem_cache_attr_store(s, "validate", "1"), 0);
	}
	stop = true;
	for (auto &t : threads)
		t.join();
	for (size_t i = 1; i < objs.size(); i += 2)
		kmem_cache_free(s, objs[i]);
	kmem_cache_destroy(s);
}

/* The same while slabs come and go: a thread may look at a slab that another is just making. */
TEST(VerifyDebugTest, SlabsMayComeAndGo)
{
	struct kmem_cache *s =
		kmem_cache_create("passing", 2000, 0, SLAB_RED_ZONE | SLAB_POISON, nullptr);
	std::atomic<bool> stop = false;
	std::vector<std::thread> threads;

	for (int t = 0; t < 3; t++)
		threads.emplace_back([&] {
			std::vector<void *> objs(200);

			while (!stop) {
				for (auto &obj : objs)
					obj = kmem_cache_alloc(s, GFP_KERNEL);
				for (auto &obj : objs)
					kmem_cache_free(s, obj);
				kmem_cache_shrink(s);
			}
		});
	for (int i = 0; i < 50; i++) {
		Findings f = verify();
		EXPECT_EQ(f.n, 0) << f.text;
	}
	stop = true;
	for (auto &t : threads)
		t.join();
	kmem_cache_destroy(s);
}

/* The verification reports a thread in the middle of a change only if that thread does not go
 * on in any of the pauses, 2, 8, 32 and 128 ms. */
TEST(VerifyTest, SignalsDoNotShortenThePauses)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		const itimerval often = { { 0, 700 }, { 0, 700 } };
		struct sigaction action = {};

		action.sa_handler = [](int) {};
		sigaction(SIGALRM, &action, nullptr);
		setitimer(ITIMER_REAL, &often, nullptr);
		const auto start = std::chrono::steady_clock::now();
		shim_verify_wrong();
		EXPECT_GE(std::chrono::steady_clock::now() - start,
			  std::chrono::milliseconds(170));
	});
}

/* CPU time of a verification, the shortest of three. */
double seconds_of_verify()
{
	double shortest = 1e9;

	for (int i = 0; i < 3; i++) {
		const clock_t start = clock();

		EXPECT_EQ(ukmem_verify(nullptr), 0);
		shortest = std::min(shortest, (double)(clock() - start) / CLOCKS_PER_SEC);
	}
	return shortest;
}

void use_more_caches(int n)
{
	for (int i = 0; i < n; i++) {
		struct kmem_cache *s = kmem_cache_create("one-of-many", 64, 0, 0, nullptr);

		EXPECT_NE(kmem_cache_alloc(s, GFP_KERNEL), nullptr);
	}
}

/* Forks and creations wait for it meanwhile. For each slab a walk through all caches takes 90
 * times as long with five times as many. */
TEST(VerifyTest, ManyCachesTakeNotLongerEach)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		use_more_caches(2000);
		const double few = seconds_of_verify();
		use_more_caches(8000);
		const double many = seconds_of_verify();

		EXPECT_LT(many, 25 * few) << few << " s with 2000, " << many << " s with 10000";
	});
}

} // namespace
