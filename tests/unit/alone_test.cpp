/* SPDX-License-Identifier: MIT */
/* Atomic changes in a process of one thread, and in one of several (base/alone.h). */
#include <sys/time.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "alone_shim.h"
#include "test_util.h"

namespace
{

void expect_results_of_atomics()
{
	std::mt19937_64 random(7);
	uint64_t bits = 0, model = 0;
	uint32_t sum = 0, model_sum = 0;

	for (int i = 0; i < 10000; i++) {
		uint64_t v = random() & random();
		auto n = static_cast<uint32_t>(random());

		EXPECT_EQ(shim_alone_or(&bits, v), model);
		model |= v;
		EXPECT_EQ(bits, model);
		EXPECT_EQ(shim_alone_and(&bits, ~v >> 1), model);
		model &= ~v >> 1;
		EXPECT_EQ(bits, model);
		EXPECT_EQ(shim_alone_add(&sum, n), model_sum);
		model_sum += n;
		EXPECT_EQ(sum, model_sum);
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

/* A word whose low half is the program's, and its high half the handler's. */
uint64_t word;
uint32_t sum;
volatile uint32_t calls, wrong;

void handler(int)
{
	uint64_t set = uint64_t{ 1 } << (32 + calls % 32);

	wrong = wrong + (calls && !(word & uint64_t{ 1 } << (32 + (calls - 1) % 32)));
	shim_alone_and(&word, UINT32_MAX);
	wrong = wrong + (shim_alone_or(&word, set) >> 32 != 0);
	shim_alone_add(&sum, 1u << 20);
	calls = calls + 1;
}

TEST(AloneTest, NoChangeIsLostToASignal)
{
	EXPECT_FRESH_PROCESS_PASSES([] {
		const struct itimerval often = { { 0, 50 }, { 0, 50 } };
		const auto end =
			std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
		uint32_t rounds = 0;

		signal(SIGALRM, handler);
		setitimer(ITIMER_REAL, &often, nullptr);
		while (std::chrono::steady_clock::now() < end || calls < 200)
			for (int i = 0; i < 1000; i++, rounds++) {
				uint64_t bit = uint64_t{ 1 } << (rounds % 32);

				EXPECT_FALSE(shim_alone_or(&word, bit) & bit);
				EXPECT_TRUE(shim_alone_and(&word, ~bit) & bit);
				shim_alone_add(&sum, 1);
			}
		signal(SIGALRM, SIG_IGN);
		EXPECT_EQ(wrong, 0u);
		EXPECT_EQ(sum, rounds + (calls << 20));
		EXPECT_EQ(static_cast<uint32_t>(word), 0u);
	});
}

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
