/* SPDX-License-Identifier: MIT */
/*
 * Runs each section and operation alone in its thread, with a registration for
 * rseq that this program makes up, and compares what it did with a model in C:
 * its result, the memory of all copies, and struct rseq, of which only rseq_cs
 * may change.
 *
 * usage: sections_test [SEED]
 *
 * No kernel knows the registration, so nothing interrupts a section. Built with
 * ABORTS=1 every section jumps to its own abort handler, at each place in turn, and
 * loses the exclusive monitor in front of its commit.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "case.h"

static void check_all(void)
{
	check_scalars();
	check_arrays();
}

static void *run(void *unused)
{
	(void)unused;
	if (!ABORTS) {
		check_all();
		check_fallback();
		return NULL;
	}
	for (abort_place = 0; abort_place < ABORT_PLACES; abort_place++)
		check_all();
	abort_place = CLEAR_EXCLUSIVE + 3;
	check_all();
	abort_place = ABORT_NOWHERE;
	check_all();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t other;

	memory = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || (uintptr_t)memory <= UINT32_MAX) {
		printf("FAILED: no memory above 4 GiB\n");
		return 1;
	}
	random_state = argc > 1 ? strtoull(argv[1], NULL, 0) | 1 : 88172645463325252;
	run(NULL);
	/* Another thread has another struct rseq at the same offset. */
	if (pthread_create(&other, NULL, run, NULL) || pthread_join(other, NULL)) {
		printf("FAILED: no second thread\n");
		return 1;
	}
	printf("%s%s: %u checks, %u failed\n", aarch64() ? "aarch64" : "x86-64",
	       ABORTS ? ", aborted at each place" : "", checks, failures);
	return failures != 0;
}
