/* SPDX-License-Identifier: MIT */
/*
 * Runs a program under a seccomp filter that refuses what allocators like to ask the system
 * for, from its start on.
 *
 *	sandbox ERRNO PROGRAM [ARGS...]
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

int main(int argc, char **argv)
{
	unsigned int error = argc > 2 ? (unsigned int)atoi(argv[1]) : 0;
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

	CHECK(error, "usage: %s ERRNO PROGRAM [ARGS...]", argv[0]);
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		puts("SKIP: no seccomp here");
		return 77;
	}
	execvp(argv[2], argv + 2);
	return 1;
}
