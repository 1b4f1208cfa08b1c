/* SPDX-License-Identifier: MIT */
/*
 * Forks while other threads allocate.
 *
 *	fork_test FORKS
 *
 * The children allocate and free in all sizes, free what the parent had
 * allocated, start threads and fork again. Fork handlers that allocate are
 * registered before any library's constructor has run and again from main: of
 * prepare handlers the first registered runs last, and of the others first, so
 * an allocator that takes locks in handlers of its own meets calls from either
 * side. A deadlock ends in SIGALRM.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "preload_test.h"

enum { THREADS = 8, KEPT = 64, CHILD_SECONDS = 60, ALL_SECONDS = 150 };

static atomic_bool stop;
static atomic_long handler_calls;

static void handler_allocates(void)
{
	void *p[20];
	for (size_t i = 0; i < 20; i++) {
		p[i] = malloc((size_t)1 << i);
		CHECK(p[i], "malloc(%zu) in a fork handler", (size_t)1 << i);
		memset(p[i], 0x5a, (size_t)1 << i);
	}
	for (size_t i = 0; i < 20; i++)
		free(p[i]);
	atomic_fetch_add(&handler_calls, 1);
}

static void register_handlers(void)
{
	int error = pthread_atfork(handler_allocates, handler_allocates, handler_allocates);
	CHECK(error == 0, "pthread_atfork: %d", error);
}

/* Runs before the constructors of all shared libraries. */
__attribute__((section(".preinit_array"),
	       used)) static void (*const early)(void) = register_handlers;

static void *allocate_until_stopped(void *arg)
{
	uint64_t rng = (uintptr_t)arg + 1;
	unsigned char *kept[KEPT] = { 0 };

	/* Leave the children time to run. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		size_t slot = (size_t)rng_below(&rng, KEPT), size = rng_size(&rng, 1 << 20);
		if (rng_below(&rng, 4) == 0) {
			kept[slot] = realloc(kept[slot], size);
		} else {
			free(kept[slot]);
			kept[slot] = rng_below(&rng, 2) ? malloc(size) : calloc(1, size);
		}
		CHECK(kept[slot], "no memory for %zu bytes", size);
		kept[slot][0] = kept[slot][size - 1] = (unsigned char)size;
	}
	for (size_t i = 0; i < KEPT; i++)
		free(kept[i]);
	return NULL;
}

static void allocate_all_sizes(void)
{
	enum { HALF = 1024 };
	void **p = calloc(2 * HALF, sizeof(*p));
	CHECK(p, "no memory");
	for (size_t round = 0; round < 2; round++) {
		for (size_t i = 0; i < HALF; i++) {
			size_t small = 1 + i * 9, large = 1 + i * 499;
			p[i] = malloc(small);
			CHECK(p[i], "malloc(%zu)", small);
			memset(p[i], 1, small);
			if (i % 128)
				continue;
			unsigned char *zeros = calloc(large, 1);
			CHECK(zeros && !zeros[0] && !zeros[large / 2] && !zeros[large - 1],
			      "calloc(%zu) is not zero", large);
			p[HALF + i] = realloc(zeros, large * 2);
			CHECK(p[HALF + i], "realloc to %zu", large * 2);
		}
		for (size_t i = 0; i < 2 * HALF; i++) {
			free(p[i]);
			p[i] = NULL;
		}
	}
	free(p);
}

static void *allocate_in_thread(void *unused)
{
	(void)unused;
	allocate_all_sizes();
	return NULL;
}

static void check_child(pid_t pid, const char *what)
{
	int status;
	CHECK(pid > 0, "fork failed");
	CHECK(waitpid(pid, &status, 0) == pid, "waitpid");
	CHECK(!WIFSIGNALED(status), "%s was killed by signal %d", what, WTERMSIG(status));
	CHECK(WEXITSTATUS(status) == 0, "%s exited with %d", what, WEXITSTATUS(status));
}

static void run_child(size_t number, void **from_parent, size_t n)
{
	alarm(CHILD_SECONDS);
	for (size_t i = 0; i < n; i++)
		free(from_parent[i]);
	allocate_all_sizes();
	if (number % 4 == 0) {
		pthread_t thread;
		CHECK(!pthread_create(&thread, NULL, allocate_in_thread, NULL), "no thread");
		allocate_all_sizes();
		pthread_join(thread, NULL);
	}
	if (number % 8 == 1) {
		pid_t grandchild = fork();
		if (grandchild == 0) {
			alarm(CHILD_SECONDS);
			allocate_all_sizes();
			_exit(0);
		}
		check_child(grandchild, "a grandchild");
	}
	if (number % 2)
		exit(0);
	_exit(0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2, "usage: %s FORKS", argv[0]);
	size_t forks = strtoul(argv[1], NULL, 10);
	alarm(ALL_SECONDS);

	pthread_t threads[THREADS];
	for (size_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, allocate_until_stopped, (void *)i),
		      "no thread");
	register_handlers();

	void *inherited[KEPT];
	for (size_t number = 0; number < forks; number++) {
		for (size_t i = 0; i < KEPT; i++)
			inherited[i] = malloc(i * number);
		pid_t pid = fork();
		if (pid == 0)
			run_child(number, inherited, KEPT);
		check_child(pid, "a child");
		for (size_t i = 0; i < KEPT; i++)
			free(inherited[i]);
	}
	atomic_store(&stop, true);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%zu forks, %ld handler calls in the parent\n", forks,
	       atomic_load(&handler_calls));
	return 0;
}
