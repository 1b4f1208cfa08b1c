/* SPDX-License-Identifier: MIT */
/*
 * A histogram of times, with HdrHistogram's buckets: of each power of two 32 of equal width, so
 * that a figure is known to 3 % from 1 ns to hours. Debian 12 has HdrHistogram for Java and Go
 * only, not for C.
 *
 * Synchronization: one thread records; add() is called when it has ended.
 */
#ifndef UKMEM_BENCH_HISTOGRAM_H
#define UKMEM_BENCH_HISTOGRAM_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

class Histogram
{
      public:
	void record(uint64_t value)
	{
		counts_[index(value)]++;
		worst_ = std::max(worst_, value);
	}

	void add(const Histogram &other)
	{
		for (unsigned i = 0; i < kBuckets; i++)
			counts_[i] += other.counts_[i];
		worst_ = std::max(worst_, other.worst_);
	}

	/* {"worst": ..., "buckets": [[the largest value of a bucket, its count], ...]} */
	void print_json() const
	{
		const char *comma = "";

		printf("{\"worst\": %llu, \"buckets\": [",
		       static_cast<unsigned long long>(worst_));
		for (unsigned i = 0; i < kBuckets; i++) {
			if (counts_[i] == 0)
				continue;
			printf("%s[%llu, %llu]", comma,
			       static_cast<unsigned long long>(largest_of(i)),
			       static_cast<unsigned long long>(counts_[i]));
			comma = ", ";
		}
		printf("]}");
	}

	static constexpr unsigned kBits = 5, kSteps = 1 << kBits;
	static constexpr unsigned kBuckets = (64 - kBits + 1) * kSteps;

	/* Up to twice kSteps the value itself; from there kSteps to each power of two. */
	static unsigned index(uint64_t value)
	{
		const unsigned power = 63 - static_cast<unsigned>(__builtin_clzll(value | 1));
		const unsigned shift = power > kBits ? power - kBits : 0;

		return shift * kSteps + static_cast<unsigned>(value >> shift);
	}

	/* The largest value of bucket @i. */
	static uint64_t largest_of(unsigned i)
	{
		const unsigned shift = i < 2 * kSteps ? 0 : i / kSteps - 1;

		return ((static_cast<uint64_t>(i - shift * kSteps) + 1) << shift) - 1;
	}

      private:
	std::array<uint64_t, kBuckets> counts_{};
	uint64_t worst_ = 0;
};

#endif
