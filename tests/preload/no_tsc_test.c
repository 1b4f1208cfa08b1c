/* SPDX-License-Identifier: MIT */
/*
 * A program that forbids itself the processor's time stamp counter. malloc works, although the
 * vDSO's clock reads the counter (KFENCE, which guards an object in each millisecond here, asks
 * for the time in microseconds).
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "preload_test.h"

enum { ROUNDS = 200, OBJECTS = 3000, SKIPPED = 77 };

int main(void)
{
	static void *objects[OBJECTS];

	free(malloc(100000)); /* the library has looked for its clock */
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) {
		CHECK(errno == EINVAL, "prctl: errno %d", errno);
		puts("skipped: this machine's counter cannot be forbidden");
		return SKIPPED;
	}
	for (size_t round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < OBJECTS; i++) {
			objects[i] = malloc(16 + (i * 37 + round) % 2000);
			CHECK(objects[i], "no memory");
		}
		free(malloc(1 << 20));
		for (size_t i = 0; i < OBJECTS; i++)
			free(objects[i]);
	}
	malloc_trim(0);
	verify_library();
	return 0;
}
