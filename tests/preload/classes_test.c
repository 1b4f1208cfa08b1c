/* SPDX-License-Identifier: MIT */
/*
 * Size classes are made when they are first needed (src/kmalloc/size_class.c): by threads that
 * need the same ones at the same time, by handlers that interrupt them, and by children of
 * forks meanwhile. Each child of the first process has none of them yet.
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "preload_test.h"

enum { CHILDREN = 60, THREADS = 4, SIZES = 50, LARGEST = 65536 };

static pthread_barrier_t barrier;
static volatile sig_atomic_t turn;

/* A size of the one or the other class, up to LARGEST. */
static size_t size_of(unsigned int i)
{
	i %= SIZES;
	return i < 16 ? 8 * (i + 1) : (size_t)(LARGEST - 1) >> (i - 16) % 10;
}

static void use(size_t size)
{
	unsigned char *p = malloc(size);

	if (!p || malloc_usable_size(p) < size || (uintptr_t)p % (size < 16 ? 8 : 16))
		abort();
	memset(p, 0x5a, size);
	if (p[0] != 0x5a || p[size - 1] != 0x5a)
		abort();
	free(p);
}

static void handler(int sig)
{
	(void)sig;
	use(size_of((unsigned int)turn));
	turn = (turn + 7) % SIZES;
}

static void *run(void *number)
{
	unsigned int first = (unsigned int)(uintptr_t)number * 3;

	pthread_barrier_wait(&barrier);
	for (unsigned int i = 0; i < 2 * SIZES; i++)
		use(size_of(first + i));
	return NULL;
}

static void wait_good(pid_t pid)
{
	int status;

	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status, "a child of a fork");
}

/* In a child: no class is made but those that its start needed. */
static void use_all(void)
{
	struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { { 0, 0 }, { 0, 0 } };
	pthread_t threads[THREADS];
	pid_t pid;

	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			abort();
	setitimer(ITIMER_REAL, &often, NULL);
	pthread_barrier_wait(&barrier);
	pid = fork();
	for (unsigned int i = 0; i < SIZES; i++)
		use(size_of(i));
	if (!pid)
		_exit(0);
	wait_good(pid);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	setitimer(ITIMER_REAL, &never, NULL);
}

int main(void)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };

	sigaction(SIGALRM, &action, NULL);
	for (unsigned int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		if (!pid) {
			use_all();
			verify_library();
			_exit(0);
		}
		wait_good(pid);
	}
	verify_library();
	return 0;
}
