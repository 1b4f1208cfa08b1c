/* SPDX-License-Identifier: MIT */
/* Nodes that the process may not use: control groups with cpuset.mems. */
#include "guest.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

static unsigned set_of(const std::vector<int> &nodes)
{
	unsigned set = 0;

	for (int nid : nodes)
		set |= 1u << nid;
	return set;
}

static std::string text_of(const std::vector<int> &nodes)
{
	std::string text;

	for (int nid : nodes)
		text += (text.empty() ? "" : ",") + std::to_string(nid);
	return text;
}

/* A new run is on node @nearest, says the library and says the kernel. */
static void expect_run_on(int nearest, unsigned order)
{
	struct page *page = alloc_pages(GFP_KERNEL, order);

	ASSERT_NE(page, nullptr);
	EXPECT_EQ(page_to_nid(page), nearest) << "order " << order;
	EXPECT_EQ(touched_node(page, order), nearest) << "order " << order;
	__free_pages(page, order);
}

static void expect_nodes_known(unsigned set)
{
	for (int nid = 0; nid < kNodes; nid++)
		EXPECT_EQ(node_state(nid, N_MEMORY), set >> nid & 1) << "node " << nid;
	EXPECT_EQ(num_node_state(N_MEMORY), static_cast<unsigned>(__builtin_popcount(set)));
}

static void expect_only_these_serve(unsigned set)
{
	for (int nid = 0; nid < kNodes; nid++) {
		struct page *page =
			alloc_pages_node(nid, GFP_KERNEL | __GFP_THISNODE | __GFP_NOWARN, 0);

		EXPECT_EQ(page != nullptr, set >> nid & 1) << "node " << nid;
		if (page) {
			EXPECT_EQ(page_to_nid(page), nid);
			EXPECT_EQ(touched_node(page, 0), nid);
		}
		__free_pages(page, 0);
	}
}

/* New memory of each CPU is on the nearest of @nodes. */
static void expect_memory_on(const std::vector<int> &nodes)
{
	std::vector<void *> blocks;
	unsigned set = set_of(nodes);

	for (int cpu = 0; cpu < kCpus; cpu++) {
		int nearest = -1;

		pin(cpu);
		for (int nid : nodes_from(node_of_cpu(cpu)))
			if (nearest < 0 && set >> nid & 1)
				nearest = nid;
		SCOPED_TRACE("CPU " + std::to_string(cpu));
		EXPECT_EQ(numa_node_id(), node_of_cpu(cpu)) << "all nodes have memory";
		for (unsigned order : { 0u, 3u, 9u })
			expect_run_on(nearest, order);
		void *block = kmalloc(200000, GFP_KERNEL);
		ASSERT_NE(block, nullptr);
		EXPECT_EQ(touched_node(block, 200000), nearest);
		blocks.push_back(block);
	}
	for (void *p : blocks)
		kfree(p);
	expect_nodes_known(set);
	expect_only_these_serve(set);
	unpin();
}

/*
 * The same while other threads allocate: what they freed may be reused, and lies where
 * the kernel moved it, on any of @nodes.
 */
static void expect_memory_within(const std::vector<int> &nodes)
{
	unsigned set = set_of(nodes);

	expect_nodes_known(set);
	for (int from = 0; from < kNodes; from++) {
		pin_to_node(from);
		for (unsigned order : { 0u, 3u }) {
			struct page *page = alloc_pages(GFP_KERNEL, order);

			ASSERT_NE(page, nullptr);
			EXPECT_TRUE(set >> page_to_nid(page) & 1) << page_to_nid(page);
			int nid = touched_node(page, 0);
			EXPECT_TRUE(nid >= 0 && set >> nid & 1) << nid;
			__free_pages(page, order);
		}
	}
	unpin();
}

GUEST_CHILD(StartedOnAllowedNodes)
{
	std::vector<int> nodes;

	for (const char *p = child_argument(); *p; p++)
		if (*p != ',')
			nodes.push_back(*p - '0');
	expect_memory_on(nodes);
}

static void start_in_cpuset(const std::vector<int> &nodes)
{
	Cgroup group("started");

	group.set("cpuset.mems", text_of(nodes));
	EXPECT_CHILD_PASSES(StartedOnAllowedNodes, "", text_of(nodes), [&] { group.enter(); });
}

TEST(Cpuset, StartedWithOneNode)
{
	for (int nid = 0; nid < kNodes; nid++)
		start_in_cpuset({ nid });
}

TEST(Cpuset, StartedWithSomeNodes)
{
	start_in_cpuset({ 1, 2 });
	start_in_cpuset({ 0, 1, 3 });
}

static const std::vector<std::vector<int>> kChanges = {
	{ 1, 3 }, { 2 }, { 0, 1, 2, 3 }, { 0 }, { 0, 2, 3 }, { 3 }, { 0, 1, 2, 3 },
};

/* Nothing else is going on but @meanwhile. After the last change all is as in the beginning. */
static void follow_changes(const std::function<void()> &meanwhile)
{
	Cgroup group("changes");

	group.set("cpuset.mems", "0-3");
	group.enter();
	expect_memory_on({ 0, 1, 2, 3 });
	for (auto &nodes : kChanges) {
		SCOPED_TRACE(text_of(nodes));
		meanwhile();
		group.set("cpuset.mems", text_of(nodes));
		ukmem_trim();
		expect_memory_on(nodes);
	}
}

TEST(Cpuset, ChangesAreFollowed)
{
	follow_changes([] {});
}

/* The kernel's thread that makes huge pages of small ones: when it is told to, and quickly. */
class Khugepaged
{
      public:
	Khugepaged()
	{
		set("enabled", "always");
		set("khugepaged/scan_sleep_millisecs", "1");
		set("khugepaged/alloc_sleep_millisecs", "1");
		set("khugepaged/max_ptes_none", "0");
	}
	~Khugepaged()
	{
		set("enabled", "madvise");
	}
	/* Of everything of which a page is there; otherwise all have to be. */
	void run() const
	{
		set("khugepaged/max_ptes_none", "511");
		wait();
		set("khugepaged/max_ptes_none", "0");
		wait();
	}
	long collapsed() const
	{
		return get("khugepaged/pages_collapsed");
	}

      private:
	/* One scan may have begun before. */
	static void wait()
	{
		long scans = get("khugepaged/full_scans");

		for (int i = 0; i < 2000 && get("khugepaged/full_scans") < scans + 2; i++)
			usleep(10000);
		EXPECT_GE(get("khugepaged/full_scans"), scans + 2) << "it stands still";
	}
	static std::string file(const std::string &name)
	{
		return "/sys/kernel/mm/transparent_hugepage/" + name;
	}
	static void set(const std::string &name, const std::string &value)
	{
		EXPECT_EQ(write_file(file(name), value), 0) << name;
	}
	static long get(const std::string &name)
	{
		return atol(read_file(file(name)).c_str());
	}
};

/* Huge pages take in what was never touched, or given back; it moves with the rest. */
TEST(Cpuset, ChangesAreFollowedByHugePages)
{
	Khugepaged khugepaged;
	long before = khugepaged.collapsed();

	follow_changes([&] { khugepaged.run(); });
	EXPECT_GT(khugepaged.collapsed(), before);
}

/* What was on a node that is not allowed any more stays intact and can be freed. */
TEST(Cpuset, PagesOfForbiddenNodesStayIntact)
{
	Cgroup group("intact");
	std::vector<unsigned long> pages;
	size_t words = ukmem_page_size() / sizeof(unsigned long);

	group.set("cpuset.mems", "0-3");
	group.enter();
	for (int i = 0; i < 2000; i++) {
		if (i % 500 == 0)
			pin_to_node(i / 500);
		pages.push_back(__get_free_page(GFP_KERNEL));
		ASSERT_NE(pages.back(), 0ul);
		for (size_t w = 0; w < words; w += 64)
			reinterpret_cast<unsigned long *>(pages.back())[w] = pages.back() + w;
	}
	group.set("cpuset.mems", "1");
	ukmem_trim();
	for (unsigned long page : pages) {
		for (size_t w = 0; w < words; w += 64)
			ASSERT_EQ(reinterpret_cast<unsigned long *>(page)[w], page + w);
		free_page(page);
	}
	expect_memory_on({ 1 });
}

/* One of several threads that allocate and touch for as long as the nodes change. */
static void churn(std::atomic<bool> &stop, std::atomic<unsigned long> &rounds, int seed)
{
	std::vector<std::pair<unsigned char *, size_t>> live(64);
	unsigned random = static_cast<unsigned>(seed);

	while (!stop) {
		random = random * 1103515245u + 12345u;
		auto &[p, size] = live[random >> 16 & 63];
		for (size_t i = 0; p && i < size; i += 1024)
			ASSERT_EQ(p[i], static_cast<unsigned char>(seed));
		kfree(p);
		size = 1 + (random >> 8) % 50000;
		p = static_cast<unsigned char *>(kmalloc(size, GFP_KERNEL));
		ASSERT_NE(p, nullptr);
		memset(p, seed, size);
		rounds++;
	}
	for (auto &[p, size] : live)
		kfree(p);
}

TEST(Cpuset, ChangesWhileThreadsAllocate)
{
	Cgroup group("churn");
	std::atomic<bool> stop{ false };
	std::atomic<unsigned long> rounds{ 0 };
	std::vector<std::thread> threads;
	struct ukmem_gauges before, after;

	group.set("cpuset.mems", "0-3");
	group.enter();
	kfree(kmalloc(1, GFP_KERNEL));
	ukmem_gauges_read(&before);
	/* No more: what a trim gives back interrupts all CPUs, which is slow if emulated. */
	for (int t = 1; t <= 3; t++)
		threads.emplace_back([&, t] { churn(stop, rounds, t); });
	for (auto &nodes : kChanges) {
		unsigned long seen = rounds;
		SCOPED_TRACE(text_of(nodes));

		group.set("cpuset.mems", text_of(nodes));
		ukmem_trim();
		expect_memory_within(nodes);
		for (int i = 0; i < 1000 && rounds == seen; i++)
			usleep(10000);
		EXPECT_GT(rounds, seen) << "nobody gets on";
	}
	stop = true;
	for (auto &thread : threads)
		thread.join();
	ukmem_trim();
	ukmem_gauges_read(&after);
	EXPECT_EQ(after.allocated, before.allocated);
	EXPECT_EQ(after.mapped, after.active + after.retained);
}

/*
 * Without a call that looks: the allowed node is full, so that zones are short, and the
 * nodes are read again by themselves.
 */
GUEST_CHILD(ShortOfMemory)
{
	Cgroup group("short");
	std::vector<struct page *> pages;
	bool found = false;

	group.set("cpuset.mems", "0");
	group.enter();
	ukmem_trim();
	while (struct page *page = alloc_pages(GFP_KERNEL | __GFP_NOWARN, 3)) {
		EXPECT_EQ(page_to_nid(page), 0);
		pages.push_back(page);
	}
	EXPECT_GT(pages.size() * (ukmem_page_size() << 3), 12u << 20);
	group.set("cpuset.mems", "0,3");
	for (int i = 0; i < 50 && !found; i++) {
		struct page *page = alloc_pages(GFP_KERNEL | __GFP_NOWARN, 3);

		found = page && touched_node(page, 3) == 3;
		__free_pages(page, 3);
		usleep(100000);
	}
	EXPECT_TRUE(found) << "five seconds after it was allowed node 3 is not used";
	for (auto *page : pages)
		__free_pages(page, 3);
}

TEST(Cpuset, IsReadAgainWhileMemoryIsShort)
{
	EXPECT_CHILD_PASSES(ShortOfMemory, "node_limit:16m");
}
