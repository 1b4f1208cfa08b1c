/* SPDX-License-Identifier: MIT */
/* Caches on four pretend nodes: whose objects they are, and where they go when freed. */
#include <map>

#include "slab_util.h"

namespace
{

constexpr unsigned kNodes = 4;

/* CPU i is of node i % 4. */
thread_local unsigned pretend_cpu;

int pretend_getcpu(unsigned *cpu)
{
	*cpu = pretend_cpu;
	return 0;
}

void four_nodes(const char *more = "")
{
	configure_slabs(("numa_fake:4" + std::string(more)).c_str());
	os_calls.getcpu = pretend_getcpu;
}

std::vector<void *> take_of_node(struct kmem_cache *s, int node, size_t n)
{
	std::vector<void *> p(n);

	for (auto &q : p) {
		q = kmem_cache_alloc_node(s, GFP_KERNEL, node);
		EXPECT_NE(q, nullptr);
		EXPECT_EQ(shim_object_node(q), static_cast<unsigned>(node));
	}
	return p;
}

void objects_are_of_the_node()
{
	four_nodes();
	struct kmem_cache *s = kmem_cache_create("nodes", 200, 0, 0, nullptr);
	std::vector<void *> p[kNodes];

	for (unsigned cpu = 0; cpu < kNodes; cpu++) {
		pretend_cpu = cpu;
		for (int node = 0; node < static_cast<int>(kNodes); node++) {
			for (void *q : take_of_node(s, node, 300))
				p[node].push_back(q);
			void *q = kmem_cache_alloc_node(s, GFP_KERNEL | __GFP_THISNODE, node);

			EXPECT_EQ(shim_object_node(q), static_cast<unsigned>(node));
			EXPECT_EQ(page_to_nid(virt_to_page(q)), node);
			p[node].push_back(q);
		}
		void *local = kmem_cache_alloc(s, GFP_KERNEL);
		void *any = kmem_cache_alloc_node(s, GFP_KERNEL, NUMA_NO_NODE);

		EXPECT_EQ(shim_object_node(local), cpu);
		EXPECT_EQ(shim_object_node(any), cpu);
		kmem_cache_free(s, local);
		kmem_cache_free(s, any);
	}
	EXPECT_EQ(kmem_cache_alloc_node(s, GFP_KERNEL, 4), nullptr);
	EXPECT_EQ(kmem_cache_alloc_node(s, GFP_KERNEL, -2), nullptr);
	EXPECT_EQ(shim_slab_event(s, SHIM_ALLOC_NODE_MISMATCH), 0u);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	for (auto &objects : p)
		free_objects(s, objects);
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

TEST(SlabNodesTest, ObjectsAreOfTheNodeAskedFor)
{
	EXPECT_FRESH_PROCESS_PASSES(objects_are_of_the_node);
}

/* In small numbers, which stay in arrays, and in large ones, which go through slabs. */
void remote_frees_go_home()
{
	four_nodes();
	struct kmem_cache *s = kmem_cache_create("home", 96, 0, 0, nullptr);

	for (size_t n : { 1u, 5u, 40u, 3000u, 20000u }) {
		for (unsigned round = 0; round < 3; round++) {
			pretend_cpu = 0;
			std::vector<void *> remote = take_of_node(s, 3, n);
			std::set<void *> mine(remote.begin(), remote.end());

			if (round == 2)
				kmem_cache_free_bulk(s, n, remote.data());
			else
				free_objects(s, remote);
			remote = take_objects(s, n);
			for (void *q : remote) {
				ASSERT_EQ(shim_object_node(q), 0u) << "a remote one came back";
				ASSERT_EQ(mine.count(q), 0u);
			}
			std::vector<void *> bulk(n);
			ASSERT_EQ(kmem_cache_alloc_bulk(s, GFP_KERNEL, n, bulk.data()),
				  static_cast<int>(n));
			for (void *q : bulk)
				ASSERT_EQ(shim_object_node(q), 0u);
			kmem_cache_free_bulk(s, n, bulk.data());
			free_objects(s, remote);
			/* There they are used again. */
			pretend_cpu = 3;
			remote = take_objects(s, n);
			for (void *q : remote)
				ASSERT_EQ(shim_object_node(q), 3u);
			free_objects(s, remote);
			ASSERT_STREQ(shim_slab_wrong(s), nullptr);
		}
	}
	EXPECT_GT(shim_slab_event(s, SHIM_FREE_REMOTE), 10000u);
	EXPECT_EQ(shim_slab_event(s, SHIM_ALLOC_NODE_MISMATCH), 0u);
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

TEST(SlabNodesTest, RemoteFreesGoHome)
{
	EXPECT_FRESH_PROCESS_PASSES(remote_frees_go_home);
}

/* Frees of mixed nodes in one request. */
void mixed_frees()
{
	four_nodes();
	struct kmem_cache *s = kmem_cache_create("mixed", 48, 0, 0, nullptr);
	std::vector<void *> p;

	for (unsigned i = 0; i < 4000; i++)
		p.push_back(take_of_node(s, static_cast<int>(i * 7 % 5 % 4), 1)[0]);
	kmem_cache_free_bulk(s, 2000, p.data());
	kmem_cache_free_bulk(nullptr, 2000, p.data() + 2000);
	ASSERT_STREQ(shim_slab_wrong(s), nullptr);
	for (unsigned cpu = 0; cpu < kNodes; cpu++) {
		pretend_cpu = cpu;
		p = take_objects(s, 2000);
		for (void *q : p)
			ASSERT_EQ(shim_object_node(q), cpu);
		free_objects(s, p);
	}
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

TEST(SlabNodesTest, FreesOfSeveralNodesAtOnce)
{
	EXPECT_FRESH_PROCESS_PASSES(mixed_frees);
}

void full_node()
{
	four_nodes(",limit:64m,node_limit:4m");
	struct kmem_cache *s = kmem_cache_create("full", 4096, 0, 0, nullptr);
	std::vector<void *> p;
	void *q;

	pretend_cpu = 1;
	while ((q = kmem_cache_alloc_node(s, GFP_KERNEL | __GFP_THISNODE | __GFP_NOWARN, 2))) {
		ASSERT_EQ(shim_object_node(q), 2u);
		p.push_back(q);
		ASSERT_LT(p.size(), 2000u);
	}
	EXPECT_GT(p.size(), 300u);
	EXPECT_EQ(shim_slab_event(s, SHIM_ALLOC_NODE_MISMATCH), 0u);
	EXPECT_GE(shim_slab_event(s, SHIM_ALLOC_FAIL), 1u);
	uint64_t refills = slab_counts_of(s).refills;
	for (unsigned i = 0; i < 100; i++) {
		q = kmem_cache_alloc_node(s, GFP_KERNEL, 2);
		ASSERT_NE(q, nullptr);
		ASSERT_NE(shim_object_node(q), 2u);
		p.push_back(q);
	}
	EXPECT_GT(shim_slab_event(s, SHIM_ALLOC_NODE_MISMATCH), 0u);
	/* The node that helps out gives more than one object at a time. */
	EXPECT_LE(slab_counts_of(s).refills - refills, 30u);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	/* Objects of the node that helped out do not count as the other node's own. */
	free_objects(s, p);
	p = take_of_node(s, 2, 200);
	free_objects(s, p);
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

TEST(SlabNodesTest, AFullNodeIsHelpedOut)
{
	EXPECT_FRESH_PROCESS_PASSES(full_node);
}

void very_many_nodes()
{
	configure_slabs("numa_fake:256");
	os_calls.getcpu = pretend_getcpu;
	for (int round = 0; round < 3; round++) {
		struct kmem_cache *s = kmem_cache_create("256", 64, 0, 0, nullptr);
		std::vector<void *> p;

		ASSERT_NE(s, nullptr);
		for (int node = 0; node < 256; node++)
			for (void *q : take_of_node(s, node, 3))
				p.push_back(q);
		pretend_cpu = 77;
		free_objects(s, p);
		p = take_of_node(s, 255, 100);
		kmem_cache_free_bulk(s, p.size(), p.data());
		expect_nothing_left(s);
		kmem_cache_destroy(s);
	}
}

TEST(SlabNodesTest, VeryManyNodes)
{
	EXPECT_FRESH_PROCESS_PASSES(very_many_nodes);
}

/* Slabs of other nodes never stay on a CPU's list. */
void cpu_lists_are_local()
{
	four_nodes();
	struct kmem_cache_args args = {};
	args.sheaf_capacity = 1;
	struct kmem_cache *s = kmem_cache_create("lists", 512, &args, 0);
	std::vector<void *> p = take_of_node(s, 2, 2000);

	pretend_cpu = 1;
	for (size_t i = 0; i < p.size(); i += 8)
		kmem_cache_free(s, p[i]);
	EXPECT_EQ(slab_counts_of(s).cpu_partial, 0u) << "they are of another node";
	EXPECT_GT(slab_counts_of(s).partial, 10u);
	for (size_t i = 0; i < p.size(); i++)
		if (i % 8)
			kmem_cache_free(s, p[i]);
	EXPECT_EQ(slab_counts_of(s).cpu_partial, 0u);
	/* A thread that comes to another node leaves slabs of the old one; they go home. */
	p = take_objects(s, 400);
	free_objects(s, p);
	EXPECT_GT(slab_counts_of(s).cpu_partial, 0u);
	pretend_cpu = 2;
	p = take_objects(s, 3000);
	for (void *q : p)
		ASSERT_EQ(shim_object_node(q), 2u);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	free_objects(s, p);
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

TEST(SlabNodesTest, CpuListsAreLocal)
{
	EXPECT_FRESH_PROCESS_PASSES(cpu_lists_are_local);
}

/* An object that waits in a quarantine counts as one of the node that its memory is of. */
void waiting_objects_are_of_their_node(const char *conf)
{
	four_nodes(conf);
	char text[256];
	struct kmem_cache *s = kmem_cache_find("kmalloc-112");

	if (!s) {
		kfree(kmalloc(100, GFP_KERNEL));
		s = kmem_cache_find("kmalloc-112");
	}
	ASSERT_NE(s, nullptr);
	auto p = take_of_node(s, 0, 20), q = take_of_node(s, 2, 300);
	free_objects(s, q);
	ASSERT_GT(kmem_cache_attr_show(s, "objects", text, sizeof(text)), 0);
	EXPECT_STREQ(text, "20 N0=20\n");
	free_objects(s, p);
}

TEST(SlabNodesTest, WaitingObjectsAreOfTheirNode)
{
	for (const char *conf : { ",slab_debug:F", ",hardened:1" })
		EXPECT_FRESH_PROCESS_PASSES([&] { waiting_objects_are_of_their_node(conf); });
}

} // namespace
