/* SPDX-License-Identifier: MIT */
/*
 * Qmempools: what is refused at creation, how elements move between the levels, what is held
 * at most, caches that fail, nodes, CPUs that go, owner contexts. Threads: stress/.
 */
#include <sys/wait.h>

#include <cerrno>

#include "slab_util.h"

namespace
{

struct qmempool_stats stats_of(const struct qmempool *pool)
{
	struct qmempool_stats s;

	qmempool_stats_read(pool, &s);
	return s;
}

void run_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* A pool with its cache, used on one CPU. At the end nothing of it is left. */
class Pool
{
      public:
	explicit Pool(uint32_t local = 64, uint32_t shared = 128, uint32_t prealloc = 0,
		      unsigned size = 256)
	{
		sched_getaffinity(0, sizeof(before_), &before_);
		run_on(allowed_cpus()[0]);
		cache = kmem_cache_create("pooled", size, 0, 0, nullptr);
		pool = qmempool_create(local, shared, prealloc, cache, GFP_KERNEL);
		EXPECT_NE(pool, nullptr);
	}
	~Pool()
	{
		EXPECT_EQ(stats().outstanding, 0);
		EXPECT_EQ(stats().allocs, stats().frees);
		qmempool_destroy(pool);
		expect_nothing_left(cache);
		kmem_cache_destroy(cache);
		sched_setaffinity(0, sizeof(before_), &before_);
	}
	struct qmempool_stats stats() const
	{
		return stats_of(pool);
	}
	/* What the cache says is what the pool says. */
	void check(size_t outstanding)
	{
		auto s = stats();

		EXPECT_EQ(s.outstanding, static_cast<int64_t>(outstanding));
		EXPECT_EQ(kmem_cache_nr_allocated(cache), s.local + s.shared + outstanding);
	}
	std::vector<void *> take(size_t n, gfp_t gfp = GFP_KERNEL)
	{
		std::vector<void *> p;

		for (size_t i = 0; i < n; i++) {
			void *elem = qmempool_alloc(pool, gfp);

			if (!elem)
				break;
			p.push_back(elem);
		}
		expect_distinct(p);
		return p;
	}
	void give(std::vector<void *> &p)
	{
		for (void *elem : p)
			qmempool_free(pool, elem);
		p.clear();
	}
	static void expect_distinct(const std::vector<void *> &p)
	{
		EXPECT_EQ(std::set<void *>(p.begin(), p.end()).size(), p.size());
	}

	struct kmem_cache *cache;
	struct qmempool *pool;

      private:
	cpu_set_t before_;
};

struct Refused {
	uint32_t local, shared, prealloc;
	const char *said; /* nullptr: that is right */
};

TEST(QmempoolTest, SizesThatAreRefused)
{
	const Refused list[] = {
		{ 8, 128, 0, "localq_sz below the bulk of 16" },
		{ 0, 128, 0, "localq_sz below the bulk of 16" },
		{ 16, 32, 0, nullptr },
		{ 17, 128, 0, "localq_sz is no power of two: 17" },
		{ 48, 128, 0, "localq_sz is no power of two: 48" },
		{ 32768, 128, 0, "localq_sz above 16384" },
		{ 64, 16, 0, "sharedq_sz below bulk times refill multiplier, 32" },
		{ 64, 0, 0, "sharedq_sz below bulk times refill multiplier, 32" },
		{ 64, 33, 0, "sharedq_sz is no power of two: 33" },
		{ 64, 131072, 0, "sharedq_sz above 65536" },
		{ 64, 128, 129, "prealloc above sharedq_sz, 128" },
		{ 64, 128, 256, "prealloc above sharedq_sz, 128" },
		{ 64, 128, 128, nullptr },
		{ 1024, 65536, 16, nullptr },
	};
	struct kmem_cache *cache = kmem_cache_create("sizes", 64, 0, 0, nullptr);

	for (const Refused &r : list) {
		::testing::internal::CaptureStderr();
		errno = 0;
		auto *pool = qmempool_create(r.local, r.shared, r.prealloc, cache, GFP_KERNEL);
		int error = errno;
		std::string text = ::testing::internal::GetCapturedStderr();

		if (!r.said) {
			EXPECT_EQ(text, "");
			EXPECT_NE(pool, nullptr) << r.local << " " << r.shared;
			EXPECT_EQ(stats_of(pool).shared, r.prealloc);
			qmempool_destroy(pool);
			continue;
		}
		EXPECT_EQ(pool, nullptr);
		EXPECT_EQ(error, EINVAL);
		EXPECT_EQ(text, "ukmem: qmempool_create(sizes): " + std::string(r.said) + "\n");
	}
	expect_nothing_left(cache);
	kmem_cache_destroy(cache);
}

TEST(QmempoolTest, NoCache)
{
	::testing::internal::CaptureStderr();
	errno = 0;
	EXPECT_EQ(qmempool_create(64, 128, 0, nullptr, GFP_KERNEL), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(::testing::internal::GetCapturedStderr(),
		  "ukmem: qmempool_create(): no kmem_cache\n");
	qmempool_destroy(nullptr);
}

TEST(QmempoolTest, OddPreallocationIsLogged)
{
	::testing::internal::CaptureStderr();
	Pool p(64, 128, 20);
	EXPECT_EQ(::testing::internal::GetCapturedStderr(),
		  "ukmem: qmempool_create(pooled): prealloc 20 is no multiple of the bulk "
		  "of 16\n");
	EXPECT_EQ(p.stats().shared, 20u);
	p.check(0);
}

/* What of the memory that a pool needs fails. */
TEST(QmempoolTest, NoMemoryForThePool)
{
	struct kmem_cache *cache = kmem_cache_create("poor", 64, 0, 0, nullptr);
	void *warm = kmalloc(8, GFP_KERNEL);
	/* Two sizes of memory: the ring's, and one small enough for the descriptor. */
	struct kmem_cache *ring = shim_class_cache(128 + 1024 * sizeof(void *) + 63);
	struct kmem_cache *failing[] = {
		cache, cache, cache, ring, shim_class_cache(64), shim_class_cache(72)
	};
	const long after[] = { 0, 1, 3, 0, 0, 0 };
	unsigned refused = 0;

	for (size_t i = 0; i < std::size(after); i++) {
		::testing::internal::CaptureStderr();
		kmem_cache_fail(failing[i], after[i], 0);
		errno = 0;
		auto *pool = qmempool_create(64, 1024, 256, cache, GFP_KERNEL);
		int error = errno;
		kmem_cache_fail(failing[i], -1, 0);
		std::string text = ::testing::internal::GetCapturedStderr();

		EXPECT_EQ(kmem_cache_nr_allocated(cache), pool ? 256u : 0u);
		if (i < 4) {
			EXPECT_EQ(pool, nullptr) << i;
		}
		if (!pool) {
			refused++;
			EXPECT_EQ(error, ENOMEM);
			EXPECT_EQ(text, "ukmem: qmempool_create(poor): out of memory\n");
		}
		qmempool_destroy(pool);
		EXPECT_EQ(kmem_cache_nr_allocated(cache), 0u);
	}
	EXPECT_EQ(refused, 5u) << "one of the two small classes has the descriptor";
	kfree(warm);
	expect_nothing_left(cache);
	kmem_cache_destroy(cache);
}

TEST(QmempoolTest, PreallocatedElementsComeFirst)
{
	Pool p(64, 128, 64);
	void *elem = qmempool_alloc(p.pool, GFP_NOWAIT);

	EXPECT_EQ(p.stats().shared, 48u) << "a bulk";
	EXPECT_EQ(p.stats().local, 15u);
	EXPECT_EQ(p.stats().shared_hits, 1u);
	p.check(1);
	auto more = p.take(63);
	EXPECT_EQ(p.stats().fetched, 64u) << "nothing more of the cache";
	EXPECT_EQ(p.stats().shared, 0u);
	EXPECT_EQ(p.stats().refills, 4u);
	EXPECT_EQ(p.stats().shared_hits, 4u);
	EXPECT_EQ(p.stats().local_hits, 60u);
	p.check(64);
	qmempool_free(p.pool, elem);
	EXPECT_EQ(qmempool_alloc(p.pool, GFP_KERNEL), elem) << "the one used last";
	more.push_back(elem);
	p.give(more);
	EXPECT_EQ(p.stats().local, 64u);
	EXPECT_EQ(p.stats().drains, 0u);
	EXPECT_EQ(p.stats().allocs, 65u);
}

TEST(QmempoolTest, TwoBulksFromTheCacheAtOnce)
{
	Pool p;
	auto got = p.take(1);

	EXPECT_EQ(p.stats().fetched, 32u);
	EXPECT_EQ(p.stats().local, 16u);
	EXPECT_EQ(p.stats().shared, 15u);
	p.check(1);
	for (void *more : p.take(31))
		got.push_back(more);
	EXPECT_EQ(p.stats().fetched, 32u);
	EXPECT_EQ(p.stats().shared_hits, 1u)
		<< "sixteen of the array, then the queue's fifteen";
	p.give(got);
}

/* What is freed fills the array, the queue, and then goes to the cache. */
TEST(QmempoolTest, NeverMoreThanTheSlotsThereAre)
{
	Pool p(32, 64);
	auto got = p.take(500);
	uint64_t fetched = p.stats().fetched;

	p.check(500);
	for (size_t i = 0; i < got.size(); i++) {
		qmempool_free(p.pool, got[i]);
		ASSERT_LE(p.stats().local, 32u);
		ASSERT_LE(p.stats().shared, 64u);
	}
	p.check(0);
	EXPECT_EQ(p.stats().shared, 64u);
	EXPECT_GE(p.stats().local, 17u);
	EXPECT_EQ(p.stats().fetched, fetched);
	EXPECT_EQ(p.stats().returned, fetched - p.stats().local - 64);
	got.clear();
	got = p.take(p.stats().local + 64);
	EXPECT_EQ(p.stats().fetched, fetched) << "all that was held is used";
	p.give(got);
}

TEST(QmempoolTest, Bulks)
{
	Pool p(32, 64, 32);

	for (size_t n : { 0u, 1u, 2u, 15u, 16u, 17u, 31u, 32u, 33u, 100u, 3000u }) {
		std::vector<void *> bulk(n + 1, &p), one;

		ASSERT_EQ(qmempool_alloc_bulk(p.pool, GFP_KERNEL, n, bulk.data()),
			  static_cast<int>(n));
		EXPECT_EQ(bulk[n], &p) << "not behind the end";
		bulk.pop_back();
		p.check(n);
		one = p.take(5);
		bulk.insert(bulk.end(), one.begin(), one.end());
		Pool::expect_distinct(bulk);
		for (void *elem : bulk)
			memset(elem, 1, 256);
		qmempool_free_bulk(p.pool, bulk.size(), bulk.data());
		p.check(0);
		EXPECT_LE(p.stats().local, 32u);
		EXPECT_LE(p.stats().shared, 64u);
	}
	EXPECT_EQ(qmempool_alloc_bulk(p.pool, GFP_KERNEL, size_t(1) << 40, nullptr), 0);
	qmempool_free(p.pool, nullptr);
	qmempool_free_bulk(p.pool, 0, nullptr);
}

TEST(QmempoolTest, ZeroedElements)
{
	Pool p(32, 64, 0, 100);
	std::vector<void *> got = p.take(200);
	const std::string zeros(100, '\0');

	for (void *elem : got)
		memset(elem, 0x5a, 100);
	p.give(got);
	for (int i = 0; i < 60; i++) {
		got.push_back(qmempool_alloc(p.pool, GFP_KERNEL | __GFP_ZERO));
		EXPECT_EQ(memcmp(got.back(), zeros.data(), 100), 0);
	}
	std::vector<void *> bulk(120);
	ASSERT_EQ(qmempool_alloc_bulk(p.pool, GFP_KERNEL | __GFP_ZERO, 120, bulk.data()), 120);
	for (void *elem : bulk)
		EXPECT_EQ(memcmp(elem, zeros.data(), 100), 0);
	p.give(bulk);
	p.give(got);
}

TEST(QmempoolTest, ElementsStayConstructed)
{
	struct kmem_cache *cache =
		kmem_cache_create("built", 64, 0, 0, [](void *obj) { memset(obj, 7, 64); });
	auto *pool = qmempool_create(16, 32, 32, cache, GFP_KERNEL);
	std::vector<void *> got(300);

	for (int round = 0; round < 3; round++) {
		for (void *&elem : got) {
			elem = qmempool_alloc(pool, GFP_KERNEL);
			for (int i = 0; i < 64; i++)
				ASSERT_EQ(static_cast<char *>(elem)[i], 7);
		}
		qmempool_free_bulk(pool, got.size(), got.data());
	}
	qmempool_destroy(pool);
	expect_nothing_left(cache);
	kmem_cache_destroy(cache);
}

/* The cache fails now and then, for a while, or always. */
TEST(QmempoolTest, AFailingCacheLosesNothing)
{
	Pool p(16, 32);
	std::mt19937 random(static_cast<unsigned>(test_seed()));
	std::vector<void *> got;
	unsigned failed = 0;

	for (unsigned i = 0; i < 20000 / kSlow; i++) {
		size_t n = 1 + random() % 40;

		if (i % 16 == 0)
			kmem_cache_fail(p.cache, random() % 4, random() % 8);
		if (got.size() > 300 || random() % 5 < 2) {
			n = std::min(n, got.size());
			qmempool_free_bulk(p.pool, n, got.data() + got.size() - n);
			got.resize(got.size() - n);
		} else if (random() % 2) {
			std::vector<void *> bulk(n);
			int k = qmempool_alloc_bulk(p.pool, GFP_KERNEL, n, bulk.data());

			ASSERT_TRUE(k == 0 || k == static_cast<int>(n));
			failed += !k;
			got.insert(got.end(), bulk.begin(), bulk.begin() + k);
		} else {
			void *elem = qmempool_alloc(p.pool, GFP_KERNEL);

			failed += !elem;
			if (elem)
				got.push_back(elem);
		}
		ASSERT_EQ(p.stats().outstanding, static_cast<int64_t>(got.size()));
	}
	EXPECT_GT(failed, 10u);
	Pool::expect_distinct(got);
	p.check(got.size());
	/* What is held serves as long as there is any. */
	kmem_cache_fail(p.cache, 0, 0);
	size_t held = p.stats().local + p.stats().shared;
	auto last = p.take(1000);
	EXPECT_EQ(last.size(), held);
	EXPECT_EQ(qmempool_alloc(p.pool, GFP_KERNEL), nullptr);
	EXPECT_EQ(p.stats().local + p.stats().shared, 0u);
	kmem_cache_fail(p.cache, -1, 0);
	p.give(last);
	p.give(got);
}

/* Real shortage: the cache gives some of what is asked for, then none. */
TEST(QmempoolTest, ARefillThatGetsLess)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "limit:8m", 1);
		Pool p(32, 64, 0, 3000);

		for (int round = 0; round < 3; round++) {
			std::vector<void *> got = p.take(100000, GFP_KERNEL | __GFP_NOWARN),
					    bulk(64);

			EXPECT_GT(got.size(), 1000u);
			EXPECT_LT(got.size(), 4000u);
			p.check(got.size());
			EXPECT_EQ(p.stats().local + p.stats().shared, 0u)
				<< "all that there is";
			EXPECT_EQ(qmempool_alloc_bulk(p.pool, GFP_KERNEL, 64, bulk.data()), 0);
			for (int i = 0; i < 30; i++) {
				qmempool_free(p.pool, got.back());
				got.pop_back();
			}
			EXPECT_EQ(qmempool_alloc_bulk(p.pool, GFP_KERNEL, 64, bulk.data()), 0)
				<< "all or nothing";
			p.check(got.size());
			p.give(got);
			p.check(0);
		}
	});
}

TEST(QmempoolTest, DestroyWithElementsInUse)
{
	struct kmem_cache *cache = kmem_cache_create("held", 64, 0, 0, nullptr);
	auto *pool = qmempool_create(64, 128, 64, cache, GFP_KERNEL);
	void *p[3];

	for (void *&elem : p)
		elem = qmempool_alloc(pool, GFP_KERNEL);
	memset(p[0], 1, 64);
	::testing::internal::CaptureStderr();
	qmempool_destroy(pool);
	EXPECT_EQ(::testing::internal::GetCapturedStderr(),
		  "ukmem: qmempool_destroy(held): 3 elements still in use, pool kept\n");
	for (int i = 0; i < 64; i++)
		ASSERT_EQ(static_cast<char *>(p[0])[i], 1);
	/* It goes on working, and can be destroyed later. */
	void *more = qmempool_alloc(pool, GFP_KERNEL);
	ASSERT_NE(more, nullptr);
	EXPECT_EQ(stats_of(pool).outstanding, 4);
	qmempool_free(pool, more);
	qmempool_free_bulk(pool, 3, p);
	::testing::internal::CaptureStderr();
	qmempool_destroy(pool);
	EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
	expect_nothing_left(cache);
	kmem_cache_destroy(cache);
}

TEST(QmempoolTest, TrimGivesBackWhatIsHeld)
{
	Pool p(64, 128, 128), other(64, 128, 128);
	auto got = p.take(50);

	EXPECT_GT(p.stats().local, 0u);
	ukmem_trim();
	for (Pool *each : { &p, &other }) {
		EXPECT_EQ(each->stats().local, 0u);
		EXPECT_EQ(each->stats().shared, 0u);
	}
	p.check(50);
	other.check(0);
	EXPECT_EQ(slab_counts_of(other.cache).slabs, 0u) << "in the same trim";
	p.give(got);
}

TEST(QmempoolTest, ShortMemoryTakesWhatIsHeld)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "limit:16m", 1);
		Pool p(64, 2048, 2048, 4096);
		std::vector<struct page *> pages;

		EXPECT_EQ(p.stats().shared, 2048u);
		while (struct page *page = alloc_pages(GFP_KERNEL | __GFP_NOWARN, 0))
			pages.push_back(page);
		EXPECT_EQ(p.stats().shared + p.stats().local, 0u);
		EXPECT_GT(pages.size() * ukmem_page_size(), 14u << 20);
		for (struct page *page : pages)
			__free_pages(page, 0);
	});
}

std::string online;
ssize_t online_cpus(const char *path, char *buf, size_t size)
{
	if (!strcmp(path, "/sys/devices/system/cpu/online"))
		return snprintf(buf, size, "%s\n", online.c_str());
	return os_calls_linux.read_file(path, buf, size);
}

TEST(QmempoolTest, TheArrayOfACpuThatGoesOfflineIsDrained)
{
	if (allowed_cpus().size() < 2)
		GTEST_SKIP() << "one CPU";
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:cpu_id", 1);
		int stays = allowed_cpus()[0], goes = allowed_cpus()[1];
		Pool p(64, 32);

		for (int cpu : { goes, stays }) {
			run_on(cpu);
			auto got = p.take(64);

			p.give(got);
		}
		EXPECT_EQ(p.stats().local, 128u);
		EXPECT_LT(p.stats().shared, 32u);
		online = std::to_string(stays);
		os_calls.read_file = online_cpus;
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

/* Of the CPUs the process may use, two of different pretend nodes. */
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

TEST(QmempoolTest, ElementsOfOtherNodesAreNotCached)
{
	int cpu[2];

	if (!find_cpus(cpu))
		GTEST_SKIP() << "no two CPUs, an even one and an odd one";
	EXPECT_FRESH_PROCESS_PASSES(elements_of_other_nodes);
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

TEST(QmempoolTest, MisplacedElementsAreFound)
{
	EXPECT_FRESH_PROCESS_PASSES(arrays_that_move);
}

TEST(QmempoolTest, DebuggedWhileInUse)
{
	Pool p(16, 32);
	auto got = p.take(100);

	EXPECT_EQ(kmem_cache_debug(p.cache, SLAB_DEBUG_FLAGS), 0);
	for (void *elem : p.take(100))
		got.push_back(elem);
	p.give(got);
	got = p.take(150);
	EXPECT_EQ(kmem_cache_debug(p.cache, 0), 0);
	p.give(got);
	EXPECT_EQ(p.stats().outstanding, 0);
}

TEST(QmempoolTest, PassedThroughToLibc)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "passthrough:1,numa_fake:2", 1);
		struct kmem_cache *cache = kmem_cache_create("libc", 64, 0, 0, nullptr);
		auto *pool = qmempool_create(16, 32, 32, cache, GFP_KERNEL);
		std::vector<void *> p(200);

		ASSERT_EQ(qmempool_alloc_bulk(pool, GFP_KERNEL, 200, p.data()), 200);
		qmempool_free_bulk(pool, 200, p.data());
		qmempool_free(pool, qmempool_alloc(pool, GFP_KERNEL));
		EXPECT_EQ(stats_of(pool).outstanding, 0);
		EXPECT_LE(stats_of(pool).shared, 32u);
		qmempool_destroy(pool);
	});
}

TEST(QmempoolTest, ForkedChildGoesOn)
{
	Pool p(32, 64, 64);
	auto got = p.take(40);
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		p.give(got);
		got = p.take(200);
		p.give(got);
		qmempool_destroy(p.pool);
		_exit(kmem_cache_nr_allocated(p.cache) ? 1 : 0);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	p.check(40);
	p.give(got);
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

	EXPECT_DEATH(
		elem = __qmempool_alloc(p.pool, GFP_KERNEL),
		"^ukmem: __qmempool_alloc\\(\\) at .*qmempool_test.cpp:[0-9]+: thread [0-9]+ "
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
