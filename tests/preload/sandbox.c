/* SPDX-License-Identifier: MIT */
/*
 * Runs a program under a seccomp filter, from its start on.
 *
 *	sandbox ERRNO PROGRAM [ARGS...]		refuses what allocators like to ask for
 *	sandbox 0 PROGRAM [ARGS...]		kills for what no allocator needs
 *	sandbox listed PROGRAM [ARGS...]	kills for all that docs/programs.md does not
 *list, and the program does not need besides
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
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

#define ALLOW(name)                                                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                                 \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int kill_for_unlisted(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		/* The library: docs/programs.md, Sandboxes, without what KFENCE needs alone. */
		ALLOW(read),
		ALLOW(openat),
		ALLOW(close),
		ALLOW(mmap),
		ALLOW(munmap),
		ALLOW(mprotect),
		ALLOW(madvise),
		ALLOW(mremap),
		ALLOW(futex),
		ALLOW(clock_gettime),
		ALLOW(getpid),
		ALLOW(getrandom),
		ALLOW(prlimit64),
		ALLOW(sched_getaffinity),
		ALLOW(sched_yield),
		ALLOW(membarrier),
		ALLOW(rt_sigprocmask),
		ALLOW(mbind),
		ALLOW(get_mempolicy),
		/* The loader, threads, fork, stdio, exit; and witness.so. */
		ALLOW(execve),
		ALLOW(brk),
#ifdef SYS_arch_prctl
		ALLOW(arch_prctl),
		ALLOW(access),
		ALLOW(readlink),
#endif
		ALLOW(faccessat),
		ALLOW(readlinkat),
		ALLOW(pread64),
		ALLOW(newfstatat),
		ALLOW(fstat),
		ALLOW(set_tid_address),
		ALLOW(set_robust_list),
		ALLOW(rseq),
		ALLOW(rt_sigaction),
		ALLOW(clone3),
		ALLOW(clone),
		ALLOW(wait4),
		ALLOW(write),
		ALLOW(exit),
		ALLOW(exit_group),
		/* The program's own filter. */
		ALLOW(prctl),
		ALLOW(seccomp),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	return install(&program);
}

static int filter_by(const char *what)
{
	unsigned int error = (unsigned int)atoi(what);

	if (!strcmp(what, "listed"))
		return kill_for_unlisted();
	return error ? refuse(error) : kill_for_needless();
}

int main(int argc, char **argv)
{
	CHECK(argc > 2, "usage: %s ERRNO|0|listed PROGRAM [ARGS...]", argv[0]);
	if (filter_by(argv[1])) {
		puts("SKIP: no seccomp here");
		return 77;
	}
	execvp(argv[2], argv + 2);
	return 1;
}
