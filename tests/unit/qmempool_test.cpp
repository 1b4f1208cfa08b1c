/* SPDX-License-Identifier: MIT */
/*
 * Qmempools: what is refused at creation, how elements move between the levels, what is held
 * at most, caches that fail, who gets back what is held.
 */
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>

#include "qmempool_util.h"
#include "seccomp.h"

namespace
{

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
			EXPECT_EQ(stats_of(pool).shared,
				  std::max<uint32_t>(r.prealloc, QMEMPOOL_BULK));
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

/* Each piece of memory that a pool needs is refused in turn. */
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

/* A pool that was made or refused gives back all that it had besides its elements. */
TEST(QmempoolTest, NothingOfAPoolStays)
{
	struct kmem_cache *cache = kmem_cache_create("passing", 64, 0, 0, nullptr);
	void *warm = kmalloc(8, GFP_KERNEL);
	struct kmem_cache *ring = shim_class_cache(128 + 1024 * sizeof(void *) + 63);
	auto allocated = [] {
		struct ukmem_gauges g;

		ukmem_gauges_read(&g);
		return g.allocated;
	};
	auto make = [&] {
		qmempool_destroy(qmempool_create(64, 1024, 256, cache, GFP_KERNEL));
	};

	make();
	size_t before = allocated();
	make();
	EXPECT_EQ(allocated(), before);
	kmem_cache_fail(ring, 0, 0);
	::testing::internal::CaptureStderr();
	make();
	EXPECT_EQ(::testing::internal::GetCapturedStderr(),
		  "ukmem: qmempool_create(passing): out of memory\n");
	kmem_cache_fail(ring, -1, 0);
	EXPECT_EQ(allocated(), before);
	kfree(warm);
	expect_nothing_left(cache);
	kmem_cache_destroy(cache);
}

/* The program's first requests, and all of them such as may not block; as the original test. */
void first_use_is_atomic(uint32_t local, uint32_t shared, uint32_t prealloc)
{
	struct kmem_cache *cache = kmem_cache_create("atomic", 256, 0, 0, nullptr);
	auto *pool = qmempool_create(local, shared, prealloc, cache, GFP_ATOMIC);
	std::vector<void *> p;

	ASSERT_NE(pool, nullptr);
	for (uint32_t i = 0; i < 2 * shared; i++) {
		p.push_back(qmempool_alloc(pool, GFP_ATOMIC));
		ASSERT_NE(p.back(), nullptr) << i;
		memset(p.back(), 1, 256);
	}
	Pool::expect_distinct(p);
	for (void *elem : p)
		qmempool_free(pool, elem);
	ASSERT_EQ(qmempool_alloc_bulk(pool, GFP_ATOMIC, QMEMPOOL_BULK, p.data()),
		  QMEMPOOL_BULK);
	qmempool_free_bulk(pool, QMEMPOOL_BULK, p.data());
	EXPECT_EQ(stats_of(pool).outstanding, 0);
	qmempool_destroy(pool);
	kmem_cache_destroy(cache);
}

TEST(QmempoolTest, FirstUseIsAtomic)
{
	EXPECT_FRESH_PROCESS_PASSES([] { first_use_is_atomic(32, 128, 0); });
	EXPECT_FRESH_PROCESS_PASSES([] { first_use_is_atomic(32, 128, 16); });
	EXPECT_FRESH_PROCESS_PASSES([] { first_use_is_atomic(256, 1024, 1024); });
}

TEST(QmempoolTest, PreallocatedElementsComeFirst)
{
	Pool p(64, 128, 64);
	void *elem = qmempool_alloc(p.pool, GFP_NOWAIT);

	EXPECT_EQ(p.stats().shared, 32u) << "a bulk";
	EXPECT_EQ(p.stats().local, 31u);
	EXPECT_EQ(p.stats().shared_hits, 1u);
	p.check(1);
	auto more = p.take(63);
	EXPECT_EQ(p.stats().fetched, 64u) << "nothing more of the cache";
	EXPECT_EQ(p.stats().shared, 0u);
	EXPECT_EQ(p.stats().refills, 2u);
	EXPECT_EQ(p.stats().shared_hits, 2u);
	EXPECT_EQ(p.stats().local_hits, 62u);
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
	Pool p(32, 128);
	auto got = p.take(QMEMPOOL_BULK + 1); /* the first stock, and one more */

	EXPECT_EQ(p.stats().fetched, QMEMPOOL_BULK + 32u);
	EXPECT_EQ(p.stats().local, 16u);
	EXPECT_EQ(p.stats().shared, 15u);
	p.check(QMEMPOOL_BULK + 1);
	for (void *more : p.take(31))
		got.push_back(more);
	EXPECT_EQ(p.stats().fetched, QMEMPOOL_BULK + 32u);
	EXPECT_EQ(p.stats().shared_hits, 2u)
		<< "of the stock; after sixteen of the array, of the queue's fifteen";
	p.give(got);
}

/* A bulk is half of the array, from 16 to 256, if two of them fit into the queue. */
TEST(QmempoolTest, LargeArraysMoveMoreAtOnce)
{
	struct {
		uint32_t local, shared, bulk;
	} sizes[] = { { 16, 32, 16 },	  { 64, 1024, 32 },   { 128, 1024, 64 },
		      { 256, 1024, 128 }, { 512, 1024, 256 }, { 16384, 1024, 256 },
		      { 512, 128, 64 },	  { 16384, 32, 16 } };

	for (auto &size : sizes) {
		Pool p(size.local, size.shared);
		auto got = p.take(QMEMPOOL_BULK + 1); /* the first stock, and one more */

		size.local = std::min(size.local, 16383u); /* an array holds no more */

		EXPECT_EQ(p.stats().fetched, QMEMPOOL_BULK + 2 * size.bulk) << size.local;
		EXPECT_EQ(p.stats().local, std::min(size.bulk, size.local)) << size.local;
		EXPECT_EQ(p.stats().shared, size.bulk - 1) << size.local;
		for (void *more : p.take(size.bulk + 1))
			got.push_back(more);
		EXPECT_EQ(p.stats().refills, 2u) << size.local;
		EXPECT_EQ(p.stats().local, size.bulk - 2) << "all of the queue's but one";
		for (void *more : p.take(2 * size.local))
			got.push_back(more);
		while (p.stats().local < size.local) {
			qmempool_free(p.pool, got.back());
			got.pop_back();
		}
		EXPECT_EQ(p.stats().drains, 0u) << size.local;
		uint64_t shared = p.stats().shared;
		qmempool_free(p.pool, got.back());
		got.pop_back();
		EXPECT_EQ(p.stats().drains, 1u) << size.local;
		EXPECT_EQ(p.stats().local, size.local - size.bulk + 1) << size.local;
		EXPECT_EQ(p.stats().shared, std::min<uint64_t>(shared + size.bulk, size.shared))
			<< size.local;
		p.check(got.size());
		p.give(got);
	}
}

/* Elements that are freed fill the array, then the queue, and then go to the cache. */
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
	/* The elements that the pool holds are handed out until there are none. */
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
			auto before = p.stats();
			EXPECT_GT(before.local, 0u);
			EXPECT_EQ(qmempool_alloc_bulk(p.pool, GFP_KERNEL, 64, bulk.data()), 0)
				<< "all or nothing";
			EXPECT_EQ(p.stats().allocs, before.allocs);
			EXPECT_EQ(p.stats().frees, before.frees);
			EXPECT_EQ(p.stats().local_hits, before.local_hits);
			EXPECT_EQ(p.stats().shared_hits, before.shared_hits);
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

/* An object of the cache that is freed into the pool hides an element, which stays valid. */
TEST(QmempoolTest, DestroyWithObjectsOfTheCache)
{
	struct kmem_cache *cache = kmem_cache_create("guests", 64, 0, 0, nullptr);
	auto *pool = qmempool_create(64, 128, 64, cache, GFP_KERNEL);
	void *p[3];

	for (void *&elem : p)
		elem = qmempool_alloc(pool, GFP_KERNEL);
	memset(p[0], 1, 64);
	qmempool_free(pool, kmem_cache_alloc(cache, GFP_KERNEL));
	EXPECT_EQ(stats_of(pool).outstanding, 2);
	::testing::internal::CaptureStderr();
	qmempool_destroy(pool);
	EXPECT_EQ(::testing::internal::GetCapturedStderr(),
		  "ukmem: qmempool_destroy(guests): 2 elements still in use, pool kept\n");
	qmempool_free(pool, p[2]);
	qmempool_free(pool, kmem_cache_alloc(cache, GFP_KERNEL));
	qmempool_destroy(pool);
	EXPECT_EQ(kmem_cache_nr_allocated(cache), 2u);
	for (int i = 0; i < 64; i++)
		ASSERT_EQ(static_cast<char *>(p[0])[i], 1);
	kmem_cache_free(cache, p[0]);
	kmem_cache_free(cache, p[1]);
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

/* By all levels. (Where CPUs take turns at the queue it is different: alf_queue.h.) */
struct qmempool *quiet;

void make_quiet_pool()
{
	run_on(allowed_cpus()[0]);
	struct kmem_cache *cache = kmem_cache_create("quiet", 64, 0, 0, nullptr);
	std::vector<void *> p(2000);

	quiet = qmempool_create(16, 32, 32, cache, GFP_KERNEL);
	EXPECT_EQ(qmempool_alloc_bulk(quiet, GFP_KERNEL, p.size(), p.data()), 2000);
	qmempool_free_bulk(quiet, p.size(), p.data());
}

bool use_quiet_pool()
{
	static void *p[1500];

	for (int round = 0; round < 10; round++) {
		for (void *&elem : p)
			elem = qmempool_alloc(quiet, GFP_NOWAIT);
		for (void *elem : p) {
			if (!elem)
				return false;
			qmempool_free(quiet, elem);
		}
		if (!qmempool_alloc_bulk(quiet, GFP_ATOMIC, 700, p))
			return false;
		qmempool_free_bulk(quiet, 700, p);
	}
	return stats_of(quiet).outstanding == 0 && stats_of(quiet).fetched > 10000;
}

TEST(QmempoolTest, WhoMayNotBlockMakesNoSystemCalls)
{
	expect_no_system_calls(make_quiet_pool, use_quiet_pool);
}

void a_pool_just_made()
{
	run_on(allowed_cpus()[0]);
	quiet = qmempool_create(32, 128, 0, kmem_cache_create("first", 2000, 0, 0, nullptr),
				GFP_ATOMIC);
}

/* Takes the pool's own elements, and as many again from the cache. */
bool two_bulks_at_once()
{
	for (int i = 0; i < 2 * QMEMPOOL_BULK; i++)
		if (!qmempool_alloc(quiet, GFP_ATOMIC))
			return false;
	return true;
}

TEST(QmempoolTest, FirstUseMakesNoSystemCall)
{
	expect_no_system_calls(a_pool_just_made, two_bulks_at_once);
}

} // namespace
