/* SPDX-License-Identifier: MIT */
/* CPUs that go offline and come online. CPU 0 always stays. */
#include "guest.h"

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

static DEFINE_PER_CPU(unsigned long, operations);

/* All online again, also if the test fails. */
class Hotplug : public testing::Test
{
      protected:
	void TearDown() override
	{
		for (int cpu = 1; cpu < kCpus; cpu++)
			set_cpu_online(cpu, true);
		percpu_cpus_update();
	}
};

/* A block with its size and owner all over it. */
class Block
{
      public:
	void fill(unsigned random, unsigned char byte)
	{
		byte_ = byte;
		order_ = random >> 4 & 3;
		is_page_ = random & 1;
		size_ = is_page_ ? ukmem_page_size() << order_ : 8 + (random >> 8) % 40000;
		if (is_page_) {
			p_ = reinterpret_cast<unsigned char *>(
				__get_free_pages(GFP_KERNEL, order_));
		} else {
			p_ = static_cast<unsigned char *>(kmalloc(size_, GFP_KERNEL));
		}
		ASSERT_NE(p_, nullptr);
		memset(p_, byte_, size_);
	}
	bool is_intact() const
	{
		for (size_t i = 0; p_ && i < size_; i++)
			if (p_[i] != byte_)
				return false;
		return true;
	}
	void free()
	{
		if (p_ && is_page_)
			free_pages(reinterpret_cast<unsigned long>(p_), order_);
		else
			kfree(p_);
		p_ = nullptr;
	}

      private:
	unsigned char *p_ = nullptr;
	size_t size_ = 0;
	unsigned order_ = 0;
	bool is_page_ = false;
	unsigned char byte_ = 0;
};

/* Caches of which one CPU had too much when another one needed more get shared queues, which
 * they keep. These lie in a slab of so many bytes. */
static constexpr size_t kQueuesSlab = size_t{ 64 } << 10;

static void churn(std::atomic<bool> &stop, std::atomic<unsigned long> &rounds, int seed)
{
	std::vector<Block> blocks(48);
	unsigned random = static_cast<unsigned>(seed);

	while (!stop) {
		random = random * 1103515245u + 12345u;
		Block &block = blocks[(random >> 16) % blocks.size()];
		ASSERT_TRUE(block.is_intact());
		block.free();
		block.fill(random >> 5, static_cast<unsigned char>(seed * 16 + random % 16));
		this_cpu_inc(operations);
		rounds++;
	}
	for (Block &block : blocks) {
		EXPECT_TRUE(block.is_intact());
		block.free();
	}
}

/* What the library says of CPUs and nodes is how the machine is. */
static void expect_known()
{
	struct ukmem_percpu_info info;
	unsigned with_cpus = 0, online = 0;

	percpu_mode(&info);
	for (int nid = 0; nid < kNodes; nid++) {
		bool has = !cpus_of_node(nid).empty();

		EXPECT_EQ(node_state(nid, N_CPU), has) << "node " << nid;
		EXPECT_TRUE(node_state(nid, N_MEMORY)) << "node " << nid;
		with_cpus += has;
		online += static_cast<unsigned>(cpus_of_node(nid).size());
	}
	EXPECT_EQ(num_node_state(N_CPU), with_cpus);
	EXPECT_EQ(info.cpus_online, online);
}

static void change(int cpu, bool online)
{
	ASSERT_EQ(set_cpu_online(cpu, online), 0) << "CPU " << cpu;
	EXPECT_EQ(percpu_cpus_update(), 1) << "CPU " << cpu;
	expect_known();
}

TEST_F(Hotplug, NodesWithCpusAreKnown)
{
	percpu_cpus_update();
	expect_known();
	EXPECT_EQ(percpu_cpus_update(), 0) << "nothing changed";
	for (int nid = 1; nid < kNodes; nid++) {
		auto cpus = cpus_of_node(nid);

		change(cpus[0], false);
		EXPECT_TRUE(node_state(nid, N_CPU));
		change(cpus[1], false);
		EXPECT_FALSE(node_state(nid, N_CPU));
	}
	EXPECT_EQ(num_node_state(N_CPU), 1u);
	/* Their memory can be had as before. */
	for (int nid = 0; nid < kNodes; nid++) {
		struct page *page = alloc_pages_node(nid, GFP_KERNEL | __GFP_THISNODE, 3);

		ASSERT_NE(page, nullptr);
		EXPECT_EQ(touched_node(page, 3), nid);
		__free_pages(page, 3);
	}
	for (int cpu : { 1, 2, 3, 4, 6, 7 })
		change(cpu, true);
}

static std::multiset<int> told_offline, told_online;

TEST_F(Hotplug, NotifiersAreTold)
{
	struct percpu_notifier notifier = {};

	percpu_cpus_update();
	notifier.offline = [](unsigned cpu, void *) {
		told_offline.insert(static_cast<int>(cpu));
	};
	notifier.online = [](unsigned cpu, void *) {
		told_online.insert(static_cast<int>(cpu));
	};
	percpu_notifier_register(&notifier);
	for (int cpu : { 3, 6, 1 })
		ASSERT_EQ(set_cpu_online(cpu, false), 0);
	EXPECT_EQ(percpu_cpus_update(), 3);
	EXPECT_EQ(told_offline, (std::multiset<int>{ 1, 3, 6 }));
	EXPECT_EQ(told_online, std::multiset<int>{});
	ASSERT_EQ(set_cpu_online(6, true), 0);
	EXPECT_EQ(percpu_cpus_update(), 1);
	EXPECT_EQ(told_online, (std::multiset<int>{ 6 }));
	percpu_notifier_unregister(&notifier);
	ASSERT_EQ(set_cpu_online(1, true), 0);
	EXPECT_EQ(percpu_cpus_update(), 1);
	EXPECT_EQ(told_online, (std::multiset<int>{ 6 }));
}

/* What a CPU held goes back when it has gone: nothing stays behind with it. */
TEST_F(Hotplug, WhatACpuHeldComesBack)
{
	struct ukmem_gauges before, after;
	struct kmem_cache *cache = kmem_cache_create("held", 512, 0, 0, nullptr);
	auto use_on_all = [&] {
		std::vector<void *> objects;

		for (int cpu = 1; cpu < kCpus; cpu++) {
			pin(cpu);
			for (int i = 0; i < 500; i++)
				objects.push_back(kmem_cache_alloc(cache, GFP_KERNEL));
			for (void *p : objects)
				kmem_cache_free(cache, p);
			objects.clear();
		}
		pin(0);
	};

	use_on_all();
	ukmem_trim();
	ukmem_gauges_read(&before);
	use_on_all();
	for (int cpu = 1; cpu < kCpus; cpu++)
		ASSERT_EQ(set_cpu_online(cpu, false), 0);
	EXPECT_EQ(percpu_cpus_update(), kCpus - 1);
	EXPECT_EQ(kmem_cache_shrink(cache), 0) << "no object is left anywhere";
	ukmem_trim();
	ukmem_gauges_read(&after);
	EXPECT_EQ(after.allocated, before.allocated);
	EXPECT_LE(after.active, before.active + kQueuesSlab);
	kmem_cache_destroy(cache);
}

TEST_F(Hotplug, NothingIsLostWhileThreadsAllocate)
{
	static const int kOrder[] = { 4, 1, 7, 2, 6, 3, 5 };
	std::atomic<bool> stop{ false };
	std::atomic<unsigned long> rounds{ 0 };
	std::vector<std::thread> threads;
	struct ukmem_gauges before, after;

	percpu_cpus_update();
	kfree(kmalloc(1, GFP_KERNEL));
	ukmem_trim();
	ukmem_gauges_read(&before);
	for (int t = 1; t <= 7; t++)
		threads.emplace_back([&, t] { churn(stop, rounds, t); });
	for (int round = 0; round < 3; round++) {
		for (bool online : { false, true }) {
			for (int cpu : kOrder) {
				unsigned long seen = rounds;

				change(cpu, online);
				for (int i = 0; i < 1000 && rounds < seen + 20; i++)
					usleep(5000);
				EXPECT_GT(rounds, seen) << "nobody gets on";
			}
		}
	}
	stop = true;
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(per_cpu_sum(operations), rounds);
	for (int cpu = 0; cpu < kCpus; cpu++)
		EXPECT_GT(per_cpu(operations, cpu), 0u) << "CPU " << cpu << " was never used";
	ukmem_trim();
	ukmem_gauges_read(&after);
	EXPECT_EQ(after.allocated, before.allocated);
	EXPECT_LE(after.active, before.active + kQueuesSlab);
	EXPECT_EQ(after.mapped, after.active + after.retained);
}

/* On @cpu everything works, with memory of its node. */
static void expect_serves(int cpu, int nid)
{
	std::vector<std::pair<struct page *, unsigned>> pages;
	std::vector<void *> objects;

	pin(cpu);
	EXPECT_EQ(sched_getcpu(), cpu);
	unsigned long before = per_cpu(operations, cpu);
	for (unsigned order : { 0u, 0u, 3u, 9u }) {
		struct page *page = alloc_pages(GFP_KERNEL, order);

		ASSERT_NE(page, nullptr);
		EXPECT_EQ(page_to_nid(page), nid) << "CPU " << cpu << ", order " << order;
		EXPECT_EQ(touched_node(page, order), nid) << "CPU " << cpu;
		pages.emplace_back(page, order);
		this_cpu_inc(operations);
	}
	for (int i = 0; i < 300; i++) {
		objects.push_back(kmalloc(1000, GFP_KERNEL));
		ASSERT_NE(objects.back(), nullptr);
		memset(objects.back(), cpu, 1000);
	}
	EXPECT_EQ(per_cpu(operations, cpu), before + 4);
	EXPECT_EQ(real_node(objects.back()), nid) << "CPU " << cpu;
	for (void *p : objects)
		kfree(p);
	for (auto [page, order] : pages)
		__free_pages(page, order);
}

/* Started with the CPUs of two nodes offline, which come one after another. */
GUEST_CHILD(CpusCome)
{
	struct ukmem_percpu_info info;

	expect_serves(0, 0);
	percpu_mode(&info);
	EXPECT_EQ(info.nr_cpu_ids, static_cast<unsigned>(kCpus));
	EXPECT_EQ(info.cpus_online, 4u);
	EXPECT_EQ(num_node_state(N_CPU), 2u);
	percpu_cpus_update();
	for (int cpu : { 1, 4, 3, 6 }) {
		int nid = cpu == 1 || cpu == 4 ? 1 : 3;

		ASSERT_EQ(set_cpu_online(cpu, true), 0);
		/* Before the library has looked it serves, from wherever. */
		pin(cpu);
		void *p = kmalloc(100, GFP_KERNEL);
		struct page *page = alloc_pages(GFP_KERNEL, 1);
		ASSERT_TRUE(p && page);
		this_cpu_inc(operations);
		memset(p, 1, 100);
		touched_node(page, 1);
		kfree(p);
		__free_pages(page, 1);

		EXPECT_EQ(percpu_cpus_update(), 1);
		expect_known();
		expect_serves(cpu, nid);
	}
	EXPECT_EQ(num_node_state(N_CPU), 4u);
}

TEST_F(Hotplug, CpusThatWereOfflineAtTheStart)
{
	for (int cpu : { 1, 4, 3, 6 })
		ASSERT_EQ(set_cpu_online(cpu, false), 0);
	EXPECT_CHILD_PASSES(CpusCome);
}

TEST_F(Hotplug, CpusServeAfterTheyWereGone)
{
	std::vector<int> nodes;

	percpu_cpus_update();
	for (int cpu = 0; cpu < kCpus; cpu++) {
		nodes.push_back(node_of_cpu(cpu));
		expect_serves(cpu, nodes[static_cast<size_t>(cpu)]);
	}
	pin(0);
	for (int cpu = 1; cpu < kCpus; cpu++)
		change(cpu, false);
	for (int cpu = 1; cpu < kCpus; cpu++) {
		change(cpu, true);
		expect_serves(cpu, nodes[static_cast<size_t>(cpu)]);
	}
}
