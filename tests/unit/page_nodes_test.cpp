/* SPDX-License-Identifier: MIT */
/* Two nodes the machine does not have: which zone serves whom, and what happens when one is
 * full. */
#include <sys/wait.h>

#include <set>

#include "fake_os.h"
#include "page_shim.h"
#include "ukmem/ukmem.h"

namespace
{

bool one_cpu()
{
	return allowed_cpus().size() < 2;
}

void expect_whole()
{
	for (unsigned i = 0; i < shim_nr_zones(); i++)
		ASSERT_STREQ(shim_zone_wrong(i), nullptr);
}

void pages_come_from_the_callers_node()
{
	auto cpus = allowed_cpus();

	fake_nodes("0,2", { 0, 2 });
	ASSERT_TRUE(shim_page_init());
	ASSERT_EQ(shim_nr_zones(), 2u);
	for (int round = 0; round < 4; round++) {
		int nid = round % 2 ? 2 : 0;

		run_on(cpus[round % 2]);
		for (unsigned order : { 0u, 4u, 5u, 10u }) {
			struct page *p = alloc_pages(GFP_KERNEL, order);

			ASSERT_NE(p, nullptr);
			EXPECT_EQ(page_to_nid(p), nid);
			memset(page_address(p), 1, ukmem_page_size() << order);
			/* Freed on the other node's CPU it still goes home. */
			run_on(cpus[1 - round % 2]);
			__free_pages(p, order);
			run_on(cpus[round % 2]);
		}
		expect_whole();
	}
	EXPECT_GT(fake_mbind_calls, 0u) << "the zones' memory was bound to their nodes";
	shim_trim(true);
	for (unsigned i = 0; i < 2; i++) {
		struct shim_zone z;

		shim_zone_read(i, &z);
		EXPECT_EQ(z.nr_free, z.frontier - z.start);
		EXPECT_EQ(z.blocks, static_cast<size_t>(__builtin_popcountll(z.nr_free)));
	}
}

TEST(PageNodesTest, PagesComeFromTheCallersNode)
{
	if (one_cpu())
		GTEST_SKIP() << "needs two CPUs";
	EXPECT_FRESH_PROCESS_PASSES(pages_come_from_the_callers_node);
}

/* Two zones of 64 MiB: when one is used up the other serves, then nobody. */
void full_node_falls_back(bool as_slabs)
{
	std::vector<unsigned long> live;
	std::set<int> nodes;
	unsigned from_other = 0;

	setenv("UKMEM_CONF", "reserve:128m", 1);
	fake_nodes("0-1", { 0, 1 });
	ASSERT_TRUE(shim_page_init());
	run_on(allowed_cpus().front());
	struct kmem_cache *s =
		as_slabs ? kmem_cache_create("big", 16384, 0, 0, nullptr) : nullptr;
	unsigned order = as_slabs ? 2 : 6;

	for (;;) {
		unsigned long p = as_slabs ? reinterpret_cast<unsigned long>(kmem_cache_alloc(
						     s, GFP_KERNEL | __GFP_NOWARN))
					   : __get_free_pages(GFP_KERNEL | __GFP_NOWARN, order);

		if (!p)
			break;
		*reinterpret_cast<unsigned long *>(p) = p;
		int nid = page_to_nid(virt_to_page(reinterpret_cast<void *>(p)));
		nodes.insert(nid);
		from_other += nid == 1;
		live.push_back(p);
		ASSERT_LT(live.size(), (200u << 20) / (ukmem_page_size() << order));
	}
	EXPECT_EQ(nodes.size(), 2u);
	EXPECT_GE(live.size() * (ukmem_page_size() << order), (128u << 20) / 10 * 9);
	EXPECT_GT(from_other, 0u);
	expect_whole();
	for (unsigned long p : live) {
		ASSERT_EQ(*reinterpret_cast<unsigned long *>(p), p);
		if (as_slabs)
			kmem_cache_free(s, reinterpret_cast<void *>(p));
		else
			free_pages(p, order);
	}
	size_t first_fill = live.size();
	live.clear();
	if (as_slabs) {
		EXPECT_EQ(kmem_cache_shrink(s), 0);
		kmem_cache_destroy(s);
	}
	expect_whole();
	for (;;) {
		unsigned long p = __get_free_pages(GFP_KERNEL | __GFP_NOWARN, order);

		if (!p)
			break;
		live.push_back(p);
	}
	EXPECT_GE(live.size(), first_fill / 10 * 9) << "refill after a complete free";
	for (unsigned long p : live)
		free_pages(p, order);
	expect_whole();
}

TEST(PageNodesTest, FullNodeFallsBackToTheOther)
{
	EXPECT_FRESH_PROCESS_PASSES([] { full_node_falls_back(false); });
}

TEST(PageNodesTest, SlabsOfAFullNodeFallBackToTheOther)
{
	EXPECT_FRESH_PROCESS_PASSES([] { full_node_falls_back(true); });
}

void refused_binding_is_counted()
{
	fake_nodes("0-1", { 0, 1 });
	fake_mbind_error = -EPERM;
	unsigned long before = os_prefer_node_refused();
	struct page *p = alloc_pages(GFP_KERNEL, 3);

	ASSERT_NE(p, nullptr) << "a refusal is no failure";
	EXPECT_GT(os_prefer_node_refused(), before);
	__free_pages(p, 3);
}

TEST(PageNodesTest, RefusedBindingIsCounted)
{
	EXPECT_FRESH_PROCESS_PASSES(refused_binding_is_counted);
}

/* kmalloc from both nodes' CPUs, freed crosswise. */
void objects_go_home()
{
	auto cpus = allowed_cpus();
	std::vector<void *> live[2];
	struct ukmem_gauges before, after;

	fake_nodes("0-1", { 0, 1 });
	kfree(kmalloc(1, GFP_KERNEL));
	ukmem_trim();
	ukmem_gauges_read(&before);
	for (unsigned n = 0; n < 2; n++) {
		run_on(cpus[n]);
		for (unsigned i = 0; i < 20000; i++) {
			void *p = kmalloc(1 + i % 700, GFP_KERNEL);

			ASSERT_NE(p, nullptr);
			live[n].push_back(p);
		}
	}
	for (unsigned n = 0; n < 2; n++) {
		run_on(cpus[n]);
		for (void *p : live[1 - n])
			kfree(p);
	}
	ukmem_trim();
	ukmem_gauges_read(&after);
	EXPECT_EQ(after.allocated, before.allocated);
	EXPECT_EQ(after.active, before.active);
	EXPECT_EQ(after.mapped, after.active + after.retained);
	expect_whole();
}

TEST(PageNodesTest, ObjectsGoHome)
{
	if (one_cpu())
		GTEST_SKIP() << "needs two CPUs";
	EXPECT_FRESH_PROCESS_PASSES(objects_go_home);
}

/* A request that may leave the allowed nodes stays on those that its caller named. */
void atomic_on_named_nodes()
{
	struct nodemask only;
	unsigned n = 0;

	setenv("UKMEM_CONF", "numa_fake:2,node_limit:16m", 1);
	nodemask_clear(&only);
	nodemask_set(&only, 1);
	__free_page(alloc_pages_node(0, GFP_KERNEL | __GFP_THISNODE, 0)); /* mapped */
	for (gfp_t flags : { GFP_KERNEL, GFP_ATOMIC })
		for (;; n++) {
			struct page *p = __alloc_pages(flags | __GFP_NOWARN, 0, 1, &only);

			if (!p)
				break;
			ASSERT_EQ(page_to_nid(p), 1);
		}
	EXPECT_GT(n, 0u);
}

TEST(PageNodesTest, NamedNodesBindAtomicRequests)
{
	EXPECT_FRESH_PROCESS_PASSES(atomic_on_named_nodes);
}

/* A thread reads which CPUs the nodes have; meanwhile another one forks. */
void fork_while_cpus_are_read()
{
	static std::atomic<bool> reads, go_on;
	static std::atomic<unsigned> lists;
	int status = -1;

	fake_nodes("0-1", { 0, 1 });
	ASSERT_TRUE(shim_page_init());
	os_calls.read_file = [](const char *path, char *buf, size_t size) {
		lists += strstr(path, "/cpulist") != nullptr;
		if (!reads.exchange(true))
			while (!go_on)
				std::this_thread::yield();
		return fake_read_file(path, buf, size);
	};
	std::thread other([] { os_topology_update_cpus(); });
	while (!reads)
		std::this_thread::yield();
	pid_t child = fork();
	if (!child) {
		lists = 0;
		os_topology_update_cpus();
		_exit(lists == 2 ? 0 : 1);
	}
	go_on = true;
	other.join();
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}

void look_at_cpus(const std::string &online, const std::string &cpuset)
{
	fake_files["/sys/devices/system/cpu/online"] = online + "\n";
	fake_files["/sys/fs/cgroup/cpus/cpuset.cpus.effective"] = cpuset + "\n";
	ASSERT_GE(percpu_cpus_update(), 0);
}

/* A CPU that goes leaves the cpuset before it is offline, and one that comes is online first.
 */
TEST(PageNodesTest, ACpuGoesInTwoSteps)
{
	if (one_cpu())
		GTEST_SKIP() << "needs two CPUs";
	EXPECT_FRESH_PROCESS_PASSES([] {
		std::string first = std::to_string(allowed_cpus()[0]),
			    both = first + "," + std::to_string(allowed_cpus()[1]);

		fake_nodes("0,2", { 0, 2 });
		fake_files["/proc/self/cgroup"] = "0::/cpus\n";
		look_at_cpus(both, both);
		ASSERT_TRUE(shim_page_init());
		EXPECT_TRUE(node_state(2, N_CPU));
		look_at_cpus(both, first);
		EXPECT_TRUE(node_state(2, N_CPU));
		look_at_cpus(first, first);
		EXPECT_FALSE(node_state(2, N_CPU));
		EXPECT_TRUE(node_state(0, N_CPU));
		look_at_cpus(both, first);
		EXPECT_TRUE(node_state(2, N_CPU));
		look_at_cpus(both, both);
		EXPECT_EQ(num_node_state(N_CPU), 2u);
	});
}

TEST(PageNodesTest, AChildReadsWhichCpusNodesHave)
{
	EXPECT_FRESH_PROCESS_PASSES(fork_while_cpus_are_read);
}

} // namespace
