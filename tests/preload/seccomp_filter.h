/* SPDX-License-Identifier: MIT */
/* What filters of system calls are made of. */
#ifndef SECCOMP_FILTER_H
#define SECCOMP_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "preload_test.h"

/* The first instruction of a filter. */
#define LOAD_NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, action)
/* The answer to one system call. */
#define ANSWER_TO(number, action)                                                              \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), ANSWER(action)
#define ALLOW(name) ANSWER_TO(SYS_##name, SECCOMP_RET_ALLOW)
#define KILL(name) ANSWER_TO(SYS_##name, SECCOMP_RET_KILL_PROCESS)
/* Allows the calls that docs/programs.md lists for a filter that comes late. */
#define ALLOW_LISTED                                                                           \
	ALLOW(mmap), ALLOW(munmap), ALLOW(mprotect), ALLOW(madvise), ALLOW(mremap),            \
		ALLOW(futex), ALLOW(clock_gettime), ALLOW(getrandom), ALLOW(sched_yield),      \
		ALLOW(rt_sigprocmask)
#define ERROR(error) (SECCOMP_RET_ERRNO | ((error)&SECCOMP_RET_DATA))

#define PROGRAM_OF(filter)                                                                     \
	{                                                                                      \
		sizeof(filter) / sizeof((filter)[0]), filter                                   \
	}

/* Installs a filter for this thread, by prctl(). False: no seccomp here. */
#define INSTALL(filter) install_filter(&(struct sock_fprog)PROGRAM_OF(filter))

static inline _Bool install_filter(const struct sock_fprog *program)
{
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	return !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program);
}

#endif
