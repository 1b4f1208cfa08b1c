/* SPDX-License-Identifier: MIT */
/* Object caches on several nodes: objects come from where they are asked for and go home. */
#include <atomic>
#include <thread>

#include "guest.h"

namespace
{

struct Cache {
	explicit Cache(unsigned size) : s(kmem_cache_create("nodes", size, 0, 0, nullptr))
	{
	}
	~Cache()
	{
		kmem_cache_destroy(s);
	}
	struct kmem_cache *s;
};

long attribute(struct kmem_cache *s, const char *name)
{
	char text[400];

	EXPECT_GT(kmem_cache_attr_show(s, name, text, sizeof(text)), 0) << name;
	return strtol(text, nullptr, 10);
}

TEST(Slab, EveryNodeFromEveryNode)
{
	for (unsigned size : { 64u, 1000u, 8192u }) {
		Cache cache(size);
		std::vector<void *> objects;

		for (int from = 0; from < kNodes; from++) {
			pin_to_node(from);
			for (int nid = 0; nid < kNodes; nid++) {
				for (int i = 0; i < 40; i++) {
					void *p =
						kmem_cache_alloc_node(cache.s, GFP_KERNEL, nid);

					ASSERT_NE(p, nullptr);
					ASSERT_EQ(touched_node(p), nid)
						<< size << " bytes from node " << from;
					objects.push_back(p);
				}
			}
		}
		for (void *p : objects)
			kmem_cache_free(cache.s, p);
		EXPECT_EQ(kmem_cache_alloc_node(cache.s, GFP_KERNEL, kNodes + 100), nullptr);
	}
}

/* What a CPU frees of another node it does not hand out as its own. */
TEST(Slab, RemoteObjectsAreNotCachedAsLocal)
{
	for (unsigned size : { 64u, 1000u, 8192u }) {
		Cache cache(size);
		std::vector<void *> objects;

		pin_to_node(1);
		for (int i = 0; i < 1000; i++) {
			objects.push_back(kmem_cache_alloc(cache.s, GFP_KERNEL));
			ASSERT_EQ(touched_node(objects.back()), 1);
		}
		pin_to_node(2);
		kmem_cache_free_bulk(cache.s, 500, objects.data());
		for (int i = 500; i < 1000; i++)
			kmem_cache_free(cache.s, objects[static_cast<size_t>(i)]);
		EXPECT_GT(attribute(cache.s, "free_remote"), 0) << "they go home";
		for (auto *&p : objects) {
			p = kmem_cache_alloc(cache.s, GFP_KERNEL);
			ASSERT_EQ(touched_node(p), 2) << size << " bytes";
		}
		/* One that asks for the other node may have what this CPU holds of it. */
		void *p = kmem_cache_alloc_node(cache.s, GFP_KERNEL, 1);
		EXPECT_EQ(touched_node(p), 1);
		kmem_cache_free(cache.s, p);
		kmem_cache_free_bulk(cache.s, objects.size(), objects.data());
		EXPECT_EQ(kmem_cache_nr_allocated(cache.s), 0u);
	}
}

TEST(Slab, KmallocAndSizeClasses)
{
	std::vector<void *> objects;

	for (int cpu = 0; cpu < kCpus; cpu++) {
		pin(cpu);
		for (size_t size : { 8ul, 100ul, 1024ul, 5000ul, 16384ul }) {
			for (int i = 0; i < 20; i++) {
				void *p = kmalloc(size, GFP_KERNEL);

				ASSERT_NE(p, nullptr);
				ASSERT_EQ(touched_node(p), node_of_cpu(cpu))
					<< size << " bytes, CPU " << cpu;
				objects.push_back(p);
			}
		}
	}
	/* All freed on the last CPU: its own node's classes stay its own. */
	for (void *p : objects)
		kfree(p);
	for (size_t size : { 8ul, 100ul, 1024ul, 5000ul, 16384ul }) {
		void *p = kmalloc(size, GFP_KERNEL);

		EXPECT_EQ(touched_node(p), node_of_cpu(kCpus - 1)) << size;
		kfree(p);
	}
}

/* A thread per CPU passes objects on to the next one; nothing is lost on the way. */
TEST(Slab, PassedRound)
{
	constexpr unsigned kRounds = 20000;
	Cache cache(192);
	std::vector<std::atomic<void *>> slots(kCpus);
	std::vector<std::thread> threads;

	for (auto &slot : slots)
		slot = nullptr;
	for (int cpu = 0; cpu < kCpus; cpu++)
		threads.emplace_back([&, cpu] {
			auto &to = slots[static_cast<size_t>((cpu + 1) % kCpus)];
			auto &from = slots[static_cast<size_t>(cpu)];

			pin(cpu);
			for (unsigned i = 0; i < kRounds; i++) {
				void *p = kmem_cache_alloc(cache.s, GFP_KERNEL);

				memset(p, cpu, 192);
				p = to.exchange(p);
				if (p)
					kmem_cache_free(cache.s, p);
				p = from.exchange(nullptr);
				if (p)
					kmem_cache_free(cache.s, p);
			}
		});
	for (auto &t : threads)
		t.join();
	for (auto &slot : slots)
		kmem_cache_free(cache.s, slot);
	EXPECT_EQ(kmem_cache_nr_allocated(cache.s), 0u);
	EXPECT_EQ(kmem_cache_shrink(cache.s), 0);
	EXPECT_EQ(attribute(cache.s, "slabs"), 0);
}

} /* namespace */
