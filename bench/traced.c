/* SPDX-License-Identifier: MIT */
/*
 * A program whose requests are known, for the test of recorder and replay (test_trace.py): what
 * it allocates and frees, in two threads, is in that test's numbers.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OBJECTS = 1000 };

static void *objects[OBJECTS];

static void *free_them(void *unused)
{
	for (int i = 0; i < OBJECTS; i++)
		free(objects[i]);
	return unused;
}

int main(void)
{
	pthread_t thread;
	void *aligned = NULL;

	for (int i = 0; i < OBJECTS; i++)
		objects[i] = malloc(1024);
	/* The child is not recorded. */
	pid_t child = fork();

	if (child == 0) {
		for (int i = 0; i < OBJECTS; i++)
			objects[i] = realloc(objects[i], 5000);
		exit(0); /* as most children end; the recorder flushes then */
	}
	if (child < 0 || waitpid(child, NULL, 0) != child)
		return 1;
	if (pthread_create(&thread, NULL, free_them, NULL) || pthread_join(thread, NULL))
		return 1;
	void *grown = calloc(3, 1000);

	for (int i = 4; i <= 8; i++)
		grown = realloc(grown, (size_t)i * 1000);
	if (!grown || posix_memalign(&aligned, 4096, 100000) || (size_t)aligned % 4096)
		return 1;
	/* These two stay. */
	return 0;
}
