/* SPDX-License-Identifier: MIT */
/*
 * A program with a bug, for kfence_test.py.
 *
 *	kfence_bug BUG [handler | large]
 *	kfence_bug rare N
 *
 * It replaces blocks of a few sizes all the time, and now and then frees them all. Most bugs
 * are done once, to a block that it knows to be guarded: malloc_usable_size() gives the odd
 * size that was asked for. Then it prints "went on". The bug "rare" is done to one block of N,
 * blindly, for a minute of CPU time; "none" lasts for a second. With "handler", it has a
 * handler of SIGSEGV, installed first; with "large", its blocks are of whole pages.
 */
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	BLOCKS = 40000,
	FEW = 40, /* of the large ones */
	LARGE = 5000,
	PHASE = 100000, /* rounds after which all blocks are freed */
	SPARE = 15,	/* bytes between a size and the next multiple of 16 */
};

static char *blocks[BLOCKS];
static uint32_t seed = 1;

static uint32_t next_random(void)
{
	seed = seed * 1664525 + 1013904223;
	return seed >> 8;
}

static double now(clockid_t by)
{
	struct timespec t;

	clock_gettime(by, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void handler(int signal)
{
	static const char text[] = "the program's own handler\n";

	(void)signal;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(4);
	_exit(3);
}

/* At which end of its page a guarded block lies. */
static int is_right(const char *p, size_t n)
{
	return ((uintptr_t)p + n + SPARE) % 4096 == 0;
}

/* Does the bug to a guarded block. False: it lies at the other end of its page. */
static __attribute__((noinline)) int do_bug(const char *bug, volatile char *p, size_t n)
{
	int right = is_right((char *)p, n);

	if (!strcmp(bug, "right") && right)
		p[n + SPARE] = 1;
	else if (!strcmp(bug, "left") && !right)
		(void)p[-1];
	else if (!strcmp(bug, "damage"))
		p[n] = 1;
	else if (!strcmp(bug, "inside"))
		free((char *)p + 16);
	else if (strcmp(bug, "read") && strcmp(bug, "write") && strcmp(bug, "double"))
		return 0;
	free((char *)p);
	if (!strcmp(bug, "read"))
		(void)p[0];
	else if (!strcmp(bug, "write"))
		p[0] = 1;
	else if (!strcmp(bug, "double"))
		free((char *)p);
	return 1;
}

static void free_all(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		free(blocks[i]);
		blocks[i] = NULL;
	}
}

int main(int argc, char **argv)
{
	const char *bug = argc > 1 ? argv[1] : "none";
	int rare = !strcmp(bug, "rare"), none = !strcmp(bug, "none");
	int large = argc > 2 && !strcmp(argv[2], "large");
	uint32_t each = rare && argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
	/* A machine may be so busy that a minute of the clock is a second of this process. */
	clockid_t by = rare ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
	double start = now(by);

	if (!rare && argc > 2 && !large)
		signal(SIGSEGV, handler);
	for (uint32_t i = 0; now(by) - start < (none ? 1 : 60); i++) {
		size_t n = 16 * (1 + next_random() % 4 + (large ? LARGE : 0)) + 1;
		char **p = &blocks[next_random() % (large ? FEW : BLOCKS)];

		if (i % PHASE == 0)
			free_all();
		free(*p);
		*p = malloc(n);
		if (!*p)
			return 1;
		memset(*p, 1, n);
		if (rare && next_random() % each == 0)
			((volatile char *)*p)[n] = 2;
		else if (!rare && !none && malloc_usable_size(*p) == n && do_bug(bug, *p, n)) {
			puts("went on");
			return 0;
		}
	}
	puts("end");
	return none ? 0 : 2;
}
