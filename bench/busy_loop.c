/* SPDX-License-Identifier: MIT */
/*
 * busy_loop CPU: arithmetic in registers on that CPU until it is killed, for `run --busy`. It
 * writes a line when it has begun, and ends with the process that started it.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* Independent chains, so that the loop takes a share of the core's multipliers and adders. */
enum { CHAINS = 4 };

int main(int argc, char **argv)
{
	uint64_t numbers[CHAINS] = { 1, 2, 3, 4 };
	cpu_set_t cpus;

	if (argc != 2) {
		fprintf(stderr, "usage: busy_loop CPU\n");
		return 2;
	}
	CPU_ZERO(&cpus);
	CPU_SET((size_t)atoi(argv[1]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) || prctl(PR_SET_PDEATHSIG, SIGKILL)) {
		perror("busy_loop");
		return 1;
	}
	puts("busy");
	fflush(stdout);
	for (;;) {
		for (int chain = 0; chain < CHAINS; chain++)
			numbers[chain] =
				numbers[chain] * 6364136223846793005U + 1442695040888963407U;
		/* The compiler must not drop what nobody reads. */
		__asm__ volatile(""
				 : "+r"(numbers[0]), "+r"(numbers[1]), "+r"(numbers[2]),
				   "+r"(numbers[3]));
	}
}
