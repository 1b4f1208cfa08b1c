/* SPDX-License-Identifier: MIT */
/*
 * Pools with one thread: what they promise when their allocator fails, flags, ready pools,
 * resizing, nodes, no system calls. Mostly the allocator is the test's.
 */
#include <cerrno>
#include <cstring>

#include "mempool_util.h"
#include "page_util.h"
#include "seccomp.h"
#include "test_util.h"

namespace
{

TEST(MempoolTest, BadParameters)
{
	Source source;
	mempool_t pool;

	EXPECT_EQ(mempool_init(&pool, -1, Source::alloc, Source::free, &source), -EINVAL);
	EXPECT_EQ(mempool_init(&pool, 1, nullptr, Source::free, &source), -EINVAL);
	EXPECT_EQ(mempool_init(&pool, 1, Source::alloc, nullptr, &source), -EINVAL);
	EXPECT_FALSE(mempool_initialized(&pool));
	mempool_exit(&pool);
	EXPECT_EQ(mempool_create(-1, Source::alloc, Source::free, &source), nullptr);
	EXPECT_EQ(mempool_init_node(&pool, 1, Source::alloc, Source::free, &source, GFP_KERNEL,
				    4711),
		  -ENOMEM);
	EXPECT_EQ(source.calls, 0u);
	mempool_destroy(nullptr);
	mempool_t zero = {};
	mempool_exit(&zero);
	Pool p(1);
	EXPECT_EQ(mempool_resize(&p.pool, -1), -EINVAL);
	mempool_free(nullptr, &p.pool);
	EXPECT_EQ(p.count(), 1u);
}

/* It is filled in one pass, also behind slots that are full: in n * n steps this would take
 * minutes. */
TEST(MempoolTest, ALargeReserve)
{
	constexpr unsigned kMany = 100000;
	Source source;
	mempool_t pool;

	ASSERT_EQ(mempool_init(&pool, 5, Source::alloc, Source::free, &source), 0);
	EXPECT_EQ(mempool_resize(&pool, kMany), 0);
	EXPECT_EQ(source.outside(), kMany);
	EXPECT_TRUE(mempool_is_saturated(&pool));
	mempool_exit(&pool);
	EXPECT_EQ(source.outside(), 0u);
}

/* So are its elements handed out and taken back: in n * n steps this, too, would take minutes.
 */
TEST(MempoolTest, ALargeReserveIsFast)
{
	constexpr unsigned kMany = 500000;
	Pool p(static_cast<int>(kMany));
	std::vector<Element *> got;

	p.starve();
	while (Element *e = got.size() < kMany ? p.get(GFP_NOWAIT) : nullptr)
		got.push_back(e);
	ASSERT_EQ(got.size(), kMany);
	/* Some at a time, and a few of them anew in between. */
	while (!got.empty()) {
		p.put(got.back());
		got.pop_back();
		if (got.size() % 8 == 0) {
			Element *e = p.get(GFP_NOWAIT);

			ASSERT_TRUE(e) << got.size();
			p.put(e);
		}
	}
	EXPECT_EQ(p.count(), kMany);
}

TEST(MempoolTest, AFailedBeginningFreesAll)
{
	Source source;
	mempool_t pool;

	source.succeed_one_in = 2;
	EXPECT_EQ(mempool_init(&pool, 5, Source::alloc, Source::free, &source), -ENOMEM);
	EXPECT_GT(source.allocated, 0u);
	EXPECT_EQ(source.outside(), 0u);
	EXPECT_FALSE(mempool_initialized(&pool));
	mempool_exit(&pool);
	EXPECT_EQ(mempool_create(5, Source::alloc, Source::free, &source), nullptr);
	EXPECT_EQ(source.outside(), 0u);
}

TEST(MempoolTest, TheReserveServesWhenTheAllocatorFails)
{
	Pool p(4);
	std::vector<Element *> got;

	EXPECT_EQ(p.source.allocated, 4u);
	EXPECT_TRUE(mempool_is_saturated(&p.pool));
	/* As long as there is something else the reserve is left alone. */
	Element *e = p.get(GFP_KERNEL);
	EXPECT_EQ(p.source.allocated, 5u);
	EXPECT_TRUE(mempool_is_saturated(&p.pool));
	p.put(e);
	EXPECT_EQ(p.source.freed, 1u) << "the reserve is full";
	p.starve();
	for (int i = 0; i < 4; i++) {
		got.push_back(p.get(i % 2 ? GFP_NOWAIT : GFP_KERNEL));
		ASSERT_NE(got.back(), nullptr) << i;
		EXPECT_FALSE(mempool_is_saturated(&p.pool));
	}
	EXPECT_EQ(p.get(GFP_NOWAIT), nullptr);
	EXPECT_EQ(p.get(GFP_ATOMIC), nullptr);
	EXPECT_EQ(mempool_alloc_preallocated(&p.pool), nullptr);
	/* Elements that do not come from the pool fill the reserve all the same. */
	p.source.succeed_one_in = 1;
	Element *other = p.get(GFP_KERNEL);
	p.starve();
	p.put(other);
	EXPECT_EQ(mempool_alloc_preallocated(&p.pool), other);
	mempool_free(other, &p.pool);
	for (Element *g : got)
		p.put(g);
	EXPECT_EQ(p.source.freed, 2u);
	EXPECT_TRUE(mempool_is_saturated(&p.pool));
	EXPECT_EQ(p.count(), 4u);
}

TEST(MempoolTest, FlagsForTheAllocator)
{
	Pool p(1);

	p.put(p.get(GFP_KERNEL | __GFP_NOFAIL | __GFP_ZERO | __GFP_RETRY_MAYFAIL));
	EXPECT_EQ(p.source.last_flags, GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
	p.put(p.get(GFP_ATOMIC));
	EXPECT_EQ(p.source.last_flags, GFP_ATOMIC | __GFP_NORETRY | __GFP_NOWARN);
}

TEST(MempoolTest, ReadyPools)
{
	struct kmem_cache *cache = kmem_cache_create("pooled", 200, 0, 0, nullptr);
	size_t page = ukmem_page_size();
	mempool_t *slab = mempool_create_slab_pool(3, cache);
	mempool_t *block = mempool_create_kmalloc_pool(3, 5000);
	mempool_t *pages = mempool_create_page_pool(3, 2);
	mempool_t on_stack;

	void *p = mempool_alloc(slab, GFP_KERNEL);
	memset(p, 1, 200);
	mempool_free(p, slab);
	p = mempool_alloc_preallocated(slab);
	kmem_cache_free(cache, p);
	p = mempool_alloc(block, GFP_KERNEL);
	EXPECT_GE(ksize(p), 5000u);
	memset(p, 1, 5000);
	mempool_free(p, block);
	auto *run = static_cast<struct page *>(mempool_alloc(pages, GFP_KERNEL));
	memset(page_address(run), 1, page << 2);
	mempool_free(run, pages);
	ASSERT_EQ(mempool_init_page_pool(&on_stack, 2, 0), 0);
	EXPECT_NE(mempool_alloc_preallocated(&on_stack), nullptr);
	ASSERT_EQ(mempool_resize(&on_stack, 1), 0);
	mempool_exit(&on_stack);
	EXPECT_EQ(mempool_init_kmalloc_pool(&on_stack, 2, static_cast<size_t>(PTRDIFF_MAX)),
		  -ENOMEM);
	EXPECT_EQ(mempool_init_page_pool(&on_stack, 2, MAX_PAGE_ORDER + 1), -ENOMEM);
	mempool_destroy(slab);
	mempool_destroy(block);
	mempool_destroy(pages);
	kmem_cache_destroy(cache);
}

/* The library's own memory is used up; the reserve is not. */
TEST(MempoolTest, TheReserveOutlastsTheLimit)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("limit:64m");
		mempool_t *pages = mempool_create_page_pool(10, 4);
		unsigned n = 0;

		while (alloc_pages(GFP_KERNEL | __GFP_NOWARN, 4))
			n++;
		EXPECT_GT(n, 100u);
		for (int i = 0; i < 10; i++)
			EXPECT_NE(mempool_alloc(pages, i % 2 ? GFP_KERNEL : GFP_NOWAIT),
				  nullptr)
				<< i;
		EXPECT_EQ(mempool_alloc(pages, GFP_NOWAIT), nullptr);
	});
}

/* The flags with which the library asked the shrinker below. */
unsigned shrinker_calls;
gfp_t shrinker_flags;

unsigned long count_one(struct shrinker *, struct shrink_control *)
{
	return 1;
}

unsigned long note_flags(struct shrinker *, struct shrink_control *sc)
{
	shrinker_calls++;
	shrinker_flags |= sc->gfp_mask;
	return SHRINK_STOP;
}

/* Makes a pool without elements, with slots for more bytes than there are. */
void make_too_large_a_pool(gfp_t flags)
{
	shrinker_calls = shrinker_flags = 0;
	Source source;
	EXPECT_EQ(mempool_create_node(1 << 20, Source::alloc, Source::free, &source, flags,
				      NUMA_NO_NODE),
		  nullptr);
	EXPECT_EQ(source.calls, 0u) << "the slots come first";
}

/* A driver makes a pool under a spinlock, or on the path that writes pages out. */
TEST(MempoolTest, ThePoolsOwnMemoryIsAskedForWithTheCallersFlags)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("limit:12m");
		static struct shrinker s = {};
		s.count_objects = count_one;
		s.scan_objects = note_flags;
		s.seeks = DEFAULT_SEEKS;
		ASSERT_EQ(register_shrinker(&s, "notes"), 0);
		while (alloc_pages(GFP_KERNEL | __GFP_NOWARN, 6))
			;
		make_too_large_a_pool(GFP_KERNEL);
		EXPECT_GT(shrinker_calls, 0u);
		EXPECT_EQ(shrinker_flags & (__GFP_IO | __GFP_FS), __GFP_IO | __GFP_FS);
		make_too_large_a_pool(GFP_NOFS);
		EXPECT_GT(shrinker_calls, 0u);
		EXPECT_EQ(shrinker_flags & (__GFP_IO | __GFP_FS), __GFP_IO);
		make_too_large_a_pool(GFP_NOIO);
		EXPECT_EQ(shrinker_flags & (__GFP_IO | __GFP_FS), 0u);
		make_too_large_a_pool(GFP_NOWAIT);
		EXPECT_EQ(shrinker_calls, 0u);
	});
}

/* Its slots are no memory for devices: pinned memory may be short. */
TEST(MempoolTest, ThePoolsOwnMemoryIsOfNoZone)
{
	Source source;
	mempool_t *pool = mempool_create_node(1000, Source::alloc, Source::free, &source,
					      GFP_KERNEL | GFP_DMA32, NUMA_NO_NODE);

	ASSERT_NE(pool, nullptr);
	EXPECT_EQ(source.last_flags, GFP_KERNEL | GFP_DMA32);
	EXPECT_EQ(page_zonenum(virt_to_page(pool)), ZONE_NORMAL);
	EXPECT_EQ(page_zonenum(virt_to_page(pool->reserve)), ZONE_NORMAL);
	mempool_destroy(pool);
}

TEST(MempoolTest, Resizing)
{
	Pool p(2);

	ASSERT_EQ(mempool_resize(&p.pool, 100), 0);
	EXPECT_EQ(p.pool.min_nr, 100);
	EXPECT_TRUE(mempool_is_saturated(&p.pool));
	EXPECT_EQ(p.count(), 100u);
	ASSERT_EQ(mempool_resize(&p.pool, 10), 0);
	EXPECT_EQ(p.count(), 10u);
	ASSERT_EQ(mempool_resize(&p.pool, 0), 0);
	EXPECT_EQ(p.count(), 0u);
	EXPECT_TRUE(mempool_is_saturated(&p.pool));
	EXPECT_EQ(p.source.outside(), 0u);
	/* Grown while there is nothing: freed elements stay. */
	p.source.succeed_one_in = 1;
	std::vector<Element *> got;
	for (int i = 0; i < 20; i++)
		got.push_back(p.get(GFP_KERNEL));
	p.starve();
	ASSERT_EQ(mempool_resize(&p.pool, 15), 0);
	EXPECT_FALSE(mempool_is_saturated(&p.pool));
	for (Element *e : got)
		p.put(e);
	EXPECT_TRUE(mempool_is_saturated(&p.pool));
	EXPECT_EQ(p.count(), 15u);
	/* Shrunk while some of the reserve is in use. */
	got.clear();
	for (int i = 0; i < 12; i++)
		got.push_back(p.get(GFP_KERNEL));
	ASSERT_EQ(mempool_resize(&p.pool, 5), 0);
	EXPECT_EQ(p.count(), 3u) << "what is there is not more than 5: it stays";
	for (Element *e : got)
		p.put(e);
	EXPECT_EQ(p.count(), 5u);
	EXPECT_EQ(p.source.outside(), 5u);
}

size_t used_on(unsigned node)
{
	struct shim_zone z;

	shim_zone_read(node, &z);
	return z.frontier - z.start - z.nr_free;
}

/* The slots that a resize appends are on the pool's node, too. */
TEST(MempoolTest, SlotsAreOnThePoolsNode)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		constexpr int slots = 100000;
		Source source;
		mempool_t pool;
		size_t used;

		configure("numa_fake:2");
		run_on(allowed_cpus()[0]);
		for (int node : { 0, 1 }) {
			ASSERT_EQ(mempool_init_node(&pool, 1, Source::alloc, Source::free,
						    &source, GFP_KERNEL, node),
				  0);
			source.succeed_one_in = 0;
			used = used_on(node);
			ASSERT_EQ(mempool_resize(&pool, slots), 0);
			EXPECT_GE((used_on(node) - used) * ukmem_page_size(),
				  slots * sizeof(void *))
				<< node;
			mempool_exit(&pool);
			source.succeed_one_in = 1;
		}
	});
}

mempool_t *quiet_pool;

void make_quiet_pool()
{
	quiet_pool = mempool_create_kmalloc_pool(5, 100000);
}

bool use_quiet_pool()
{
	std::array<void *, 2000> got;
	size_t n = 0;

	while (n < got.size() && (got[n] = mempool_alloc(quiet_pool, GFP_NOWAIT)))
		n++;
	if (n < 5 || n == got.size())
		return false;
	while (n)
		mempool_free(got[--n], quiet_pool);
	return mempool_is_saturated(quiet_pool);
}

TEST(MempoolTest, NowaitMakesNoSystemCall)
{
	expect_no_system_calls(make_quiet_pool, use_quiet_pool);
}

} // namespace
