/* SPDX-License-Identifier: MIT */
/*
 * The time stamp counter, for operations of some nanoseconds.
 *
 * Fences keep the instructions of the measured operation between the two readings. What a
 * pair of readings costs is part of every figure: measure it beside.
 */
#ifndef UKMEM_BENCH_TICKS_H
#define UKMEM_BENCH_TICKS_H

#include <chrono>
#include <cstdint>
#include <thread>

#if defined(__x86_64__)
#include <x86intrin.h>

inline uint64_t ticks_begin()
{
	_mm_lfence();
	const uint64_t now = __rdtsc();
	_mm_lfence();
	return now;
}

inline uint64_t ticks_end()
{
	unsigned int cpu;
	const uint64_t now = __rdtscp(&cpu); /* waits for what is before it */

	_mm_lfence();
	return now;
}
#elif defined(__aarch64__)
inline uint64_t ticks_begin()
{
	uint64_t now;

	asm volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(now)::"memory");
	return now;
}

inline uint64_t ticks_end()
{
	return ticks_begin();
}
#else
#error "no time stamp counter is known for this architecture"
#endif

/* Turns ticks into nanoseconds with a multiplication. */
class TickRate
{
      public:
	/* Compares the counter with the clock for 50 ms. */
	TickRate()
	{
		const auto clock = std::chrono::steady_clock::now();
		const uint64_t first = ticks_begin();

		std::this_thread::sleep_for(std::chrono::milliseconds(50));
		const uint64_t ticks = ticks_end() - first;
		const std::chrono::duration<double, std::nano> time =
			std::chrono::steady_clock::now() - clock;
		ns_in_2_32_ = static_cast<uint64_t>(time.count() * 0x1p32 /
						    static_cast<double>(ticks));
	}

	uint64_t ns(uint64_t ticks) const
	{
		return static_cast<uint64_t>(
			static_cast<unsigned __int128>(ticks) * ns_in_2_32_ >> 32);
	}

      private:
	uint64_t ns_in_2_32_;
};

#endif
