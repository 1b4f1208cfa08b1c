/* SPDX-License-Identifier: MIT */
/*
 * A program with threads makes processes by clone() without CLONE_VM, as launchers of sandboxes
 * do. The children allocate, though other threads were in the middle of doing so, and confine
 * themselves, though another one has the dynamic linker's lock.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "preload_test.h"

static void *allocate(void *seed)
{
	static __thread void *p[500];
	uint64_t state = *(uint64_t *)seed;

	for (;;) {
		uint64_t i = rng_below(&state, 500);

		free(p[i]);
		p[i] = malloc(rng_below(&state, 5000) + 1);
	}
	return NULL;
}

static int run_child(void *kept)
{
	alarm(10);
	free(kept);
	for (size_t i = 0; i < 300; i++)
		free(malloc(i * 20 + 1));
	for (size_t i = 0; i < 300; i++)
		CHECK(malloc(i * 20 + 1), "%zu bytes", i * 20 + 1);
	verify_library();
	return 7;
}

static int started[2]; /* a pipe */

/* The plugin's constructor calls it. */
void plugin_starts(void);
void plugin_starts(void)
{
	CHECK(write(started[1], "", 1) == 1, "write");
	for (;;)
		pause();
}

static void *load(void *plugin)
{
	dlopen(plugin, RTLD_NOW);
	return NULL;
}

static int confine(void *unused)
{
	(void)unused;
	alarm(10);
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl: %s", strerror(errno));
	CHECK(chroot("/no/such/folder"), "chroot");
	return 7;
}

static void make_child(int (*fn)(void *), void *arg, int i)
{
	static char stack[256 << 10] __attribute__((aligned(16)));
	int status = 0;
	pid_t child = clone(fn, stack + sizeof(stack), SIGCHLD, arg);

	CHECK(child > 0, "clone: %s", strerror(errno));
	CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "child %d: status %#x", i, status);
}

int main(int argc, char **argv)
{
	static uint64_t seeds[] = { 1, 2, 3 };
	int children = argc > 1 ? atoi(argv[1]) : 30;
	pthread_t loader;
	char byte;

	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
		pthread_t thread;

		CHECK(!pthread_create(&thread, NULL, allocate, &seeds[i]), "thread");
	}
	for (int i = 0; i < children; i++) {
		void *kept = malloc(100);

		make_child(run_child, kept, i);
		free(kept);
		usleep(500);
	}
	errno = 0;
	CHECK(clone(NULL, NULL, SIGCHLD, NULL) == -1 && errno == EINVAL, "errno %d", errno);
	CHECK(!pipe(started) && argc > 2, "arguments");
	CHECK(!pthread_create(&loader, NULL, load, argv[2]), "thread");
	CHECK(read(started[0], &byte, 1) == 1, "read");
	make_child(confine, NULL, 0);
	/* exit() would wait for that lock. */
	_exit(printf("done\n") != 5 || fflush(stdout));
}
