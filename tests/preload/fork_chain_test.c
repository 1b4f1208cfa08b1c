/* SPDX-License-Identifier: MIT */
/*
 * A chain of processes, each of which forks the next while its threads allocate and free. The
 * child frees every block that its parent's threads had, so that nothing is lost but what a
 * call of malloc or free had in its hands that the fork interrupted: whether that came to its
 * end nobody knows.
 *
 *	fork_chain_test GENERATIONS [IN_USE RESIDENT]
 *
 * Prints by how much a generation grows on average: bytes in use (mallinfo2), bytes resident
 * after malloc_trim; and beside it how many calls were interrupted, and of how many bytes. More
 * than the two numbers given: it fails.
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

enum { THREADS = 8, SLOTS = 4096, RUN = 512, WARM_UP = 8, FIRST_US = 500000, STORM_US = 3000 };
/* Bytes of a thread whose stack libc loses. */
enum { LOST_IN_USE = 512, LOST_RESIDENT = 12 << 10 };

struct measure {
	size_t in_use, resident, calls, bytes; /* the latter two: interrupted until now */
};

/* Shared by all generations. */
struct report {
	struct measure first, last;
	bool done;
};

/*
 * Every block is in a slot: its address, and in the lowest bits what a thread is about to do
 * with it. One in free, or of a call of malloc that has not returned, may be lost.
 */
enum { TAKEN = 1, IN_FREE = 2, IN_MALLOC = 3, DOING = 3 };
static atomic_uintptr_t blocks[SLOTS];
static size_t sizes[SLOTS]; /* who has taken the slot writes */
static size_t calls, bytes;

static void take(size_t slot)
{
	uintptr_t p = atomic_load(&blocks[slot]);

	if (!p || p & DOING || !atomic_compare_exchange_strong(&blocks[slot], &p, p | TAKEN))
		return;
	atomic_store(&blocks[slot], p | IN_FREE);
	free((void *)p);
	atomic_store(&blocks[slot], 0);
}

static void put(size_t slot, size_t size)
{
	uintptr_t none = 0;
	void *p;

	take(slot);
	if (!atomic_compare_exchange_strong(&blocks[slot], &none, TAKEN))
		return;
	sizes[slot] = size;
	atomic_store(&blocks[slot], IN_MALLOC);
	p = malloc(size);
	CHECK(p, "no memory for %zu bytes", size);
	atomic_store(&blocks[slot], (uintptr_t)p);
}

/* Many of one size, so that arrays run empty and full; what is freed is others', too. */
static void *storm(void *number)
{
	uint64_t rng = (uintptr_t)number * 7919 + (uint64_t)getpid();

	for (;;) {
		size_t size = rng_size(&rng, 1 << 14), first = rng_below(&rng, SLOTS - RUN);
		size_t n = rng_below(&rng, RUN);

		for (size_t i = 0; i < n; i++)
			put(first + i, size);
		first = rng_below(&rng, SLOTS - RUN);
		for (size_t i = 0; i < n; i++)
			take(first + i);
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
	for (size_t slot = 0; slot < SLOTS; slot++) {
		uintptr_t p = atomic_exchange(&blocks[slot], 0);

		if (p & IN_FREE) { /* or in malloc */
			calls++;
			bytes += sizes[slot];
		} else {
			free((void *)(p & ~(uintptr_t)DOING));
		}
	}
}

static void *tell_stack(void *at)
{
	atomic_store((atomic_uintptr_t *)at, (uintptr_t)__builtin_frame_address(0));
	for (;;)
		pause();
	return NULL;
}

static uintptr_t stack_of_a_thread(void)
{
	atomic_uintptr_t at = 0;
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, tell_stack, &at), "no thread");
	while (!at)
		usleep(100);
	return at;
}

/*
 * Whether libc gives a thread the stack of one that a fork has left behind. That of glibc 2.43
 * does not: each such thread costs its stack, of which some pages are resident, and the array
 * of its thread-local storage, for ever.
 */
static bool stacks_come_back(void)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0, "fork");
	if (!pid) {
		uintptr_t before = stack_of_a_thread();

		pid = fork();
		CHECK(pid >= 0, "fork");
		if (!pid)
			_exit(stack_of_a_thread() != before);
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "the grandchild");
		_exit(WEXITSTATUS(status));
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "the child");
	return !WEXITSTATUS(status);
}

/* Does not return in the parent. */
static void next_generation(useconds_t storm_us)
{
	pid_t pid;

	for (size_t i = 0; i < THREADS; i++) {
		pthread_t thread;

		CHECK(!pthread_create(&thread, NULL, storm, (void *)i), "no thread");
	}
	usleep(storm_us);
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
		/* The first fills what the library keeps for later, as far as there is need. */
		next_generation(i ? STORM_US : FIRST_US);
	}
	r->last = measure_now();
	r->done = true;
	_exit(0);
}

int main(int argc, char **argv)
{
	ssize_t generations = argc > 1 ? strtol(argv[1], NULL, 10) : 0, in_use, grown;
	ssize_t most_in_use = argc > 3 ? strtol(argv[2], NULL, 10) : SSIZE_MAX;
	ssize_t most_grown = argc > 3 ? strtol(argv[3], NULL, 10) : SSIZE_MAX;
	struct report *r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;

	CHECK(generations > 0 && r != MAP_FAILED, "usage: %s GENERATIONS [IN_USE RESIDENT]",
	      argv[0]);
	if (argc > 3 && !stacks_come_back()) {
		puts("libc loses the stacks of threads that a fork leaves behind");
		most_in_use += THREADS * LOST_IN_USE;
		most_grown += THREADS * LOST_RESIDENT;
	}
	CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "children stay ours");
	if (!fork())
		run_chain(generations, r);
	while (wait(&status) > 0)
		CHECK(!status, "a generation ended with %#x", (unsigned int)status);
	CHECK(r->done, "the chain broke");
	in_use = ((ssize_t)r->last.in_use - (ssize_t)r->first.in_use) / generations;
	grown = ((ssize_t)r->last.resident - (ssize_t)r->first.resident) / generations;
	printf("per generation: %zd bytes in use, %zd resident; interrupted: %.1f calls, %zd "
	       "bytes\n",
	       in_use, grown, (double)(r->last.calls - r->first.calls) / (double)generations,
	       (ssize_t)(r->last.bytes - r->first.bytes) / generations);
	CHECK(in_use <= most_in_use, "more than %zd bytes in use", most_in_use);
	CHECK(grown <= most_grown, "more than %zd bytes resident", most_grown);
	return 0;
}
