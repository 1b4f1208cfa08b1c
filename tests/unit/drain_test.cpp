/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU arrays off the fast paths (src/percpu/array_slow.h, drain.h), for owners that only
 * keep books: opened, filled, reduced, counted, verified; and emptied from outside, several
 * owners at once, also where CPUs cannot be stopped.
 */
#include <errno.h>
#include <limits.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <thread>

#include "gate_shim.h"
#include "percpu_shim.h"
#include "test_util.h"
#include "ukmem/ukmem.h"

extern "C" {
#include "percpu/percpu.h"
#include "percpu/percpu_alloc.h"
#include "percpu/percpu_init.h"
}

namespace
{

constexpr unsigned kSlots = 256;
constexpr unsigned kPutMax = 24, kDrainArrays = 24; /* PCPU_PUT_MAX, PCPU_DRAIN_ARRAYS */

/* Arrays are named by CPU here, whatever the system offers. */
const bool by_cpu = !setenv("UKMEM_CONF", "percpu:cpu_id", 1);

void *number(uintptr_t i)
{
	return reinterpret_cast<void *>((i + 1) << 4);
}

int calls, refusal; /* of membarrier; what it returns, 0: it works */

int counting_membarrier(int cmd, unsigned flags, int cpu)
{
	calls++;
	return refusal ? refusal : os_calls_linux.membarrier(cmd, flags, cpu);
}

std::function<void()> in_the_stop; /* before sections are restarted */

int trying_membarrier(int cmd, unsigned flags, int cpu)
{
	in_the_stop();
	return counting_membarrier(cmd, flags, cpu);
}

/* An owner: what was put, and what it does then. */
struct Owner {
	std::vector<void *> got;
	std::vector<unsigned> batches;
	std::function<void(void **, unsigned)> then;
};

void put(void *whose, void **objects, unsigned n)
{
	auto *owner = static_cast<Owner *>(whose);

	owner->got.insert(owner->got.end(), objects, objects + n);
	owner->batches.push_back(n);
	if (owner->then)
		owner->then(objects, n);
}

class DrainTest : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		ASSERT_TRUE(pcpu_init());
		sched_getaffinity(0, sizeof(saved_), &saved_);
		cpus_ = allowed_cpus();
		run_on(cpus_[0]);
		os_calls.membarrier = counting_membarrier;
		calls = refusal = 0;
	}
	void TearDown() override
	{
		for (void *array : arrays_)
			pcpu_free(array);
		sched_setaffinity(0, sizeof(saved_), &saved_);
	}
	void *make(unsigned capacity = kSlots)
	{
		void *array = pcpu_alloc(shim_array_size(kSlots), 64);

		EXPECT_NE(array, nullptr);
		shim_array_open(array, capacity);
		arrays_.push_back(array);
		return array;
	}
	/* @n objects onto the array of @cpu, new ones each time. */
	void push(void *array, int cpu, unsigned n)
	{
		run_on(cpu);
		while (n) {
			void *object = number(next_);

			for (int i = 0; i < 100 && !shim_array_push(array, object); i++)
				ASSERT_LT(i, 99);
			next_++;
			n--;
		}
		run_on(cpus_[0]);
	}
	static bool drain(const std::vector<void *> &arrays, std::vector<Owner *> owners,
			  unsigned cpu = PCPU_ALL_CPUS, unsigned keep = 0)
	{
		std::vector<void *> whose(owners.begin(), owners.end());

		return shim_drain(arrays.data(), whose.data(),
				  static_cast<unsigned>(arrays.size()), cpu, keep, put);
	}
	static unsigned count(void *array, int cpu)
	{
		return shim_array_count(shim_array_header(array, static_cast<unsigned>(cpu)));
	}
	/* number(@first) .. number(@first + @n - 1), each once. */
	static void expect_each_once(std::vector<void *> got, unsigned first, unsigned n)
	{
		std::sort(got.begin(), got.end());
		ASSERT_EQ(got.size(), n);
		for (unsigned i = 0; i < n; i++)
			ASSERT_EQ(got[i], number(first + i));
	}

	OsCallsGuard guard_;
	cpu_set_t saved_;
	std::vector<int> cpus_;
	std::vector<void *> arrays_;
	unsigned next_ = 0;
};

TEST_F(DrainTest, EachOwnerGetsItsOwn)
{
	Owner owners[3];
	std::vector<void *> arrays = { make(), make(), make() };

	push(arrays[0], cpus_[0], 70);
	push(arrays[0], cpus_.back(), 30);
	push(arrays[2], cpus_.back(), 5);
	EXPECT_TRUE(drain(arrays, { &owners[0], &owners[1], &owners[2] }));
	expect_each_once(owners[0].got, 0, 100);
	EXPECT_TRUE(owners[1].got.empty());
	expect_each_once(owners[2].got, 100, 5);
	for (void *array : arrays)
		EXPECT_EQ(shim_array_total(array), 0u);
	/* They go on. */
	push(arrays[0], cpus_.back(), 1);
	EXPECT_EQ(count(arrays[0], cpus_.back()), 1u);
}

TEST_F(DrainTest, OneStopServesAll)
{
	Owner owner;
	std::vector<void *> arrays;

	if (rseq_is_off())
		GTEST_SKIP() << "nothing is restarted";
	for (unsigned i = 0; i < 2 * kDrainArrays + 1; i++)
		arrays.push_back(make());
	push(arrays[0], cpus_[0], 1);
	drain({ arrays[0] }, { &owner }); /* a process's first stop registers for more */
	for (unsigned n :
	     { 0u, 1u, 2u, kDrainArrays, kDrainArrays + 1, 2 * kDrainArrays + 1 }) {
		next_ = 0;
		owner.got.clear();
		for (unsigned i = 0; i < n; i++)
			push(arrays[i], cpus_[0], 3);
		calls = 0;
		drain({ arrays.begin(), arrays.begin() + n }, std::vector<Owner *>(n, &owner));
		EXPECT_EQ(static_cast<unsigned>(calls), (n + kDrainArrays - 1) / kDrainArrays);
		expect_each_once(owner.got, 0, 3 * n);
	}
}

TEST_F(DrainTest, BatchesAreBounded)
{
	Owner owner;
	void *array = make();

	for (unsigned n : { 1u, kPutMax - 1, kPutMax, kPutMax + 1, 5 * kPutMax, kSlots }) {
		owner.batches.clear();
		push(array, cpus_[0], n);
		EXPECT_TRUE(drain({ array }, { &owner }));
		EXPECT_EQ(std::accumulate(owner.batches.begin(), owner.batches.end(), 0u), n);
		EXPECT_EQ(owner.batches.size(), (n + kPutMax - 1) / kPutMax);
		for (unsigned batch : owner.batches)
			EXPECT_LE(batch, kPutMax);
	}
	expect_each_once(owner.got, 0, next_);
}

TEST_F(DrainTest, OneCpusAlone)
{
	Owner owner;
	void *array = make();

	if (cpus_.size() < 2)
		GTEST_SKIP() << "one CPU";
	push(array, cpus_[0], 40);
	push(array, cpus_[1], 50);
	EXPECT_TRUE(drain({ array }, { &owner }, static_cast<unsigned>(cpus_[1])));
	expect_each_once(owner.got, 40, 50);
	EXPECT_EQ(count(array, cpus_[0]), 40u);
	EXPECT_EQ(count(array, cpus_[1]), 0u);
}

TEST_F(DrainTest, SomeAreKept)
{
	Owner owner;
	void *array = make();

	push(array, cpus_[0], 100);
	push(array, cpus_.back(), 7);
	EXPECT_TRUE(drain({ array }, { &owner }, PCPU_ALL_CPUS, 20));
	EXPECT_EQ(count(array, cpus_[0]), 20u);
	EXPECT_EQ(count(array, cpus_.back()), cpus_.size() < 2 ? 20u : 7u);
	EXPECT_EQ(owner.got.size() + shim_array_total(array), 107u);
}

TEST_F(DrainTest, RefusedItEmptiesThisCpus)
{
	Owner owners[2];
	std::vector<void *> arrays = { make(), make() };

	if (rseq_is_off() || cpus_.size() < 2)
		GTEST_SKIP() << "nothing is restarted, or one CPU";
	for (void *array : arrays) {
		push(array, cpus_[0], 40);
		push(array, cpus_[1], 10);
	}
	refusal = -EPERM;
	owners[0].then = [](void **, unsigned) {
		EXPECT_TRUE(shim_gate_is_inside()) << "a fork would lose them";
	};
	EXPECT_FALSE(drain(arrays, { &owners[0], &owners[1] }));
	owners[0].then = nullptr;
	expect_each_once(owners[0].got, 0, 40);
	expect_each_once(owners[1].got, 50, 40);
	for (void *array : arrays)
		EXPECT_EQ(count(array, cpus_[1]), 10u);
	/* Another CPU's: nothing. */
	push(arrays[0], cpus_[0], 1);
	EXPECT_FALSE(
		drain(arrays, { &owners[0], &owners[1] }, static_cast<unsigned>(cpus_[1])));
	EXPECT_EQ(owners[0].got.size() + owners[1].got.size(), 80u);
	refusal = 0;
	EXPECT_TRUE(drain(arrays, { &owners[0], &owners[1] }));
	EXPECT_EQ(owners[0].got.size() + owners[1].got.size(), 101u);
}

/* The first of two stops is refused, the other one is not. */
TEST_F(DrainTest, ARefusalIsNotForgotten)
{
	Owner owner;
	std::vector<void *> arrays;

	if (rseq_is_off() || cpus_.size() < 2)
		GTEST_SKIP() << "nothing is restarted, or one CPU";
	for (unsigned i = 0; i < kDrainArrays + 1; i++) {
		arrays.push_back(make());
		push(arrays.back(), cpus_[0], 1);
	}
	push(arrays[0], cpus_[1], 1);
	refusal = -EPERM;
	owner.then = [](void **, unsigned) { refusal = 0; };
	EXPECT_FALSE(drain(arrays, std::vector<Owner *>(arrays.size(), &owner)));
	EXPECT_EQ(count(arrays[0], cpus_[1]), 1u);
	expect_each_once(owner.got, 0, kDrainArrays + 1);
}

/* The first owner puts objects into the second owner's array, which is emptied by a later stop.
 */
TEST_F(DrainTest, PutMayUseArraysOfALaterStop)
{
	Owner upper, lower;
	void *first = make(), *second = make();

	upper.then = [&](void **objects, unsigned n) {
		unsigned pushed = shim_array_push_bulk(second, objects, n);

		put(&lower, objects + pushed, n - pushed); /* its other way */
	};
	for (int error : { 0, -EPERM }) {
		next_ = 0;
		upper.got.clear();
		lower.got.clear();
		push(first, cpus_[0], 100);
		push(second, cpus_[0], 20);
		refusal = error;
		for (auto &[array, owner] : { std::pair(first, &upper), { second, &lower } })
			EXPECT_EQ(drain({ array }, { owner }), !error || rseq_is_off());
		expect_each_once(upper.got, 0, 100);
		expect_each_once(lower.got, 0, 120);
		EXPECT_EQ(shim_array_total(first) + shim_array_total(second), 0u);
	}
}

/* While they are stopped nothing comes into them, nor out. */
TEST_F(DrainTest, UsersOfStoppedArraysFail)
{
	Owner owner;
	void *first = make(), *second = make();
	unsigned got = 0, tried = 0;

	if (rseq_is_off())
		GTEST_SKIP() << "nothing is restarted";
	push(first, cpus_[0], 3);
	push(second, cpus_[0], 3);
	drain({ make() }, { &owner }); /* a process's first stop registers for more */
	in_the_stop = [&] {
		tried++;
		got += shim_array_push(first, number(1000)) +
		       shim_array_push(second, number(1001));
		got += shim_array_pop(second) != nullptr;
	};
	os_calls.membarrier = trying_membarrier;
	EXPECT_TRUE(drain({ first, second }, { &owner, &owner }));
	EXPECT_GE(tried, 1u);
	EXPECT_EQ(got, 0u);
	expect_each_once(owner.got, 0, 6);
}

/* When objects are put, users of the arrays go on already. */
TEST_F(DrainTest, UsersGoOnBeforeObjectsArePut)
{
	Owner owner;
	void *first = make(), *second = make();
	unsigned pushed = 0, failed = 0;

	if (rseq_is_off())
		GTEST_SKIP() << "they wait";
	push(first, cpus_[0], 3);
	push(second, cpus_.back(), 3);
	owner.then = [&](void **, unsigned) {
		for (void *array : { first, second }) {
			/* Another thread may abort a section. */
			for (failed = 0; failed < 100 && !shim_array_push(array, number(99));)
				failed++;
			pushed += failed < 100;
		}
	};
	EXPECT_TRUE(drain({ first, second }, { &owner, &owner }));
	EXPECT_EQ(pushed, 4u);
	expect_each_once(owner.got, 0, 6);
	EXPECT_EQ(shim_array_total(first) + shim_array_total(second), 4u);
}

/* Drains put in between if there are more objects than they take at once. */
TEST_F(DrainTest, MoreThanAreTakenAtOnce)
{
	std::vector<Owner> owners(kDrainArrays);
	std::vector<Owner *> whose;
	std::vector<void *> arrays;

	for (unsigned i = 0; i < kDrainArrays; i++) {
		arrays.push_back(make());
		whose.push_back(&owners[i]);
		push(arrays[i], cpus_[0], 200 + i % 3);
		push(arrays[i], cpus_.back(), 40);
	}
	EXPECT_TRUE(drain(arrays, whose));
	for (unsigned i = 0, first = 0; i < kDrainArrays; i++) {
		expect_each_once(owners[i].got, first, 240 + i % 3);
		first += 240 + i % 3;
		EXPECT_EQ(shim_array_total(arrays[i]), 0u);
	}
}

TEST_F(DrainTest, OpenedAtFirstUseAndWhenTheBoundChanges)
{
	Owner owner;
	void *array = make(0);

	shim_bound_set(array, 8, put, &owner);
	EXPECT_FALSE(shim_array_push(array, number(0))) << "it was never used";
	EXPECT_TRUE(shim_bound_open(array));
	EXPECT_FALSE(shim_bound_open(array));
	push(array, cpus_[0], 8);
	EXPECT_FALSE(shim_array_push(array, number(9)));
	/* Arrays in use follow at once. */
	shim_bound_set(array, 5, put, &owner);
	EXPECT_EQ(count(array, cpus_[0]), 5u);
	EXPECT_EQ(owner.got.size(), 3u);
	EXPECT_FALSE(shim_bound_open(array));
	shim_bound_set(array, 0, put, &owner);
	EXPECT_EQ(count(array, cpus_[0]), 0u);
	expect_each_once(owner.got, 0, 8);
	shim_bound_set(array, 3, put, &owner);
	EXPECT_TRUE(shim_bound_open(array)) << "closed is as never used";
	push(array, cpus_[0], 3);
}

TEST_F(DrainTest, ABoundIsLoweredWhereCpusCannotBeStopped)
{
	Owner owner;
	void *array = make(0);

	if (rseq_is_off() || cpus_.size() < 2)
		GTEST_SKIP() << "nothing is restarted, or one CPU";
	shim_bound_set(array, 20, put, &owner);
	for (int cpu : { cpus_[0], cpus_[1] }) {
		run_on(cpu);
		EXPECT_TRUE(shim_bound_open(array));
		push(array, cpu, 20);
	}
	refusal = -EPERM;
	shim_bound_set(array, 4, put, &owner);
	EXPECT_EQ(count(array, cpus_[0]), 4u);
	EXPECT_EQ(count(array, cpus_[1]), 20u);
	run_on(cpus_[1]);
	EXPECT_FALSE(shim_array_push(array, number(99)));
}

constexpr unsigned kThreads = 3, kEach = 300, kMove = 40;

/* Moves some objects between its hand and this CPU's array. */
void move_some(void *array, std::vector<void *> &hand, std::mt19937 &random)
{
	size_t n = std::min<size_t>(random() % kMove, hand.size());
	std::vector<void *> out(hand.end() - static_cast<long>(n), hand.end());
	unsigned pushed = shim_array_push_bulk(array, out.data(), static_cast<unsigned>(n)),
		 got;

	hand.resize(hand.size() - n);
	hand.insert(hand.end(), out.begin() + pushed, out.end());
	if (pushed < n)
		shim_bound_open(array);
	out.resize(kMove);
	got = shim_array_pop_bulk(array, out.data(), random() % kMove, true);
	hand.insert(hand.end(), out.begin(), out.begin() + got);
}

/* Objects go round while the bound goes up and down: none is lost, none is there twice, and in
 * the end no array holds more than it may. */
TEST_F(DrainTest, BoundsChangeWhileUsersPush)
{
	std::vector<void *> hands[kThreads];
	std::atomic<bool> stop = false;
	Owner owner;
	void *array = make(0);

	shim_bound_set(array, kSlots, put, &owner);
	sched_setaffinity(0, sizeof(saved_), &saved_);
	for (unsigned i = 0; i < kThreads * kEach; i++)
		hands[i % kThreads].push_back(number(i));
	Threads threads(kThreads, [&](unsigned id) {
		std::mt19937 random(id);

		while (!stop)
			move_some(array, hands[id], random);
	});
	std::mt19937 random(7);
	size_t above = 0;
	owner.then = [&](void **, unsigned n) { above += n; };
	for (int i = 0; i < 500 || above < 5000; i++) {
		shim_bound_set(array, random() % (kSlots + 1), put, &owner);
		move_some(array, owner.got, random); /* back to the others */
	}
	stop = true;
	threads.join();
	shim_bound_set(array, 10, put, &owner);
	for (int cpu : cpus_)
		EXPECT_LE(count(array, cpu), 10u);
	EXPECT_TRUE(drain({ array }, { &owner }));
	for (auto &hand : hands)
		owner.got.insert(owner.got.end(), hand.begin(), hand.end());
	expect_each_once(owner.got, 0, kThreads * kEach);
}

TEST_F(DrainTest, FilledSoThatTheyComeOutInOrder)
{
	void *array = make(), *objects[10];

	for (unsigned n : { 0u, 1u, 2u, 9u, 10u }) {
		for (unsigned i = 0; i < n; i++)
			objects[i] = number(i);
		ASSERT_EQ(shim_array_fill(array, objects, n), n);
		for (unsigned i = 0; i < n; i++)
			ASSERT_EQ(shim_array_pop(array), number(i));
	}
	/* Objects for which there is no room are at the end. */
	void *small = make(4);
	for (unsigned i = 0; i < 10; i++)
		objects[i] = number(i);
	ASSERT_EQ(shim_array_fill(small, objects, 10), 4u);
	EXPECT_EQ(shim_array_pop(small), number(6));
	EXPECT_EQ(objects[4], number(5));
	EXPECT_EQ(objects[9], number(0));
}

TEST_F(DrainTest, ReducedByItsUsersOperations)
{
	auto here = static_cast<unsigned>(cpus_[0]);
	Owner owner;
	void *array = make();

	push(array, cpus_[0], 100);
	EXPECT_EQ(shim_array_reduce(array, here, 60, put, &owner), 60u);
	EXPECT_EQ(owner.batches, (std::vector<unsigned>{ kPutMax, 100 - 60 - kPutMax }));
	EXPECT_EQ(shim_array_reduce(array, here, 80, put, &owner), 60u) << "there is less";
	EXPECT_EQ(shim_sum_pops(array, PCPU_ALL_CPUS), 0u) << "these are no allocations";
	EXPECT_EQ(shim_array_reduce(array, pcpu.nr_ids, 0, put, &owner), UINT_MAX);
	if (cpus_.size() > 1) {
		run_on(cpus_[1]);
		EXPECT_EQ(shim_array_reduce(array, here, 0, put, &owner), UINT_MAX);
	}
	EXPECT_EQ(owner.got.size(), 40u);
	EXPECT_EQ(count(array, cpus_[0]), 60u);
}

/* An array that always fails keeps what it has, and whoever reduces it comes to an end. */
TEST_F(DrainTest, ReducingAStoppedArrayEnds)
{
	Owner owner;
	void *array = make();

	push(array, cpus_[0], 10);
	ASSERT_TRUE(shim_arrays_stop(&array, 1));
	EXPECT_EQ(shim_array_reduce(array, static_cast<unsigned>(cpus_[0]), 0, put, &owner),
		  10u);
	shim_arrays_start(&array, 1);
	EXPECT_TRUE(owner.got.empty());
}

size_t as_number(void *object, const void *arg)
{
	return reinterpret_cast<uintptr_t>(object) / *static_cast<const size_t *>(arg);
}

TEST_F(DrainTest, Sums)
{
	constexpr size_t unit = 16;
	void *array = make();

	push(array, cpus_[0], 10);
	push(array, cpus_.back(), 5);
	shim_array_pop(
		array); /* number 9, on the first CPU, unless that is the last one, too */
	EXPECT_EQ(shim_sum_count(array, PCPU_ALL_CPUS), 14u);
	EXPECT_EQ(shim_sum_pops(array, PCPU_ALL_CPUS), 1u);
	if (cpus_.size() < 2)
		GTEST_SKIP() << "one CPU";
	EXPECT_EQ(shim_sum_count(array, static_cast<unsigned>(cpus_.back())), 5u);
	EXPECT_EQ(shim_sum_pops(array, static_cast<unsigned>(cpus_.back())), 0u);
	EXPECT_EQ(shim_sum_of(array, static_cast<unsigned>(cpus_.back()), as_number, &unit),
		  11u + 12 + 13 + 14 + 15);
	EXPECT_EQ(shim_sum_of(array, PCPU_ALL_CPUS, as_number, &unit), 15u * 16 / 2 - 10);
}

const char *is_seven(void *object, void *)
{
	return object == number(7) ? "is seven" : nullptr;
}

TEST_F(DrainTest, Verified)
{
	void *array = make(20);
	std::string at = "it, CPU " + std::to_string(cpus_.back()) + ": ";

	push(array, cpus_.back(), 7);
	EXPECT_STREQ(shim_array_verify(array, 20, is_seven, nullptr), nullptr);
	EXPECT_STREQ(shim_array_verify(array, 20, nullptr, nullptr), nullptr);
	push(array, cpus_.back(), 1);
	EXPECT_STREQ(shim_array_verify(array, 20, is_seven, nullptr),
		     (at + "object 0x80 in the array is seven").c_str());
	shim_array_open(array, 7);
	EXPECT_STREQ(shim_array_verify(array, 7, is_seven, nullptr),
		     (at + "8 objects and a capacity of 7 in an array of 7 slots").c_str());
	EXPECT_STREQ(shim_array_verify(make(5), 4, is_seven, nullptr),
		     "it, CPU 0: 0 objects and a capacity of 5 in an array of 4 slots");
}

/* Another thread trims while this one forks. The child does not have that thread, so that no
 * trim there waits for it. Other processes may delay some of the trims. */
long shortest_trim_ms()
{
	long shortest = LONG_MAX;

	for (int i = 0; i < 5; i++) {
		auto begun = std::chrono::steady_clock::now();

		ukmem_trim();
		auto took = std::chrono::steady_clock::now() - begun;
		shortest = std::min<long>(
			shortest,
			std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
	}
	return shortest;
}

TEST(DrainForkTest, AChildsTrimWaitsForNobody)
{
	std::atomic<bool> stop{};
	std::thread trims([&] {
		while (!stop)
			ukmem_trim();
	});

	kfree(kmalloc(64, GFP_KERNEL));
	for (int i = 0; i < 40 && !HasFailure(); i++) {
		int status;
		pid_t child = fork();

		if (!child)
			exit_child(shortest_trim_ms() >= 100);
		ASSERT_EQ(waitpid(child, &status, 0), child);
		EXPECT_EQ(status, 0);
	}
	stop = true;
	trims.join();
}

} // namespace
