/* SPDX-License-Identifier: MIT */
/*
 * Threads that fill and empty slabs of the same caches, each held up between the steps of the
 * slabs' protocol (slab_delays.h). Pages go from cache to cache all the time.
 */
#include <sys/wait.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "unit/slab_util.h"

namespace
{

constexpr unsigned kCaches = 4;
struct kmem_cache *caches[kCaches];

void mark(void *p, unsigned size)
{
	memset(p, static_cast<int>(reinterpret_cast<uintptr_t>(p) >> 5 & 0xff), size);
}

void expect_mark(const void *p, unsigned size)
{
	auto *c = static_cast<const unsigned char *>(p);

	for (unsigned i = 0; i < size; i++)
		ASSERT_EQ(c[i], reinterpret_cast<uintptr_t>(p) >> 5 & 0xff);
}

void fill_and_empty(unsigned me, unsigned size, unsigned rounds)
{
	std::mt19937 random(me);
	std::vector<void *> p;
	TimeBox box;

	for (unsigned round = 0; round < rounds && !box.is_over(); round++) {
		struct kmem_cache *s = caches[random() % kCaches];

		for (unsigned n = 1 + random() % 300; n; n--) {
			p.push_back(
				kmem_cache_alloc(s, random() % 4 ? GFP_KERNEL : GFP_NOWAIT));
			if (!p.back())
				p.pop_back();
			else
				mark(p.back(), size);
		}
		if (random() % 2)
			std::shuffle(p.begin(), p.end(), random);
		for (void *q : p)
			expect_mark(q, size);
		free_objects(s, p);
	}
}

void caches_of(unsigned size, const char *conf, bool typesafe)
{
	struct kmem_cache_args args = {};

	configure_slabs(conf);
	args.sheaf_capacity = 1;
	for (unsigned i = 0; i < kCaches; i++)
		caches[i] = kmem_cache_create("delays", size, &args,
					      typesafe && i == 0 ? SLAB_TYPESAFE_BY_RCU : 0);
	{
		Threads t(4, [&](unsigned me) { fill_and_empty(me, size, 400 / kSlow); });
	}
	for (unsigned i = 0; i < kCaches; i++) {
		if (!typesafe || i)
			expect_nothing_left(caches[i]);
		EXPECT_STREQ(shim_slab_wrong(caches[i]), nullptr);
		EXPECT_EQ(kmem_cache_nr_allocated(caches[i]), 0u);
		kmem_cache_destroy(caches[i]);
	}
}

TEST(SlabDelaysTest, SlabsOfEightObjects)
{
	EXPECT_FRESH_PROCESS_PASSES([] { caches_of(512, "slab_max_order:0", false); });
}

TEST(SlabDelaysTest, SlabsOfTwoObjects)
{
	EXPECT_FRESH_PROCESS_PASSES([] { caches_of(2048, "slab_max_order:0", false); });
}

TEST(SlabDelaysTest, SlabsOfManyWords)
{
	EXPECT_FRESH_PROCESS_PASSES([] { caches_of(16, "slab_max_order:0", true); });
}

TEST(SlabDelaysTest, OnThreeNodes)
{
	EXPECT_FRESH_PROCESS_PASSES(
		[] { caches_of(512, "slab_max_order:0,numa_fake:3", true); });
}

/* A stock that threads take from, while others fill it up, and make it larger and smaller. */
void one_stock()
{
	constexpr unsigned long kStock = 6, kMost = 16;
	struct kmem_cache_args args = {};
	struct kmem_cache *s;

	configure_slabs("slab_max_order:0");
	args.sheaf_capacity = 1;
	s = kmem_cache_create("stock", 512, &args, 0);
	std::fill_n(caches, kCaches, s);
	unsigned long per_slab = geometry_of(s).objects;

	kmem_cache_set_limit(s, kMost * per_slab, 60);
	{
		std::atomic<unsigned> busy{ 2 };
		Threads t(4, [&](unsigned me) {
			if (me % 2) {
				fill_and_empty(me, 512, 400 / kSlow);
				busy--;
			}
			for (unsigned n = me; busy; n++)
				kmem_cache_set_stock(s, n % 3 * kStock / 2 * per_slab);
		});
	}
	EXPECT_LE(slab_counts_of(s).slabs, kMost);
	EXPECT_LE(kmem_cache_stock(s), kStock * per_slab);
	EXPECT_STREQ(shim_slab_wrong(s), nullptr);
	EXPECT_EQ(kmem_cache_nr_allocated(s), 0u);
	EXPECT_EQ(kmem_cache_set_stock(s, 0), 0);
	expect_nothing_left(s);
	kmem_cache_destroy(s);
}

TEST(SlabDelaysTest, OneStock)
{
	EXPECT_FRESH_PROCESS_PASSES(one_stock);
}

/* What threads have, in slots of theirs; what is in a call is in none. */
constexpr unsigned kThreads = 4, kSlots = 400;
std::atomic<void *> held[kThreads][kSlots];
std::atomic<unsigned> steps[kThreads];

void hold_and_free(unsigned me, std::atomic<bool> &stop)
{
	std::mt19937 random(me);

	while (!stop) {
		std::atomic<void *> *first = &held[me][random() % (kSlots / 2)];
		unsigned n = random() % (kSlots / 2);

		for (unsigned i = 0; i < n; i++, steps[me]++)
			if (!first[i])
				first[i] = kmem_cache_alloc(caches[0], GFP_KERNEL);
		first = &held[random() % kThreads][random() % (kSlots / 2)];
		for (unsigned i = 0; i < n; i++, steps[me]++)
			if (void *p = first[i].exchange(nullptr))
				kmem_cache_free(caches[0], p);
	}
}

/* In a child: NULL, or what the fork left undone. */
const char *wrong_in_child()
{
	const char *wrong = shim_slab_wrong(caches[0]);

	if (wrong)
		return wrong;
	for (auto &slots : held)
		for (auto &slot : slots)
			if (void *p = slot.exchange(nullptr))
				kmem_cache_free(caches[0], p);
	kmem_cache_shrink(caches[0]);
	wrong = shim_slab_wrong(caches[0]);
	if (wrong)
		return wrong;
	/* A thread's call has one object. */
	if (kmem_cache_nr_allocated(caches[0]) > kThreads)
		return "objects were lost";
	return nullptr;
}

/* Until nobody is left who waited for the last fork. */
void wait_for_everybody()
{
	for (auto &n : steps)
		for (unsigned before = n; n == before || n == before + 1;)
			std::this_thread::yield();
}

/* A child of which a thread may have lost patience with the fork; else what is wrong in it. */
enum { CHILD_WHOLE, CHILD_WRONG, CHILD_LATE };

int look_into_child(std::chrono::steady_clock::time_point before)
{
	if (std::chrono::steady_clock::now() - before > std::chrono::milliseconds(40))
		return CHILD_LATE;

	const char *wrong = wrong_in_child();

	if (wrong)
		fprintf(stderr, "%s\n", wrong);
	return wrong ? CHILD_WRONG : CHILD_WHOLE;
}

void fork_between_steps(unsigned size)
{
	struct kmem_cache_args args = {};
	std::atomic<bool> stop{ false };
	unsigned whole = 0;

	configure_slabs("slab_max_order:0");
	args.sheaf_capacity = 1;
	caches[0] = kmem_cache_create("forked", size, &args, 0);
	Threads t(kThreads, [&](unsigned me) { hold_and_free(me, stop); });
	TimeBox box;

	while (whole < 40 / kSlow && !(whole && box.is_over()) &&
	       !::testing::Test::HasFailure()) {
		int status = -1;

		wait_for_everybody();
		auto before = std::chrono::steady_clock::now();
		pid_t child = fork();

		if (!child)
			exit_child(look_into_child(before));
		waitpid(child, &status, 0);
		EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != CHILD_WRONG)
			<< status << " after " << whole << " forks";
		whole += status == CHILD_WHOLE;
	}
	stop = true;
}

TEST(SlabDelaysTest, AForkFindsSlabsWhole)
{
	EXPECT_FRESH_PROCESS_PASSES([] { fork_between_steps(512); });
}

/* How many frees of others an object of a hardened process waits, of 64 bytes or a little more;
 * of a thread that was held up in the middle of one, the free may count too early. */
constexpr uint64_t kWait = 64;

/* On one CPU, so that they have one quarantine. */
void free_in_turns()
{
	std::unordered_map<void *, uint64_t> freed; /* the number of each object's free */
	uint64_t frees = 0, early = 0;
	std::mutex mutex; /* all these */

	configure_slabs("hardened:1");
	run_on(allowed_cpus()[0]);
	{
		Threads t(kThreads, [&](unsigned) {
			TimeBox box;

			for (unsigned n = 0; n < 20000 / kSlow && !box.is_over(); n++) {
				void *p = kmalloc(64, GFP_KERNEL);

				{
					std::lock_guard<std::mutex> guard(mutex);
					uint64_t &number = freed[p];

					early += number && frees - number < kWait - kThreads;
					number = ++frees;
				}
				kfree(p);
			}
		});
	}
	EXPECT_EQ(early, 0u);
}

TEST(SlabDelaysTest, ObjectsWaitWhileTheQuarantineIsInHand)
{
	EXPECT_FRESH_PROCESS_PASSES(free_in_turns);
}

} // namespace
