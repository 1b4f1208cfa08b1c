/* SPDX-License-Identifier: MIT */
/* What caches give when a request finds no page: slabs, and objects of other CPUs. */
#include <chrono>
#include <thread>

#include "page_util.h"
#include "slab_attr_util.h"

namespace
{

/* Objects that were freed into caches: their pages serve a large request. */
void caches_are_shrunk(size_t size)
{
	configure("limit:64m");
	std::vector<void *> live;
	struct kmem_cache *s = kmem_cache_create("idle", size, 0, 0, nullptr);
	size_t bytes = 0;

	for (; bytes < 50 * kMiB; bytes += size) {
		live.push_back(kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOWARN));
		if (!live.back())
			break;
		memset(live.back(), 1, size);
	}
	EXPECT_GT(bytes, 40 * kMiB);
	for (void *p : live)
		if (p)
			kmem_cache_free(s, p);
	void *large = alloc_pages_exact(56 * kMiB, GFP_KERNEL);
	EXPECT_NE(large, nullptr);
	free_pages_exact(large, 56 * kMiB);
	kmem_cache_destroy(s);
	expect_whole();
}

TEST(SlabReclaimTest, FreeObjectsBecomePages)
{
	EXPECT_FRESH_PROCESS_PASSES([] { caches_are_shrunk(64); });
	EXPECT_FRESH_PROCESS_PASSES([] { caches_are_shrunk(3000); });
}

/* Requests that fail one after the other stop CPUs for what is there, and not again. */
void only_what_is_held_is_drained()
{
	configure("limit:16m");
	struct kmem_cache *s = kmem_cache_create("idle", 64, 0, 0, nullptr);
	std::vector<void *> live(1000);

	for (auto &p : live)
		ASSERT_NE(p = kmem_cache_alloc(s, GFP_KERNEL), nullptr);
	for (size_t i = 0; i < live.size(); i += 2)
		kmem_cache_free(s, live[i]); /* no slab becomes empty */
	Pages pages = fill(GFP_KERNEL, 0);
	unsigned long before = number(s, "cpuslab_flush");
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(alloc_pages(GFP_KERNEL | __GFP_NOWARN, 1), nullptr);
	EXPECT_EQ(number(s, "cpuslab_flush"), before) << "nothing was freed";
	for (size_t i = 1; i < live.size(); i += 2)
		kmem_cache_free(s, live[i]);
	Pages more = fill(GFP_KERNEL, 1);
	EXPECT_FALSE(more.empty());
	EXPECT_GT(number(s, "cpuslab_flush"), before);
	free_all(more, 1);
	free_all(pages, 0);
	kmem_cache_destroy(s);
	expect_whole();
}

TEST(SlabReclaimTest, OnlyWhatIsHeldIsDrained)
{
	EXPECT_FRESH_PROCESS_PASSES(only_what_is_held_is_drained);
}

/* A request that finds no page gets the last free objects, though another CPU has them. */
void other_cpus_objects()
{
	auto cpus = allowed_cpus();
	std::vector<void *> live;

	configure("limit:16m,percpu:cpu_id");
	struct kmem_cache *s = kmem_cache_create("elsewhere", 64, 0, 0, nullptr);
	run_on(cpus[1]);
	for (int i = 0; i < 200; i++)
		live.push_back(kmem_cache_alloc(s, GFP_KERNEL));
	for (int i = 0; i < 5; i++) {
		kmem_cache_free(s, live.back());
		live.pop_back();
	}
	run_on(cpus[0]);
	Pages pages = fill(GFP_KERNEL, 0);
	while (void *p = kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOWARN))
		live.push_back(p);
	EXPECT_EQ(number(s, "objects"), number(s, "total_objects"));
	EXPECT_EQ(live.size(), number(s, "objects"));
	for (void *p : live)
		kmem_cache_free(s, p);
	free_all(pages, 0);
	kmem_cache_destroy(s);
	expect_whole();
}

TEST(SlabReclaimTest, OtherCpusObjectsAreFound)
{
	if (allowed_cpus().size() < 2)
		GTEST_SKIP() << "one CPU";
	EXPECT_FRESH_PROCESS_PASSES(other_cpus_objects);
}

/* A request of a cache that must not fail waits until another thread frees pages. */
void an_object_waits_for_pages()
{
	using clock = std::chrono::steady_clock;
	std::chrono::milliseconds wait(80);
	void *bulk[4];

	configure("limit:16m");
	struct kmem_cache *s = kmem_cache_create("waits", 512, 0, 0, nullptr);
	Pages pages = fill(GFP_KERNEL, 0);
	std::vector<void *> live;
	while (void *p = kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOWARN))
		live.push_back(p);
	EXPECT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL | __GFP_NOWARN, 4, bulk), 0);
	auto begin = clock::now();
	std::thread helper([&] {
		std::this_thread::sleep_for(wait);
		free_all(pages, 0);
	});
	void *p = kmem_cache_alloc(s, GFP_KERNEL | __GFP_NOFAIL);
	auto took = clock::now() - begin;
	helper.join();
	ASSERT_NE(p, nullptr);
	EXPECT_GE(took, wait);
	memset(p, 1, 512);
	live.push_back(p);
	for (void *obj : live)
		kmem_cache_free(s, obj);
	kmem_cache_destroy(s);
	expect_whole();
}

TEST(SlabReclaimTest, AnObjectThatMustNotFailWaits)
{
	EXPECT_FRESH_PROCESS_PASSES(an_object_waits_for_pages);
}

} // namespace
