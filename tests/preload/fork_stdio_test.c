/* SPDX-License-Identifier: MIT */
/*
 * fork against stdio: threads that fork, flush all streams and read lines at once.
 *
 *	fork_stdio_test SECONDS
 *
 * fork locks stdio's list of streams, fflush(NULL) that list and then each stream, and getline
 * a stream while it makes its buffer larger. An allocator that holds its locks over the first
 * of these closes the circle, and everybody stands still: then some thread makes no progress
 * for STILL_SECONDS, which is what is looked for.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "preload_test.h"

enum { FORKING = 2, READING = 4, FLUSHING = 1, ALL = FORKING + READING + FLUSHING };
enum { STILL_SECONDS = 20, LINE_MAX_BYTES = 1 << 20 };

static atomic_bool stop;
static atomic_ulong rounds[ALL];

static void fork_once(void)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0, "fork");
	if (!child)
		_exit(0);
	CHECK(waitpid(child, &status, 0) == child && status == 0, "status %d", status);
}

/* Lines of all lengths, each read into a buffer of its own. */
static void read_lines(FILE *file)
{
	char *line = NULL;
	size_t size = 0;

	rewind(file);
	for (size_t length = 16; length <= LINE_MAX_BYTES; length *= 4) {
		ssize_t n = getline(&line, &size, file);

		CHECK(n == (ssize_t)length, "getline: %zd, not %zu", n, length);
		free(line);
		line = NULL;
		size = 0;
	}
	/* libc's locks of streams are not fair: the thread that flushes them has its turn now.
	 */
	usleep(100);
}

static FILE *make_file(void)
{
	FILE *file = tmpfile();

	CHECK(file, "tmpfile");
	for (size_t length = 16; length <= LINE_MAX_BYTES; length *= 4) {
		for (size_t i = 1; i < length; i++)
			putc('x', file);
		putc('\n', file);
	}
	return file;
}

static void *work(void *arg)
{
	size_t id = (size_t)(uintptr_t)arg;
	FILE *file = id >= FORKING && id < FORKING + READING ? make_file() : NULL;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		if (id < FORKING)
			fork_once();
		else if (file)
			read_lines(file);
		else
			fflush(NULL);
		atomic_fetch_add(&rounds[id], 1);
	}
	if (file)
		fclose(file);
	return NULL;
}

static void watch(unsigned int seconds)
{
	unsigned long before[ALL];
	unsigned int still[ALL] = { 0 };

	for (unsigned int second = 0;; second++) {
		bool moved = true;

		for (size_t id = 0; id < ALL; id++)
			before[id] = atomic_load(&rounds[id]);
		sleep(1);
		for (size_t id = 0; id < ALL; id++) {
			still[id] = atomic_load(&rounds[id]) == before[id] ? still[id] + 1 : 0;
			CHECK(still[id] < STILL_SECONDS, "thread %zu stands still", id);
			moved = moved && atomic_load(&rounds[id]);
		}
		if (second + 1 >= seconds && moved)
			return;
	}
}

int main(int argc, char **argv)
{
	unsigned int seconds = argc > 1 ? (unsigned int)atoi(argv[1]) : 3;
	pthread_t threads[ALL];

	for (size_t id = 0; id < ALL; id++)
		CHECK(!pthread_create(&threads[id], NULL, work, (void *)(uintptr_t)id),
		      "pthread_create");
	watch(seconds);
	atomic_store(&stop, true);
	for (size_t id = 0; id < ALL; id++)
		pthread_join(threads[id], NULL);
	puts("forks, flushes and reads went on");
	return 0;
}
