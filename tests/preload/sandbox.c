/* SPDX-License-Identifier: MIT */
/*
 * Runs a program under a seccomp filter that refuses what allocators like to ask the system
 * for, from its start on; or, without an error, kills for what no allocator needs.
 *
 *	sandbox ERRNO|0 PROGRAM [ARGS...]
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "preload_test.h"

#define REFUSE(name)                                                                           \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                                 \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA))

#define KILL(name)                                                                             \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                                 \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static int install(const struct sock_fprog *program)
{
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program);
}

static int kill_for_needless(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		KILL(uname),
		KILL(mincore),
		KILL(sched_setaffinity),
		KILL(clock_nanosleep),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	return install(&program);
}

static int refuse(unsigned int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		REFUSE(rseq),
		REFUSE(membarrier),
		REFUSE(mbind),
		REFUSE(get_mempolicy),
		REFUSE(mincore),
		REFUSE(mremap),
		REFUSE(madvise),
		REFUSE(sched_getaffinity),
		REFUSE(getrandom),
		REFUSE(getcpu),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	return install(&program);
}

int main(int argc, char **argv)
{
	unsigned int error;

	CHECK(argc > 2, "usage: %s ERRNO|0 PROGRAM [ARGS...]", argv[0]);
	error = (unsigned int)atoi(argv[1]);
	if (error ? refuse(error) : kill_for_needless()) {
		puts("SKIP: no seccomp here");
		return 77;
	}
	execvp(argv[2], argv + 2);
	return 1;
}
