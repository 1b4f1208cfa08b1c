/* SPDX-License-Identifier: MIT */
/*
 * A program with threads that locks itself in: from then on any system call but a few ends
 * it. What it does with its memory afterwards must get by on what malloc() and free() need.
 *
 *	killed_test
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "preload_test.h"

#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), ALLOWED
#define ALLOWED BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

enum { THREADS = 2, KEPT = 512, ROUNDS = 20000 };

static atomic_int stop, going;

/* For all threads. False: no seccomp here. */
static int lock_in(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(read),
		ALLOW(write),
		ALLOW(futex),
		ALLOW(mmap),
		ALLOW(munmap),
		ALLOW(mprotect),
		ALLOW(mremap),
		ALLOW(madvise),
		ALLOW(brk),
		ALLOW(rt_sigaction),
		ALLOW(rt_sigprocmask),
		ALLOW(rt_sigreturn),
		ALLOW(restart_syscall),
		ALLOW(sched_yield),
		ALLOW(exit),
		ALLOW(exit_group),
		ALLOW(clock_gettime),
		ALLOW(getrandom),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
			&program);
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

	for (unsigned int i = 0; i < 2000 || !stop; i++) {
		fill(kept, &random);
		if (i == 1000)
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

static void use_memory(void **kept, uint64_t *random)
{
	for (int i = 0; i < ROUNDS; i++)
		fill(kept, random);
	grow();
}

int main(void)
{
	static void *kept[KEPT];
	uint64_t random = 99;
	pthread_t threads[THREADS];
	struct mallinfo2 m;

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
	malloc_trim(0);
	m = mallinfo2();
	CHECK(m.uordblks + m.hblkhd > 10000, "%zu bytes in use", m.uordblks + m.hblkhd);
	use_memory(kept, &random);
	stop = 1;
	for (size_t i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL), "a thread");
	for (size_t i = 0; i < KEPT; i++)
		free(kept[i]);
	malloc_trim(0);
	puts("lives");
	return 0;
}
