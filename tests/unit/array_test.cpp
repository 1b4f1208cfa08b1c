/* SPDX-License-Identifier: MIT */
/* Per-CPU arrays, one thread: order, limits, bulk, the pops counter, stop and take. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <random>

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

/* A critical section may be aborted at any time; a caller that must succeed retries. */
bool push(void *array, void *object)
{
	for (int i = 0; i < 100; i++)
		if (shim_array_push(array, object))
			return true;
	return false;
}

void *pop(void *array)
{
	void *object = nullptr;

	for (int i = 0; i < 100 && !object; i++)
		object = shim_array_pop(array);
	return object;
}

unsigned push_bulk(void *array, void *const *in, unsigned n)
{
	unsigned k = 0;

	for (int i = 0; i < 100 && !k; i++)
		k = shim_array_push_bulk(array, in, n);
	return k;
}

unsigned pop_bulk(void *array, void **out, unsigned n, bool counted)
{
	unsigned k = 0;

	for (int i = 0; i < 100 && !k; i++)
		k = shim_array_pop_bulk(array, out, n, counted);
	return k;
}

class ArrayTest : public ::testing::Test
{
      protected:
	static constexpr unsigned kSlots = 64;

	void SetUp() override
	{
		/* On one CPU, so that one thread sees one array whatever the index is. */
		ASSERT_TRUE(pcpu_init());
		sched_getaffinity(0, sizeof(saved_), &saved_);
		run_on(allowed_cpus().back());
		array_ = pcpu_alloc(shim_array_size(kSlots), 64);
		ASSERT_NE(array_, nullptr);
		for (unsigned i = 0; i < kSlots + 2; i++)
			objects_.push_back(&storage_[i]);
	}
	void TearDown() override
	{
		pcpu_free(array_);
		sched_setaffinity(0, sizeof(saved_), &saved_);
	}
	unsigned count()
	{
		return shim_array_total(array_);
	}
	uint64_t pops()
	{
		uint64_t sum = 0;

		for (unsigned i = 0; i < pcpu.nr_ids; i++)
			sum += shim_array_pops(array_, i);
		return sum;
	}

	cpu_set_t saved_;
	void *array_ = nullptr;
	char storage_[kSlots + 2];
	std::vector<void *> objects_;
};

TEST_F(ArrayTest, AllZeroIsEmptyAndFull)
{
	EXPECT_EQ(pop(array_), nullptr);
	EXPECT_FALSE(push(array_, objects_[0]));
	EXPECT_EQ(push_bulk(array_, objects_.data(), 1), 0u);
	EXPECT_EQ(count(), 0u);
	for (unsigned i = 0; i < pcpu.nr_ids; i++)
		EXPECT_EQ(shim_array_header(array_, i), 0u);
}

TEST_F(ArrayTest, LastInFirstOut)
{
	shim_array_open(array_, kSlots);
	for (unsigned i = 0; i < kSlots; i++)
		ASSERT_TRUE(push(array_, objects_[i]));
	EXPECT_EQ(count(), kSlots);
	for (unsigned i = kSlots; i-- > 0;)
		ASSERT_EQ(pop(array_), objects_[i]);
	EXPECT_EQ(pop(array_), nullptr);
	EXPECT_EQ(count(), 0u);
}

TEST_F(ArrayTest, FullRefusesAndKeepsWhatItHolds)
{
	for (unsigned capacity : { 1u, 7u, kSlots }) {
		shim_array_open(array_, capacity);
		for (unsigned i = 0; i < capacity; i++)
			ASSERT_TRUE(push(array_, objects_[i]));
		EXPECT_FALSE(push(array_, objects_[capacity]));
		EXPECT_EQ(push_bulk(array_, &objects_[capacity], 2), 0u);
		EXPECT_EQ(count(), capacity);
		for (unsigned i = capacity; i-- > 0;)
			ASSERT_EQ(pop(array_), objects_[i]);
	}
}

TEST_F(ArrayTest, CapacityBelowCountIsFull)
{
	shim_array_open(array_, kSlots);
	for (unsigned i = 0; i < 10; i++)
		ASSERT_TRUE(push(array_, objects_[i]));
	shim_array_open(array_, 4);
	EXPECT_FALSE(push(array_, objects_[10]));
	EXPECT_EQ(push_bulk(array_, &objects_[10], 3), 0u);
	EXPECT_EQ(count(), 10u);
	for (unsigned i = 10; i-- > 0;)
		ASSERT_EQ(pop(array_), objects_[i]);
}

TEST_F(ArrayTest, BulkMovesWhatFitsInOrder)
{
	shim_array_open(array_, kSlots);
	for (unsigned n : { 1u, kSlots - 1, kSlots, kSlots + 1 }) {
		for (unsigned room : { 1u, 5u, kSlots }) {
			unsigned before = kSlots - room, fits = std::min(n, room);
			std::vector<void *> out(kSlots + 2, this);

			SCOPED_TRACE(testing::Message() << "n " << n << " room " << room);
			for (unsigned i = 0; i < before; i++)
				ASSERT_TRUE(push(array_, &storage_[i]));
			ASSERT_EQ(push_bulk(array_, objects_.data(), n), fits);
			ASSERT_EQ(count(), before + fits);
			/* All that was pushed, in the order it was pushed. */
			ASSERT_EQ(pop_bulk(array_, out.data(), fits, true), fits);
			for (unsigned i = 0; i < fits; i++)
				ASSERT_EQ(out[i], objects_[i]);
			ASSERT_EQ(out[fits], this) << "wrote past what it took";
			ASSERT_EQ(pop_bulk(array_, out.data(), kSlots + 1, false), before);
			for (unsigned i = 0; i < before; i++)
				ASSERT_EQ(out[i], &storage_[i]);
			ASSERT_EQ(count(), 0u);
		}
	}
}

TEST_F(ArrayTest, BulkPopOfEveryCount)
{
	shim_array_open(array_, kSlots);
	for (unsigned have = 0; have <= kSlots; have++) {
		for (unsigned n : { 1u, kSlots - 1, kSlots, kSlots + 1 }) {
			std::vector<void *> out(kSlots + 2, this);
			unsigned got = std::min(have, n);

			ASSERT_EQ(push_bulk(array_, objects_.data(), have), have);
			ASSERT_EQ(pop_bulk(array_, out.data(), n, true), got);
			/* The top of the stack, lowest first. */
			for (unsigned i = 0; i < got; i++)
				ASSERT_EQ(out[i], objects_[have - got + i]);
			ASSERT_EQ(out[got], this);
			while (pop(array_))
				;
			ASSERT_EQ(count(), 0u);
		}
	}
}

TEST_F(ArrayTest, PopsCountsObjectsHandedOut)
{
	void *out[kSlots];
	uint64_t expected = 0;

	shim_array_open(array_, kSlots);
	for (unsigned i = 0; i < 1000; i++) {
		ASSERT_EQ(push_bulk(array_, objects_.data(), 10), 10u);
		ASSERT_EQ(pops(), expected); /* pushing counts nothing */
		ASSERT_EQ(pop_bulk(array_, out, 3, true), 3u);
		ASSERT_EQ(pops(), expected += 3);
		ASSERT_EQ(pop_bulk(array_, out, 4, false), 4u);
		ASSERT_EQ(pops(), expected);
		for (int k = 0; k < 3; k++)
			ASSERT_NE(pop(array_), nullptr);
		ASSERT_EQ(pops(), expected += 3);
		ASSERT_EQ(pop(array_), nullptr); /* a failed pop counts nothing */
		ASSERT_EQ(pops(), expected);
		ASSERT_EQ(count(), 0u);
	}
}

/* Sets the countdowns of all CPUs' arrays. */
void wind(void *array, unsigned left, bool mark = false)
{
	for (unsigned i = 0; i < pcpu.nr_ids; i++)
		ASSERT_TRUE(
			shim_array_wind_cpu(array, i, shim_array_header(array, i), left, mark));
}

TEST_F(ArrayTest, ThePopAfterTheCountdownFails)
{
	void *out[kSlots];
	uint64_t expected = 0;

	shim_array_open(array_, kSlots);
	ASSERT_EQ(push_bulk(array_, objects_.data(), kSlots), kSlots);
	for (unsigned left : { 0u, 1u, 2u, 5u, 20u }) {
		for (bool mark : { false, true }) {
			unsigned have = count();

			SCOPED_TRACE(testing::Message() << left << " left");
			wind(array_, left, mark);
			ASSERT_EQ(pops(), expected) << "winding counts nothing";
			for (unsigned i = 0; i < left; i++) {
				ASSERT_EQ(shim_array_due(array_), 0u);
				ASSERT_EQ(pop(array_), objects_[have - 1 - i]);
			}
			ASSERT_EQ(pops(), expected += left);
			EXPECT_EQ(pop(array_), nullptr);
			EXPECT_EQ(pop_bulk(array_, out, 3, true), 0u);
			EXPECT_EQ(pops(), expected);
			EXPECT_EQ(count(), have - left);
			/* Everything else goes on. */
			ASSERT_EQ(pop_bulk(array_, out, 3, false), 3u);
			EXPECT_EQ(out[0], objects_[have - left - 3]);
			ASSERT_EQ(push_bulk(array_, out, 3), 3u);
			for (unsigned i = have - left; i < have; i++)
				ASSERT_TRUE(push(array_, objects_[i]));
			EXPECT_EQ(pop(array_), nullptr);
			ASSERT_NE(shim_array_due(array_), 0u);
			EXPECT_EQ(shim_array_mark(shim_array_due(array_)), mark);
			EXPECT_EQ(pops(), expected);
		}
	}
}

TEST_F(ArrayTest, BulkPopTakesWhatIsLeftOfTheCountdown)
{
	void *out[kSlots];

	shim_array_open(array_, kSlots);
	for (unsigned left = 0; left <= 20; left++) {
		ASSERT_EQ(push_bulk(array_, objects_.data(), 20), 20u);
		wind(array_, left);
		ASSERT_EQ(pop_bulk(array_, out, 12, true), std::min(left, 12u));
		ASSERT_EQ(pop_bulk(array_, out, 12, true), left - std::min(left, 12u));
		ASSERT_EQ(pop_bulk(array_, out, 30, false), 20 - left);
		for (unsigned i = 0; i < 20 - left; i++)
			ASSERT_EQ(out[i], objects_[i]);
		ASSERT_EQ(count(), 0u);
	}
	EXPECT_EQ(pops(), 20u * 21 / 2);
}

TEST_F(ArrayTest, OnlyWhatIsAsExpectedIsWound)
{
	shim_array_open(array_, kSlots);
	ASSERT_TRUE(push(array_, objects_[0]));
	for (unsigned i = 0; i < pcpu.nr_ids; i++) {
		uint64_t h = shim_array_header(array_, i);

		EXPECT_FALSE(shim_array_wind_cpu(array_, i, h + 1, 7, false));
		EXPECT_EQ(shim_array_header(array_, i), h);
	}
	if (rseq_is_off())
		return;
	ASSERT_TRUE(shim_arrays_stop(&array_, 1));
	for (unsigned i = 0; i < pcpu.nr_ids; i++) {
		uint64_t h = shim_array_header(array_, i);

		EXPECT_FALSE(shim_array_wind_cpu(array_, i, h, 7, false));
		EXPECT_EQ(shim_array_header(array_, i), h);
	}
	shim_arrays_start(&array_, 1);
	wind(array_, 0);
	ASSERT_NE(shim_array_due(array_), 0u);
	ASSERT_TRUE(shim_arrays_stop(&array_, 1));
	EXPECT_EQ(shim_array_due(array_), 0u) << "a stopped array waits for nobody";
	shim_arrays_start(&array_, 1);
}

/* More pops than two countdowns have, with windings in between. */
TEST_F(ArrayTest, CountsAreExactThroughManyWindings)
{
	std::mt19937 random(1);
	uint64_t expected = 0;
	void *out[kSlots];

	shim_array_open(array_, kSlots);
	ASSERT_EQ(push_bulk(array_, objects_.data(), 20), 20u);
	while (expected < 100000) {
		unsigned n = 1 + random() % 20, got = 0;

		for (int tries = 0; tries < 100 && got < n; tries++)
			got += shim_array_pop_bulk_winding(array_, out + got, n - got);
		ASSERT_EQ(got, n);
		expected += n;
		ASSERT_EQ(push_bulk(array_, out, n), n);
		if (random() % 100 == 0)
			wind(array_, random() % 32768, random() % 2);
		ASSERT_EQ(pops(), expected);
	}
	for (unsigned i = 0; i < 100000; i++) {
		void *p = nullptr;

		for (int tries = 0; tries < 100 && !p; tries++)
			p = shim_array_pop_winding(array_);
		ASSERT_NE(p, nullptr);
		ASSERT_TRUE(push(array_, p));
	}
	EXPECT_EQ(pops(), expected + 100000);
	EXPECT_EQ(count(), 20u);
}

/* The header has 31 bits of the count: round and round, in steps that a test has time for. */
TEST_F(ArrayTest, CountsAreExactBeyondTheHeader)
{
	shim_array_open(array_, kSlots);
	ASSERT_TRUE(push(array_, objects_[0]));

	unsigned cpu = 0;

	while (!shim_array_count(shim_array_header(array_, cpu)))
		cpu++;
	for (uint64_t laps : { 0ull, 1ull, 2ull, 3ull, 100ull, 0xfffffeull }) {
		for (uint64_t lap : { 1ull << 30, 3ull << 29 }) {
			uint64_t from = (laps << 30) + lap - 40000;

			SCOPED_TRACE(testing::Message() << laps << " laps, " << from);
			wind(array_, 32767);
			shim_array_clear_pops(array_, cpu);
			shim_array_set_base(array_, cpu, from & 0x7fffffff,
					    static_cast<uint32_t>(laps));
			ASSERT_EQ(shim_array_pops(array_, cpu), from);
			for (uint64_t i = 1; i <= 80000; i++) {
				void *p = nullptr;

				for (int tries = 0; tries < 100 && !p; tries++)
					p = shim_array_pop_winding(array_);
				ASSERT_NE(p, nullptr);
				ASSERT_TRUE(push(array_, p));
				ASSERT_EQ(shim_array_pops(array_, cpu), from + i);
			}
			EXPECT_GE(shim_array_laps(array_, cpu), (from + 80000) >> 30)
				<< "no lap was noted";
		}
	}
}

TEST_F(ArrayTest, TellsWhetherItWasUsed)
{
	unsigned used = 0;

	shim_array_open(array_, kSlots);
	ASSERT_TRUE(push(array_, objects_[0]));

	unsigned cpu = 0;

	while (!shim_array_count(shim_array_header(array_, cpu)))
		cpu++;
	shim_array_was_used(array_, cpu);
	EXPECT_FALSE(shim_array_was_used(array_, cpu));
	for (unsigned times = 1; times <= 1024; times++) {
		for (unsigned i = 0; i < times; i++) {
			ASSERT_EQ(pop(array_), objects_[0]);
			ASSERT_TRUE(push(array_, objects_[0]));
			if (shim_array_left(shim_array_header(array_, cpu)) < 100)
				wind(array_, 32767);
		}
		used += shim_array_was_used(array_, cpu);
		EXPECT_FALSE(shim_array_was_used(array_, cpu));
	}
	EXPECT_GE(used, 1024u - 16);
}

TEST_F(ArrayTest, StoppedRefusesAndIsLeftAlone)
{
	std::vector<uint64_t> headers;
	void *out[8], *taken[kSlots];
	unsigned n = 0;

	shim_array_open(array_, kSlots);
	ASSERT_EQ(push_bulk(array_, objects_.data(), 20), 20u);
	ASSERT_TRUE(shim_arrays_stop(&array_, 1));
	for (unsigned i = 0; i < pcpu.nr_ids; i++)
		headers.push_back(shim_array_header(array_, i));
	EXPECT_EQ(pop(array_), nullptr);
	EXPECT_FALSE(push(array_, objects_[30]));
	EXPECT_EQ(push_bulk(array_, objects_.data(), 8), 0u);
	EXPECT_EQ(pop_bulk(array_, out, 8, true), 0u);
	for (unsigned i = 0; i < pcpu.nr_ids; i++)
		EXPECT_EQ(shim_array_header(array_, i), headers[i]);

	for (unsigned i = 0; i < pcpu.nr_ids; i++)
		n += shim_array_take(array_, i, taken + n, 5);
	ASSERT_EQ(n, 5u);
	for (unsigned i = 0; i < n; i++)
		EXPECT_EQ(taken[i], objects_[15 + i]);
	shim_arrays_start(&array_, 1);
	EXPECT_EQ(count(), 15u);
	EXPECT_EQ(pops(), 0u); /* what a stop takes is no allocation */
	for (unsigned i = 0; i < pcpu.nr_ids; i++)
		EXPECT_FALSE(shim_array_stopped(shim_array_header(array_, i)));
	for (unsigned i = 15; i-- > 0;)
		ASSERT_EQ(pop(array_), objects_[i]);
}

TEST_F(ArrayTest, StopOfSeveralAndOfNone)
{
	void *second = pcpu_alloc(shim_array_size(kSlots), 64);
	void *both[] = { array_, second };

	ASSERT_NE(second, nullptr);
	shim_array_open(array_, kSlots);
	shim_array_open(second, kSlots);
	ASSERT_TRUE(push(array_, objects_[0]));
	ASSERT_TRUE(push(second, objects_[1]));
	ASSERT_TRUE(shim_arrays_stop(both, 2));
	EXPECT_EQ(pop(array_), nullptr);
	EXPECT_EQ(pop(second), nullptr);
	shim_arrays_start(both, 2);
	EXPECT_EQ(pop(array_), objects_[0]);
	EXPECT_EQ(pop(second), objects_[1]);
	ASSERT_TRUE(shim_arrays_stop(both, 0));
	EXPECT_TRUE(rseq_is_off() || push(array_, objects_[0]));
	shim_arrays_start(both, 0);
	pcpu_free(second);
}

unsigned membarrier_flags;
int membarrier_cpu;

int recording_membarrier(int cmd, unsigned int flags, int cpu)
{
	if (cmd == 1 << 7) { /* restart sections */
		membarrier_flags = flags;
		membarrier_cpu = cpu;
	}
	return os_calls_linux.membarrier(cmd, flags, cpu);
}

/* One CPU stands, the others go on; the kernel is asked for that CPU only. */
TEST(ArrayStopTest, OneCpu)
{
	if (allowed_cpus().size() < 2)
		GTEST_SKIP() << "one CPU";
	EXPECT_FRESH_PROCESS_PASSES([] {
		setenv("UKMEM_CONF", "percpu:cpu_id", 1);
		static int object[2];
		int a = allowed_cpus()[0], b = allowed_cpus()[1];
		auto cpu_a = static_cast<unsigned>(a), cpu_b = static_cast<unsigned>(b);
		void *out[1];

		ASSERT_TRUE(pcpu_init());
		void *array = pcpu_alloc(shim_array_size(8), 64);
		shim_array_open(array, 8);
		run_on(a);
		ASSERT_TRUE(shim_array_push(array, &object[0]));
		run_on(b);
		ASSERT_TRUE(shim_array_push(array, &object[1]));
		os_calls.membarrier = recording_membarrier;
		ASSERT_TRUE(shim_arrays_stop_cpu(&array, 1, cpu_a));
		if (!rseq_is_off()) {
			EXPECT_EQ(membarrier_flags, 1u);
			EXPECT_EQ(membarrier_cpu, a);
			EXPECT_TRUE(shim_array_stopped(shim_array_header(array, cpu_a)));
			run_on(a);
			EXPECT_EQ(shim_array_pop(array), nullptr);
		}
		run_on(b);
		EXPECT_EQ(shim_array_pop(array), &object[1]) << "another CPU stopped as well";
		EXPECT_EQ(shim_array_take(array, cpu_a, out, 1), 1u);
		EXPECT_EQ(out[0], &object[0]);
		EXPECT_EQ(shim_array_take(array, cpu_b, out, 1), 0u);
		shim_arrays_start_cpu(&array, 1, cpu_a);
		run_on(a);
		EXPECT_EQ(shim_array_pop(array), nullptr);
		EXPECT_TRUE(shim_array_push(array, &object[0]));
		EXPECT_EQ(shim_array_pop(array), &object[0]);
	});
}

int membarrier_error;
int membarrier_calls;

int failing_membarrier(int, unsigned int, int)
{
	membarrier_calls++;
	return membarrier_error;
}

TEST_F(ArrayTest, StopFailsWithoutMembarrier)
{
	OsCallsGuard guard;

	if (rseq_is_off())
		GTEST_SKIP() << "fallback mode needs no membarrier";
	shim_array_open(array_, kSlots);
	ASSERT_EQ(push_bulk(array_, objects_.data(), 20), 20u);
	for (int error : { -EPERM, -ENOSYS }) {
		membarrier_error = error;
		membarrier_calls = 0;
		os_calls.membarrier = failing_membarrier;
		EXPECT_FALSE(shim_arrays_stop(&array_, 1));
		EXPECT_GT(membarrier_calls, 0);
		EXPECT_EQ(count(), 20u);
		for (unsigned i = 0; i < pcpu.nr_ids; i++)
			EXPECT_FALSE(shim_array_stopped(shim_array_header(array_, i)));
		EXPECT_EQ(pop(array_), objects_[19]);
		EXPECT_TRUE(push(array_, objects_[19]));
	}
	os_calls.membarrier = os_calls_linux.membarrier;
	ASSERT_TRUE(shim_arrays_stop(&array_, 1)) << "the failed stop left something held";
	shim_arrays_start(&array_, 1);
	EXPECT_EQ(pop(array_), objects_[19]);
}

int refused_once(int cmd, unsigned int flags, int cpu)
{
	if (!membarrier_calls++)
		return -EPERM;
	return os_calls_linux.membarrier(cmd, flags, cpu);
}

TEST_F(ArrayTest, StopRegistersForMembarrierWhereItIsNot)
{
	OsCallsGuard guard;

	if (rseq_is_off())
		GTEST_SKIP() << "fallback mode needs no membarrier";
	shim_array_open(array_, kSlots);
	ASSERT_TRUE(push(array_, objects_[0]));
	membarrier_calls = 0;
	os_calls.membarrier = refused_once;
	ASSERT_TRUE(shim_arrays_stop(&array_, 1));
	EXPECT_EQ(pop(array_), nullptr);
	shim_arrays_start(&array_, 1);
	EXPECT_EQ(pop(array_), objects_[0]);
}

/*
 * Memory that a push reads while it has the slot. It faults, so a handler interrupts the push;
 * the handler forks, and pops in the child. The push goes on in both processes.
 */
struct {
	void *array, **memory, *popped;
	int status;
} faulting;

void fork_and_pop(int)
{
	const pid_t child = fork();

	if (!child)
		faulting.popped = shim_array_pop(faulting.array);
	else
		waitpid(child, &faulting.status, 0);
	mprotect(faulting.memory, ukmem_page_size(), PROT_READ | PROT_WRITE);
	faulting.memory[0] = &faulting;
}

TEST_F(ArrayTest, AForkInAHandlerLeavesTheSlot)
{
	if (shim_use_rseq())
		GTEST_SKIP() << "sections have no slots";
	shim_array_open(array_, kSlots);
	for (unsigned i = 0; i < 3; i++)
		ASSERT_TRUE(push(array_, objects_[i]));
	EXPECT_FRESH_PROCESS_PASSES([this] {
		void *page = mmap(nullptr, ukmem_page_size(), PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		void *out[kSlots];

		faulting = { array_, static_cast<void **>(page), nullptr, 0 };
		signal(SIGSEGV, fork_and_pop);
		EXPECT_EQ(push_bulk(array_, faulting.memory, 1), 1u);
		EXPECT_EQ(faulting.popped, nullptr);
		EXPECT_EQ(faulting.status, 0);
		EXPECT_EQ(pop_bulk(array_, out, kSlots, true), 4u);
		EXPECT_EQ(out[3], &faulting);
	});
}

} // namespace
