/* SPDX-License-Identifier: MIT */
/* Policies: as objects, of threads, of the process, and the one it was started with. */
#include "guest.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <thread>

static struct nodemask mask_of(const std::vector<int> &nodes)
{
	struct nodemask mask;

	nodemask_clear(&mask);
	for (int nid : nodes)
		nodemask_set(&mask, static_cast<unsigned>(nid));
	return mask;
}

static std::shared_ptr<struct mempolicy> policy(int mode, const std::vector<int> &nodes)
{
	struct nodemask mask = mask_of(nodes);
	struct mempolicy *pol = mpol_new(mode, nodes.empty() ? nullptr : &mask);

	if (!pol)
		ADD_FAILURE() << "mpol_new: " << strerror(errno);
	return std::shared_ptr<struct mempolicy>(pol, mpol_put);
}

static int set_policy(int mode, const std::vector<int> &nodes)
{
	struct nodemask mask = mask_of(nodes);

	return ukmem_set_mempolicy(mode, nodes.empty() ? nullptr : &mask);
}

/* The nodes of @n runs, in turn. */
static std::vector<int> nodes_of(unsigned n, unsigned order,
				 const std::function<struct page *()> &alloc)
{
	std::vector<struct page *> pages;
	std::vector<int> nodes;

	for (unsigned i = 0; i < n; i++) {
		struct page *page = alloc();

		if (!page) {
			ADD_FAILURE() << "no memory";
			break;
		}
		nodes.push_back(touched_node(page, order));
		EXPECT_EQ(page_to_nid(page), nodes.back());
		pages.push_back(page);
	}
	for (auto *page : pages)
		__free_pages(page, order);
	return nodes;
}

static std::vector<int> pages_now(unsigned n, unsigned order)
{
	return nodes_of(n, order, [=] { return alloc_pages(GFP_KERNEL, order); });
}

static int node_of_block(size_t size)
{
	void *p = kmalloc(size, GFP_KERNEL);
	int nid = p ? touched_node(p, size) : -2;

	kfree(p);
	return nid;
}

static void expect_all(const std::vector<int> &nodes, int nid)
{
	EXPECT_EQ(nodes, std::vector<int>(nodes.size(), nid));
}

/* These in turn, beginning anywhere. */
static void expect_in_turn(const std::vector<int> &nodes, const std::vector<int> &turn)
{
	for (size_t i = 0; i < turn.size(); i++) {
		std::vector<int> expected;

		for (size_t j = 0; j < nodes.size(); j++)
			expected.push_back(turn[(i + j) % turn.size()]);
		if (nodes == expected)
			return;
	}
	ADD_FAILURE() << "not in turn: " << testing::PrintToString(nodes);
}

TEST(Mempolicy, Bind)
{
	auto pol = policy(MPOL_BIND, { 1, 3 });

	for (int from = 0; from < kNodes; from++) {
		int nearest = -1;

		pin_to_node(from);
		for (int nid : nodes_from(from))
			if (nearest < 0 && (nid == 1 || nid == 3))
				nearest = nid;
		for (unsigned order : { 0u, 3u, 9u })
			expect_all(nodes_of(4, order,
					    [&] {
						    return alloc_pages_mpol(GFP_KERNEL, order,
									    pol.get());
					    }),
				   nearest);
	}
}

TEST(Mempolicy, Interleave)
{
	auto pol = policy(MPOL_INTERLEAVE, { 0, 2, 3 });

	for (unsigned order : { 0u, 3u, 9u }) {
		expect_in_turn(nodes_of(12, order,
					[&] {
						return alloc_pages_mpol(GFP_KERNEL, order,
									pol.get());
					}),
			       { 0, 2, 3 });
	}
}

TEST(Mempolicy, PreferredAndLocal)
{
	for (int from = 0; from < kNodes; from++) {
		pin_to_node(from);
		for (int nid = 0; nid < kNodes; nid++) {
			auto pol = policy(MPOL_PREFERRED, { nid });

			expect_all(nodes_of(4, 1,
					    [&] {
						    return alloc_pages_mpol(GFP_KERNEL, 1,
									    pol.get());
					    }),
				   nid);
		}
		auto pol = policy(MPOL_LOCAL, {});
		set_policy(MPOL_BIND, { (from + 1) % kNodes });
		expect_all(nodes_of(4, 1,
				    [&] { return alloc_pages_mpol(GFP_KERNEL, 1, pol.get()); }),
			   from);
		set_policy(MPOL_DEFAULT, {});
	}
}

TEST(Mempolicy, NonsenseIsRefused)
{
	struct nodemask none = mask_of({}), one = mask_of({ 1 }), two = mask_of({ 1, 2 });
	struct nodemask unknown = mask_of({ kNodes + 5 });

	EXPECT_EQ(mpol_new(99, nullptr), nullptr);
	EXPECT_EQ(mpol_new(MPOL_BIND, nullptr), nullptr);
	EXPECT_EQ(mpol_new(MPOL_BIND, &none), nullptr);
	EXPECT_EQ(mpol_new(MPOL_INTERLEAVE, &none), nullptr);
	EXPECT_EQ(mpol_new(MPOL_BIND, &unknown), nullptr);
	EXPECT_EQ(mpol_new(MPOL_PREFERRED, &two), nullptr);
	EXPECT_EQ(mpol_new(MPOL_LOCAL, &one), nullptr);
	errno = 0;
	EXPECT_EQ(ukmem_set_mempolicy(MPOL_BIND, &none), -EINVAL);
	pin_to_node(0);
	expect_all(pages_now(3, 0), 0);
}

TEST(Mempolicy, OfTheThread)
{
	int mode = -1;
	struct nodemask mask;

	pin_to_node(0);
	ASSERT_EQ(set_policy(MPOL_BIND, { 2 }), 0);
	ukmem_get_mempolicy(&mode, &mask);
	EXPECT_EQ(mode, MPOL_BIND);
	EXPECT_TRUE(nodemask_test(&mask, 2) && nodemask_weight(&mask) == 1);
	expect_all(pages_now(20, 0), 2);
	expect_all(pages_now(4, 9), 2);
	for (size_t size : { 20000ul, 300000ul, 5ul << 20 })
		EXPECT_EQ(node_of_block(size), 2) << size;

	struct kmem_cache *cache = kmem_cache_create("bound", 1000, 0, 0, nullptr);
	void *object = kmem_cache_alloc(cache, GFP_KERNEL);
	EXPECT_EQ(touched_node(object), 2);
	kmem_cache_free(cache, object);
	kmem_cache_destroy(cache);

	std::thread([] {
		pin_to_node(1);
		expect_all(pages_now(8, 0), 1);
		ASSERT_EQ(set_policy(MPOL_PREFERRED, { 3 }), 0);
		expect_all(pages_now(8, 0), 3);
	}).join();
	expect_all(pages_now(8, 0), 2);

	ASSERT_EQ(set_policy(MPOL_INTERLEAVE, { 1, 3 }), 0);
	expect_in_turn(pages_now(20, 0), { 1, 3 });
	int first = node_of_block(300000), second = node_of_block(300000);
	EXPECT_NE(first, second);
	EXPECT_TRUE(first == 1 || first == 3) << first;
	EXPECT_TRUE(second == 1 || second == 3) << second;

	ASSERT_EQ(set_policy(MPOL_DEFAULT, {}), 0);
	expect_all(pages_now(8, 0), 0);
	EXPECT_EQ(node_of_block(300000), 0);
}

/* alloc_pages_node() and __alloc_pages() are outside of every policy. */
TEST(Mempolicy, DoesNotApplyToANodeThatIsNamed)
{
	pin_to_node(0);
	ASSERT_EQ(set_policy(MPOL_BIND, { 2 }), 0);
	expect_all(nodes_of(4, 0, [] { return alloc_pages_node(1, GFP_KERNEL, 0); }), 1);
	expect_all(nodes_of(4, 0, [] { return __alloc_pages(GFP_KERNEL, 0, 3, nullptr); }), 3);
	set_policy(MPOL_DEFAULT, {});
}

TEST(Mempolicy, OfTheProcess)
{
	struct nodemask mask = mask_of({ 3 });

	pin_to_node(0);
	std::thread own([&] {
		ASSERT_EQ(set_policy(MPOL_PREFERRED, { 1 }), 0);
		ASSERT_EQ(ukmem_set_process_mempolicy(MPOL_BIND, &mask), 0);
		expect_all(pages_now(8, 0), 1);
	});
	own.join();
	expect_all(pages_now(8, 0), 3);
	EXPECT_EQ(node_of_block(300000), 3);
	std::thread([] { expect_all(pages_now(8, 0), 3); }).join();
	ASSERT_EQ(ukmem_set_process_mempolicy(MPOL_DEFAULT, nullptr), 0);
	expect_all(pages_now(8, 0), 0);
}

/* set_mempolicy(2), as numactl does before it starts a program. */
static std::function<void()> numactl(int mode, const std::vector<int> &nodes)
{
	return [=] {
		struct nodemask mask = mask_of(nodes);

		EXPECT_EQ(syscall(SYS_set_mempolicy, mode, mask.bits, UKMEM_MAX_NODES), 0);
	};
}

/* By the kernel, evenly over all nodes: it interleaves by address. */
GUEST_CHILD(StartedInterleaved)
{
	int mode = -1;

	for (int from = 0; from < kNodes; from++) {
		std::map<int, int> count;
		std::vector<struct page *> pages;

		pin_to_node(from);
		for (int i = 0; i < 600; i++) {
			pages.push_back(alloc_pages(GFP_KERNEL, 0));
			count[touched_node(pages.back(), 0)]++;
		}
		for (int nid : { 1, 2, 3 })
			EXPECT_NEAR(count[nid], 200, 60) << "node " << nid;
		EXPECT_EQ(count[0], 0) << "from node " << from;
		for (auto *page : pages)
			__free_pages(page, 0);
	}
	ukmem_get_mempolicy(&mode, nullptr);
	EXPECT_EQ(mode, MPOL_INTERLEAVE);
}

TEST(Mempolicy, StartedInterleaved)
{
	EXPECT_CHILD_PASSES(StartedInterleaved, "", "", numactl(MPOL_INTERLEAVE, { 1, 2, 3 }));
}

/* All memory, by the library's count and by the kernel's, is on the argument's node. */
GUEST_CHILD(StartedOnOneNode)
{
	int nid = atoi(child_argument());
	struct kmem_cache *cache = kmem_cache_create("bound", 200, 0, 0, nullptr);

	for (int cpu = 0; cpu < kCpus; cpu++) {
		pin(cpu);
		expect_all(pages_now(8, 0), nid);
		expect_all(pages_now(4, 9), nid);
		EXPECT_EQ(node_of_block(300000), nid);
		EXPECT_EQ(touched_node(kmem_cache_alloc(cache, GFP_KERNEL)), nid);
		EXPECT_EQ(touched_node(kmalloc(700, GFP_KERNEL)), nid);
	}
}

TEST(Mempolicy, StartedBound)
{
	for (int nid = 0; nid < kNodes; nid++)
		EXPECT_CHILD_PASSES(StartedOnOneNode, "", std::to_string(nid),
				    numactl(MPOL_BIND, { nid }));
}

TEST(Mempolicy, StartedPreferring)
{
	for (int nid = 0; nid < kNodes; nid++)
		EXPECT_CHILD_PASSES(StartedOnOneNode, "", std::to_string(nid),
				    numactl(MPOL_PREFERRED, { nid }));
}

/* The program's own choice goes before the user's. */
GUEST_CHILD(ChoosesOtherNodes)
{
	auto pol = policy(MPOL_BIND, { 3 });

	expect_all(nodes_of(8, 0, [&] { return alloc_pages_mpol(GFP_KERNEL, 0, pol.get()); }),
		   3);
	for (int nid = 0; nid < kNodes; nid++)
		expect_all(nodes_of(8, 1, [=] { return alloc_pages_node(nid, GFP_KERNEL, 1); }),
			   nid);
	ASSERT_EQ(set_policy(MPOL_BIND, { 0 }), 0);
	expect_all(pages_now(6, 0), 0);
	EXPECT_EQ(node_of_block(300000), 0);
}

TEST(Mempolicy, OwnChoiceGoesBeforePreferring)
{
	EXPECT_CHILD_PASSES(ChoosesOtherNodes, "", "", numactl(MPOL_PREFERRED, { 1 }));
}
