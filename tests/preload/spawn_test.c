/* SPDX-License-Identifier: MIT */
/*
 * Starts programs by posix_spawn, vfork and system while other threads allocate. Until they
 * execute, such children share the memory of this process.
 *
 *	spawn_test CHILDREN
 */
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "preload_test.h"

enum { THREADS = 4, KEPT = 64 };

extern char **environ;

static atomic_bool stop;

/* Every block keeps its number; a child that had changed anything would be noticed. */
static void *allocate_until_stopped(void *arg)
{
	uint64_t rng = (uintptr_t)arg + 1;
	size_t *kept[KEPT] = { 0 };

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		size_t slot = (size_t)rng_below(&rng, KEPT), size = 8 + rng_size(&rng, 1 << 18);

		CHECK(!kept[slot] || *kept[slot] == slot, "block %zu has changed", slot);
		free(kept[slot]);
		kept[slot] = malloc(size);
		CHECK(kept[slot], "no memory for %zu bytes", size);
		*kept[slot] = slot;
	}
	for (size_t i = 0; i < KEPT; i++)
		free(kept[i]);
	return NULL;
}

static pid_t start(size_t number)
{
	static char name[] = "true";
	char *argv[] = { name, NULL };
	pid_t pid = -1;

	if (number % 3 == 0) {
		CHECK(!posix_spawnp(&pid, "true", NULL, NULL, argv, environ), "posix_spawn");
	} else if (number % 3 == 1) {
		pid = vfork();
		if (!pid) {
			execvp("true", argv);
			_exit(127);
		}
	} else {
		CHECK(system("true") == 0, "system");
	}
	return pid;
}

int main(int argc, char **argv)
{
	size_t children = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
	pthread_t threads[THREADS];

	CHECK(children, "usage: %s CHILDREN", argv[0]);
	alarm(120);
	for (size_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, allocate_until_stopped, (void *)i),
		      "no thread");
	for (size_t i = 0; i < children; i++) {
		pid_t pid = start(i);
		int status = 0;

		CHECK(i % 3 == 2 || waitpid(pid, &status, 0) == pid, "waitpid");
		CHECK(status == 0, "child %zu ended with %#x", i, (unsigned int)status);
	}
	atomic_store(&stop, true);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%zu children\n", children);
	return 0;
}
