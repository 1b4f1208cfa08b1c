/* SPDX-License-Identifier: MIT */
/* Qmempools on CPUs that go, on several nodes, and with an owner. */
#include <chrono>

#include "fake_os.h"
#include "pool_shim.h"
#include "qmempool_util.h"
#include "slab_shim.h"

namespace
{

TEST(QmempoolCpusTest, TheArrayOfACpuThatGoesOfflineIsDrained)
{
	if (allowed_cpus().size() < 2)
		GTEST_SKIP() << "one CPU";
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:cpu_id", 1);
		int stays = allowed_cpus()[0], goes = allowed_cpus()[1];
		Pool p(64, 32);

		ukmem_trim(); /* not with its first stock */
		for (int cpu : { goes, stays }) {
			run_on(cpu);
			auto got = p.take(64);

			p.give(got);
		}
		EXPECT_EQ(p.stats().local, 128u);
		EXPECT_LT(p.stats().shared, 32u);
		fake_online = std::to_string(stays);
		os_calls.read_file = fake_online_cpus;
		EXPECT_GE(percpu_cpus_update(), 1);
		os_calls = os_calls_linux;
		EXPECT_EQ(p.stats().local, 64u) << "the other CPU's stay";
		EXPECT_EQ(p.stats().shared, 32u) << "the rest went to the cache";
		p.check(0);
		run_on(goes); /* there again, or still */
		auto got = p.take(100);
		p.give(got);
	});
}

int stops;

int counting_membarrier(int cmd, unsigned flags, int cpu)
{
	stops++;
	return os_calls_linux.membarrier(cmd, flags, cpu);
}

template <typename Function> int stops_of(Function function)
{
	stops = 0;
	os_calls.membarrier = counting_membarrier;
	function();
	os_calls.membarrier = os_calls_linux.membarrier;
	return stops;
}

/* A pool that nobody uses is emptied where no CPU can be stopped. */
TEST(QmempoolCpusTest, DestroyedWhereCpusCannotBeStopped)
{
	auto cpus = allowed_cpus();

	if (cpus.size() < 2)
		GTEST_SKIP() << "one CPU";
	EXPECT_FRESH_PROCESS_PASSES([cpus] {
		struct kmem_cache *s = kmem_cache_create("elements", 128, 0, 0, nullptr);
		struct qmempool *pool = qmempool_create(64, 256, 0, s, GFP_KERNEL);

		run_on(cpus[1]);
		qmempool_free(pool, qmempool_alloc(pool, GFP_KERNEL));
		run_on(cpus[0]);
		os_calls.membarrier = [](int, unsigned, int) { return -EPERM; };
		::testing::internal::CaptureStderr();
		qmempool_destroy(pool);
		kmem_cache_destroy(s);
		EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
		EXPECT_EQ(kmem_cache_find("elements"), nullptr);
	});
}

/* As a cache's: the elements left in the queue belong to no thread. */
TEST(QmempoolCpusTest, DestroyedWhereAnotherCpuHoldsTheQueue)
{
	struct kmem_cache *s = kmem_cache_create("held", 128, 0, 0, nullptr);
	struct qmempool *pool = qmempool_create(64, 256, 0, s, GFP_KERNEL);
	OsCallsGuard guard;
	std::vector<void *> got(200);

	for (void *&p : got)
		p = qmempool_alloc(pool, GFP_KERNEL);
	for (void *p : got)
		qmempool_free(pool, p);
	ASSERT_GT(stats_of(pool).shared, 0u);
	shim_hold_pool(pool, shim_no_cpu());
	os_calls.membarrier = [](int cmd, unsigned flags, int cpu) {
		return flags ? -ENOSYS : os_calls_linux.membarrier(cmd, flags, cpu);
	};
	::testing::internal::CaptureStderr();
	qmempool_destroy(pool);
	kmem_cache_destroy(s);
	EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
	EXPECT_EQ(kmem_cache_find("held"), nullptr);
}

/* Twenty pools are emptied by the stops that caches need anyway, or one more. */
TEST(QmempoolCpusTest, OneStopServesSeveralPoolsAndTheirCache)
{
	if (rseq_is_off())
		GTEST_SKIP() << "nothing is restarted";
	EXPECT_FRESH_PROCESS_PASSES([] {
		Pool p(64, 32);
		std::vector<struct qmempool *> others;

		auto fill = [&] {
			auto got = p.take(64);

			p.give(got);
			for (struct qmempool *pool : others)
				qmempool_free(pool, qmempool_alloc(pool, GFP_KERNEL));
			kmem_cache_free(p.cache, kmem_cache_alloc(p.cache, GFP_KERNEL));
		};
		ukmem_trim(); /* a process's first stop registers for more */
		fill();
		int alone = stops_of(ukmem_trim);
		EXPECT_GE(alone, 1);
		for (int i = 0; i < 20; i++)
			others.push_back(qmempool_create(64, 32, 0, p.cache, GFP_KERNEL));
		fill();
		EXPECT_LE(stops_of(ukmem_trim), alone + 1);
		p.check(0);
		for (struct qmempool *pool : others) {
			EXPECT_EQ(stats_of(pool).local, 0u);
			qmempool_destroy(pool);
		}
		EXPECT_EQ(kmem_cache_nr_allocated(p.cache), 0u);
	});
}

/* Finds two CPUs of different pretend nodes among those that the process may use. */
bool find_cpus(int (&cpu)[2])
{
	auto cpus = allowed_cpus();

	cpu[0] = cpu[1] = -1;
	for (int c : cpus)
		cpu[c % 2] = c;
	return cpu[0] >= 0 && cpu[1] >= 0;
}

/* CPU i is of node i % 2. */
void elements_of_other_nodes()
{
	int cpu[2];

	setenv("UKMEM_CONF", "numa_fake:2,percpu:cpu_id", 1);
	find_cpus(cpu);
	Pool p(64, 256);
	std::vector<void *> of[2];

	for (unsigned node = 0; node < 2; node++) {
		run_on(cpu[node]);
		of[node] = p.take(300);
		for (void *elem : of[node])
			ASSERT_EQ(shim_object_node(elem), node);
	}
	/* Freed on the wrong node: nothing stays in the pool. */
	auto before = p.stats();
	run_on(cpu[1]);
	for (void *elem : of[0])
		qmempool_free(p.pool, elem);
	EXPECT_EQ(p.stats().local, before.local);
	EXPECT_EQ(p.stats().shared, before.shared);
	EXPECT_EQ(p.stats().returned, before.returned + 300);
	/* In the queue there may be both; each gets its own. */
	run_on(cpu[0]);
	of[0] = p.take(200);
	p.give(of[0]);
	EXPECT_GT(p.stats().shared, 100u);
	run_on(cpu[1]);
	for (void *elem : p.take(250)) {
		EXPECT_EQ(shim_object_node(elem), 1u);
		of[1].push_back(elem);
	}
	run_on(cpu[0]);
	std::vector<void *> bulk(250);
	ASSERT_EQ(qmempool_alloc_bulk(p.pool, GFP_KERNEL, 250, bulk.data()), 250);
	for (void *elem : bulk)
		EXPECT_EQ(shim_object_node(elem), 0u);
	/* Both in one call. */
	for (size_t i = 0; i < 200; i++)
		bulk.insert(bulk.begin() + static_cast<long>(i * 2), of[1][i]);
	of[1].erase(of[1].begin(), of[1].begin() + 200);
	before = p.stats();
	qmempool_free_bulk(p.pool, bulk.size(), bulk.data());
	EXPECT_GE(p.stats().returned, before.returned + 200);
	EXPECT_LE(p.stats().local, 128u);
	p.check(of[1].size());
	for (int i = 0; i < 64; i++) {
		of[0] = p.take(1);
		EXPECT_EQ(shim_object_node(of[0][0]), 0u);
		of[1].push_back(of[0][0]);
	}
	p.give(of[1]);
	p.check(0);
}

TEST(QmempoolCpusTest, ElementsOfOtherNodesAreNotCached)
{
	int cpu[2];

	if (!find_cpus(cpu))
		GTEST_SKIP() << "no two CPUs, an even one and an odd one";
	EXPECT_FRESH_PROCESS_PASSES(elements_of_other_nodes);
}

/* A thread whose policy takes memory from another node gets no more than it asks for: no array
 * keeps the rest. */
void a_policy_for_another_node()
{
	struct nodemask other;

	setenv("UKMEM_CONF", "numa_fake:2", 1);
	os_calls.getcpu = [](unsigned *cpu) {
		*cpu = 0;
		return 0;
	};
	nodemask_clear(&other);
	nodemask_set(&other, 1);
	ASSERT_EQ(ukmem_set_mempolicy(MPOL_BIND, &other), 0);
	Pool p(64, 256);

	for (uint64_t i = 0; i < 100; i++) {
		const uint64_t before = p.stats().fetched;
		auto got = p.take(1);

		EXPECT_EQ(shim_object_node(got[0]), 1u);
		EXPECT_EQ(p.stats().fetched, before + 1);
		p.give(got);
	}
	p.check(0);
}

TEST(QmempoolCpusTest, APolicyForAnotherNodeFetchesWhatItNeeds)
{
	EXPECT_FRESH_PROCESS_PASSES(a_policy_for_another_node);
}

/* Arrays that CPUs of several nodes use in turn, as with mm_cid. */
thread_local unsigned pretend_cpu;

void arrays_that_move()
{
	setenv("UKMEM_CONF", "numa_fake:2", 1);
	os_calls.getcpu = [](unsigned *cpu) {
		*cpu = pretend_cpu;
		return 0;
	};
	Pool p(64, 128);

	for (unsigned round = 0; round < 40; round++) {
		pretend_cpu = round % 2;
		auto got = p.take(1 + round * 5);

		for (void *elem : got)
			ASSERT_EQ(shim_object_node(elem), pretend_cpu);
		EXPECT_EQ(p.stats().outstanding, static_cast<int64_t>(got.size()));
		p.give(got);
		EXPECT_EQ(p.stats().allocs, p.stats().frees);
		p.check(0);
	}
	EXPECT_GT(p.stats().local_hits, 100u);
}

TEST(QmempoolCpusTest, MisplacedElementsAreFound)
{
	EXPECT_FRESH_PROCESS_PASSES(arrays_that_move);
}

/* Owner contexts. */

#define IN_OWNER_CONTEXT(...)                                                                  \
	EXPECT_FRESH_PROCESS_PASSES([] {                                                       \
		setenv("UKMEM_CONF", "percpu:cpu_id", 1);                                      \
		Pool p(32, 64);                                                                \
		ASSERT_EQ(percpu_owner_enter(), 0);                                            \
		__VA_ARGS__;                                                                   \
		percpu_owner_exit();                                                           \
	})

void owner_moves(Pool &p)
{
	std::vector<void *> got, bulk;

	for (unsigned i = 0; i < 200; i++)
		got.push_back(__qmempool_alloc(p.pool, GFP_KERNEL));
	Pool::expect_distinct(got);
	p.check(200);
	/* With the others in turn: it is the same array. */
	for (unsigned i = 0; i < 200; i++) {
		if (i % 3)
			__qmempool_free(p.pool, got[i]);
		else
			qmempool_free(p.pool, got[i]);
		ASSERT_LE(p.stats().local, 32u);
		ASSERT_LE(p.stats().shared, 64u);
	}
	p.check(0);
	void *last = qmempool_alloc(p.pool, GFP_KERNEL);
	__qmempool_free(p.pool, last);
	EXPECT_EQ(qmempool_alloc(p.pool, GFP_KERNEL), last);
	qmempool_free(p.pool, last);
	EXPECT_EQ(__qmempool_alloc(p.pool, GFP_KERNEL), last);
	__qmempool_free(p.pool, last);
	__qmempool_free(p.pool, nullptr);
	for (size_t n : { 0u, 1u, 16u, 31u, 33u, 500u }) {
		bulk.resize(n);
		ASSERT_EQ(
			__qmempool_alloc_bulk(p.pool, GFP_KERNEL | __GFP_ZERO, n, bulk.data()),
			static_cast<int>(n));
		Pool::expect_distinct(bulk);
		p.check(n);
		for (void *elem : bulk) {
			EXPECT_EQ(static_cast<char *>(elem)[255], 0);
			memset(elem, 1, 256);
		}
		__qmempool_free_bulk(p.pool, n, bulk.data());
		p.check(0);
	}
	uint64_t hits = p.stats().local_hits;
	for (int i = 0; i < 1000; i++)
		__qmempool_free(p.pool, __qmempool_alloc(p.pool, GFP_KERNEL));
	EXPECT_GE(p.stats().local_hits, hits + 999);
	kmem_cache_fail(p.cache, 0, 0);
	got = p.take(1000);
	EXPECT_EQ(__qmempool_alloc(p.pool, GFP_KERNEL), nullptr);
	EXPECT_EQ(__qmempool_alloc_bulk(p.pool, GFP_KERNEL, 3, bulk.data()), 0);
	kmem_cache_fail(p.cache, -1, 0);
	p.give(got);
}

TEST(QmempoolOwnerTest, SameElementsSameCounts)
{
	IN_OWNER_CONTEXT(owner_moves(p));
}

/* Others empty the arrays meanwhile, on this CPU and on others; no element twice, none lost. */
void owner_beside_trims(Pool &p)
{
	std::atomic<bool> stop{ false };
	cpu_set_t all;

	CPU_ZERO(&all);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		CPU_SET(cpu, &all);
	std::thread trimmer([&] {
		sched_setaffinity(0, sizeof(all), &all);
		while (!stop)
			ukmem_trim();
	});
	std::thread preempting([&] { /* on the owner's CPU, not on its pool */
				     while (!stop)
					     usleep(50);
	});
	std::vector<void *> got;
	std::mt19937 random(7);
	auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
	uint64_t moves = 0;

	while (std::chrono::steady_clock::now() < end)
		for (int i = 0; i < 500; i++, moves++) {
			void *bulk[8];

			if (got.size() < 100 && random() % 2) {
				if (__qmempool_alloc_bulk(p.pool, GFP_KERNEL, 8, bulk) == 8)
					got.insert(got.end(), bulk, bulk + 8);
				got.push_back(__qmempool_alloc(p.pool, GFP_KERNEL));
				auto *mark = static_cast<int *>(got.back());
				*mark = 0;
			} else if (got.size() > 9) {
				__qmempool_free(p.pool, got.back());
				got.pop_back();
				__qmempool_free_bulk(p.pool, 8, &got[got.size() - 8]);
				got.resize(got.size() - 8);
			}
			if (i % 50 == 0)
				Pool::expect_distinct(got);
		}
	stop = true;
	trimmer.join();
	preempting.join();
	p.check(got.size());
	p.give(got);
	printf("%lu moves, %lu drained from outside\n", static_cast<unsigned long>(moves),
	       static_cast<unsigned long>(p.stats().returned));
	EXPECT_GT(p.stats().returned, 100u);
}

TEST(QmempoolOwnerTest, BesideTrims)
{
	IN_OWNER_CONTEXT(owner_beside_trims(p));
}

TEST(QmempoolOwnerDeathTest, OutsideAnOwnerContext)
{
#if UKMEM_DEBUG
	Pool p;
	void *elem = nullptr;

	EXPECT_DEATH(elem = __qmempool_alloc(p.pool, GFP_KERNEL),
		     "^ukmem: __qmempool_alloc\\(\\) at .*qmempool_cpus_test.cpp:[0-9]+: "
		     "thread [0-9]+ "
		     "does not own the CPU it is on \\(percpu_owner_enter\\)\n");
	EXPECT_DEATH(__qmempool_free(p.pool, elem), "__qmempool_free\\(\\) at ");
	EXPECT_DEATH(__qmempool_alloc_bulk(p.pool, GFP_KERNEL, 1, &elem),
		     "__qmempool_alloc_bulk\\(\\) at ");
	EXPECT_DEATH(__qmempool_free_bulk(p.pool, 0, &elem), "__qmempool_free_bulk\\(\\) at ");
#else
	GTEST_SKIP() << "debug builds look";
#endif
}

} // namespace
