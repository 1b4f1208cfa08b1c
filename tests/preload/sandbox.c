/* SPDX-License-Identifier: MIT */
/*
 * Runs a program under a seccomp filter, from its start on.
 *
 *	sandbox ERRNO PROGRAM [ARGS...]		refuses what allocators like to ask for
 *	sandbox 0 PROGRAM [ARGS...]		kills for what no allocator needs
 *	sandbox listed PROGRAM [ARGS...]	kills, except for what docs/programs.md lists
 *						and what the program itself needs
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "preload_test.h"
#include "seccomp_filter.h"

#define REFUSE(name) ANSWER_TO(SYS_##name, ERROR(error))

static bool kill_for_needless(void)
{
	struct sock_filter filter[] = {
		LOAD_NUMBER,	       KILL(uname),
		KILL(mincore),	       KILL(sched_setaffinity),
		KILL(clock_nanosleep), ANSWER(SECCOMP_RET_ALLOW),
	};

	return INSTALL(filter);
}

static bool refuse(unsigned int error)
{
	struct sock_filter filter[] = {
		LOAD_NUMBER,	   REFUSE(rseq),	  REFUSE(membarrier),
		REFUSE(mbind),	   REFUSE(get_mempolicy), REFUSE(mincore),
		REFUSE(mremap),	   REFUSE(madvise),	  REFUSE(sched_getaffinity),
		REFUSE(getrandom), REFUSE(getcpu),	  ANSWER(SECCOMP_RET_ALLOW),
	};

	return INSTALL(filter);
}

static bool kill_for_unlisted(void)
{
	struct sock_filter filter[] = {
		LOAD_NUMBER,
		/* The library: docs/programs.md, Sandboxes, without what KFENCE needs alone. */
		ALLOW_LISTED,
		ALLOW(read),
		ALLOW(openat),
		ALLOW(close),
		ALLOW(getpid),
		ALLOW(prlimit64),
		ALLOW(sched_getaffinity),
		ALLOW(membarrier),
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
		ANSWER(SECCOMP_RET_KILL_PROCESS),
	};

	return INSTALL(filter);
}

/* False: no seccomp here. */
static bool filter_by(const char *what)
{
	unsigned int error = (unsigned int)atoi(what);

	if (!strcmp(what, "listed"))
		return kill_for_unlisted();
	return error ? refuse(error) : kill_for_needless();
}

int main(int argc, char **argv)
{
	CHECK(argc > 2, "usage: %s ERRNO|0|listed PROGRAM [ARGS...]", argv[0]);
	if (!filter_by(argv[1])) {
		puts("SKIP: no seccomp here");
		return 77;
	}
	execvp(argv[2], argv + 2);
	return 1;
}
