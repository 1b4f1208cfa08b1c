/* SPDX-License-Identifier: MIT */
/*
 * A program with threads that locks itself in: from then on any system call but a few ends
 * it. What it does with its memory afterwards, also in a child, must get by on what malloc()
 * and free() need.
 *
 *	killed_test [unseen|trims]
 *
 * unseen: without prctl(), so that the library knows nothing of it. Then malloc_trim() and
 * mallinfo2() are not for it, fork() makes two calls more, and nobody may look at CPUs, quotas
 * and limits: UKMEM_CONF=background_thread:never,look_ms:0, as docs/programs.md says.
 *
 * trims: the other threads are inside malloc_trim(), which reads files, when the filter comes.
 */
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "preload_test.h"
#include "seccomp_filter.h"

enum { THREADS = 2, KEPT = 512, ROUNDS = 20000 };

static atomic_int stop, going;

static bool unseen, trims;

static bool renounce_privileges(void)
{
	if (unseen)
		return !syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* For all threads. False: no seccomp here. */
static bool lock_in(void)
{
	struct sock_filter filter[] = {
		LOAD_NUMBER,
		ALLOW_LISTED,
		ALLOW(read),
		ALLOW(write),
		ALLOW(brk),
		ALLOW(rt_sigaction),
		ALLOW(rt_sigreturn),
		ALLOW(restart_syscall),
		ALLOW(exit),
		ALLOW(exit_group),
		/* fork() and waitpid() */
		ALLOW(clone),
		ALLOW(set_robust_list),
		ALLOW(wait4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		ANSWER(unseen ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_PROCESS),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = PROGRAM_OF(filter);

	return renounce_privileges() && !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
						 SECCOMP_FILTER_FLAG_TSYNC, &program);
}

static void fill(void **kept, uint64_t *random)
{
	size_t i = rng_below(random, KEPT), size = rng_size(random, 1 << 18);

	if (rng_below(random, 4)) {
		free(kept[i]);
		kept[i] = malloc(size);
	} else {
		kept[i] = realloc(kept[i], size);
	}
	CHECK(kept[i], "%zu bytes", size);
	memset(kept[i], 1, size);
}

static void *run(void *arg)
{
	uint64_t random = (uint64_t)(uintptr_t)arg;
	void *kept[KEPT] = { 0 };

	for (unsigned int i = 0; i < (trims ? 20 : 2000) || !stop; i++) {
		fill(kept, &random);
		if (trims)
			malloc_trim(0);
		if (i == (trims ? 10 : 1000))
			going++;
	}
	for (size_t i = 0; i < KEPT; i++)
		free(kept[i]);
	return NULL;
}

static void grow(void)
{
	size_t size = 100;
	char *p = NULL;

	for (; size < (32u << 20); size *= 3) {
		p = realloc(p, size);
		CHECK(p, "%zu bytes", size);
		memset(p + size / 3, 1, size - size / 3);
	}
	free(p);
}

/* Unseen for longer than it takes until somebody would look. */
static void use_memory(void **kept, uint64_t *random)
{
	time_t begin = time(NULL);

	do {
		for (int i = 0; i < ROUNDS; i++)
			fill(kept, random);
		grow();
	} while (unseen && time(NULL) < begin + 2);
}

static void use_memory_in_child(void **kept, uint64_t *random)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0, "fork");
	if (!child) {
		use_memory(kept, random);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status, "the child ended with %#x",
	      status);
}

static void give_back(void)
{
	struct mallinfo2 m;

	malloc_trim(0);
	m = mallinfo2();
	CHECK(m.uordblks + m.hblkhd > 10000, "%zu bytes in use", m.uordblks + m.hblkhd);
}

int main(int argc, char **argv)
{
	static void *kept[KEPT];
	uint64_t random = 99;
	pthread_t threads[THREADS];

	unseen = argc > 1 && !strcmp(argv[1], "unseen");
	trims = argc > 1 && !strcmp(argv[1], "trims");
	puts("begins"); /* later stdio would ask what it writes to */
	for (size_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, run, (void *)(i + 1)), "a thread");
	while (going < THREADS)
		sched_yield();
	if (!lock_in()) {
		puts("SKIP: no seccomp here");
		return 77;
	}
	use_memory(kept, &random);
	if (!unseen)
		give_back();
	use_memory(kept, &random);
	use_memory_in_child(kept, &random);
	stop = 1;
	for (size_t i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL), "a thread");
	for (size_t i = 0; i < KEPT; i++)
		free(kept[i]);
	if (!unseen)
		malloc_trim(0);
	puts("lives");
	return 0;
}
