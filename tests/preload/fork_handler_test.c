/* SPDX-License-Identifier: MIT */
/*
 * fork in a signal handler, in a program with one thread: the handler interrupts malloc, free
 * and fork itself, in the parent and in children.
 *
 *	fork_handler_test SECONDS
 *
 * glibc supports that. What has been interrupted goes on in both processes: in children of the
 * handler, too, some of which return from it. A deadlock ends in SIGALRM.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "preload_test.h"

enum { SLOTS = 64, TICK_US = 700, ALL_SECONDS = 100, CHILD_SECONDS = 60 };

static unsigned char *slots[SLOTS];
static size_t sizes[SLOTS];
static uint64_t rng = 88172645463325252ull;
static volatile sig_atomic_t forks, depth;

static void wait_for_child(pid_t child)
{
	int status;

	CHECK(child > 0, "fork: %d", errno);
	while (waitpid(child, &status, 0) != child) {
		/* A handler's child went on here: it is its parent's. */
		if (errno == ECHILD && depth)
			return;
		CHECK(errno == EINTR, "waitpid: %d", errno);
	}
	CHECK(status == 0, "child's status %x", (unsigned int)status);
}

static void replace(size_t i)
{
	if (slots[i])
		CHECK(slots[i][0] == (unsigned char)i &&
			      slots[i][sizes[i] - 1] == (unsigned char)i,
		      "block %zu was overwritten", i);
	free(slots[i]);
	sizes[i] = rng_size(&rng, 1 << 22);
	slots[i] = malloc(sizes[i]);
	CHECK(slots[i], "no memory");
	slots[i][0] = slots[i][sizes[i] - 1] = (unsigned char)i;
}

/* Every eighth child goes back to what was interrupted, and on for a while. */
static void on_tick(int sig)
{
	int saved = errno;
	pid_t child;

	(void)sig;
	if (depth)
		return;
	child = fork();
	if (!child) {
		alarm(CHILD_SECONDS);
		depth = 1;
		if (++forks % 8)
			_exit(0);
		return;
	}
	wait_for_child(child);
	forks++;
	errno = saved;
}

static void fork_here(void)
{
	pid_t child = fork();

	if (child) {
		/* The child of a handler that interrupted this fork is a parent, too. */
		wait_for_child(child);
		return;
	}
	alarm(CHILD_SECONDS);
	for (size_t i = 0; i < SLOTS; i++)
		replace(i);
	_exit(0);
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 3);
	struct itimerval tick = { { 0, TICK_US }, { 0, TICK_US } };
	struct sigaction action = { .sa_handler = on_tick, .sa_flags = SA_RESTART };

	alarm(ALL_SECONDS);
	CHECK(!sigaction(SIGPROF, &action, NULL), "sigaction");
	CHECK(!setitimer(ITIMER_PROF, &tick, NULL), "setitimer");
	for (unsigned long i = 0; time(NULL) < end || forks < 20; i++) {
		for (size_t k = 0; k < 100; k++)
			replace((size_t)rng_below(&rng, SLOTS));
		fork_here();
		if (depth && i % 4 == 3) /* a handler's child */
			_exit(0);
	}
	if (depth) /* its parent waited for it until the end */
		_exit(0);
	puts("forks in handlers went on");
	return 0;
}
