/* SPDX-License-Identifier: MIT */
/* The kernel kills the process at the first system call. */
#ifndef UNIT_SECCOMP_H
#define UNIT_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "test_util.h"

/* From here on this thread may only write and exit. */
inline void forbid_system_calls()
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(77);
}

/* @body after @before, the former without system calls; it returns what must be true. */
inline void expect_no_system_calls(void (*before)(), bool (*body)())
{
	int status = 0;

	if (TEST_ASAN || TEST_TSAN)
		GTEST_SKIP() << "the sanitizer makes system calls of its own";
	fflush(nullptr);
	pid_t child = fork();
	if (!child) {
		before();
		forbid_system_calls();
		_exit(body() ? 0 : 1);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		GTEST_SKIP() << "no seccomp here";
	ASSERT_FALSE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		<< "a system call was made";
	ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
	EXPECT_EQ(WEXITSTATUS(status), 0);
}

#endif
