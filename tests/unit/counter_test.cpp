/* SPDX-License-Identifier: MIT */
/* Per-CPU counters: the sum is exact whatever happens to the threads that add. */
#include "percpu_shim.h"
#include "test_util.h"

extern "C" {
#include "percpu/percpu.h"
}

namespace
{

void *counter;
std::atomic<uint64_t> from_handler;

void handler(int)
{
	shim_counter_add(counter, 3);
	from_handler += 3;
}

class CounterTest : public ::testing::Test
{
      protected:
	void SetUp() override
	{
		ASSERT_TRUE(pcpu_init());
		counter = pcpu_alloc(sizeof(uint64_t), 8);
		ASSERT_NE(counter, nullptr);
		from_handler = 0;
	}
	void TearDown() override
	{
		pcpu_free(counter);
	}
	/* Threads add 1 until told to stop; @during runs meanwhile. */
	void run(unsigned threads, const std::function<void(Threads &)> &during)
	{
		std::vector<uint64_t> added(threads);
		std::atomic<bool> stop{ false };
		uint64_t sum = 0;
		{
			Threads t(threads, [&](unsigned i) {
				uint64_t n = 0;

				for (; !stop.load(std::memory_order_relaxed); n++)
					shim_counter_add(counter, 1);
				added[i] = n;
			});

			during(t);
			stop = true;
		}
		for (uint64_t n : added)
			sum += n;
		EXPECT_GT(sum, 1000u);
		EXPECT_EQ(shim_counter_sum(counter), sum + from_handler);
	}
	static void sleep_ms(int ms)
	{
		std::this_thread::sleep_for(std::chrono::milliseconds(ms));
	}
};

TEST_F(CounterTest, AddsAndWraps)
{
	EXPECT_EQ(shim_counter_sum(counter), 0u);
	shim_counter_add(counter, 5);
	EXPECT_EQ(shim_counter_sum(counter), 5u);
	shim_counter_add(counter, -static_cast<uint64_t>(7));
	EXPECT_EQ(shim_counter_sum(counter), -static_cast<uint64_t>(2));
	shim_counter_add(counter, 2);
	EXPECT_EQ(shim_counter_sum(counter), 0u);
}

TEST_F(CounterTest, ExactWithThreads)
{
	run(4, [](Threads &) { sleep_ms(300); });
}

TEST_F(CounterTest, ExactWhileMigrating)
{
	run(3, [](Threads &t) {
		MigrationStorm storm(t);

		sleep_ms(500);
	});
}

TEST_F(CounterTest, ExactUnderSignalsAndMigration)
{
	run(3, [](Threads &t) {
		SignalStorm signals(handler);
		MigrationStorm migration(t);

		sleep_ms(700);
	});
	EXPECT_GT(from_handler, 0u);
}

/* Readers see a sum that never shrinks while only additions go on. */
TEST_F(CounterTest, SumIsMonotonic)
{
	run(2, [](Threads &) {
		auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
		uint64_t last = 0;

		while (std::chrono::steady_clock::now() < end) {
			uint64_t now = shim_counter_sum(counter);

			ASSERT_GE(now, last);
			last = now;
		}
	});
}

} // namespace
