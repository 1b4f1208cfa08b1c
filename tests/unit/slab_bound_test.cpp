/* SPDX-License-Identifier: MIT */
/* How many partly used slabs CPUs keep: exactly bounded, whatever becomes of the slabs. */
#include <algorithm>

#include "slab_attr_util.h"
#include "slab_util.h"

namespace
{

/* Objects by the slab they lie in. */
std::map<void *, std::vector<void *>> many_full_slabs(struct kmem_cache *s, size_t slabs)
{
	std::map<void *, std::vector<void *>> by_slab;
	size_t n = slabs * number(s, "objs_per_slab");

	for (size_t i = 0; i < n; i++) {
		void *p = kmem_cache_alloc(s, GFP_KERNEL);

		by_slab[shim_slab_base(p)].push_back(p);
	}
	return by_slab;
}

unsigned long slab_bound(struct kmem_cache *s)
{
	unsigned long per_slab = number(s, "objs_per_slab");

	return (2 * number(s, "cpu_partial") + per_slab - 1) / per_slab;
}

/* Lists above a lowered bound go to the node at once, and stay below it. */
TEST(SlabBoundTest, LoweringCpuPartialDrains)
{
	run_on(allowed_cpus().front());
	Cache s("lowered", 512);
	auto slabs = many_full_slabs(s, 400);
	unsigned long before, drained;

	for (auto &[base, objects] : slabs) {
		kmem_cache_free(s, objects.back());
		objects.pop_back();
	}
	before = number(s, "cpu_slabs");
	ASSERT_GT(before, 3u);
	ASSERT_LE(before, slab_bound(s));
	drained = number(s, "partial");
	EXPECT_EQ(kmem_cache_attr_store(s, "cpu_partial", "9"), 0);
	unsigned long bound = slab_bound(s);
	ASSERT_LT(bound, before);
	EXPECT_EQ(number(s, "cpu_slabs"), bound);
	EXPECT_EQ(number(s, "partial"), drained + before - bound);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	EXPECT_EQ(kmem_cache_attr_store(s, "cpu_partial", "0"), 0);
	EXPECT_EQ(number(s, "cpu_slabs"), 0u);
	for (auto &[base, objects] : slabs) {
		if (!objects.empty()) {
			kmem_cache_free(s, objects.back());
			objects.pop_back();
		}
		ASSERT_EQ(number(s, "cpu_slabs"), 0u) << "none means none";
	}
	for (auto &[base, objects] : slabs)
		free_all(s, objects);
	/* And up again. */
	EXPECT_EQ(kmem_cache_attr_store(s, "cpu_partial", "500"), 0);
	slabs = many_full_slabs(s, 400);
	unsigned long max = 0;
	for (auto &[base, objects] : slabs) {
		free_all(s, objects);
		max = std::max(max, number(s, "cpu_slabs"));
	}
	EXPECT_GT(max, bound);
	EXPECT_LE(max, slab_bound(s));
	EXPECT_EQ(number(s, "objects"), 0u);
}

/* The bound changes while everybody uses the lists; in the end it holds. */
TEST(SlabBoundTest, BoundChangesWhileInUse)
{
	Cache s("changing", 256);
	std::atomic<bool> stop{ false };
	{
		Threads threads(3, [&](unsigned id) {
			std::mt19937 random(id);
			std::vector<void *> live;

			while (!stop) {
				for (int i = 0; i < 2000; i++)
					live.push_back(kmem_cache_alloc(s, GFP_KERNEL));
				std::shuffle(live.begin(), live.end(), random);
				free_all(s, live);
				live.clear();
			}
		});

		for (int i = 0; i < 200; i++) {
			const char *const values[] = { "0", "500", "16", "100" };

			EXPECT_EQ(kmem_cache_attr_store(s, "cpu_partial", values[i % 4]), 0);
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
		}
		EXPECT_EQ(kmem_cache_attr_store(s, "cpu_partial", "16"), 0);
		for (int i = 0; i < 100; i++)
			std::this_thread::yield();
		stop = true;
	}
	unsigned long bound = slab_bound(s);
	std::string text = show(s, "slabs_cpu_partial");

	for (size_t at = text.find(" C"); at != std::string::npos;
	     at = text.find(" C", at + 1)) {
		unsigned cpu, objects, slabs;

		ASSERT_EQ(sscanf(text.c_str() + at, " C%u=%u(%u)", &cpu, &objects, &slabs), 3);
		EXPECT_LE(slabs, bound) << text;
	}
	EXPECT_EQ(number(s, "objects"), 0u);
}

/*
 * Frees one object of each of many full slabs, which brings all these slabs to the CPU's list,
 * and then the other objects. The number of slabs that stay is bounded. (A bound by an
 * estimated number of objects failed here.)
 */
void one_of_each_then_the_rest(unsigned size)
{
	Cache s("bounded", size);
	auto slabs = many_full_slabs(s, 1000);
	unsigned long bound = slab_bound(s) * allowed_cpus().size(), max = 0;

	for (auto &[base, objects] : slabs) {
		kmem_cache_free(s, objects.back());
		objects.pop_back();
		max = std::max(max, number(s, "cpu_slabs"));
	}
	EXPECT_LE(max, bound);
	EXPECT_GT(max, 0u);
	for (auto &[base, objects] : slabs) {
		free_all(s, objects);
		max = std::max(max, number(s, "cpu_slabs"));
	}
	EXPECT_LE(max, bound);
	shim_counts c = slab_counts_of(s);
	EXPECT_EQ(c.inuse, 0u);
	/* Slabs on lists, each pinned by an object in an array at worst, and what the node
	 * keeps. */
	EXPECT_LE(c.slabs, c.cpu_partial + c.cached + number(s, "min_partial"));
	EXPECT_TRUE(shim_slab_drain(s));
	EXPECT_EQ(number(s, "cpu_slabs"), 0u);
	EXPECT_LE(number(s, "slabs"), number(s, "min_partial")) << "all are empty";
}

TEST(SlabBoundTest, OneOfEachThenTheRestStaysBounded)
{
	for (unsigned size : { 64u, 256u, 1024u, 4096u }) {
		SCOPED_TRACE(size);
		one_of_each_then_the_rest(size);
	}
}

} // namespace
