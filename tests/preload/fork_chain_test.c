/* SPDX-License-Identifier: MIT */
/*
 * A chain of processes, each of which forks the next while its threads allocate and free. The
 * child frees every block that its parent's threads had, so that nothing but what was in a
 * thread's hands is lost.
 *
 *	fork_chain_test GENERATIONS [BYTES]
 *
 * Prints by how much a generation grows on average: bytes in use (mallinfo2), bytes resident
 * after malloc_trim; and beside it how many calls of malloc and free a fork interrupted, each
 *of which may have lost its block. BYTES: at most so many of either per generation, or it
 *fails.
 */
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "preload_test.h"

enum { THREADS = 8, SLOTS = 4096, RUN = 512, WARM_UP = 8, STORM_US = 3000 };

struct measure {
	size_t in_use, resident, calls, bytes; /* the latter two: interrupted until now */
};

/* Shared by all generations. */
struct report {
	struct measure first, last;
	bool done;
};

/* Every block is here but while a thread is in a call for it. */
static _Atomic(void *) blocks[SLOTS];
static atomic_size_t in_call[THREADS]; /* bytes of its block; 0: in none */
static size_t calls, bytes;

static void take(size_t slot, atomic_size_t *call)
{
	void *p;

	atomic_store_explicit(call, 1, memory_order_relaxed);
	p = atomic_exchange(&blocks[slot], NULL);
	atomic_store_explicit(call, malloc_usable_size(p), memory_order_relaxed);
	free(p);
	atomic_store_explicit(call, 0, memory_order_relaxed);
}

static void put(size_t slot, size_t size, atomic_size_t *call)
{
	void *p, *none = NULL;

	take(slot, call);
	atomic_store_explicit(call, size, memory_order_relaxed);
	p = malloc(size);
	CHECK(p, "no memory for %zu bytes", size);
	if (!atomic_compare_exchange_strong(&blocks[slot], &none, p))
		free(p);
	atomic_store_explicit(call, 0, memory_order_relaxed);
}

/* Many of one size, so that arrays run empty and full; what is freed is others', too. */
static void *storm(void *number)
{
	atomic_size_t *call = &in_call[(uintptr_t)number];
	uint64_t rng = (uintptr_t)number * 7919 + (uint64_t)getpid();

	for (;;) {
		size_t size = rng_size(&rng, 1 << 14), first = rng_below(&rng, SLOTS - RUN);
		size_t n = rng_below(&rng, RUN);

		for (size_t i = 0; i < n; i++)
			put(first + i, size, call);
		first = rng_below(&rng, SLOTS - RUN);
		for (size_t i = 0; i < n; i++)
			take(first + i, call);
	}
	return NULL;
}

static size_t resident(void)
{
	char text[64] = "", *second = text;
	FILE *file = fopen("/proc/self/statm", "re");

	CHECK(file && fgets(text, sizeof(text), file), "/proc/self/statm");
	fclose(file);
	strtoul(text, &second, 10);
	return strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static struct measure measure_now(void)
{
	malloc_trim(0);
	return (struct measure){ mallinfo2().uordblks, resident(), calls, bytes };
}

/* In the child: the threads are gone, what they had is here. */
static void inherit(void)
{
	atomic_size_t unused;

	for (size_t i = 0; i < THREADS; i++) {
		size_t interrupted = atomic_exchange(&in_call[i], 0);

		calls += interrupted != 0;
		bytes += interrupted;
	}
	for (size_t slot = 0; slot < SLOTS; slot++)
		take(slot, &unused);
}

/* Does not return in the parent. */
static void next_generation(void)
{
	pid_t pid;

	for (size_t i = 0; i < THREADS; i++) {
		pthread_t thread;

		CHECK(!pthread_create(&thread, NULL, storm, (void *)i), "no thread");
	}
	usleep(STORM_US);
	pid = fork();
	CHECK(pid >= 0, "fork");
	if (pid)
		_exit(0);
	inherit();
}

static void run_chain(ssize_t generations, struct report *r)
{
	for (ssize_t i = 0; i < WARM_UP + generations; i++) {
		if (i == WARM_UP)
			r->first = measure_now();
		next_generation();
	}
	r->last = measure_now();
	r->done = true;
	_exit(0);
}

int main(int argc, char **argv)
{
	ssize_t generations = argc > 1 ? strtol(argv[1], NULL, 10) : 0, in_use, grown, own;
	ssize_t most = argc > 2 ? strtol(argv[2], NULL, 10) : SSIZE_MAX;
	struct report *r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;

	CHECK(generations > 0 && r != MAP_FAILED, "usage: %s GENERATIONS [BYTES]", argv[0]);
	CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "children stay ours");
	if (!fork())
		run_chain(generations, r);
	while (wait(&status) > 0)
		CHECK(!status, "a generation ended with %#x", (unsigned int)status);
	CHECK(r->done, "the chain broke");
	in_use = ((ssize_t)r->last.in_use - (ssize_t)r->first.in_use) / generations;
	grown = ((ssize_t)r->last.resident - (ssize_t)r->first.resident) / generations;
	own = (ssize_t)(r->last.bytes - r->first.bytes) / generations;
	printf("per generation: %zd bytes in use, %zd resident; interrupted: %.1f calls, %zd "
	       "bytes\n",
	       in_use, grown, (double)(r->last.calls - r->first.calls) / (double)generations,
	       own);
	CHECK(in_use - own <= most && grown <= most, "more than %zd bytes", most);
	return 0;
}
