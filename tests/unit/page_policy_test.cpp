/* SPDX-License-Identifier: MIT */
/* Memory policies: from which nodes pages come, and who has which policy. */
#include <errno.h>
#include <pthread.h>

#include <map>

#include "fake_os.h"
#include "page_util.h"

namespace
{

nodemask mask_of(std::initializer_list<unsigned> nodes)
{
	nodemask mask;

	nodemask_clear(&mask);
	for (unsigned nid : nodes)
		nodemask_set(&mask, nid);
	return mask;
}

struct mempolicy *policy(int mode, std::initializer_list<unsigned> nodes)
{
	nodemask mask = mask_of(nodes);

	return mpol_new(mode, &mask);
}

/* How many of @n pages of @order come from each node. */
using Counts = std::map<int, unsigned>;

Counts count_nodes(unsigned n, unsigned order, struct mempolicy *pol = nullptr,
		   gfp_t flags = GFP_KERNEL)
{
	Counts counts;
	Pages pages;

	for (unsigned i = 0; i < n; i++) {
		struct page *p =
			pol ? alloc_pages_mpol(flags, order, pol) : alloc_pages(flags, order);

		if (!p)
			break;
		counts[page_to_nid(p)]++;
		pages.push_back(p);
	}
	free_all(pages, order);
	return counts;
}

void expect_policy(int mode, std::initializer_list<unsigned> nodes)
{
	nodemask want = mask_of(nodes), have = mask_of({ 77 });
	int is = -1;

	EXPECT_EQ(ukmem_get_mempolicy(&is, &have), 0);
	EXPECT_EQ(is, mode);
	EXPECT_EQ(memcmp(&have, &want, sizeof(want)), 0);
}

void refused_policies()
{
	configure("numa_fake:4");
	nodemask none = mask_of({}), one = mask_of({ 2 }), two = mask_of({ 1, 3 }),
		 unknown = mask_of({ 1, 4 }), far = mask_of({ 1023 });
	struct {
		int mode;
		const nodemask *nodes;
	} bad[] = {
		{ -1, nullptr },
		{ 99, &one },
		{ MPOL_DEFAULT, &one },
		{ MPOL_LOCAL, &two },
		{ MPOL_PREFERRED, nullptr },
		{ MPOL_PREFERRED, &none },
		{ MPOL_PREFERRED, &two },
		{ MPOL_INTERLEAVE, nullptr },
		{ MPOL_INTERLEAVE, &none },
		{ MPOL_INTERLEAVE, &unknown },
		{ MPOL_BIND, nullptr },
		{ MPOL_BIND, &none },
		{ MPOL_BIND, &unknown },
		{ MPOL_BIND, &far },
		{ MPOL_PREFERRED, &far },
	};

	ASSERT_EQ(ukmem_set_mempolicy(MPOL_PREFERRED, &one), 0);
	for (auto &b : bad) {
		errno = 0;
		EXPECT_EQ(mpol_new(b.mode, b.nodes), nullptr) << b.mode;
		EXPECT_EQ(errno, EINVAL) << b.mode;
		errno = 4711;
		EXPECT_EQ(ukmem_set_mempolicy(b.mode, b.nodes), -EINVAL) << b.mode;
		EXPECT_EQ(ukmem_set_process_mempolicy(b.mode, b.nodes), -EINVAL) << b.mode;
		EXPECT_EQ(errno, 4711);
		expect_policy(MPOL_PREFERRED, { 2 });
	}
	/* An empty set is as none. */
	EXPECT_EQ(ukmem_set_mempolicy(MPOL_LOCAL, &none), 0);
	expect_policy(MPOL_LOCAL, {});
	EXPECT_EQ(ukmem_get_mempolicy(nullptr, nullptr), 0);
	mpol_put(nullptr);
}

TEST(PagePolicyTest, WhatIsRefused)
{
	EXPECT_FRESH_PROCESS_PASSES(refused_policies);
}

int no_mmap(void **, size_t, int, int)
{
	return -ENOMEM;
}

void no_memory_for_a_policy()
{
	configure("numa_fake:3");
	nodemask two = mask_of({ 0, 2 });

	ASSERT_TRUE(shim_page_init());
	ASSERT_EQ(ukmem_set_mempolicy(MPOL_BIND, &two), 0);
	os_calls.mmap = no_mmap;
	errno = 0;
	EXPECT_EQ(mpol_new(MPOL_BIND, &two), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(ukmem_set_mempolicy(MPOL_INTERLEAVE, &two), -ENOMEM);
	EXPECT_EQ(ukmem_set_process_mempolicy(MPOL_INTERLEAVE, &two), -ENOMEM);
	expect_policy(MPOL_BIND, { 0, 2 });
	os_calls.mmap = os_calls_linux.mmap;
	EXPECT_EQ(ukmem_set_mempolicy(MPOL_INTERLEAVE, &two), 0);
	expect_policy(MPOL_INTERLEAVE, { 0, 2 });
}

TEST(PagePolicyTest, NoMemoryForAPolicy)
{
	EXPECT_FRESH_PROCESS_PASSES(no_memory_for_a_policy);
}

void preferred_node()
{
	configure("numa_fake:3,node_limit:16m");
	struct mempolicy *pol = policy(MPOL_PREFERRED, { 1 });

	ASSERT_NE(pol, nullptr);
	EXPECT_EQ(mpol_get(pol), pol);
	mpol_put(pol);
	for (unsigned order : { 0u, 3u, 4u, 7u })
		EXPECT_EQ(count_nodes(20, order, pol), (Counts{ { 1, 20 } })) << order;
	/* Full, the others serve. */
	Pages full = fill_node(1, GFP_KERNEL, 0);
	Counts counts = count_nodes(200, 0, pol);
	EXPECT_EQ(counts[0] + counts[2], 200u);
	EXPECT_EQ(alloc_pages_mpol(GFP_KERNEL | __GFP_THISNODE | __GFP_NOWARN, 0, pol),
		  nullptr);
	free_all(full, 0);
	mpol_put(pol);
	expect_all_free();
}

TEST(PagePolicyTest, PreferredThenOthers)
{
	EXPECT_FRESH_PROCESS_PASSES(preferred_node);
}

void interleaved_nodes()
{
	configure("numa_fake:4");
	struct mempolicy *pol = policy(MPOL_INTERLEAVE, { 0, 1, 3 });
	Pages pages;

	ASSERT_NE(pol, nullptr);
	for (unsigned order : { 0u, 4u, 6u }) {
		Counts even{ { 0, 100 }, { 1, 100 }, { 3, 100 } };

		EXPECT_EQ(count_nodes(300, order, pol), even) << "order " << order;
		EXPECT_EQ(count_nodes(300, order, pol), even) << "from freed pages";
	}
	EXPECT_GE(vmstat("numa_interleave"), 1800u);
	/* Neighbours in the stream are on different nodes. */
	int last = -1;
	for (int i = 0; i < 30; i++) {
		struct page *p = alloc_pages_mpol(GFP_KERNEL, 0, pol);

		ASSERT_NE(p, nullptr);
		EXPECT_NE(page_to_nid(p), last);
		last = page_to_nid(p);
		pages.push_back(p);
	}
	free_all(pages, 0);
	mpol_put(pol);
	nodemask mask = mask_of({ 1, 2 });
	ASSERT_EQ(ukmem_set_mempolicy(MPOL_INTERLEAVE, &mask), 0);
	EXPECT_EQ(count_nodes(100, 2), (Counts{ { 1, 50 }, { 2, 50 } }));
	std::vector<void *> large;
	Counts counts;
	for (int i = 0; i < 40; i++) {
		large.push_back(kmalloc(200000, GFP_KERNEL));
		counts[page_to_nid(virt_to_page(large.back()))]++;
	}
	EXPECT_EQ(counts, (Counts{ { 1, 20 }, { 2, 20 } }));
	for (void *p : large)
		kfree(p);
}

TEST(PagePolicyTest, InterleavedEvenly)
{
	EXPECT_FRESH_PROCESS_PASSES(interleaved_nodes);
}

void bound_nodes()
{
	configure("numa_fake:4,node_limit:16m");
	struct mempolicy *pol = policy(MPOL_BIND, { 1, 2 });
	Pages pages;

	ASSERT_NE(pol, nullptr);
	while (struct page *p = alloc_pages_mpol(GFP_KERNEL | __GFP_NOWARN, 1, pol)) {
		int nid = page_to_nid(p);

		ASSERT_TRUE(nid == 1 || nid == 2) << nid;
		pages.push_back(p);
	}
	EXPECT_GE(pages.size() * 2 * 10, to_pages(32 * kMiB) * 9);
	for (gfp_t flags : { GFP_KERNEL | __GFP_NOWARN, GFP_NOWAIT })
		EXPECT_EQ(alloc_pages_mpol(flags, 1, pol), nullptr) << "full";
	struct page *other = alloc_pages(GFP_KERNEL, 3);
	ASSERT_NE(other, nullptr) << "the policy binds its own requests only";
	__free_pages(other, 3);
	free_all(pages, 1);
	EXPECT_EQ(count_nodes(10, 4, pol).size(), 1u) << "the nearest only, if it has memory";
	mpol_put(pol);
	expect_all_free();
}

TEST(PagePolicyTest, BoundNeverGoesElsewhere)
{
	EXPECT_FRESH_PROCESS_PASSES(bound_nodes);
}

void bound_begins_near()
{
	auto cpus = allowed_cpus();

	configure("numa_fake:2");
	struct mempolicy *both = policy(MPOL_BIND, { 0, 1 });
	for (size_t i = 0; i < 2 && i < cpus.size(); i++) {
		run_on(cpus[i]);
		EXPECT_EQ(count_nodes(20, 5, both), (Counts{ { cpus[i] % 2, 20 } }));
		EXPECT_EQ(numa_node_id(), cpus[i] % 2);
	}
	mpol_put(both);
}

TEST(PagePolicyTest, BoundBeginsAtTheNearest)
{
	EXPECT_FRESH_PROCESS_PASSES(bound_begins_near);
}

size_t unmapped;

int counting_munmap(void *addr, size_t len)
{
	unmapped++;
	return os_calls_linux.munmap(addr, len);
}

void threads_have_their_own()
{
	configure("numa_fake:4");
	nodemask one = mask_of({ 1 }), three = mask_of({ 3 }), two = mask_of({ 2 });

	ASSERT_EQ(ukmem_set_mempolicy(MPOL_BIND, &one), 0);
	std::thread([&] {
		expect_policy(MPOL_DEFAULT, {});
		EXPECT_EQ(ukmem_set_mempolicy(MPOL_BIND, &three), 0);
		EXPECT_EQ(count_nodes(20, 1), (Counts{ { 3, 20 } }));
		expect_policy(MPOL_BIND, { 3 });
	}).join();
	EXPECT_EQ(count_nodes(20, 1), (Counts{ { 1, 20 } }));
	ASSERT_EQ(ukmem_set_process_mempolicy(MPOL_BIND, &two), 0);
	EXPECT_EQ(count_nodes(20, 1), (Counts{ { 1, 20 } })) << "its own goes before";
	std::thread([] {
		expect_policy(MPOL_BIND, { 2 });
		EXPECT_EQ(count_nodes(20, 1), (Counts{ { 2, 20 } }));
	}).join();
	ASSERT_EQ(ukmem_set_mempolicy(MPOL_DEFAULT, nullptr), 0);
	expect_policy(MPOL_BIND, { 2 });
	EXPECT_EQ(count_nodes(20, 1), (Counts{ { 2, 20 } })) << "the process's again";
	ASSERT_EQ(ukmem_set_mempolicy(MPOL_LOCAL, nullptr), 0);
	run_on(allowed_cpus()[0]);
	EXPECT_EQ(count_nodes(20, 1), (Counts{ { numa_node_id(), 20 } })) << "LOCAL is its own";
	ASSERT_EQ(ukmem_set_mempolicy(MPOL_DEFAULT, nullptr), 0);
	ASSERT_EQ(ukmem_set_process_mempolicy(MPOL_DEFAULT, nullptr), 0);
	expect_policy(MPOL_DEFAULT, {});
	EXPECT_EQ(count_nodes(20, 1), (Counts{ { numa_node_id(), 20 } }));
	/* A program may set policies in turns for ever. */
	size_t before = process_resident();
	for (int i = 0; i < 4000; i++) {
		ASSERT_EQ(ukmem_set_process_mempolicy(MPOL_BIND, i % 2 ? &two : &three), 0);
		ASSERT_EQ(ukmem_set_process_mempolicy(MPOL_DEFAULT, nullptr), 0);
	}
	EXPECT_LE(process_resident(), before + kMiB);
}

TEST(PagePolicyTest, OfThreadsAndOfTheProcess)
{
	EXPECT_FRESH_PROCESS_PASSES(threads_have_their_own);
}

void thread_end_frees()
{
	configure("numa_fake:4");
	nodemask one = mask_of({ 1 });

	ASSERT_EQ(ukmem_set_mempolicy(MPOL_BIND, &one), 0);
	ASSERT_EQ(ukmem_set_mempolicy(MPOL_DEFAULT, nullptr), 0);
	os_calls.munmap = counting_munmap;
	for (int i = 0; i < 10; i++)
		std::thread([&] { EXPECT_EQ(ukmem_set_mempolicy(MPOL_BIND, &one), 0); }).join();
	EXPECT_EQ(unmapped, 10u);
	ASSERT_EQ(ukmem_set_mempolicy(MPOL_BIND, &one), 0);
	ASSERT_EQ(ukmem_set_mempolicy(MPOL_INTERLEAVE, &one), 0);
	EXPECT_EQ(unmapped, 11u) << "the one before";
	struct mempolicy *pol = policy(MPOL_BIND, { 1 });
	mpol_put(mpol_get(pol));
	EXPECT_EQ(unmapped, 11u) << "still referenced";
	mpol_put(pol);
	EXPECT_EQ(unmapped, 12u);
}

TEST(PagePolicyTest, EndOfAThreadFreesItsPolicy)
{
	EXPECT_FRESH_PROCESS_PASSES(thread_end_frees);
}

int started_mode;
unsigned long started_nodes;

int fake_get_mempolicy(int *mode, unsigned long *nodes, unsigned long)
{
	*mode = started_mode;
	nodes[0] = started_nodes;
	return 0;
}

/* A machine with nodes 0, 2 and 5, and a process that was started with numactl. */
void start_with(int mode, unsigned long nodes)
{
	fake_nodes("0,2,5", { 0, 2, 5 });
	started_mode = mode;
	started_nodes = nodes;
	os_calls.get_mempolicy = fake_get_mempolicy;
	ASSERT_TRUE(shim_page_init());
	ASSERT_EQ(shim_nr_zones(), 3u);
}

void inherited_policy()
{
	start_with(MPOL_BIND, 1ul << 2 | 1ul << 5);
	expect_policy(MPOL_BIND, { 2, 5 });
	for (auto [nid, n] : count_nodes(50, 3))
		EXPECT_TRUE(nid == 2 || nid == 5) << nid << ": " << n;
	EXPECT_GT(fake_mbind_calls, 0u) << "on the nodes it is said to be on";
	std::thread([] { expect_policy(MPOL_BIND, { 2, 5 }); }).join();
	/* A thread's own goes before, and DEFAULT goes back. */
	nodemask zero = mask_of({ 0 });
	ASSERT_EQ(ukmem_set_mempolicy(MPOL_BIND, &zero), 0);
	EXPECT_EQ(count_nodes(20, 3), (Counts{ { 0, 20 } }));
	ASSERT_EQ(ukmem_set_mempolicy(MPOL_DEFAULT, nullptr), 0);
	expect_policy(MPOL_BIND, { 2, 5 });
	/* So it does for the process. */
	ASSERT_EQ(ukmem_set_process_mempolicy(MPOL_PREFERRED, &zero), 0);
	expect_policy(MPOL_PREFERRED, { 0 });
	ASSERT_EQ(ukmem_set_process_mempolicy(MPOL_DEFAULT, nullptr), 0);
	expect_policy(MPOL_BIND, { 2, 5 });
	/* An object of mode DEFAULT means the same. */
	struct mempolicy *pol = mpol_new(MPOL_DEFAULT, nullptr);
	EXPECT_EQ(count_nodes(20, 3, pol).count(0), 0u);
	mpol_put(pol);
}

TEST(PagePolicyTest, InheritedFromTheStarter)
{
	EXPECT_FRESH_PROCESS_PASSES(inherited_policy);
	EXPECT_FRESH_PROCESS_PASSES([] {
		start_with(MPOL_INTERLEAVE | 0x8000, 1ul << 0 | 1ul << 5);
		expect_policy(MPOL_INTERLEAVE, { 0, 5 });
		EXPECT_EQ(count_nodes(40, 3), (Counts{ { 0, 20 }, { 5, 20 } }));
		EXPECT_EQ(fake_mbind_calls, 0u);
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		start_with(MPOL_PREFERRED, 1ul << 5);
		EXPECT_EQ(count_nodes(20, 3), (Counts{ { 5, 20 } }));
	});
	/* A real node that is pretended to be several. */
	EXPECT_FRESH_PROCESS_PASSES([] {
		configure("numa_fake:4");
		started_mode = MPOL_PREFERRED;
		started_nodes = 1;
		os_calls.get_mempolicy = fake_get_mempolicy;
		ASSERT_TRUE(shim_page_init());
		expect_policy(MPOL_PREFERRED, { 0 });
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		start_with(MPOL_DEFAULT, 0);
		expect_policy(MPOL_DEFAULT, {});
		count_nodes(20, 3);
		EXPECT_GT(fake_mbind_calls, 0u) << "no policy: memory is bound to nodes";
	});
}

/* cpusets take nodes away and give them back. */
void shrinking_nodes()
{
	fake_nodes("0-2", { 0, 1, 2 });
	struct mempolicy *bind = policy(MPOL_BIND, { 0, 1 });
	struct mempolicy *turns = policy(MPOL_INTERLEAVE, { 0, 1, 2 });
	struct mempolicy *first = policy(MPOL_PREFERRED, { 1 });

	kfree(kmalloc(1, GFP_KERNEL));
	EXPECT_EQ(num_node_state(N_MEMORY), 3u);
	fake_mems = 1ul << 0 | 1ul << 2;
	ukmem_trim();
	EXPECT_EQ(num_node_state(N_MEMORY), 2u);
	EXPECT_FALSE(node_state(1, N_MEMORY));
	EXPECT_TRUE(node_state(1, N_POSSIBLE));
	EXPECT_EQ(count_nodes(20, 2, bind), (Counts{ { 0, 20 } }));
	EXPECT_EQ(count_nodes(40, 2, turns), (Counts{ { 0, 20 }, { 2, 20 } }));
	EXPECT_EQ(count_nodes(20, 2, first).count(1), 0u);
	EXPECT_EQ(alloc_pages_node(1, GFP_KERNEL | __GFP_THISNODE | __GFP_NOWARN, 0), nullptr);
	/* None of its nodes left: as without a policy. */
	fake_mems = 1ul << 2;
	ukmem_trim();
	EXPECT_EQ(count_nodes(20, 2, bind), (Counts{ { 2, 20 } }));
	fake_mems = ~0ul;
	ukmem_trim();
	EXPECT_EQ(count_nodes(20, 2, first), (Counts{ { 1, 20 } }));
	Counts counts = count_nodes(20, 2, bind);
	EXPECT_EQ(counts[0] + counts[1], 20u);
	/* A set of nodes that makes no sense changes nothing. */
	fake_mems = 1ul << 40;
	ukmem_trim();
	EXPECT_EQ(num_node_state(N_MEMORY), 3u);
	for (auto *pol : { bind, turns, first })
		mpol_put(pol);
}

TEST(PagePolicyTest, NodesThatMayNotBeUsedAnyMore)
{
	EXPECT_FRESH_PROCESS_PASSES(shrinking_nodes);
}

/* As above, in a program that has no caches. */
void trim_looks_again()
{
	fake_nodes("0-2", { 0, 1, 2 });
	struct page *p = alloc_pages(GFP_KERNEL, 8);
	touch(p, 8);
	__free_pages(p, 8);
	fake_mems = 1ul << 0 | 1ul << 2;
	EXPECT_GE(ukmem_trim(), ukmem_page_size() << 8);
	EXPECT_EQ(num_node_state(N_MEMORY), 2u);
}

TEST(PagePolicyTest, TrimWorksInAProgramOfPagesOnly)
{
	EXPECT_FRESH_PROCESS_PASSES(trim_looks_again);
}

} // namespace
