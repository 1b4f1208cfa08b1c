/* SPDX-License-Identifier: MIT */
/*
 * A buffer that grows in steps to 100 MB, is freed, and grows again. Wherever it begins the
 * next time, the memory that it left is used, or goes back.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "preload_test.h"

enum {
	ROUNDS = 8,
	FIRST = 64 << 10,
	STEP = 128 << 10,
	MOST = 100 << 20,
	MOST_KIB = 3 * (MOST >> 10)
};

int main(void)
{
	struct rusage usage;

	for (int round = 0; round < ROUNDS; round++) {
		size_t before = 0;
		char *buffer = NULL;

		for (size_t size = FIRST; size <= MOST; size += STEP) {
			buffer = realloc(buffer, size);
			CHECK(buffer, "no memory for %zu bytes", size);
			memset(buffer + before, 1, size - before);
			before = size;
		}
		free(buffer);
	}
	CHECK(!getrusage(RUSAGE_SELF, &usage), "getrusage");
	CHECK(usage.ru_maxrss < MOST_KIB, "the peak was %ld KiB", usage.ru_maxrss);
	return 0;
}
