/* SPDX-License-Identifier: MIT */
/*
 * A filter of system calls that refuses rt_sigprocmask with EINVAL, as the kernel refuses an
 * operation that it does not know. The library asks in this way which words of a stack can be
 * read, and must not take the filter's answer for the kernel's. The stack here ends where
 * nothing can be read, little above the program's frame.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "seccomp_filter.h"

enum { MS = 100, PAGE = 65536, STACK_BYTES = 4 * PAGE };

static long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

/* By a bare system call, so that the library does not know of the filter. */
static void allocate(void)
{
	struct sock_filter filter[] = { LOAD_NUMBER,
					ANSWER_TO(SYS_rt_sigprocmask, ERROR(EINVAL)),
					ANSWER(SECCOMP_RET_ALLOW) };
	struct sock_fprog program = PROGRAM_OF(filter);
	long long end = now_ms() + MS;

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) {
		printf("SKIP: no seccomp here\n");
		fflush(stdout);
		_exit(0);
	}
	while (now_ms() < end)
		for (size_t size = 70000; size < 80000; size += 1000) {
			void *p = malloc(size);

			CHECK(p, "no memory");
			free(p);
		}
	_exit(0); /* a return would call what the filter refuses */
}

/* With the word "before" the library has read a stack before the filter comes. */
int main(int argc, char **argv)
{
	static ucontext_t context;
	char *stack = mmap(NULL, STACK_BYTES + PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(stack != MAP_FAILED, "no memory");
	CHECK(!mprotect(stack + STACK_BYTES, PAGE, PROT_NONE), "mprotect");
	if (argc > 1 && !strcmp(argv[1], "before"))
		free(malloc(70000));
	CHECK(!getcontext(&context), "getcontext");
	context.uc_stack.ss_sp = stack;
	context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&context, allocate, 0);
	setcontext(&context);
	CHECK(0, "setcontext");
}
