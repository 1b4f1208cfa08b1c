/* SPDX-License-Identifier: MIT */
/*
 * Memory that a program does not touch costs none: not while it has the block, not when the
 * block shrinks, and not when it is freed; nor zeroed memory, where a block was before.
 */
#include <stdlib.h>
#include <sys/resource.h>

#include "preload_test.h"

enum { MIB = 1 << 20, BLOCK_MIB = 256, MOST_MIB = 32 };

static long peak_mib(void)
{
	struct rusage usage;

	CHECK(!getrusage(RUSAGE_SELF, &usage), "getrusage");
	return usage.ru_maxrss / 1024;
}

int main(void)
{
	for (int round = 0; round < 3; round++) {
		char *p = malloc((size_t)BLOCK_MIB * MIB);

		CHECK(p, "no memory");
		p[0] = p[MIB] = 1;
		CHECK(peak_mib() < MOST_MIB, "%ld MiB with the block", peak_mib());
		p = realloc(p, (size_t)BLOCK_MIB / 2 * MIB);
		CHECK(p && p[0] == 1 && p[MIB] == 1, "it has changed");
		CHECK(peak_mib() < MOST_MIB, "%ld MiB after it shrank", peak_mib());
		free(p);
		CHECK(peak_mib() < MOST_MIB, "%ld MiB after it was freed", peak_mib());
	}
	for (int round = 0; round < 3; round++) {
		char *p = malloc((size_t)BLOCK_MIB / 4 * MIB);

		CHECK(p, "no memory");
		memset(p, 1, (size_t)BLOCK_MIB / 4 * MIB);
		free(p);
		p = calloc(BLOCK_MIB / 4, MIB);
		CHECK(p && !p[0] && !p[MIB] && !p[(size_t)BLOCK_MIB / 4 * MIB - 1], "not zero");
		CHECK(resident_kb() < MOST_MIB * 1024, "%ld KiB with zeroed memory",
		      resident_kb());
		free(p);
	}
	puts("what was not touched cost nothing");
	return 0;
}
