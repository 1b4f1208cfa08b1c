/* SPDX-License-Identifier: MIT */
/* The buckets of histogram.h: each value is in one, which tells it to a 32nd. */
#include "histogram.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

static void expect(bool held, const char *what, uint64_t value)
{
	if (held)
		return;
	printf("FAILED: %s: %llu\n", what, static_cast<unsigned long long>(value));
	exit(1);
}

static void look_at(uint64_t value)
{
	const unsigned i = Histogram::index(value);
	const uint64_t largest = Histogram::largest_of(i);

	expect(i < Histogram::kBuckets, "a bucket that is not there", value);
	expect(value <= largest, "above the largest value of its bucket", value);
	expect(i == 0 || value > Histogram::largest_of(i - 1), "in the bucket before, too",
	       value);
	expect(largest - value <= value / 32, "its bucket is wider than a 32nd", value);
}

int main()
{
	for (uint64_t value = 0; value < 1 << 17; value++)
		look_at(value);
	for (unsigned bit = 17; bit < 64; bit++) {
		for (uint64_t step = 0; step <= 32; step++) {
			const uint64_t value = (1ULL << bit) + (step << (bit - 5));

			/* The last step is the next power of two, of 64 bits none. */
			if (value != 0)
				look_at(value);
			look_at(value - 1);
		}
	}
	expect(Histogram::index(UINT64_MAX) == Histogram::kBuckets - 1,
	       "not in the last bucket", UINT64_MAX);
	expect(Histogram::largest_of(Histogram::kBuckets - 1) == UINT64_MAX,
	       "the last bucket does not end with it", UINT64_MAX);

	/* Values below 64 are told as they are; a sum has the counts and the worst of both. */
	Histogram sum, other;
	for (const uint64_t value : { 0ULL, 1ULL, 63ULL, 64ULL, 64ULL })
		sum.record(value);
	other.record(63);
	other.record(1000);
	sum.add(other);
	sum.print_json();
	putchar('\n');
	return 0;
}
