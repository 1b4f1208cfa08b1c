/* SPDX-License-Identifier: MIT */
/* Atomic changes in a process of one thread, and in one of several (base/alone.h). */
#include <atomic>
#include <cerrno>
#include <csignal>
#include <random>
#include <thread>

#include "alone_shim.h"
#include "each_instruction.h"
#include "test_util.h"

namespace
{

void expect_results_of_atomics()
{
	std::mt19937_64 random(7);
	uint64_t bits = 0, model = 0, single = 0, model_single = 0, one;
	uint32_t sum = 0, model_sum = 0;

	for (int i = 0; i < 10000; i++) {
		uint64_t v = random() & random(), bit = uint64_t{ 1 } << i % 64;
		auto n = static_cast<uint32_t>(random());

		EXPECT_EQ(shim_alone_or(&bits, v), model);
		model |= v;
		EXPECT_EQ(bits, model);
		EXPECT_EQ(shim_alone_and(&bits, ~v >> 1), model);
		model &= ~v >> 1;
		EXPECT_EQ(bits, model);
		if (i % 100 == 0)
			single = model_single = v;
		EXPECT_EQ(shim_alone_or_bit(&single, bit), model_single);
		model_single |= bit;
		EXPECT_EQ(single, model_single);
		EXPECT_EQ(shim_alone_add(&sum, n), model_sum);
		model_sum += n;
		EXPECT_EQ(sum, model_sum);
		one = v | 1;
		EXPECT_FALSE(shim_alone_take(&one, v - 1));
		EXPECT_EQ(one, v | 1);
		EXPECT_TRUE(shim_alone_take(&one, v | 1));
		EXPECT_EQ(one, 0u);
	}
}

TEST(AloneTest, ThreadsAreNoticed)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		EXPECT_EQ(shim_alone_is(), shim_alone_supported());
		expect_results_of_atomics();
		std::thread([] {
			EXPECT_FALSE(shim_alone_is());
			expect_results_of_atomics();
		}).join();
	});
}

/* Under ThreadSanitizer its runtime makes the changes, under locks that a handler waits for. */
#if STEPS
/* A word whose low half is the program's, and its high half the handler's. */
uint64_t word;
uint32_t sum;
volatile uint32_t calls, wrong;
/* What one of the two takes in each round, and how often one did. */
uint64_t prize;
volatile uint32_t round_number, taken;
/* A bit that both set. */
constexpr uint64_t kBoth = 8;
uint64_t both;

/*
 * Not after each instruction, because then the program would come to no end of a change; and
 * after another number of them each time, by chance, because rounds are all of the same length.
 */
void handler(int)
{
	static uint32_t traps = 11, chance = 1;
	const uint32_t n = calls;

	if (--traps)
		return;
	chance = chance * 1103515245u + 12345u;
	traps = 11 + (chance >> 16) % 16;
	wrong = wrong + (n && !(word & uint64_t{ 1 } << (32 + (n - 1) % 32)));
	shim_alone_and(&word, UINT32_MAX);
	wrong = wrong + (shim_alone_or(&word, uint64_t{ 1 } << (32 + n % 32)) >> 32 != 0);
	shim_alone_add(&sum, 1u << 16);
	if (round_number)
		taken = taken + shim_alone_take(&prize, round_number);
	shim_alone_or(&both, kBoth);
	calls = n + 1;
}

void expect_no_change_lost()
{
	const uint32_t rounds = 400;
	uint32_t mine = 0;

	signal(SIGTRAP, handler);
	step(true);
	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t bit = uint64_t{ 1 } << (i % 32);

		wrong = wrong + ((shim_alone_or(&word, bit) & bit) != 0);
		wrong = wrong + ((shim_alone_and(&word, ~bit) & bit) == 0);
		wrong = wrong + ((shim_alone_or_bit(&word, bit) & bit) != 0);
		wrong = wrong + ((shim_alone_and(&word, ~bit) & bit) == 0);
		__atomic_store_n(&both, 0, __ATOMIC_RELAXED);
		shim_alone_or_bit(&both, kBoth);
		wrong = wrong + (__atomic_load_n(&both, __ATOMIC_RELAXED) != kBoth);
		shim_alone_add(&sum, 1);
		round_number = i + 1;
		__atomic_store_n(&prize, i + 1, __ATOMIC_RELAXED);
		if (shim_alone_take(&prize, i + 1))
			mine++;
	}
	step(false);
	EXPECT_GE(calls, rounds);
	EXPECT_EQ(wrong, 0u);
	EXPECT_EQ(sum, rounds + (calls << 16));
	EXPECT_EQ(static_cast<uint32_t>(word), 0u);
	EXPECT_EQ(mine + taken, rounds);
	EXPECT_GT(taken, 0u);
}

/* The handler comes between any two instructions of a change, in one round or another. */
TEST(AloneTest, NoChangeIsLostToASignal)
{
	EXPECT_FRESH_PROCESS_PASSES([] { expect_no_change_lost(); });
}

/* The same with LOCK. */
TEST(AloneTest, NoChangeIsLostToASignalOfOneThreadOfMany)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		std::atomic<bool> end{ false };
		std::thread other([&end] {
			while (!end)
				std::this_thread::yield();
		});

		EXPECT_FALSE(shim_alone_is());
		expect_no_change_lost();
		end = true;
		other.join();
	});
}
#endif

/* The library's thread would not know that the thread that creates it is in a section. */
TEST(AloneTest, NoThreadIsCreatedInASection)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		const auto run = [](void *) -> void * { return nullptr; };

		shim_alone_begin();
		EXPECT_EQ(shim_thread_start(run), shim_alone_has_sections() ? -EBUSY : 0);
		shim_alone_end();
		EXPECT_EQ(shim_thread_start(run), 0);
	});
}

} // namespace
