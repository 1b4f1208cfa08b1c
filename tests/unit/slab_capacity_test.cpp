/* SPDX-License-Identifier: MIT */
/* A CPU's array holds many objects of a program that frees them in order, and few of one that
 * frees them in random order. */
#include <algorithm>
#include <random>
#include <thread>

#include "slab_shim.h"
#include "slab_util.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

namespace
{

constexpr size_t kMiB = 1u << 20;
constexpr size_t kSize = 64, kObjects = 1u << 15, kMany = 4096;
constexpr size_t kMixed = 512; /* slab_capacity.c */

enum Order { IN_ORDER, BACKWARDS, AT_RANDOM };

struct Program {
	void *large; /* the budgets follow the program's size */
	size_t size;
	std::vector<char *> p;
	std::mt19937 random{ 1 };
	struct kmem_cache *s = shim_class_cache(size);

	explicit Program(size_t bytes = 64 * kMiB, size_t objects = kObjects,
			 size_t size = kSize)
	    : large(kmalloc(std::max(bytes, size_t{ 1 }), GFP_KERNEL)), size(size), p(objects)
	{
		run_on(allowed_cpus().front());
	}
	~Program()
	{
		kfree(large);
	}
	void allocate()
	{
		for (auto &q : p)
			q = static_cast<char *>(kmalloc(size, GFP_KERNEL));
	}
	void free(Order order)
	{
		if (order != AT_RANDOM)
			std::sort(p.begin(), p.end());
		else
			std::shuffle(p.begin(), p.end(), random);
		if (order == BACKWARDS)
			std::reverse(p.begin(), p.end());
		for (auto *q : p)
			kfree(q);
	}
	/* Result: the most slots that the array had meanwhile. */
	size_t use(Order order, int rounds)
	{
		size_t most = 0;

		while (rounds--) {
			allocate();
			most = std::max(most, slots());
			free(order);
			most = std::max(most, slots());
		}
		return most;
	}
	size_t slots() const
	{
		return shim_capacity_bytes(s, static_cast<unsigned>(allowed_cpus().front())) /
		       size;
	}
	/* Objects that lie within a line or two of the one before. */
	size_t followers() const
	{
		size_t n = 0;

		for (size_t i = 1; i < p.size(); i++)
			n += static_cast<size_t>(std::abs(p[i] - p[i - 1])) <= 4 * kSize;
		return n;
	}
};

/* What all arrays have capacity for is charged, and nothing else except queues. */
void expect_exact_budget()
{
	size_t sum = 0;

	for (size_t size = 1; size <= KMALLOC_MAX_CACHE_SIZE;
	     size = kmalloc_size_roundup(size) + 1)
		for (int cpu : allowed_cpus())
			sum += shim_capacity_bytes(shim_class_cache(size),
						   static_cast<unsigned>(cpu));
	EXPECT_LE(sum, shim_budget_used());
	EXPECT_GE(sum + 128 * 1024, shim_budget_used()) << "queues have the rest";
}

void expect_exact_counts(const Program &program, size_t inuse)
{
	shim_counts c;

	shim_slab_count(program.s, &c);
	EXPECT_EQ(c.inuse, inuse);
	EXPECT_EQ(shim_above_capacity(program.s), 0u);
	EXPECT_EQ(shim_slab_wrong(program.s), nullptr);
	expect_exact_budget();
}

TEST(SlabCapacityTest, CapacityFollowsTheOrder)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Program program;
		shim_counts c;

		shim_slab_count(program.s, &c);
		size_t inuse = c.inuse;
		for (Order order : { IN_ORDER, BACKWARDS }) {
			program.use(order, 20);
			EXPECT_GE(program.slots(), kMany);
			expect_exact_counts(program, inuse);
			program.use(AT_RANDOM, 1);
			EXPECT_LE(program.slots(), kMixed) << "it gave up step by step";
			program.use(AT_RANDOM, 20);
			EXPECT_LE(program.slots(), kMixed);
			EXPECT_GT(program.slots(), kMixed / 2) << "and keeps some";
			expect_exact_counts(program, inuse);
		}
		program.use(IN_ORDER, 20);
		EXPECT_GE(program.slots(), kMany) << "it has grown again";
	});
}

/* Objects that were freed at random are fetched, since no cache of the processor has them. */
TEST(SlabCapacityTest, LinesAreFetchedAfterRandomFrees)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Program program;

		program.use(IN_ORDER, 2);
		EXPECT_FALSE(shim_slab_is_scattered(program.s));
		program.use(AT_RANDOM, 2);
		EXPECT_TRUE(shim_slab_is_scattered(program.s));
		program.use(BACKWARDS, 2);
		EXPECT_FALSE(shim_slab_is_scattered(program.s));
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		Program small(0, kMiB * 5 / 4 / kSize);

		small.use(AT_RANDOM, 20);
		EXPECT_FALSE(shim_slab_is_scattered(small.s));
	});
}

/* An array that was never large does not become so. */
TEST(SlabCapacityTest, RandomFromTheStart)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Program program;

		EXPECT_LE(program.use(AT_RANDOM, 20), kMixed);
		EXPECT_GT(program.slots(), kMixed / 4);
	});
}

/* All that a small program has is in the processor's cache, in whatever order. */
TEST(SlabCapacityTest, SmallProgramsFreeInAnyOrder)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Program program(0, kMiB * 3 / 2 / kSize);

		program.use(AT_RANDOM, 20);
		EXPECT_GE(program.slots(), kMany);
	});
}

/* Three MiB are more than the cache that a core has for itself. */
TEST(SlabCapacityTest, ThreeMebibytesAreNotSmall)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Program program(0, 3 * kMiB / kSize);

		EXPECT_LE(program.use(AT_RANDOM, 20), kMixed);
	});
}

/* Of objects of 1 KiB a slab has few, so there it pays up to four MiB. */
TEST(SlabCapacityTest, SmallIsMoreForLargeObjects)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Program program(0, 3 * kMiB / 1024, 1024);

		program.use(AT_RANDOM, 20);
		EXPECT_GE(program.slots(), 2 * kMixed);
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		Program program(64 * kMiB, 2 * kMiB / 1024, 1024);

		program.use(AT_RANDOM, 20);
		EXPECT_GE(program.slots(), 2 * kMixed);
	});
	EXPECT_FRESH_PROCESS_PASSES([] {
		Program program(0, 6 * kMiB / 1024, 1024);

		EXPECT_LE(program.use(AT_RANDOM, 20), kMixed);
	});
}

TEST(SlabCapacityTest, FewObjectsBesideALargeBlockAreFreedInAnyOrder)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Program program(64 * kMiB, 1u << 13);

		program.use(AT_RANDOM, 20);
		EXPECT_GE(program.slots(), kMany);
	});
}

/* The library forgets what the program had when a few MiB of objects have moved, whatever their
 * size. */
TEST(SlabCapacityTest, FewObjectsAfterMany)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Program program(64 * kMiB, 16 * kMiB / 1024, 1024);

		EXPECT_LE(program.use(AT_RANDOM, 4), kMixed);
		program.p.resize(kMiB / 1024);
		program.use(AT_RANDOM, 16);
		EXPECT_GE(program.slots(), kMiB / 1024 - 64);
	});
}

/* Two MiB of another class are near each other, but not near these. */
TEST(SlabCapacityTest, AllClassesObjectsCount)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Program program(64 * kMiB, 1u << 13);
		std::vector<void *> others(2 * kMiB / 256);

		for (auto &q : others)
			q = kmalloc(256, GFP_KERNEL);
		EXPECT_LE(program.use(AT_RANDOM, 20), kMixed);
		for (auto *q : others)
			kfree(q);
	});
}

/* After frees in random order, objects that are allocated one after the other lie so. */
TEST(SlabCapacityTest, NextObjectsLieTogether)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Program program;

		program.use(IN_ORDER, 20);
		program.use(AT_RANDOM, 2);
		program.allocate();
		EXPECT_GT(program.followers(), kObjects * 9 / 10);
		program.free(AT_RANDOM);
	});
}

/* A program in whose life arrays are exceeded, now by allocations and now by frees, and between
 * that last for @pairs allocations for each slot. */
struct Lasting {
	size_t size;
	void *large = kmalloc(64 * kMiB, GFP_KERNEL);
	struct kmem_cache *s = shim_class_cache(size);

	explicit Lasting(size_t size) : size(size)
	{
		run_on(allowed_cpus().front());
	}
	~Lasting()
	{
		kfree(large);
	}
	size_t slots() const
	{
		return shim_capacity_bytes(s, static_cast<unsigned>(allowed_cpus().front())) /
		       kmalloc_size_roundup(size);
	}
	void last(size_t pairs) const
	{
		for (size_t n = pairs * slots(); n > 0; n--)
			kfree(kmalloc(size, GFP_KERNEL));
	}
	/* Result: the slots at the end. */
	size_t use(size_t pairs, int rounds) const
	{
		std::vector<void *> p;

		while (rounds--) {
			for (size_t n = 2 * slots() + 1; n > 0; n--)
				p.push_back(kmalloc(size, GFP_KERNEL));
			last(pairs);
			for (auto *q : p)
				kfree(q);
			p.clear();
			last(pairs);
		}
		return slots();
	}
};

/* An array that lasts long is no larger than it was; where it does not it grows, and where it
 * lasts much longer it loses what it had grown. */
TEST(SlabCapacityTest, AnArrayThatLastsDoesNotGrow)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		const Lasting small(kSize);
		const size_t first = small.use(0, 1);

		EXPECT_EQ(small.use(17, 10), first);
		EXPECT_GE(small.use(2, 10), 64 * first);
		EXPECT_GT(small.use(17, 10), 8 * first) << "it stays for some time";
		EXPECT_EQ(small.use(100, 20), first);
		expect_exact_budget();
		EXPECT_EQ(shim_above_capacity(small.s), 0u);
	});
}

/* Large objects cost the program more, so fewer allocations are enough. */
TEST(SlabCapacityTest, AnArrayOfLargeObjectsLastsSooner)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		const Lasting large(8192);
		const size_t first = large.use(0, 1);

		EXPECT_EQ(large.use(3, 6), first);
		EXPECT_GE(large.use(0, 6), 8 * first);
	});
}

/* An array of one slot is found empty or full so often that it never lasts by chance alone. */
TEST(SlabCapacityTest, AnArrayOfOneSlotDoesNotLast)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		const Lasting large(32768);

		EXPECT_GE(large.use(2, 6), 4u);
	});
}

/* A thread that does 300 requests for objects, and frees them, on the CPU of Lasting. */
void pass_by(void *)
{
	std::thread([] {
		run_on(allowed_cpus().front());
		for (int round = 0; round < 100; round++) {
			void *p[3];

			for (auto &q : p)
				q = kmalloc(kSize, GFP_KERNEL);
			for (auto *q : p)
				kfree(q);
		}
	}).join();
}

/* A flush that follows flushes leaves an eighth of the array. */
TEST(SlabCapacityTest, AProgramThatFreesAloneHasFewFlushes)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		constexpr size_t kBytes = 32768, kFrees = 400;
		void *other = kmalloc(kBytes, GFP_KERNEL);
		struct kmem_cache *s = shim_class_cache(kBytes);
		std::vector<void *> p(kFrees);

		run_on(allowed_cpus().front());
		for (void *&q : p)
			q = kmalloc(kBytes, GFP_KERNEL);
		for (size_t i = 0; i < kFrees / 2; i++)
			kfree(p[i]);
		const auto before = slab_counts_of(s).flushes;
		for (size_t i = kFrees / 2; i < kFrees; i++)
			kfree(p[i]);
		const auto flushes = slab_counts_of(s).flushes - before;
		const auto cpu = static_cast<unsigned>(allowed_cpus().front());
		const size_t slots = shim_capacity_bytes(s, cpu) / kBytes;

		EXPECT_LE(slots, 64u);
		EXPECT_LE(flushes, kFrees / 2 / (slots * 3 / 4)) << "halves";
		EXPECT_GE(flushes, kFrees / 2 / slots);
		kfree(other);
	});
}

/* While an array is stopped, for instance to be emptied, each request goes past it, by itself;
 * the array neither grows nor is filled in vain. */
TEST(SlabCapacityTest, AStoppedArrayStaysAsItIs)
{
	if (rseq_is_off())
		GTEST_SKIP() << "nothing can be done on a CPU that is stopped";
	EXPECT_FRESH_PROCESS_PASSES([] {
		const Lasting program(kSize);
		shim_counts before, after;
		const size_t slots = program.use(17, 1);

		shim_slab_count(program.s, &before);
		ASSERT_TRUE(shim_while_stopped(program.s, pass_by, nullptr));
		shim_slab_count(program.s, &after);
		EXPECT_EQ(program.slots(), slots);
		EXPECT_EQ(after.refills, before.refills);
		EXPECT_EQ(after.allocs - before.allocs, 300u);
		EXPECT_EQ(after.inuse, before.inuse);
		expect_exact_budget();
	});
}

/* A handler that interrupts a flush frees in the middle of it. */
TEST(SlabCapacityTest, HandlersFlushAsWell)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		Program program;
		SignalStorm storm([](int) { kfree(kmalloc(kSize, GFP_ATOMIC)); }, 40);

		program.use(IN_ORDER, 20);
		program.use(AT_RANDOM, 20);
		EXPECT_LE(program.slots(), kMixed);
		EXPECT_EQ(shim_above_capacity(program.s), 0u);
	});
}

} // namespace
