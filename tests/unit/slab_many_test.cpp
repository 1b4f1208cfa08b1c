/* SPDX-License-Identifier: MIT */
/*
 * Very many caches: however many there are, an object freed to another cache than its own is
 * reported at once and not handed out. The fast path of free serves all whose arrays lie
 * within reach of an entry of the array map; the others' frees reach their arrays by the slow
 * one.
 */
#include <algorithm>

#include "fake_os.h"
#include "slab_util.h"

extern "C" {
#include "base/config.h"
}

namespace
{

constexpr size_t kMany = 3000;

std::vector<struct kmem_cache *> make_caches(size_t n)
{
	std::vector<struct kmem_cache *> caches(n);

	for (auto &s : caches) {
		s = kmem_cache_create("one-of-many", 64, 0, 0, nullptr);
		EXPECT_NE(s, nullptr);
	}
	return caches;
}

/* The text that @free_it prints. */
std::string words_of(const std::function<void()> &free_it)
{
	config.invalid_free = INVALID_FREE_WARN;
	::testing::internal::CaptureStderr();
	free_it();
	std::string text = ::testing::internal::GetCapturedStderr();
	config.invalid_free = INVALID_FREE_ABORT;
	return text;
}

/* Each object to the cache behind its own; then to its own. */
void expect_wrong_frees_reported(const std::vector<struct kmem_cache *> &caches)
{
	const std::string told = ": not an object of this cache, but of one-of-many\nukmem:   "
				 "found at ";
	std::vector<void *> p;

	for (auto *s : caches)
		p.push_back(kmem_cache_alloc(s, GFP_KERNEL));
	for (size_t i = 0; i < caches.size(); i++) {
		struct kmem_cache *other = caches[(i + 1) % caches.size()];
		void *two[] = { p[i], p[i] };
		std::string text = words_of([&] { kmem_cache_free(other, p[i]); });

		ASSERT_EQ(text.find("ukmem: kmem_cache_free(): invalid pointer "), 0u)
			<< "cache " << i << ": " << text;
		ASSERT_NE(text.find(told), std::string::npos) << text;
		ASSERT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
		text = words_of([&] { kmem_cache_free_bulk(other, 2, two); });
		ASSERT_EQ(text.find("ukmem: kmem_cache_free_bulk(): invalid pointer "), 0u)
			<< "cache " << i << ": " << text;
		void *next = kmem_cache_alloc(other, GFP_KERNEL);
		ASSERT_NE(next, p[i]) << "cache " << i << " handed out what is not its own";
		kmem_cache_free(other, next);
	}
	/* The benign twins, by cache and without. */
	for (size_t i = 0; i < caches.size(); i++) {
		if (i % 2)
			kmem_cache_free(caches[i], p[i]);
		else
			kfree(p[i]);
		if (i % 16 == 0) {
			ASSERT_EQ(kmem_cache_nr_allocated(caches[i]), 0u) << "cache " << i;
		}
	}
}

/* After the first free, which opens the array, all frees of a few objects take the fast path.
 */
void expect_fast_frees(struct kmem_cache *s)
{
	void *p[4];

	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	for (int round = 0; round < 20; round++) {
		unsigned fast = 0;

		for (auto &q : p)
			q = kmem_cache_alloc(s, GFP_KERNEL);
		for (auto &q : p) {
			if (shim_slab_push_to(s, q))
				fast++;
			else
				kmem_cache_free(s, q); /* moved to another CPU, or aborted */
		}
		if (fast == 4)
			return;
	}
	ADD_FAILURE() << "no free took the fast path";
}

void expect_all_free_fast(const std::vector<struct kmem_cache *> &caches)
{
	for (size_t i = 0; i < caches.size() && !::testing::Test::HasFailure(); i += 37)
		expect_fast_frees(caches[i]);
	expect_fast_frees(caches.back());
}

void wrong_frees_of_many()
{
	expect_wrong_frees_reported(make_caches(kMany));
}

TEST(SlabManyTest, FreesToTheWrongCacheAreReported)
{
	EXPECT_FRESH_PROCESS_PASSES(wrong_frees_of_many);
}

TEST(SlabManyTest, LateCachesFreeFast)
{
	if (rseq_is_off())
		GTEST_SKIP() << "no fast path";
	EXPECT_FRESH_PROCESS_PASSES([] { expect_all_free_fast(make_caches(kMany)); });
}

/* A machine of so many CPUs, of which there are those of this one. */
void pretend_cpus(unsigned n)
{
	fake_files["/sys/devices/system/cpu/possible"] = "0-" + std::to_string(n - 1) + "\n";
	os_calls.read_file = [](const char *path, char *buf, size_t size) {
		ssize_t got = fake_read_file(path, buf, size);

		return got == -ENOENT ? os_calls_linux.read_file(path, buf, size) : got;
	};
}

/* A freed object lies in this CPU's array, so the next allocation gets it. */
void expect_frees_reach_the_array(struct kmem_cache *s)
{
	for (int round = 0; round < 20; round++) {
		void *p = kmem_cache_alloc(s, GFP_KERNEL);

		EXPECT_FALSE(shim_slab_push_to(s, p)) << "within reach after all";
		if (round % 2)
			kmem_cache_free(s, p);
		else
			kfree(p);
		void *again = kmem_cache_alloc(s, GFP_KERNEL);

		kmem_cache_free(s, again);
		if (again == p)
			return;
		/* moved to another CPU */
	}
	ADD_FAILURE() << "no object came back";
}

void expect_served(const std::vector<struct kmem_cache *> &caches)
{
	if (rseq_is_off())
		return;
	expect_fast_frees(caches.front());
	expect_frees_reach_the_array(caches.back());
}

/* Four GiB of addresses for one chunk: the arrays of most caches lie farther from the first
 * unit than an entry tells. */
void far_arrays()
{
	pretend_cpus(1024);
	auto caches = make_caches(600);

	expect_wrong_frees_reported(caches);
	expect_served(caches);
}

TEST(SlabManyTest, InDistantChunks)
{
	EXPECT_FRESH_PROCESS_PASSES(far_arrays);
}

void far_arrays_in_small_units()
{
	pretend_cpus(4096);
	os_calls.address_space_limit = [](size_t *bytes) {
		*bytes = 12ull << 30;
		return 0;
	};
	auto caches = make_caches(790);

	expect_wrong_frees_reported(caches);
	expect_served(caches);
}

TEST(SlabManyTest, InDistantChunksOfSmallUnits)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "killed: its shadow of so many caches is too large";
	EXPECT_FRESH_PROCESS_PASSES(far_arrays_in_small_units);
}

void far_arrays_of_nodes()
{
	configure_slabs("numa_fake:2");
	pretend_cpus(1024);
	auto caches = make_caches(600);

	expect_wrong_frees_reported(caches);
	expect_served(caches);
}

TEST(SlabManyTest, SeveralNodes)
{
	EXPECT_FRESH_PROCESS_PASSES(far_arrays_of_nodes);
}

} // namespace
