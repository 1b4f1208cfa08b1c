/* SPDX-License-Identifier: MIT */
/*
 * Starts programs by posix_spawn, vfork, system and popen while other threads allocate. Until
 * they execute, such children share the memory of this process.
 *
 *	spawn_test CHILDREN
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
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

/* With all that a child of posix_spawn can be told to do first. */
static pid_t spawn(char **argv)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t all;
	pid_t pid = -1;

	sigfillset(&all);
	CHECK(!posix_spawn_file_actions_init(&actions) && !posix_spawnattr_init(&attr), "init");
	CHECK(!posix_spawn_file_actions_addopen(&actions, 20, "/dev/null", O_RDWR, 0) &&
		      !posix_spawn_file_actions_adddup2(&actions, 20, 21) &&
		      !posix_spawn_file_actions_addclose(&actions, 20) &&
		      !posix_spawn_file_actions_addchdir_np(&actions, "/"),
	      "file actions");
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	CHECK(!posix_spawnp(&pid, "true", &actions, &attr, argv, environ), "posix_spawn");
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return pid;
}

/* One that is to be waited for; 0: that has been done. */
static pid_t start(size_t number)
{
	static char name[] = "true";
	char *argv[] = { name, NULL };
	FILE *pipe;
	pid_t pid;

	switch (number % 4) {
	case 0:
		return spawn(argv);
	case 1:
		pid = vfork();
		if (!pid) {
			execvp("true", argv);
			_exit(127);
		}
		return pid;
	case 2:
		CHECK(system("true") == 0, "system");
		return 0;
	default:
		pipe = popen("true", "r");
		CHECK(pipe && pclose(pipe) == 0, "popen");
		return 0;
	}
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

		CHECK(!pid || waitpid(pid, &status, 0) == pid, "waitpid");
		CHECK(status == 0, "child %zu ended with %#x", i, (unsigned int)status);
	}
	atomic_store(&stop, true);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%zu children\n", children);
	return 0;
}
