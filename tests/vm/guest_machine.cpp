/* SPDX-License-Identifier: MIT */
/* The machine is what the other tests take it for. */
#include "guest.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <set>

TEST(Machine, FourNodesOfTwoCpus)
{
	std::set<int> cpus;

	for (int nid = 0; nid < kNodes; nid++) {
		EXPECT_EQ(cpus_of_node(nid).size(), 2u) << "node " << nid;
		for (int cpu : cpus_of_node(nid)) {
			EXPECT_EQ(node_of_cpu(cpu), nid);
			cpus.insert(cpu);
		}
	}
	EXPECT_EQ(cpus.size(), static_cast<size_t>(kCpus));
	EXPECT_NE(node_of_cpu(1), 0) << "neighbours are on different nodes";
}

/* Else a library that goes by the numbers, or by distances the wrong way round, would pass. */
TEST(Machine, OrderByDistanceIsNoOther)
{
	for (int nid = 0; nid < kNodes; nid++) {
		auto nodes = nodes_from(nid);

		EXPECT_EQ(nodes[0], nid);
		EXPECT_FALSE(std::is_sorted(nodes.begin() + 1, nodes.end())) << "node " << nid;
	}
	EXPECT_EQ(nodes_from(0), (std::vector<int>{ 0, 2, 3, 1 }));
}

TEST(Machine, KernelTellsWhereMemoryIs)
{
	constexpr size_t size = 1 << 20;

	for (int cpu = 0; cpu < kCpus; cpu++) {
		void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		pin(cpu);
		EXPECT_EQ(sched_getcpu(), cpu);
		EXPECT_LT(real_node(p), 0) << "not touched yet";
		EXPECT_EQ(touched_node(p, size), node_of_cpu(cpu));
		munmap(p, size);
	}
}

TEST(Machine, CgroupsHaveTheControllers)
{
	Cgroup group("controllers");

	EXPECT_NE(group.get("cgroup.controllers").find("cpuset"), std::string::npos);
	EXPECT_NE(group.get("cgroup.controllers").find("memory"), std::string::npos);
}

GUEST_CHILD(FailsWithText)
{
	ADD_FAILURE() << child_argument();
}

GUEST_CHILD(Aborts)
{
	abort();
}

/* The other tests rely on it. */
TEST(Machine, ChildThatFailsIsNoticed)
{
	EXPECT_NE(run_child("FailsWithText", { "", "as it should" }).find("as it should"),
		  std::string::npos);
	EXPECT_NE(run_child("Aborts").find("signal 6"), std::string::npos);
}
