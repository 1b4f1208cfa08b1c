/* SPDX-License-Identifier: MIT */
/*
 * fork in a program whose library has handlers for it (fork_library.c), registered by a
 * constructor, which may run before the drop-in's.
 *
 *	fork_library_test FORKS
 *
 * The handler before the fork takes the library's lock, under which another thread opens and
 * closes files, and so waits for stdio's list of streams. If the drop-in's handler has taken
 * that list already, all stand still; this ends in SIGALRM. The handler in the child starts
 * threads, which allocate.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "fork_library.h"
#include "preload_test.h"

enum { ALL_SECONDS = 60 };

static atomic_bool stop;

static void *log_all_the_time(void *unused)
{
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		library_log();
	return unused;
}

int main(int argc, char **argv)
{
	int forks = argc > 1 ? atoi(argv[1]) : 20;
	pthread_t logger;

	alarm(ALL_SECONDS);
	CHECK(!pthread_create(&logger, NULL, log_all_the_time, NULL), "pthread_create");
	for (int i = 0; i < forks; i++) {
		pid_t child = fork();
		int status;

		CHECK(child >= 0, "fork");
		if (!child) {
			library_join();
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && !status, "status %x",
		      (unsigned int)status);
	}
	atomic_store(&stop, true);
	pthread_join(logger, NULL);
	puts("the forks and the library went on");
	return 0;
}
